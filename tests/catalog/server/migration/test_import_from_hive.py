"""Import from Hive's own metastore: all objects arrive unchanged, the source is not touched, a killed import is
resumed.
"""

import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from hmsclient import hmsclient

from interbed.catalog.client.hive.client import HiveMetastoreClient
from tests.catalog.server.migration.commands import command, run, run_json
from tests.catalog.server.migration.filled import (
    LONG_NAME,
    PARTITIONS,
    fill,
    fill_constraints,
    fill_partitions,
    fill_statistics,
)
from tests.support.servers.forked import start_python
from tests.support.servers.java_metastore import QUICK_START, JavaMetastore, running_java_metastore
from tests.support.servers.metastore import foreign_client, metastore_under_test
from tests.support.waits import at_most, wait_until

MANY = 600
PLAIN = 40
KILLS = 3
DEADLINE_SECONDS = at_most(120.0)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaMetastore]:
    """Run Hive's metastore 2.3.10, filled with objects."""
    directory = tmp_path_factory.mktemp("java")
    with running_java_metastore(directory=directory, java_options=QUICK_START) as running:
        with foreign(running) as client:
            fill(client, directory, plain_tables=PLAIN)
            fill_partitions(client, MANY)
            fill_statistics(client)
            fill_constraints(client)
        yield running


@contextmanager
def foreign(java: JavaMetastore) -> Iterator[hmsclient.HMSClient]:
    """Connect hmsclient to the Java metastore."""
    with foreign_client(int(java.uri.rpartition(":")[2])) as client:
        yield client


@pytest.mark.long
def test_an_import_from_java_copies_all_objects_and_touches_no_directory(java: JavaMetastore, tmp_path: Path) -> None:
    before = _tree(java.warehouse.parent)
    db = f"sqlite:///{tmp_path / 'm.db'}"
    dry = run_json("import", "--from", java.uri, "--db", db, "--dry-run")
    assert not list(tmp_path.iterdir())
    report = run_json("import", "--from", java.uri, "--db", db)
    assert report["counts"] == dry["counts"]
    assert report["failures"] == []
    assert report["counts"] == {
        "database": {"copied": 3},
        "function": {"copied": 2},
        "table": {"copied": PLAIN + 5},
        "table statistics": {"copied": 2},
        "partition": {"copied": len(PARTITIONS) + MANY},
        "partition statistics": {"copied": 4},
        "constraint": {"copied": 2},
    }
    compared = run_json("verify", "--from", java.uri, "--to", db)
    assert compared["differences"] == []
    assert compared["compared"]["partition"] == len(PARTITIONS) + MANY
    assert _tree(java.warehouse.parent) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"m.db", "m.db-shm", "m.db-wal"}


def test_clients_read_imported_objects_as_the_java_metastore_returns_them(java: JavaMetastore, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'm.db'}"
    run("import", "--from", java.uri, "--db", db, "--include", "shop", "--exclude", "shop.many|plain_*")
    with (
        metastore_under_test(db, tmp_path) as ours,
        foreign(java) as theirs,
        foreign_client(ours.port) as client,
    ):
        assert client.get_all_databases() == ["default", "shop"]
        names = ["bucketed", "few", LONG_NAME, "orders"]
        assert client.get_all_tables("shop") == names
        for name in names:
            left, right = theirs.get_table("shop", name), client.get_table("shop", name)
            assert (left.createTime, left.owner, left.tableType) == (right.createTime, right.owner, right.tableType)
            assert left.parameters == right.parameters
            assert left.sd.location == right.sd.location
            assert left.sd.cols == right.sd.cols
            assert left.viewExpandedText == right.viewExpandedText
        assert client.get_partition_names("shop", "orders", -1) == theirs.get_partition_names("shop", "orders", -1)
        for number, value in enumerate(PARTITIONS):
            left = theirs.get_partition("shop", "orders", [value, str(number)])
            right = client.get_partition("shop", "orders", [value, str(number)])
            assert (left.parameters, left.sd.location, left.createTime) == (
                right.parameters,
                right.sd.location,
                right.createTime,
            )
        assert client.get_function("shop", "plus_one").className == "org.example.plus_one"


def test_a_repeatedly_killed_import_resumes_and_completes(java: JavaMetastore, tmp_path: Path) -> None:
    file = tmp_path / "m.db"
    killed = 0
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        present = _rows(file)
        process = start_python(
            command("import", "--from", java.uri, "--db", f"sqlite:///{file}", "--resume"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Each process is killed as soon as it has imported something new, so that no two of them end at the same place.
        # The last one may complete.
        if killed < KILLS:
            wait_until(partial(_imports_more_or_has_ended, process, file, present), seconds=DEADLINE_SECONDS)
            process.kill()
        if process.wait(timeout=DEADLINE_SECONDS) == 0:
            break
        killed += 1
    assert killed == KILLS
    compared = run_json("verify", "--from", java.uri, "--to", f"sqlite:///{file}")
    assert compared["differences"] == []


def test_changes_of_the_source_are_reported_and_imported_by_resume(java: JavaMetastore, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'm.db'}"
    few = ("--exclude", "shop.plain_*|many")
    run("import", "--from", java.uri, "--db", db, *few)
    with foreign(java) as client:
        changed = client.get_table("shop", LONG_NAME)
        changed.parameters["new"] = "value"
        changed.sd.cols[0].type = "bigint"
        client.alter_table("shop", LONG_NAME, changed)
        partition = client.get_partition("shop", "orders", [PARTITIONS[0], "0"])
        partition.parameters["odd"] = "changed"
        client.alter_partition("shop", "orders", partition)
    differences = run_json("verify", "--from", java.uri, "--to", db, *few, code=1)["differences"]
    assert {(each["object"], each["field"]) for each in differences} >= {
        (f"shop.{LONG_NAME}", "parameters.new"),
        (f"shop.{LONG_NAME}", "sd.cols[0].type"),
        ("shop.orders/dt=2024-01-01/n=0", "parameters.odd"),
    }
    printed = run("verify", "--from", java.uri, "--to", db, *few, code=1)
    assert f'table shop.{LONG_NAME} sd.cols[0].type: "bigint" | "int"' in printed
    reported = run_json("import", "--from", java.uri, "--db", db, *few, "--resume", "--changed", "report")
    assert reported["counts"]["table"]["different"] == 1
    updated = run_json("import", "--from", java.uri, "--db", db, *few, "--resume")
    assert updated["counts"]["table"]["updated"] == 1
    assert updated["counts"]["partition"]["updated"] == 1
    assert "no differences" in run("verify", "--from", java.uri, "--to", db, *few)


# Each run of the tests imports an export of interbed's own server.
@pytest.mark.long
def test_an_export_of_a_java_metastore_can_be_imported(java: JavaMetastore, tmp_path: Path) -> None:
    lines = run("export", "--from", java.uri, "--exclude", "shop.many")
    file = tmp_path / "export.jsonl"
    file.write_text(lines)
    db = f"sqlite:///{tmp_path / 'm.db'}"
    run("import", "--from", file, "--db", db)
    assert "no differences" in run("verify", "--from", java.uri, "--to", db, "--exclude", "shop.many")
    assert "no differences" in run("verify", "--from", file, "--to", db)


@pytest.mark.long
def test_running_servers_on_the_target_see_imported_objects_at_once(java: JavaMetastore, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'm.db'}"
    with metastore_under_test(db, tmp_path) as ours, HiveMetastoreClient(ours.uri) as client:
        assert client.get_all_databases() == ["default"]
        run("import", "--from", java.uri, "--db", db, "--include", "shop.plain_00000|few")
        assert client.get_all_tables("shop") == ["few", "plain_00000"]
        assert "turn" not in client.get_table("shop", "plain_00000").parameters
        with foreign(java) as theirs:
            changed = theirs.get_table("shop", "plain_00000")
            changed.parameters["turn"] = "2"
            theirs.alter_table("shop", "plain_00000", changed)
        run("import", "--from", java.uri, "--db", db, "--include", "shop.plain_00000|few", "--resume")
        assert client.get_table("shop", "plain_00000").parameters["turn"] == "2"


def _tree(directory: Path) -> dict[str, float]:
    """Return every path below the warehouse with its modification time, without the metastore's own files."""
    own = ("derby", "conf", "java-metastore.log")
    return {
        str(path): path.stat().st_mtime
        for path in directory.rglob("*")
        if not path.relative_to(directory).parts[0].startswith(own)
    }


def _imports_more_or_has_ended(process: "subprocess.Popen[bytes]", file: Path, present: int) -> bool:
    return process.poll() is not None or _rows(file) > present


def _rows(file: Path) -> int:
    """Return the number of tables and partitions that are imported."""
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=at_most(30))) as connection:
        try:
            return int(
                connection.execute(
                    "SELECT (SELECT count(*) FROM tables) + (SELECT count(*) FROM partitions)"
                ).fetchone()[0]
            )
        except sqlite3.OperationalError:
            # The tables do not exist yet.
            return 0
