"""A full disk and an unavailable database: requests that need them fail with a clear error, and others are served.

The server recovers without a restart when the disk or the database is available again.
"""

import resource
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, migrated_database, table
from tests.support.servers.postgres import PostgresServer, restartable_postgres_server
from tests.support.shares import each_run
from tests.support.waits import at_most, wait_until

DEADLINE_SECONDS = at_most(120.0)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server for these tests alone."""
    with restartable_postgres_server() as server:
        yield server


def test_a_full_disk_refuses_changes_and_nothing_else(tmp_path: Path) -> None:
    """The limit of the file size simulates a full disk: the system refuses further writes in both cases."""
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path) as running, HiveMetastoreClient(running.uri) as client:
        client.create_database(ttypes.Database(name="d", parameters={}))
        client.create_table(table("d", "t"))
        process = psutil.Process(running.running.process.pid)
        written = (tmp_path / "metastore.db-wal").stat().st_size
        process.rlimit(resource.RLIMIT_FSIZE, (written + 10_000, resource.RLIM_INFINITY))
        refusals: list[str] = []
        acknowledged = {"t"}
        for number in range(20):
            name = f"t{number}"
            try:
                client.create_table(table("d", name, parameters={"text": "x" * 5_000}))
                acknowledged.add(name)
            except CatalogError as error:
                refusals.append(str(error))
            # The directory of a table that could not be stored is deleted again, and the table is not visible.
            assert (running.warehouse / "d.db" / name).exists() == (name in acknowledged)
            assert client.get_table("d", "t").tableName == "t"
            assert set(client.get_all_tables("d")) == acknowledged
        assert len(refusals) >= 10
        assert all("the metastore's database failed: " in each and "disk" in each for each in refusals)
        changed = client.get_table("d", "t")
        changed.parameters["text"] = "x" * 20_000
        with pytest.raises(CatalogError, match="disk"):
            client.alter_table("d", "t", changed)
        assert "text" not in client.get_table("d", "t").parameters
        process.rlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        client.create_table(table("d", "after", parameters={"text": "x" * 5_000}))
        assert set(client.get_all_tables("d")) == {*acknowledged, "after"}
    with metastore_under_test(db, tmp_path) as running, HiveMetastoreClient(running.uri) as client:
        assert set(client.get_all_tables("d")) == {*acknowledged, "after"}


@pytest.mark.long
@pytest.mark.parametrize("number", each_run([signal.SIGINT, signal.SIGQUIT], lambda number: number == signal.SIGQUIT))
def test_a_server_recovers_when_its_database_is_available_again(
    postgres: PostgresServer, tmp_path: Path, number: signal.Signals
) -> None:
    with (
        metastore_under_test(migrated_database(postgres.url), tmp_path) as running,
        HiveMetastoreClient(running.uri, timeout_seconds=DEADLINE_SECONDS) as client,
    ):
        client.create_table(table("default", "t"))
        assert client.get_table("default", "t").tableName == "t"
        postgres.stop(number)
        try:
            for call in (
                lambda: client.create_table(table("default", "lost")),
                lambda: client.get_all_tables("default"),
                lambda: client.get_table("default", "other"),
            ):
                with pytest.raises(CatalogError, match="the metastore's database failed") as caught:
                    call()
                assert "Traceback" not in str(caught.value)
            # Calls that need no database are answered.
            with HiveMetastoreClient(running.uri) as another:
                assert another.uri == running.uri
            assert not (running.warehouse / "lost").exists()
        finally:
            postgres.start()
        # The pool has no broken connection left, whichever connection a request gets.
        results = _in_threads(running, 20, lambda own, _: own.get_all_tables("default"))
        assert results == [["t"]] * 20
        client.create_table(table("default", "u"))
        assert client.get_all_tables("default") == ["t", "u"]
    assert "Traceback" not in (tmp_path / "server.log").read_text()


def test_a_database_crash_under_load_loses_no_acknowledged_change(postgres: PostgresServer, tmp_path: Path) -> None:
    with metastore_under_test(migrated_database(postgres.url), tmp_path) as running:
        acknowledged: set[str] = set()
        refused: list[str] = []
        done = threading.Event()

        def work(client: HiveMetastoreClient, number: int) -> None:
            for turn in range(100_000):
                if done.is_set():
                    return
                name = f"t_{number}_{turn}"
                try:
                    client.create_table(table("default", name))
                    acknowledged.add(name)
                except CatalogError as error:
                    refused.append(str(error))

        def has_more_than(names: Collection[str], count: int) -> bool:
            return len(names) > count

        threads = threading.Thread(target=_in_threads, args=(running, 4, work))
        threads.start()
        try:
            for _ in range(2):
                before = len(acknowledged)
                wait_until(partial(has_more_than, acknowledged, before + 20), "20 more changes", DEADLINE_SECONDS)
                known = len(refused)
                postgres.stop(signal.SIGQUIT)
                wait_until(partial(has_more_than, refused, known), "a refused change", DEADLINE_SECONDS)
                postgres.start()
        finally:
            done.set()
            threads.join(timeout=DEADLINE_SECONDS)
        assert not threads.is_alive()
        causes = ("the metastore's database failed", "the database went away within the commit")
        assert all(
            message.startswith("the metastore ") and any(each in message for each in causes) for message in refused
        )
        with HiveMetastoreClient(running.uri) as client:
            found = set(client.get_all_tables("default"))
            assert acknowledged <= found
            for name in found:
                location = client.get_table("default", name).sd.location
                assert Path(location.removeprefix("file:")).is_dir()


def _in_threads(running: MetastoreUnderTest, count: int, work: Callable[[HiveMetastoreClient, int], Any]) -> list[Any]:
    results: list[Any] = [None] * count

    def run(number: int) -> None:
        with HiveMetastoreClient(running.uri, timeout_seconds=DEADLINE_SECONDS) as own:
            results[number] = work(own, number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=DEADLINE_SECONDS)
        assert not thread.is_alive()
    return results
