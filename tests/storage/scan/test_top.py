"""Files left out of a scan of the first rows: none that has one of them."""

import tempfile
from datetime import date
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed import load_catalog
from interbed.storage.scan.top import Top, splits_of_top
from interbed.storage.table.table import Table

SCHEMA = pa.schema(
    (("p", pa.string()), ("n", pa.int64()), ("day", pa.date32()), ("s", pa.string()), ("x", pa.float64()))
)
ROW = st.fixed_dictionaries(
    {
        "p": st.sampled_from(["a", "é", None]),
        "n": st.none() | st.integers(-9, 9),
        "day": st.none() | st.dates(date(2024, 1, 1), date(2024, 1, 9)),
        "s": st.none() | st.text(max_size=3),
        "x": st.none() | st.floats(),
    }
)


def _table(warehouse: str, commits: list[list[dict[str, Any]]]) -> Table:
    catalog = load_catalog(warehouse=warehouse)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, partition_keys=["p"])
    for rows in commits:
        table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return table


def _first(values: list[Any], top: Top) -> list[Any]:
    present = sorted(
        (v for v in values if v is not None),
        key=lambda v: v.encode() if isinstance(v, str) else v,
        reverse=top.descending,
    )
    nulls: list[Any] = [None] * (len(values) - len(present))
    return ([*nulls, *present] if top.nulls_first else [*present, *nulls])[: top.count]


@settings(max_examples=25, deadline=None)
@given(
    commits=st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=4),
    column=st.sampled_from(["p", "n", "day"]),
    count=st.integers(1, 6),
    descending=st.booleans(),
    nulls_first=st.booleans(),
)
def test_the_files_that_stay_have_the_first_rows(
    commits: list[list[dict[str, Any]]], column: str, count: int, descending: bool, nulls_first: bool
) -> None:
    top = Top(column=column, count=count, descending=descending, nulls_first=nulls_first)
    with tempfile.TemporaryDirectory() as warehouse:
        table = _table(warehouse, commits)
        kept = splits_of_top(table.store, table.new_scan().plan().splits, top)
        read = [row[column] for split in kept for b in table.new_read().to_batches(split) for row in b.to_pylist()]

    assert _first(read, top) == _first([row[column] for rows in commits for row in rows], top)


def test_files_beyond_the_first_rows_are_left_out_where_bounds_are_known(tmp_path: Any) -> None:
    days = [[{"p": None, "n": n + 10 * day, "s": str(n), "x": 0.5} for n in range(3)] for day in range(5)]
    table = _table(str(tmp_path), days)
    splits = table.new_scan().plan().splits

    def files(top: Top) -> int:
        return sum(len(split.files) for split in splits_of_top(table.store, splits, top))

    assert files(Top(column="n", count=3)) == 1
    assert files(Top(column="n", count=4, descending=True, nulls_first=True)) == 2
    assert files(Top(column="n", count=99)) == 5
    assert files(Top(column="s", count=1)) == 5
    assert files(Top(column="x", count=1)) == 5
