"""Metadata files of killed commits: the removal of orphan files deletes exactly these, none of a commit in flight."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.rest.iceberg.commits import TableCommit, TableCommitter
from interbed.catalog.server.rest.iceberg.metadata.updates import SetProperties
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.iceberg.store import TableStore
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import PointerService
from interbed.iceberg.table import IcebergTable
from tests.catalog.server.rest.iceberg.rest_server import IcebergRest, rest_server, set_properties
from tests.support.waits import at_most

FOUR_DAYS = 4 * 24 * 3600
GZIP = {"write.metadata.compression-codec": "gzip"}


def _catalog(server: IcebergRest) -> Catalog:
    return interbed.load_catalog(
        "lake", metastore="hive", uri=server.metastore.uri, warehouse=f"file:{server.metastore.warehouse}"
    )


def _table(catalog: Catalog, name: str) -> IcebergTable:
    found = catalog.get_iceberg_table(f"default.{name}")
    assert found is not None
    return found


def _files(server: IcebergRest) -> set[Path]:
    return {path for path in server.metastore.warehouse.rglob("*") if path.is_file()}


def _age(paths: set[Path]) -> None:
    for path in paths:
        os.utime(path, (time.time() - FOUR_DAYS, time.time() - FOUR_DAYS))


def _names(server: IcebergRest, table: str) -> set[Path]:
    """Return the metadata files that a table names."""
    found = server.call("GET", f"namespaces/default/tables/{table}").expect(200)
    log = [each["metadata-file"] for each in found["metadata"]["metadata-log"]]
    return {Path(each.removeprefix("file:")) for each in (found["metadata-location"], *log)}


def test_the_files_of_a_killed_commit_are_removed_when_they_are_old(tmp_path: Path) -> None:
    with rest_server(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path) as server:
        server.create("default", "one")
        server.create("default", "two", properties=GZIP)
        for number in range(2):
            server.commit("default", "one", [], [set_properties(n=str(number))]).expect(200)
        before = _files(server)
        command = [sys.executable, "-m", "tests.catalog.server.rest.iceberg.commit_process"]
        arguments = [server.metastore.db, f"file:{server.metastore.warehouse}", "written"]
        ended = subprocess.run([*command, *arguments], capture_output=True, timeout=at_most(120), check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
        left = _files(server) - before
        assert len(left) == 2
        with _catalog(server) as catalog:
            tables = [_table(catalog, name) for name in ("one", "two")]
            # They are kept as long as a commit could be about to publish them.
            assert [table.remove_orphan_files().paths for table in tables] == [(), ()]
            _age(_files(server))
            removed = {Path(path) for table in tables for path in table.remove_orphan_files().paths}
        assert removed == left
        assert _files(server) == before == _names(server, "one") | _names(server, "two")
        server.commit("default", "one", [], [set_properties(n="2")]).expect(200)


def test_the_file_of_a_commit_in_flight_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with rest_server(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path) as server, _catalog(server) as catalog:
        server.create("default", "t")
        _age(_files(server))
        swap = PointerService.swap
        removed: list[str] = []

        def late(self: PointerService, *arguments: object) -> None:
            assert len(_files(server)) == 2
            removed.extend(_table(catalog, "t").remove_orphan_files().paths)
            swap(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(PointerService, "swap", late)
        repository = SqlRepository(server.metastore.db)
        store = TableStore(Metastore(repository, f"file:{server.metastore.warehouse}"))
        name = IcebergName(catalog="hive", levels=("default",), name="t")
        commit = TableCommit(name=name, requirements=[], updates=[SetProperties(updates={"a": "1"})])
        TableCommitter(store).commit([commit], None)
        repository.close()
        assert removed == []
        assert _names(server, "t") == _files(server)
