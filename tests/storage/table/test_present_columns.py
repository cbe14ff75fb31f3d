"""Upserts of only the columns that rows have: the other columns keep their values, in every kind of table, despite
races.
"""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.upkeep import changed_rows
from interbed.storage.upkeep.changed_rows import SnapshotRows
from tests.support.waits import at_most

FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("amount", pa.float64()),
    pa.field("tags", pa.list_(pa.int32())),
]
SCHEMA = pa.schema(FIELDS)
ROW = {"id": 1, "name": "x", "amount": 3.0, "tags": [1, 2]}


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    """A catalog with the database `d`."""
    found = interbed.load_catalog(warehouse=tmp_path)
    found.create_database("d")
    return found


def make(catalog: interbed.Catalog, name: str = "d.t", **options: str) -> interbed.Table:
    return catalog.create_table(name, SCHEMA, primary_keys=["id"], options={"bucket": "2", **options})


def rows(table: interbed.Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.scan().to_arrow().to_pylist()}


def test_by_default_columns_that_rows_lack_become_null(catalog: interbed.Catalog) -> None:
    table = make(catalog)
    table.upsert([ROW])
    table.upsert([{"id": 1, "amount": 4.0}])
    assert rows(table) == {1: {"id": 1, "name": None, "amount": 4.0, "tags": None}}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "-1"},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "partial-update"},
        {"changelog-producer": "lookup"},
        {"changelog-producer": "input"},
        {"sequence.field": "amount"},
        {"file.format": "orc"},
    ],
    ids=str,
)
def test_columns_that_rows_lack_keep_their_values(catalog: interbed.Catalog, options: dict[str, str]) -> None:
    table = make(catalog, **options)
    table.upsert([ROW, {**ROW, "id": 2}])
    assert table.upsert(pa.table({"amount": [4.0, 5.0], "id": [1, 3]}), columns="present") is not None
    table.upsert(pa.table({"id": [2], "name": ["y"]}), columns="present")
    assert rows(table) == {
        1: {**ROW, "amount": 4.0},
        2: {**ROW, "id": 2, "name": "y"},
        3: {"id": 3, "name": None, "amount": 5.0, "tags": None},
    }


def test_each_dict_has_columns_of_its_own(catalog: interbed.Catalog) -> None:
    table = make(catalog)
    table.upsert([ROW, {**ROW, "id": 2}])
    given = [{"id": 1, "amount": 9.0}, {"id": 2, "name": None}, {"id": 1, "name": "z"}, {"id": 4}]
    assert table.upsert(given, columns="present") == 2, "one commit"
    assert rows(table) == {
        1: {**ROW, "amount": 9.0, "name": "z"},
        2: {**ROW, "id": 2, "name": None},
        4: {"id": 4, "name": None, "amount": None, "tags": None},
    }


def test_partitions_defaults_and_streams(catalog: interbed.Catalog) -> None:
    columns: list[tuple[str, pa.DataType]] = [
        ("dt", pa.string()), ("id", pa.int64()), ("n", pa.int32()), ("s", pa.string())
    ]  # fmt: skip
    table = catalog.create_table(
        "d.p", pa.schema(columns), primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "1"}
    )
    with table.update_schema() as update:
        update.update_column_default_value("s", "new")
    table.upsert([{"dt": "a", "id": 1, "n": 1, "s": "old"}, {"dt": "b", "id": 1, "n": 2, "s": "old"}])
    new = pa.table({"id": [1, 2], "dt": ["a", "b"], "n": pa.array([7, 8], pa.int32())})
    table.upsert(new.to_reader(max_chunksize=1), columns="present")
    found = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    assert found == [("a", 1, 7, "old"), ("b", 1, 2, "old"), ("b", 2, 8, "new")]


@pytest.mark.parametrize("as_stream", [False, True])
def test_values_of_a_racing_writer_are_kept(
    catalog: interbed.Catalog, monkeypatch: pytest.MonkeyPatch, as_stream: bool
) -> None:
    table = make(catalog)
    table.upsert([ROW])
    raced: list[int] = []

    class OvertakenRows(SnapshotRows):
        """Rows whose commit another writer overtakes after the lookup of the first attempt."""

        def commit(self, **changes: Any) -> int | None:
            found = [*changes["completed"]]
            if not raced:
                raced.append(1)
                catalog.get_table("d.t").upsert([{**ROW, "name": "other"}])
            return super().commit(completed=found)

    monkeypatch.setattr(changed_rows, "SnapshotRows", OvertakenRows)
    data = pa.table({"id": [1], "amount": [8.0]})
    if as_stream:
        with pytest.raises(interbed.CommitConflictError, match="changed rows meanwhile"):
            table.upsert(data.to_reader(), columns="present")
        assert rows(table) == {1: {**ROW, "name": "other"}}
        return
    table.upsert(data, columns="present")
    assert rows(table) == {1: {**ROW, "name": "other", "amount": 8.0}}


def test_concurrent_writers_of_different_columns_lose_no_value(catalog: interbed.Catalog) -> None:
    make(catalog, **{"commit.max-retries": "100"}).upsert([ROW])

    def write(column: str, values: list[Any]) -> None:
        table = catalog.get_table("d.t")
        for value in values:
            table.upsert([{"id": 1, column: value}], columns="present")

    threads = [
        threading.Thread(target=write, args=("name", [f"n{i}" for i in range(5)])),
        threading.Thread(target=write, args=("amount", [float(i) for i in range(5)])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(at_most(60))
    assert rows(catalog.get_table("d.t")) == {1: {**ROW, "name": "n4", "amount": 4.0}}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.integers(0, 3)},
            optional={
                "name": st.none() | st.text(max_size=3),
                "amount": st.none() | st.floats(allow_nan=False),
                "tags": st.none() | st.lists(st.integers(0, 9), max_size=2),
            },
        ),
        max_size=8,
    ),
    st.integers(1, 4),
)
def test_upserts_of_any_rows_equal_updates_of_dicts(given_rows: list[dict[str, Any]], size: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        catalog = interbed.load_catalog(warehouse=place)
        catalog.create_database("d")
        table = make(catalog)
        model: dict[int, dict[str, Any]] = {}
        for start in range(0, len(given_rows), size):
            some = given_rows[start : start + size]
            table.upsert(some, columns="present")
            for row in some:
                model[row["id"]] = {**dict.fromkeys(SCHEMA.names), **model.get(row["id"], {}), **row}
        assert rows(table) == model


def test_upserts_that_cannot_keep_columns_are_refused(catalog: interbed.Catalog) -> None:
    table = make(catalog)
    with pytest.raises(interbed.InvalidInputError, match="is 'all' or 'present', not 'some'"):
        table.upsert([ROW], columns="some")
    with pytest.raises(interbed.SchemaMismatchError, match="lack 'id', a column of the primary key"):
        table.upsert(pa.table({"name": ["x"]}), columns="present")
    with pytest.raises(interbed.SchemaMismatchError, match=r"Row 1 \(counted from 0\) lacks a value for 'id'"):
        table.upsert([ROW, {"name": "x"}], columns="present")
    for options in ({"merge-engine": "first-row"}, {"bucket": "-2"}):
        other = make(catalog, f"d.{options.get('merge-engine', 'postponed').replace('-', '_')}", **options)
        with pytest.raises(interbed.NotSupportedError, match="can't keep columns that rows lack"):
            other.upsert([ROW], columns="present")
