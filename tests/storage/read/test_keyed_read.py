"""Filters that name a few primary keys are answered by lookups, with the same rows as a scan."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.predicate.expr import Predicate, bind
from interbed.storage.read import point_lookup
from interbed.storage.read.table_read import TableRead
from interbed.storage.table.table import Table
from tests.support.examples import examples

SCHEMA = pa.schema(
    (
        pa.field("dt", pa.string(), nullable=False),
        pa.field("id", pa.int32(), nullable=False),
        pa.field("amount", pa.int64()),
        pa.field("note", pa.string()),
    )
)
DAYS = st.sampled_from(["d1", "d2", "d3"])
NUMBERS = st.integers(-3, 3)
CHANGES = st.tuples(DAYS, NUMBERS, st.none() | st.integers(-9, 9), st.sampled_from([0, 0, 2, 3]))
COL = interbed.col


def make(warehouse: Path, **options: str) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{warehouse}")
    catalog.create_database("d", ignore_if_exists=True)
    return catalog.create_table(
        "d.t", SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "2", **options}
    )


def change(table: Table, rows: list[tuple[str, int, int | None, int]]) -> None:
    day, number, amount, kind = (list(column) for column in zip(*rows, strict=True))
    columns = {"dt": day, "id": pa.array(number, pa.int32()), "amount": pa.array(amount, pa.int64())}
    table.write_changes(
        pa.table({**columns, "note": [f"n{n}" for n in number], "_row_kind": pa.array(kind, pa.int8())})
    )


def looked_up(table: Table, predicate: Predicate, **scan: Any) -> bool:
    return table.scan(filter=predicate, **scan)._keyed is not None


def scanned(table: Table, predicate: Predicate) -> list[dict[str, Any]]:
    """Return the rows of a scan without lookups."""
    read = TableRead(table.store, None, bind(predicate, table.schema.fields))
    return sorted(read.to_reader(table.new_scan().plan().splits).read_all().to_pylist(), key=str)


@st.composite
def filters(draw: st.DrawFn) -> Predicate:
    days, numbers = draw(st.lists(DAYS, min_size=1, max_size=3)), draw(st.lists(NUMBERS, min_size=1, max_size=4))
    chosen: Predicate = COL("dt").is_in(days) & COL("id").is_in(numbers)
    if draw(st.booleans()):
        chosen = chosen & (COL("amount") > draw(st.integers(-5, 5)))
    if draw(st.booleans()):
        chosen = chosen | ((COL("dt") == draw(DAYS)) & (COL("id") == draw(NUMBERS)))
    return chosen


@settings(deadline=None, max_examples=examples(25))
@given(
    options=st.sampled_from(
        [
            {},
            {"deletion-vectors.enabled": "true"},
            {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum", "ignore-delete": "true"},
            {"bucket": "-1"},
        ]
    ),
    commits=st.lists(st.lists(CHANGES, min_size=1, max_size=12), min_size=1, max_size=3),
    asked=st.lists(filters(), min_size=1, max_size=3),
)
def test_lookups_find_the_same_rows_as_a_scan(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, str], commits: list[Any], asked: list[Predicate]
) -> None:
    table = make(tmp_path_factory.mktemp("lake"), **options)
    for rows in commits:
        change(table, rows)
    for predicate in asked:
        assert looked_up(table, predicate)
        expected = scanned(table, predicate)
        query = table.scan(filter=predicate)
        assert sorted(query.to_arrow().to_pylist(), key=str) == expected
        assert query.to_arrow().schema == query.schema
        assert query.count() == table.scan(filter=predicate).count() == len(expected)
        notes = table.scan(["note"], predicate).to_arrow()
        assert sorted(map(str, notes.column("note").to_pylist())) == sorted(row["note"] for row in expected)
        assert table.scan(filter=predicate, limit=1).to_arrow().num_rows == min(1, len(expected))


def test_only_filters_on_few_keys_use_lookups(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert not looked_up(table, COL("dt").is_in(["d1"]) & (COL("id") == 1)), "a table without rows"
    change(table, [("d1", 1, 1, 0)])
    assert looked_up(table, COL("dt").is_in(["d1"]) & (COL("id") == 1))
    assert looked_up(table, COL("dt").is_in(["d1", "d2"]) & COL("id").is_in(range(8)))
    assert not looked_up(table, COL("dt").is_in(["d1", "d2"]) & COL("id").is_in(range(9)))
    assert not looked_up(table, COL("id") == 1)
    assert not looked_up(table, (COL("dt") == "d1") & (COL("id") > 1))
    assert not looked_up(table, (COL("dt") == "d1") & (COL("id") == 1) | (COL("amount") == 1))
    change(table, [("d1", 1, 2, 0)])
    compacted = table.copy({"scan.mode": "compacted-full"})
    assert looked_up(compacted, (COL("dt") == "d1") & (COL("id") == 1))
    changes = table.copy({"incremental-between": "1,2"})
    assert not looked_up(changes, (COL("dt") == "d1") & (COL("id") == 1))


def test_every_form_of_a_query_shows_one_snapshot(tmp_path: Path) -> None:
    table = make(tmp_path)
    predicate = (COL("dt") == "d1") & (COL("id") == 1)
    change(table, [("d1", 1, 1, 0)])
    read_first, planned_first = table.scan(filter=predicate), table.scan(filter=predicate)
    assert read_first.to_arrow().column("amount").to_pylist() == [1]
    assert planned_first.plan.snapshot_id == 1
    change(table, [("d1", 1, 2, 0)])
    assert read_first.plan.snapshot_id == 1
    assert planned_first.to_arrow().column("amount").to_pylist() == [1]
    assert table.scan(filter=predicate).to_arrow().column("amount").to_pylist() == [2]
    assert table.scan(filter=predicate, snapshot_id=1).to_arrow().column("amount").to_pylist() == [1]


def test_lookups_are_deferred_until_rows_are_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    change(table, [("d1", 1, 1, 0)])
    asked: list[object] = []
    rows_at = point_lookup.PointLookup.rows_at

    def noted(self: point_lookup.PointLookup, *given: Any) -> pa.Table:
        asked.append(given)
        return rows_at(self, *given)

    monkeypatch.setattr(point_lookup.PointLookup, "rows_at", noted)
    reader = table.scan(filter=(COL("dt") == "d1") & (COL("id") == 1)).to_arrow_batch_reader()
    assert not asked
    assert reader.read_all().num_rows == len(asked) == 1
