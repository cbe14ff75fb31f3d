"""Tables that are written while they are kept in shape, and what has to be true of them in the end."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from interbed.catalog.api import Catalog
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.table import Table
from interbed.storage.upkeep.health import table_health
from interbed.storage.version.orphans import named_files

KEYED = ("shop.orders", "shop.clients", "shop.prices")
PLAIN = ("shop.visits",)
TABLES = (*KEYED, *PLAIN)
TRIGGER = 3
ROWS = 50

_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("round", pa.int64())])
_OPTIONS = {"write-only": "true", "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4"}
_KEYED = {"bucket": "2", "num-sorted-run.compaction-trigger": str(TRIGGER)}
_MORE = {"shop.prices": {"deletion-vectors.enabled": "true"}}
_PLAIN = {"self-optimizing.minor.trigger.file-count": "4"}


def make_tables(catalog: Catalog) -> None:
    """Three tables with a primary key, and one without."""
    catalog.create_database("shop", True)
    for name in KEYED:
        options = {**_OPTIONS, **_KEYED, **_MORE.get(name, {})}
        catalog.create_table(name, Schema.from_pyarrow_schema(_SCHEMA, primary_keys=["id"], options=options), False)
    for name in PLAIN:
        options = {**_OPTIONS, **_PLAIN}
        catalog.create_table(name, Schema.from_pyarrow_schema(_SCHEMA, options=options), False)


def write_round(catalog: Catalog, number: int) -> None:
    """Rows for all tables: half of those of a round take the place of others in tables with a primary key."""
    first = number * ROWS // 2
    rows = pa.table({"id": range(first, first + ROWS), "round": [number] * ROWS}, schema=_SCHEMA)
    for name in KEYED:
        catalog.get_table(name).upsert(rows)
    for name in PLAIN:
        catalog.get_table(name).append(rows)


def check_rows(catalog: Catalog, rounds: int) -> None:
    """Whether the tables hold exactly what so many rounds have written."""
    written = [(number * ROWS // 2 + i, number) for number in range(rounds) for i in range(ROWS)]
    newest = dict(written)
    for name in KEYED:
        assert _rows(catalog.get_table(name)) == Counter(newest.items()), name
    for name in PLAIN:
        assert _rows(catalog.get_table(name)) == Counter(written), name


def check_shape(catalog: Catalog) -> None:
    """Whether each bucket is within its bound, and nothing is left of processes: no mark, no file."""
    for name in TABLES:
        store = catalog.get_table(name).store
        health = table_health(store)
        if name in KEYED:
            assert max(b.runs for b in health.by_bucket) <= TRIGGER, name
        else:
            assert max(b.small_files for b in health.by_bucket) < 4, name
        root = Path(store.location)
        assert not list((root / "snapshot").glob(".write-*")), name
        known = {Path(path).name for path in named_files(store)}
        assert not {f.name for f in root.glob("bucket-*/*")} - known, name


def is_in_shape(catalog: Catalog) -> bool:
    """Whether it is as `check_shape` wants it."""
    try:
        check_shape(catalog)
    except AssertionError:
        return False
    return True


def _rows(table: Table) -> Counter[tuple[int, int]]:
    found = table.scan().to_arrow()
    ids: list[Any] = found["id"].to_pylist()
    rounds: list[Any] = found["round"].to_pylist()
    return Counter(zip(ids, rounds, strict=True))
