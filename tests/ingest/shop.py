"""Changes of a small shop: Debezium's events of two tables, and jobs that read them into a catalog."""

from typing import Any

import interbed
from interbed.catalog.client.api import Catalog
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import DeadLetters, IngestSettings
from interbed.ingest.sources.source import MessageSource
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings

Row = dict[str, Any]
Event = tuple[object, object]


def event(op: str, before: Row | None, after: Row | None, table: str = "orders", key: str = "id") -> Event:
    """Return the key and the value of a change event without a schema."""
    row = after or before
    source = {"db": "shop", "schema": "public", "table": table, "lsn": 5}
    return (
        None if row is None or key not in row else {key: row[key]},
        {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1},
    )


def job(
    catalog: Catalog,
    source: MessageSource,
    *,
    names: TableNames | None = None,
    tables: TableSettings | None = None,
    dead_letters: DeadLetters | None = None,
    **settings: Any,
) -> Ingestion:
    """Return a job that reads to the end, into tables of one bucket, without a pause before retries."""
    return Ingestion(
        catalog,
        source,
        DebeziumJson,
        names or TableNames(database="shop"),
        tables or TableSettings(options={"bucket": "1"}),
        IngestSettings(until_end=True, **settings),
        dead_letters=dead_letters,
        pause=lambda seconds: None,
    )


def rows_of(catalog: Catalog, name: str = "shop.orders", key: str = "id") -> list[Row]:
    """Return a table's rows in the order of a column, without nulls."""
    rows = catalog.get_table(name).scan().to_arrow().to_pylist()
    return sorted(({n: v for n, v in row.items() if v is not None} for row in rows), key=lambda row: row[key])


def lake(path: object) -> Catalog:
    """Return a catalog in a directory."""
    return interbed.load_catalog("lake", warehouse=str(path))
