"""Files are pruned from a scan of the first rows only if they have none of these rows."""

import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed import load_catalog
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.read import pushdown
from interbed.storage.scan.summary.aggregates import Top, splits_of_top
from interbed.storage.table.table import Table
from tests.support.examples import examples

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


@settings(max_examples=examples(25), deadline=None)
@given(
    commits=st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=4),
    column=st.sampled_from(["p", "n", "day"]),
    count=st.integers(1, 6),
    descending=st.booleans(),
    nulls_first=st.booleans(),
)
def test_the_remaining_files_have_the_first_rows(
    commits: list[list[dict[str, Any]]], column: str, count: int, descending: bool, nulls_first: bool
) -> None:
    top = Top(column=column, count=count, descending=descending, nulls_first=nulls_first)
    with tempfile.TemporaryDirectory() as warehouse:
        table = _table(warehouse, commits)
        kept = splits_of_top(table.store, table.new_scan().plan().splits, top)
        read = [row[column] for split in kept for b in table.new_read().to_batches(split) for row in b.to_pylist()]

    assert _first(read, top) == _first([row[column] for rows in commits for row in rows], top)


def test_files_beyond_the_first_rows_are_pruned_where_bounds_are_known(tmp_path: Any) -> None:
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


@settings(max_examples=examples(25), deadline=None)
@given(
    commits=st.lists(
        st.dictionaries(st.integers(-40, 40), st.none() | st.integers(0, 9), min_size=1, max_size=30),
        min_size=1,
        max_size=4,
    ),
    deleted=st.lists(st.integers(-40, 40), max_size=20),
    count=st.integers(1, 30),
    descending=st.booleans(),
    text=st.sampled_from([None, "v > 4", "k < 3"]),
)
def test_the_first_keys_are_among_the_rows_read(
    commits: list[dict[int, int | None]], deleted: list[int], count: int, descending: bool, text: str | None
) -> None:
    with tempfile.TemporaryDirectory() as warehouse, pytest.MonkeyPatch.context() as patched:
        patched.setattr(pushdown, "_LEAST_ROWS", 2)
        patched.setattr(pushdown, "_GROWTH", 2)
        catalog = load_catalog(warehouse=warehouse)
        catalog.create_database("db")
        schema = pa.schema((("k", pa.int32()), ("v", pa.int64())))
        options = {"bucket": "2", "write-only": "true"}
        table = catalog.create_table("db.t", schema, primary_keys=["k"], options=options)
        for rows in commits:
            table.upsert(pa.table({"k": list(rows), "v": list(rows.values())}, schema=schema))
        if deleted:
            table.delete(f"k in ({', '.join(map(str, deleted))})")
        top = Top(column="k", count=count, descending=descending)
        predicate = None if text is None else parse_filter(text, table.fields)
        read = pushdown.TopRead(table.store, ["k", "v"], predicate, top)
        found = [
            row
            for s in table.access.plan(predicate=predicate).splits
            for b in read.to_batches(s)
            for row in b.to_pylist()
        ]
        rows_of_all = table.scan(filter=text).to_arrow().to_pylist()
        assert len({row["k"] for row in found}) == len(found)
        assert all(row in rows_of_all for row in found)
        in_order = sorted(rows_of_all, key=lambda row: row["k"], reverse=descending)
        assert sorted(found, key=lambda row: row["k"], reverse=descending)[:count] == in_order[:count]


@pytest.mark.parametrize("descending", [False, True])
def test_only_the_ends_of_runs_of_a_large_table_are_read(tmp_path: Path, descending: bool) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    schema = pa.schema((("k", pa.int64()), ("v", pa.string())))
    options = {"bucket": "2", "write-only": "true", "parquet.page.row.count.limit": "500"}
    table = catalog.create_table("db.t", schema, primary_keys=["k"], options=options)
    for step in (1, 3):
        keys = list(range(0, 60_000, step))
        table.upsert(pa.table({"k": keys, "v": [str(k) for k in keys]}, schema=schema))
    tally = DecodeTally()
    read = pushdown.TopRead(table.store, None, None, Top(column="k", count=10, descending=descending), tally=tally)
    found: list[Any] = [k for s in table.access.plan().splits for b in read.to_batches(s) for k in b["k"].to_pylist()]
    assert sorted(found, reverse=descending)[:10] == sorted(range(60_000), reverse=descending)[:10]
    assert sum(values for values, _, _ in tally.by_reason().values()) <= 2 * 2 * 2 * 2_000
