"""Filters that name keys: each bucket looks up only its own keys, and few keys are read by one thread."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interbed
from interbed.storage.base.predicate.expr import And, Comparison, In, Op, Or, Predicate, bind
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.meta.bucket_function import assign_buckets
from interbed.storage.read.table_read import KeySpread
from interbed.storage.scan.pruning import BucketSelector
from interbed.storage.table.table import Table

BUCKETS = 4
ROWS = 8_000
SCHEMA = pa.schema((pa.field("id", pa.int64()), pa.field("part", pa.string()), pa.field("a", pa.int64())))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two runs in each of four buckets, bucketed by both columns of the key."""
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path_factory.mktemp('lake')}")
    catalog.create_database("d")
    options = {"bucket": str(BUCKETS), "write-only": "true", "parquet.page.row.count.limit": "100"}
    made = catalog.create_table("d.t", SCHEMA, primary_keys=["id", "part"], options=options)
    for start in (0, 1):
        ids = list(range(start, ROWS, 1 + start))
        made.upsert(pa.table({"id": ids, "part": ["xy"[i % 2] for i in ids], "a": ids}))
    return made


def own_bucket(key: tuple[int, str], table: Table) -> int:
    columns: list[pa.Array[Any]] = [pa.array([key[0]], pa.int64()), pa.array([key[1]], pa.string())]
    return int(assign_buckets(columns, [f.type for f in table.store.schema.key_fields], BUCKETS)[0])


@given(
    ids=st.lists(st.one_of(st.none(), st.integers(-5, 30)), max_size=8),
    parts=st.lists(st.sampled_from(["x", "y", "z"]), max_size=3),
    more=st.sampled_from([None, Comparison(Op.GT, "a", 3), In("a", (1, 2))]),
)
def test_a_bucket_is_filtered_by_the_values_that_can_be_in_it(
    table: Table, ids: list[int | None], parts: list[str], more: Predicate | None
) -> None:
    given = [In("id", tuple(ids)), In("part", tuple(parts)), *([more] if more is not None else [])]
    predicate = bind(And(tuple(given)), table.store.schema.fields)
    selector = BucketSelector(table.store.schema, predicate)
    keys = [(i, p) for i in ids if i is not None for p in parts]
    for bucket in range(BUCKETS):
        found = selector.narrowed(predicate, bucket, BUCKETS)
        inside = [key for key in keys if own_bucket(key, table) == bucket]
        asked = {
            p.column: set(p.values) for p in (found.children if isinstance(found, And) else ()) if isinstance(p, In)
        }
        if inside:
            assert asked["id"] == {i for i, _ in inside}
            assert asked["part"] == {p for _, p in inside}
            assert more is None or (isinstance(found, And) and more in found.children)
        else:
            assert "id" not in asked


@given(keys=st.lists(st.tuples(st.integers(0, 30), st.sampled_from("xyz")), min_size=1, max_size=6))
def test_keys_of_two_columns_are_assigned_to_their_buckets(table: Table, keys: list[tuple[int, str]]) -> None:
    each = [And((Comparison(Op.EQ, "id", i), Comparison(Op.EQ, "part", p))) for i, p in keys]
    selector = BucketSelector(table.store.schema, bind(Or(tuple(each)), table.store.schema.fields))
    assert selector.buckets(BUCKETS) == frozenset(own_bucket(key, table) for key in keys)
    free = bind(Or((*each, Comparison(Op.EQ, "id", 1))), table.store.schema.fields)
    assert BucketSelector(table.store.schema, free).buckets(BUCKETS) is None


def test_the_list_is_kept_where_the_bucket_cannot_be_computed(table: Table) -> None:
    fields = table.store.schema.fields
    for unknown in (In("id", (1, 2)), And((Comparison(Op.GT, "id", 3), In("part", ("x",)))), In("a", (1, 2))):
        predicate = bind(unknown, fields)
        assert BucketSelector(table.store.schema, predicate).narrowed(predicate, 0, BUCKETS) == predicate
    both = bind(And((In("id", (1, 2)), In("part", ("x",)))), fields)
    assert BucketSelector(table.store.schema, both).narrowed(both, 0, -1) == both


def test_keys_of_a_list_are_searched_only_in_their_own_bucket(table: Table) -> None:
    ids = list(range(100, ROWS, 2_000))
    text = f"id in ({', '.join(map(str, ids))}) and part in ('x', 'y')"
    rows = table.scan(filter=text).to_arrow()
    assert set(rows["id"].to_pylist()) == set(ids)
    assert rows.num_rows == len(ids)
    found = table.explain(text, analyze=True)
    assert found.reading is not None
    decoded = {part.reason: part.rows for part in found.reading.decoded}
    # One page in each of the two runs of the key's bucket, for both parts that the key may have.
    assert decoded[DecodeTally.FILTER] <= len(ids) * 2 * 2 * 100


def test_zeros_of_both_signs_are_found_in_their_buckets(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    catalog.create_database("d")
    schema = pa.schema((pa.field("x", pa.float64()), pa.field("a", pa.int64())))
    made = catalog.create_table("d.t", schema, primary_keys=["x"], options={"bucket": "16"})
    made.upsert(pa.table({"x": [-0.0, 0.0, 1.5], "a": [1, 2, 3]}))
    for text in ("x = 0", "x in (0.0, 7.5)", "x = 7.5 or x = -0.0"):
        assert sorted(row["a"] for row in made.scan(filter=text).to_arrow().to_pylist()) == [1, 2]
    assert made.scan(filter="x in (1.5, 7.5)").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("id = 100", 0.5, 4),
        ("id in (1, 2, 3) and part = 'x'", 1, 12),
        ("id between 1000 and 1099", 100, 200),
        ("id >= 7000", 1_400, 1_600),
        ("id < 0", 0, 0),
        ("id > 100 and id < 50", 0, 0),
        ("a = 5", 12_000, 12_000),
        ("part = 'x'", 12_000, 12_000),
        ("id = 1 or id = 2 or id in (3, 4)", 1, 16),
        ("id = 1 or a = 2", 12_000, 12_000),
    ],
)
def test_the_expected_row_count_covers_the_rows_that_a_key_filter_selects(
    table: Table, text: str, least: float, most: float
) -> None:
    store = table.store
    predicate = bind(parse_filter(text, store.schema.fields), store.schema.fields)
    files = [file for split in table.new_scan().plan().splits for file in split.files]
    spread = KeySpread.of(files, store.schema.key_fields)
    assert spread is not None
    assert least <= spread.selected(predicate) <= most
    assert KeySpread.of([], store.schema.key_fields) is None
    assert KeySpread.of(files, store.schema.key_fields[1:]) is None


@given(wanted=st.lists(st.floats(0, 13_000), min_size=2, max_size=2).map(sorted), descending=st.booleans())
def test_the_estimated_end_grows_with_the_number_of_rows(table: Table, wanted: list[float], descending: bool) -> None:
    files = [file for split in table.new_scan().plan().splits for file in split.files]
    spread = KeySpread.of(files, table.store.schema.key_fields)
    assert spread is not None
    less, more = (spread.end_of(rows, descending=descending) for rows in wanted)
    if less is None or more is None:
        assert more is None
    else:
        assert less >= more if descending else less <= more
