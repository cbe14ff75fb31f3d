"""A server that is killed in a commit: the client repeats its request at the next server, and its rows are there once.

The lock of the killed server ends soon after the server, long before its lease of five minutes.
"""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.server.settings import SETTINGS
from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[5]
GRACE = ("--lock-disconnect-seconds", "1")


@contextmanager
def _dying_server(db: str, directory: Path, when: str) -> Iterator[tuple[RestClient, "subprocess.Popen[str]"]]:
    """Run a server that dies in its first commit by REST."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.catalog.server.rest.paimon.dying_server", when),
            *("--port", "0", "--http-port", "0", "--warehouse", f"file:{directory / 'warehouse'}", *GRACE),
        ],
        cwd=ROOT,
        env={**os.environ, SETTINGS["db"].variable: db, "PYTHONPATH": ":".join(part for part in sys.path if part)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        found = re.search(r"http://127\.0\.0\.1:(\d+)", lines[1])
        assert found is not None, lines
        yield RestClient(int(found[1])), process
    finally:
        process.kill()
        process.communicate(timeout=at_most(30))


@pytest.mark.parametrize(
    ("when", "is_committed"), [("before", False), ("created", True), ("moved", True), ("answered", True)]
)
def test_a_commit_whose_server_dies_is_made_once(tmp_path: Path, when: str, *, is_committed: bool) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    path = ("databases", "d", "tables", "t")
    with metastore_under_test(db, tmp_path) as first, _hive(first.uri) as catalog:
        catalog.create_database("d")
        table = catalog.create_table("d.t", pa.schema([("id", pa.int64())]))
        table.append([{"id": 1}])
        table.append([{"id": 2}])
        new = table.store.snapshots.stored(2)
        # The files of the second commit are there, and its snapshot is not: a client sends it.
        table.store.file_io.delete(table.store.paths.snapshot(2))
    with _dying_server(db, tmp_path, when) as (rest, process):
        body = {"tableId": rest.get(*path)["id"], "snapshot": json.loads(new.to_json()), "statistics": []}
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            rest.call("POST", "hive", *path, "commit", body=body)
        assert process.wait(timeout=at_most(30)) == -9
    snapshot = tmp_path / "warehouse" / "d.db" / "t" / "snapshot" / "snapshot-2"
    assert snapshot.exists() is is_committed
    with metastore_under_test(db, tmp_path, "--http-port", "0", *GRACE) as second, _hive(second.uri) as catalog:
        rest = RestClient(second.http_port)
        for _ in range(2):
            assert rest.post(*path, "commit", body=body) == {"success": True}
        found = catalog.get_table("d.t")
        assert [each.id for each in found.snapshots()] == [1, 2]
        assert sorted(row["id"] for row in found.to_arrow().to_pylist()) == [1, 2]
        found.append([{"id": 3}])
        assert found.count() == 3
        assert catalog.client.get_table("d", "t").parameters["interbed.current-snapshot-id"] == "3"


def _hive(uri: str) -> HiveCatalog:
    return HiveCatalog("hive", CatalogOptions({"metastore": "hive", "uri": uri}))
