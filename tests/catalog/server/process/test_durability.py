"""Acknowledged changes survive: the server is stopped by a signal, and killed under load, on SQLite and PostgreSQL."""

import itertools
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from interbed.catalog.client.errors import CatalogError, TableNotFoundError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.process.command import start_server
from interbed.catalog.server.service.errors import MetastoreError
from tests.support.servers.metastore import BACKENDS, metastore_under_test, table
from tests.support.shares import each_run
from tests.support.waits import at_most

KILLS = 3
WRITERS = 4


@pytest.mark.parametrize(
    ("database_url", "number"),
    each_run(
        list(itertools.product(BACKENDS, (signal.SIGTERM, signal.SIGINT))),
        # test_workers.py stops a server on SQLite by the other signal.
        lambda case: case == ("postgresql", signal.SIGINT),
    ),
    indirect=["database_url"],
)
def test_a_signal_stops_the_server_cleanly_while_clients_are_connected(
    database_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    with metastore_under_test(database_url, tmp_path) as running, HiveMetastoreClient(running.uri) as client:
        client.create_table(table("default", "t"))
        started = time.monotonic()
        running.running.process.send_signal(number)
        assert running.running.process.wait(timeout=at_most(30)) == 0
        assert time.monotonic() - started < 5
        with pytest.raises(CatalogError, match=running.uri):
            client.get_table("default", "t")
    log = (tmp_path / "server.log").read_text()
    assert f"ending: signal {number.name}" in log
    assert "Traceback" not in log


@pytest.mark.long
def test_a_client_reconnects_to_a_restarted_server_without_an_error(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path) as first:
        port = first.port
        client = HiveMetastoreClient(first.uri)
        client.create_table(table("default", "t"))
    with metastore_under_test(db, tmp_path, "--port", str(port)), client:
        client.create_table(table("default", "u"))
        assert client.get_all_tables("default") == ["t", "u"]


# test_killed_server.py kills a server on PostgreSQL in each run.
@pytest.mark.long
@pytest.mark.parametrize("database_url", BACKENDS, indirect=True)
def test_killing_the_server_under_load_loses_no_acknowledged_change(database_url: str, tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    pointers: dict[str, int] = {}
    for kill in range(KILLS):
        with metastore_under_test(database_url, tmp_path) as running:
            killed = threading.Event()
            enough = threading.Event()

            def write(writer: int, uri: str, kill: int, killed: threading.Event, enough: threading.Event) -> None:
                with HiveMetastoreClient(uri, timeout_seconds=at_most(10)) as client:
                    for turn in range(100_000):
                        name = f"t_{kill}_{writer}_{turn}"
                        try:
                            client.create_table(table("default", name, parameters={"pointer": "0"}))
                            acknowledged.add(name)
                            changed = client.get_table("default", name)
                            changed.parameters["pointer"] = "1"
                            client.alter_table("default", name, changed, expected_parameter=("pointer", "0"))
                            pointers[name] = 1
                        except CatalogError:
                            if not killed.is_set():
                                raise
                            return
                        if turn == 10:
                            enough.set()

            threads = [
                threading.Thread(target=write, args=(writer, running.uri, kill, killed, enough))
                for writer in range(WRITERS)
            ]
            for thread in threads:
                thread.start()
            assert enough.wait(timeout=at_most(60))
            killed.set()
            running.running.process.kill()
            for thread in threads:
                thread.join(timeout=at_most(60))
                assert not thread.is_alive()
    with metastore_under_test(database_url, tmp_path) as running, HiveMetastoreClient(running.uri) as client:
        found = set(client.get_all_tables("default"))
        assert acknowledged <= found
        # Of each writer at most the request in progress may have been committed without a reply.
        assert len(found - acknowledged) <= KILLS * WRITERS
        for name in found:
            stored = client.get_table("default", name)
            assert [column.name for column in stored.sd.cols] == ["id"]
            assert Path(stored.sd.location.removeprefix("file:")).is_dir()
            assert int(stored.parameters["pointer"]) >= pointers.get(name, 0)
        with pytest.raises(TableNotFoundError):
            client.get_table("default", "never")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("db", "warehouse", "message"),
    [
        ("mysql://root@127.0.0.1/x", "file:{tmp}/w", "mysql is not supported"),
        ("sqlite://", "file:{tmp}/w", "needs a file"),
        ("what is this", "file:{tmp}/w", "is not a database url"),
        ("sqlite:///{tmp}/no/such/directory/m.db", "file:{tmp}/w", "unable to open database file"),
        ("sqlite:///{tmp}/m.db", "file:/proc/nothing/here", "is not a directory or unable to create one"),
        ("postgresql://nobody@127.0.0.1:1/x", "file:{tmp}/w", "refused"),
    ],
)
def test_a_server_that_cannot_start_reports_the_reason(tmp_path: Path, db: str, warehouse: str, message: str) -> None:
    command = [
        sys.executable,
        *("-m", "interbed.catalog.server.process.main", "--port", "0"),
        *("--db", db.format(tmp=tmp_path), "--warehouse", warehouse.format(tmp=tmp_path)),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=at_most(60), check=False)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with (
        metastore_under_test(db, tmp_path) as running,
        pytest.raises(MetastoreError, match="did not start"),
    ):
        start_server(db, f"file:{tmp_path}", "--port", str(running.port), log=tmp_path / "second.log")
    assert f"cannot listen on 127.0.0.1:{running.port}" in (tmp_path / "second.log").read_text()
