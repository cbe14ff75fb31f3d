"""Hostile locations sent to a real server by a Thrift client, followed by drops: no foreign file is deleted.

More locations are tried without a network in tests/catalog/server/service/directories.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from thrift.Thrift import TException

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support import shares
from tests.support.hostile_locations import ProtectedTree, hostile_locations
from tests.support.servers.metastore import plain_client, storage, table
from tests.support.tally import Tally
from tests.support.waits import at_most

KEYS = (("dt", "string"),)
ONE_OF_MANY = 11
ONE_LEFT_OUT = 4
START = """
import os, sys
os.chdir(sys.argv.pop(1))
from interbed.catalog.server.process.command import main
main()
"""


@contextmanager
def served(precious: ProtectedTree) -> Iterator[Any]:
    """Connect a client to a server that runs in the working directory, with its database beside the warehouse."""
    arguments = ["--port", "0", "--db", f"sqlite:///{precious.database}", "--warehouse", f"file:{precious.warehouse}"]
    log = (precious.root.parent / "server.log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(precious.working_directory), *arguments],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        with plain_client(int(line.rpartition(":")[2])) as client:
            yield client
    finally:
        process.terminate()
        process.wait(timeout=at_most(60))
        assert process.stdout is not None
        process.stdout.close()
        log.close()


def attempts(client: Any, location: str) -> None:
    """Pass the location to each call that has one, and drop the objects created with it."""
    with suppress(TException):
        client.create_database(ttypes.Database(name="h", locationUri=location))
    with suppress(TException):
        client.create_database(ttypes.Database(name="h"))
    with suppress(TException):
        client.create_table(table("h", "t", location=location))
    with suppress(TException):
        client.truncate_table("h", "t", [])
    with suppress(TException):
        client.drop_table("h", "t", True)
    client.create_table(table("h", "p", partition_keys=KEYS, parameters={"auto.purge": "true"}))
    with suppress(TException):
        client.add_partition(ttypes.Partition(dbName="h", tableName="p", values=["1"], sd=storage(location=location)))
    with suppress(TException):
        client.drop_partition("h", "p", ["1"], True)
    changed = client.get_table("h", "p")
    changed.sd.location = location
    changed.parameters.update({"EXTERNAL": "TRUE", "external.table.purge": "true"})
    with suppress(TException):
        client.alter_table("h", "p", changed)
    client.drop_database("h", True, True)


def exact(precious: ProtectedTree) -> list[str]:
    """Return the spellings with which deletions by location were found, which are tried in each run."""
    root, warehouse = precious.root, precious.warehouse
    return [
        *("..", f"file:{root}/x/../{warehouse.name}", f"FILE://{warehouse}", f"FILE:///{warehouse}"),
        *(f"file:/proc/self/root{warehouse}", f"file:{root}/up/{warehouse.name}", f"file:{root}/link"),
        *("ftp://host/x", f"file:{root}/{'d/' * 1500}", f"s3a://KEY:SECRET@b{warehouse}"),
    ]


@pytest.mark.longer
@pytest.mark.attack("paths and links")
def test_nothing_foreign_is_deleted(tmp_path: Path, tally: Tally) -> None:
    precious = ProtectedTree(root=tmp_path / "outer")
    precious.make()
    with served(precious) as client:
        client.create_database(ttypes.Database(name="keep"))
        client.create_table(table("keep", "a"))
        (precious.warehouse / "keep.db" / "a" / "file").write_text("neighbour")
        before = precious.entries()
        inode = os.stat(precious.database).st_ino
        locations = hostile_locations(precious, ("wh/keep.db", "wh/keep.db/a"))
        long = [each for number, each in enumerate(locations) if number % ONE_LEFT_OUT]
        assert len(long) >= 300
        tried = [*exact(precious), *(long if shares.LONG else locations[::ONE_OF_MANY])]
        for location in tried:
            attempts(client, location)
            after = precious.entries()
            missing = {path: held for path, held in before.items() if after.get(path) != held}
            assert not missing, (location, missing)
        assert os.stat(precious.database).st_ino == inode
        assert client.get_all_databases() == ["default", "keep"]
    log = (tmp_path / "server.log").read_text()
    assert "Traceback" not in log
    assert "SECRET" not in log
    tally("hostile locations sent to a server", len(tried))
