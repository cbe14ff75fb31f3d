"""WAL retained by the replication slot, and errors of a run when it is missing: no change is skipped silently."""

import threading
from pathlib import Path

import psycopg
import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import Positions, SourceChangedError, SourceGapError, SourceUnavailableError
from interbed.ingest.sources.postgres.source import PostgresSource
from interbed.ingest.tables.table_sink import open_sink
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from tests.ingest.shop import lake, rows_of
from tests.ingest.sources.postgres.database import Database
from tests.support.servers.postgres import postgres_server, restartable_postgres_server
from tests.support.shares import each_run
from tests.support.waits import at_most, wait_until


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


@pytest.fixture
def orders(database: Database, catalog: Catalog) -> Database:
    """A database with a table that was read."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    database.read(catalog)
    return database


def position(catalog: Catalog, database: Database, name: str = "shop.orders") -> int:
    """Return the LSN up to which a table was read."""
    sink = open_sink(catalog, name, database.slot)
    assert sink is not None
    [(_, _, offset)] = sink.positions or Positions()
    return offset


def test_the_slot_advances_only_to_the_position_of_the_slowest_table(
    database: Database, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE items (id int PRIMARY KEY)")
    source = database.source()
    noted_offsets: list[int] = []
    note = source.note

    def noted(positions: Positions) -> None:
        note(positions)
        [(_, _, offset)] = positions
        noted_offsets.append(offset)
        least = min(position(catalog, database), position(catalog, database, "shop.items"))
        assert offset <= least
        wait_until(lambda: database.confirmed() >= offset)
        assert database.confirmed() <= least

    monkeypatch.setattr(source, "note", noted)
    job = database.job(catalog, source=source, until_end=False, commit_interval=0.01)

    def committed() -> None:
        database.execute("INSERT INTO orders SELECT count(*) FROM orders")

    job.run(lambda: len(noted_offsets) >= 5, committed)
    source.close()
    assert database.confirmed() == noted_offsets[-1] == position(catalog, database)


def test_wal_of_unpublished_tables_is_not_retained(orders: Database, catalog: Catalog) -> None:
    orders.execute("CREATE TABLE other (id int)", "INSERT INTO other SELECT generate_series(1, 1000)")
    [(end,)] = orders.rows("SELECT pg_current_wal_flush_lsn() - '0/0'")
    orders.read(catalog)
    assert orders.confirmed() >= end


def test_a_dropped_slot_is_a_gap(orders: Database, catalog: Catalog) -> None:
    orders.drop_slot()
    orders.execute("INSERT INTO orders VALUES (2)")
    with pytest.raises(
        SourceGapError,
        match=r"does not exist any more, and changes from \w+/\w+ on were to be read next .* drop the",
    ):
        orders.read(catalog)
    assert rows_of(catalog) == [{"id": 1}]
    catalog.drop_table("shop.orders")
    orders.read(catalog)
    assert rows_of(catalog) == [{"id": 1}, {"id": 2}]


def test_a_slot_advanced_by_another_process_is_a_gap(orders: Database, catalog: Catalog) -> None:
    orders.execute("INSERT INTO orders VALUES (2)")
    orders.wait_until_free()
    orders.rows(f"SELECT pg_replication_slot_advance('{orders.slot}', pg_current_wal_flush_lsn())")
    with pytest.raises(SourceGapError, match=r"has been read by other processes up to"):
        orders.read(catalog)


def test_a_table_of_another_database_is_a_gap(orders: Database, server: str, catalog: Catalog) -> None:
    source = PostgresSource(server, slot=orders.slot)
    with pytest.raises(SourceGapError, match=r"shop\.orders has been read from db_\d+@\d+ and not from postgres@\d+"):
        orders.read(catalog, source=source)


def test_a_recreated_publication_is_another_publication(orders: Database, catalog: Catalog) -> None:
    orders.execute("DROP PUBLICATION interbed", "INSERT INTO orders VALUES (2)")
    with pytest.raises(InvalidInputError, match=r"the publication 'interbed' does not .* older than a publication"):
        orders.read(catalog)
    orders.execute("CREATE PUBLICATION interbed FOR TABLE orders")
    with pytest.raises(SourceChangedError, match=r"public\.orders, .* has left the publication and returned"):
        orders.read(catalog)
    # PostgreSQL refuses to decode WAL that is older than the publication.
    with pytest.raises(
        SourceGapError, match=r"publication 'interbed' did not exist when the next changes to read were made"
    ):
        orders.read(catalog, accept_changed_source=frozenset({"shop.orders"}))
    assert rows_of(catalog) == [{"id": 1}]


def test_a_slot_that_lost_its_wal_is_a_gap(tmp_path: Path) -> None:
    settings = {"wal_level": "logical", "max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    catalog = lake(tmp_path)
    with postgres_server(settings) as url, Database(url, "lost") as database:
        database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE other (v text PRIMARY KEY)")
        database.read(catalog)
        for _ in range(4):
            database.execute("INSERT INTO other VALUES (random()::text)", "SELECT pg_switch_wal()", "CHECKPOINT")
        [(status,)] = database.rows("SELECT wal_status FROM pg_replication_slots")
        assert status == "lost"
        with pytest.raises(SourceGapError, match=r"has lost what it kept \(wal_status is lost"):
            database.read(catalog)


def test_only_one_process_reads_a_slot(orders: Database, catalog: Catalog, tmp_path: Path) -> None:
    source = orders.source()
    done = threading.Event()
    reading = threading.Event()
    job = orders.job(catalog, source=source, until_end=False, commit_interval=0.01)
    orders.execute("INSERT INTO orders VALUES (2)")
    thread = threading.Thread(target=job.run, args=(done.is_set, reading.set))
    thread.start()
    try:
        assert reading.wait(at_most(60))
        second = orders.source()
        second.begin({})
        with pytest.raises(SourceUnavailableError, match=r"Another process reads the slot .* End that one, or"):
            second.seek(Positions())
        second.close()
    finally:
        done.set()
        thread.join()
        source.close()


@pytest.mark.parametrize("stop", each_run(["SIGINT", "SIGQUIT"], lambda stop: stop == "SIGQUIT"))
def test_reading_continues_after_a_server_restart(tmp_path: Path, stop: str) -> None:
    import signal

    with restartable_postgres_server({"wal_level": "logical"}) as server:
        catalog = lake(tmp_path)
        with Database(server.url, "again") as database:
            database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
        source = database.source()
        job = database.job(catalog, source=source, until_end=False, commit_interval=0.01)
        done = threading.Event()
        commits: list[int] = []
        thread = threading.Thread(target=job.run, args=(done.is_set, lambda: commits.append(job.result.commits)))
        thread.start()
        try:
            wait_until(lambda: bool(commits))
            for turn in range(2, 5):
                before = len(commits)
                server.stop(signal.Signals[stop])
                server.start()
                with Database(server.url, "again") as changed:
                    changed.execute(f"INSERT INTO orders VALUES ({turn})")
                wait_until(lambda before=before: len(commits) > before)  # type: ignore[misc]
        finally:
            done.set()
            thread.join()
            source.close()
        assert [row["id"] for row in rows_of(catalog)] == [1, 2, 3, 4]


def test_a_restored_older_state_of_the_database_is_a_gap(orders: Database, catalog: Catalog) -> None:
    sink = open_sink(catalog, "shop.orders", orders.slot)
    assert sink is not None
    assert sink.positions is not None
    [(topic, partition, _)] = sink.positions
    sink.advance(Positions({topic: {partition: 2**50}}))
    with pytest.raises(SourceGapError, match=r"is in a database that ends at .*, an older state of it"):
        orders.read(catalog)


@pytest.mark.long
def test_a_server_without_logical_replication_is_refused(tmp_path: Path) -> None:
    with (
        postgres_server({"wal_level": "replica"}) as url,
        Database(url, "s") as database,
        pytest.raises(InvalidInputError, match=r"wal_level = replica, .* ALTER SYSTEM SET wal_level = logical"),
    ):
        database.read(lake(tmp_path))


@pytest.mark.long
def test_too_few_replication_slots_are_reported(tmp_path: Path) -> None:
    with postgres_server({"wal_level": "logical", "max_replication_slots": "1"}) as url, Database(url, "s") as database:
        database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        with pytest.raises(InvalidInputError, match=r"Raise max_replication_slots of the server"):
            database.read(lake(tmp_path))


def test_a_table_that_publication_would_make_unchangeable_is_not_published(
    database: Database, catalog: Catalog
) -> None:
    database.execute("CREATE TABLE log (n int)")
    with pytest.raises(InvalidInputError, match=r"public\.log has no primary key: .* REPLICA IDENTITY FULL"):
        database.read(catalog)
    database.execute("DROP TABLE log", "CREATE TABLE log (n int PRIMARY KEY)")
    database.execute("ALTER TABLE log REPLICA IDENTITY NOTHING")
    with pytest.raises(
        InvalidInputError, match=r"public\.log has REPLICA IDENTITY NOTHING: .* REPLICA IDENTITY DEFAULT"
    ):
        database.read(catalog)
    database.execute("DROP TABLE log", "CREATE TABLE log (n int NOT NULL UNIQUE)")
    database.execute("ALTER TABLE log REPLICA IDENTITY USING INDEX log_n_key")
    database.execute("ALTER TABLE log DROP CONSTRAINT log_n_key")
    with pytest.raises(InvalidInputError, match=r"public\.log has a REPLICA IDENTITY whose index was dropped: "):
        database.read(catalog)
    database.execute("DROP TABLE log")
    with pytest.raises(InvalidInputError, match=r"has no wanted table, and no publication 'interbed'"):
        database.read(catalog)


def test_missing_privileges_are_reported_without_secrets(database: Database, server: str, catalog: Catalog) -> None:
    role = f"reader_{database.slot}"
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", f"CREATE ROLE {role} LOGIN PASSWORD 's3cret'")
    url = database.url.replace("//postgres@", f"//{role}:s3cret@")

    def refused(wanted: str) -> None:
        with pytest.raises(InvalidInputError, match=wanted) as error:
            database.read(catalog, source=PostgresSource(url, slot=database.slot))
        assert "s3cret" not in str(error.value)

    refused("lacks rights in .*: the attribute REPLICATION, .*; CREATE on the database .* the ownership of")
    database.execute("CREATE PUBLICATION interbed FOR TABLE orders")
    refused(f'ALTER ROLE "{role}" REPLICATION;')
    database.execute(f"ALTER ROLE {role} REPLICATION")
    refused(f'SELECT from "public"."orders".* GRANT SELECT ON "public"."orders" TO "{role}";')
    database.execute(f"GRANT SELECT ON orders TO {role}")
    database.read(catalog, source=PostgresSource(url, slot=database.slot))
    assert rows_of(catalog) == []
    with pytest.raises(InvalidOptionError, match=r"^The url is none of PostgreSQL") as error:
        PostgresSource("postgresql://u:s3cret@[h/x")
    assert "s3cret" not in str(error.value)
    with pytest.raises(InvalidOptionError, match=r"no name of a slot"):
        PostgresSource(server, slot="Mine")
    gone = psycopg.conninfo.make_conninfo(url, port=1)
    with pytest.raises(SourceUnavailableError, match=r"PostgreSQL can't be reached") as error2:
        PostgresSource(gone).begin({})
    assert "s3cret" not in str(error2.value)
