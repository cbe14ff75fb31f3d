"""A server whose PostgreSQL ends all connections, or is unavailable for a while."""

import threading
import time
from pathlib import Path

import psycopg
import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.raw_client import raw_client
from tests.support.servers.metastore import metastore_under_test, migrated_database, table
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(120)
ROUNDS = 5


def test_ended_connections_are_replaced_and_reads_stay_correct(postgres_url: str, tmp_path: Path) -> None:
    db = migrated_database(postgres_url)
    changing = table("default", "t", parameters={"version": "0"})
    with metastore_under_test(db, tmp_path) as running, raw_client(running.port) as client:
        client.create_table(changing)
        changing = client.get_table("default", "t")
        for version in range(ROUNDS):
            # The table is in the cache now, and several connections are open.
            for _ in range(3):
                client.get_table("default", "t")
            _end_connections(postgres_url, db)
            changing.parameters["version"] = str(version)
            client.alter_table("default", "t", changing)
            for _ in range(3):
                assert client.get_table("default", "t").parameters["version"] == str(version)
            _end_connections(postgres_url, db)
            assert client.get_table("default", "t").parameters["version"] == str(version)
            assert client.get_all_tables("default") == ["t"]
    assert "Traceback" not in (tmp_path / "server.log").read_text()


@pytest.mark.long
def test_no_acknowledged_change_is_lost_when_connections_end_under_load(postgres_url: str, tmp_path: Path) -> None:
    db = migrated_database(postgres_url)
    acknowledged: set[str] = set()
    ending = threading.Event()
    enough = threading.Semaphore(0)

    def write(writer: int, port: int) -> None:
        with raw_client(port) as client:
            for turn in range(100_000):
                if ending.is_set():
                    return
                name = f"t_{writer}_{turn}"
                try:
                    client.create_table(table("default", name))
                    acknowledged.add(name)
                    enough.release()
                except (ttypes.MetaException, ttypes.AlreadyExistsException):
                    # The commit was lost: its outcome is unknown.
                    continue

    with metastore_under_test(db, tmp_path, "--workers", "2") as running:
        threads = [threading.Thread(target=write, args=(number, running.port)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(ROUNDS):
                for _ in range(20):
                    assert enough.acquire(timeout=DEADLINE_SECONDS)
                _end_connections(postgres_url, db)
        finally:
            ending.set()
            for thread in threads:
                thread.join(timeout=DEADLINE_SECONDS)
                assert not thread.is_alive()
        with raw_client(running.port) as client:
            assert acknowledged <= set(client.get_all_tables("default"))


def test_an_unavailable_database_is_reported_and_used_again_when_it_is_back(postgres_url: str, tmp_path: Path) -> None:
    db = migrated_database(postgres_url)
    name = db.rpartition("/")[2]
    with metastore_under_test(db, tmp_path) as running, raw_client(running.port) as client:
        client.create_table(table("default", "t"))
        for _ in range(3):
            client.get_table("default", "t")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
            _end_connections(postgres_url, db)
            # Cached answers are not returned either, because they may be stale.
            for _ in range(2):
                with pytest.raises(ttypes.MetaException, match="database failed"):
                    client.get_table("default", "t")
            # The server is alive and answers calls that need no database.
            assert client.getStatus() == ttypes.fb_status.ALIVE
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                assert client.get_table("default", "t").tableName == "t"
                break
            except ttypes.MetaException:
                assert time.monotonic() < deadline
        client.create_table(table("default", "u"))
        assert client.get_all_tables("default") == ["t", "u"]


def _end_connections(postgres_url: str, db: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (db.rpartition("/")[2],)
        )
