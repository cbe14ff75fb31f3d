"""Source database, and runs that read it."""

import time
from typing import Any, Self

import psycopg

from interbed.catalog.client.api import Catalog
from interbed.ingest.formats.pgoutput import PgOutput
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import IngestSettings
from interbed.ingest.sources.postgres.source import PostgresSource
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from tests.support.waits import at_most, wait_until

DEADLINE_SECONDS = at_most(60.0)
NAMES = TableNames(database="shop", databases=frozenset({"public"}))


class Database:
    """Database at `url` whose changes are read through a slot of the given name."""

    def __init__(self, url: str, slot: str) -> None:
        self.url = url
        self.slot = slot
        self._connection = psycopg.connect(url, autocommit=True)
        self.execute("SET TIME ZONE 'UTC'")

    def execute(self, *statements: str) -> None:
        """Execute statements, each in its own transaction."""
        for statement in statements:
            self._connection.execute(statement.encode())

    def transaction(self, *statements: str) -> None:
        """Execute statements in one transaction."""
        with self._connection.transaction():
            self.execute(*statements)

    def rows(self, query: str) -> list[Any]:
        """Return the rows of a query."""
        return self._connection.execute(query.encode()).fetchall()

    def confirmed(self) -> int:
        """Return the confirmed LSN of the slot."""
        query = f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{self.slot}'"
        return int(self.rows(query)[0][0])

    def source(self, names: TableNames = NAMES, **settings: Any) -> PostgresSource:
        """Return a source for a run."""
        return PostgresSource(
            self.url,
            **{
                "slot": self.slot,
                "is_wanted": lambda table: names.of(table) is not None,
                "may_skip": names.may_skip,
                "names_tables": names.are_chosen,
                **settings,
            },
        )

    def job(
        self,
        catalog: Catalog,
        *,
        names: TableNames = NAMES,
        tables: TableSettings | None = None,
        source: PostgresSource | None = None,
        **settings: Any,
    ) -> Ingestion:
        """Return a job that reads to the end, into tables of one bucket."""
        source = source or self.source(names)
        return Ingestion(
            catalog,
            source,
            lambda: PgOutput(source.catalog),
            names,
            tables or TableSettings(options={"bucket": "1"}),
            IngestSettings(**{"group": self.slot, "until_end": True, **settings}),
            pause=lambda seconds: time.sleep(min(seconds, 0.2)),
        )

    def read(self, catalog: Catalog, **more: Any) -> Ingestion:
        """Run a job to the end of the source."""
        source = more.pop("source", None) or self.source(more.get("names", NAMES))
        job = self.job(catalog, source=source, **more)
        try:
            job.run()
        finally:
            source.close()
        return job

    def wait_until_free(self) -> None:
        """Wait until PostgreSQL has noticed that the slot is inactive."""
        wait_until(lambda: not self.rows(_ACTIVE.format(self.slot)), "the slot is inactive", DEADLINE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def close(self) -> None:
        """Drop the slot and close the connection."""
        self.drop_slot()
        self._connection.close()

    def drop_slot(self) -> None:
        """Drop the slot once it is inactive."""
        self.wait_until_free()
        there = f"FROM pg_replication_slots WHERE slot_name = '{self.slot}'"
        self.execute(f"SELECT pg_drop_replication_slot(slot_name) {there}")


_ACTIVE = "SELECT 1 FROM pg_replication_slots WHERE slot_name = '{}' AND active"
