"""Several rows of a key in one upsert of some columns, and columns with aggregate functions: the same as an upsert for
each row, or refused.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import interbed
from interbed import SchemaMismatchError, Table

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, pa.int64()) for name in ("s", "a", "b", "c"))]
)
OLD = {"id": 1, "s": 4, "a": 5, "b": 0, "c": 0}
PARTIAL = {"merge-engine": "partial-update"}
GROUP = {**PARTIAL, "fields.s.sequence-group": "a,b"}
SUM = {**GROUP, "fields.a.aggregate-function": "sum"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "sequence": {"sequence.field": "s"},
    "descending": {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    "partial": PARTIAL,
    "group": GROUP,
    "sum": SUM,
    "max": {**GROUP, "fields.a.aggregate-function": "max", "fields.b.aggregate-function": "last_value"},
    "lookup": {**SUM, "changelog-producer": "lookup"},
}
LISTS: list[list[dict[str, Any]]] = [
    [{"a": 1}, {"a": 2}],
    [{"a": 1}, {"a": None, "b": 3}],
    [{"a": 1}, {"b": 2}, {"a": 7}],
    [{"s": 6, "a": 1}, {"s": 5, "a": 2}],
    [{"s": 6, "a": 1}, {"s": 5, "b": 2}],
    [{"s": 6, "a": 1}, {"s": None, "a": 2}],
    [{"s": 6, "b": 1}],
    [{"s": 3, "b": 9}],
]


class _TableMaker:
    def __init__(self, path: Path) -> None:
        self._catalog = interbed.load_catalog(warehouse=path)
        self._catalog.create_database("d")
        self._count = 0

    def table(self, options: Mapping[str, str]) -> Table:
        self._count += 1
        table = self._catalog.create_table(
            f"d.t{self._count}", SCHEMA, primary_keys=["id"], options={"bucket": "1", "commit.sync": "none", **options}
        )
        table.upsert([OLD])
        return table


@pytest.fixture
def lake(tmp_path: Path) -> _TableMaker:
    """A catalog for tables with one row."""
    return _TableMaker(tmp_path)


def rows(table: Table) -> list[dict[str, Any]]:
    return table.to_arrow().to_pylist()


def test_rows_of_a_key_together_are_as_one_upsert_for_each_or_refused(lake: _TableMaker) -> None:
    refused = set()
    for kind, options in KINDS.items():
        for given in LISTS:
            some = [{"id": 1, **row} for row in given]
            apart, together = lake.table(options), lake.table(options)
            for row in some:
                apart.upsert([row], columns="present")
            try:
                together.upsert(some, columns="present")
            except SchemaMismatchError:
                refused.add(kind)
                assert len({tuple(row) for row in some}) > 1
                assert rows(together) == [OLD]
            else:
                assert rows(together) == rows(apart), (kind, given)
    assert refused == {"sequence", "descending", "group", "sum", "max", "lookup"}


def test_the_refusal_names_the_rows_and_the_sequence(lake: _TableMaker) -> None:
    given = [{"id": 2, "c": 1}, {"id": 1, "a": 1}, {"id": 1, "b": 2}]
    with pytest.raises(SchemaMismatchError, match=r"Rows 1 and 2 .* the key id = 1 .* orders the rows of a key by s,"):
        lake.table(GROUP).upsert(given, columns="present")


def test_columns_that_rows_lack_are_not_combined_with_themselves(lake: _TableMaker) -> None:
    for function, value in (("sum", 5), ("product", 5), ("max", 5), ("min", 5), ("first_value", 5), ("last_value", 5)):
        table = lake.table({**GROUP, "fields.a.aggregate-function": function})
        for row in ({"c": 1}, {"s": 6, "b": 1}, {"b": 2}):
            table.upsert([{"id": 1, **row}], columns="present")
            table.upsert(pa.Table.from_pylist([{"id": 1, **row}]), columns="present")
        assert rows(table) == [{"id": 1, "s": 6, "a": value, "b": 2, "c": 1}], function


@pytest.mark.parametrize("key", [np.int64(1), Decimal(1), 1.0])
def test_equal_keys_of_other_types_are_one_key(lake: _TableMaker, key: object) -> None:
    table = lake.table({})
    table.upsert([{"id": 1, "a": 1}, {"id": key, "b": 2}, {"id": 2, "c": 3}], columns="present")
    assert rows(table) == [{**OLD, "a": 1, "b": 2}, {"id": 2, "s": None, "a": None, "b": None, "c": 3}]
