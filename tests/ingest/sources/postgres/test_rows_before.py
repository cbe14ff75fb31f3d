"""Changes with the row before them (REPLICA IDENTITY FULL) and without it, which is PostgreSQL's default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.shop import lake, rows_of
from tests.ingest.sources.postgres.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCase:
    """A change of the row (1, 2024-01-01, a, 5), and the rows (k, v) of the table after it."""

    change: str
    rows: Sequence[tuple[int, int]]
    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    computed: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)


_SUM = {
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "sum",
    "fields.d.aggregate-function": "last_value",
}
CASES = {
    "a partition that changes": ChangeCase(
        change="UPDATE orders SET p = 'b'", rows=[(1, 5)], primary_keys=["k", "p"], partition_keys=["p"]
    ),
    "a computed partition that changes": ChangeCase(
        change="UPDATE orders SET d = '2024-02-02'",
        rows=[(1, 5)],
        primary_keys=["k", "dt"],
        partition_keys=["dt"],
        computed=["dt=date_format(d,'yyyy-MM')"],
    ),
    "a deletion in a partition": ChangeCase(
        change="DELETE FROM orders", rows=[], primary_keys=["k", "p"], partition_keys=["p"]
    ),
    "a sum": ChangeCase(change="UPDATE orders SET v = 10", rows=[(1, 10)], primary_keys=["p"], options=_SUM),
    "a deletion by sequence": ChangeCase(change="DELETE FROM orders", rows=[], options={"sequence.field": "v"}),
    "a key that changes by sequence": ChangeCase(
        change="UPDATE orders SET k = 2", rows=[(2, 5)], options={"sequence.field": "v"}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_without_a_required_row_before_is_bad(database: Database, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    tables = TableSettings(
        primary_keys=case.primary_keys,
        partition_keys=case.partition_keys,
        options={"bucket": "1", **case.options},
        computed=[ComputedColumn.parse(text) for text in case.computed],
    )
    create = "CREATE TABLE orders (k int PRIMARY KEY, d timestamp, p text, v int)"
    row = "INSERT INTO orders VALUES (1, '2024-01-01', 'a', 5)"
    for identity, count in (("DEFAULT", 1), ("FULL", 0)):
        catalog = lake(tmp_path / identity)
        database.execute("DROP TABLE IF EXISTS orders", "DROP PUBLICATION IF EXISTS interbed", create, row)
        database.execute(f"ALTER TABLE orders REPLICA IDENTITY {identity}")
        database.read(catalog, tables=tables)
        database.execute(case.change)
        run = database.read(catalog, tables=tables, bad_messages=BadMessages.SKIP)
        assert run.result.bad == count
        found = [(each["k"], each["v"]) for each in rows_of(catalog, key="k")]
        assert found == ([(1, 5)] if count else case.rows)
        database.drop_slot()
