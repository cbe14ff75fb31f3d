"""Updates of columns: only these are written, other columns and other writers keep what they have."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.storage.base.errors import (
    CommitConflictError,
    InvalidInputError,
    SchemaMismatchError,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.table.table import Table
from interbed.storage.upkeep.column_update import column_change, update_columns
from tests.storage.table.evolving_tables import COLUMNS, all_of, create, files_of, rows


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with interbed.load_catalog("lake", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("db")
        yield catalog


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_an_update_writes_the_changed_columns_and_rows_keep_their_ids(catalog: Catalog, file_format: str) -> None:
    table = create(catalog, file_format=file_format)
    table.append(rows(1, 2))
    table.append(rows(3))
    assert table.update({"v": "x"}, "id >= 2") == 3
    assert all_of(table) == [(1, "v1", 10, 0, 3), (2, "x", 20, 1, 3), (3, "x", 30, 2, 3)]
    written = [f for f in files_of(table) if f.write_cols is not None]
    assert {(f.write_cols, f.first_row_id, f.row_count) for f in written} == {(("v",), 0, 2), (("v",), 2, 1)}
    assert [s.next_row_id for s in table.snapshots()] == [2, 3, 3]
    assert table.update({"v": "y"}, "id = 3") == 4
    # A group without a changed row gets no file.
    assert len(files_of(table)) == 5
    assert table.update({"v": "z"}, "id = 99") is None
    assert table.maintenance.fsck().is_sound


def test_functions_compute_new_values_from_the_columns_that_they_read(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1, 2, 3))
    seen: list[list[str]] = []

    def doubled(batch: pa.RecordBatch) -> Any:
        seen.append(batch.schema.names)
        return pc.multiply(batch["n"], 2)

    table.update({"n": doubled, "v": None}, "id <> 2", reads=["n"])
    assert [row[:3] for row in all_of(table)] == [(1, None, 20), (2, "v2", 20), (3, None, 60)]
    assert seen == [["n"]]
    table.update({"n": lambda batch: batch["id"]})
    assert [row[2] for row in all_of(table)] == [1, 2, 3]


@pytest.mark.parametrize("by", ["_ROW_ID", "id"])
def test_given_rows_change_the_rows_of_their_ids_or_keys(catalog: Catalog, by: str) -> None:
    table = create(catalog)
    table.append(rows(0, 1, 2))
    table.append(rows(3, 4))
    table.update([{by: 4, "v": "four"}, {by: 1, "v": "one"}], by=by)
    assert [row[1] for row in all_of(table)] == ["v0", "one", "v2", "v3", "four"]
    with pytest.raises(InvalidInputError, match=f"1 of 2 rows of the update are not in the table.*{by} = 9"):
        table.update([{by: 0, "v": "lost"}, {by: 9, "v": "x"}], by=by)
    with pytest.raises(InvalidInputError, match=f"Two rows of the update have {by} = 1"):
        table.update([{by: 1, "v": "a"}, {by: 1, "v": "b"}], by=by)
    assert [row[1] for row in all_of(table)] == ["v0", "one", "v2", "v3", "four"]
    assert len(table.snapshots()) == 3


def test_given_rows_are_found_by_several_columns_and_by_null(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([{"id": 1, "v": "a", "n": 1}, {"id": 1, "v": "b", "n": 2}, {"id": None, "v": "a", "n": 3}])
    table.update([{"id": 1, "v": "b", "n": 20}, {"id": None, "v": "a", "n": 30}], by=["id", "v"])
    assert [row[2] for row in all_of(table)] == [1, 20, 30]
    table.update([{"id": None, "n": 300}], by="id")
    assert [row[2] for row in all_of(table)] == [1, 20, 300]


def test_a_new_column_is_filled_without_reading_the_others(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    with table.update_schema() as change:
        change.add_column("w", pa.int32())
        change.rename_column("v", "name")
    table.update({"w": lambda batch: pc.add(batch["n"], 1)}, reads=["n"])
    table.append([{"id": 4, "name": "v4", "n": 40, "w": 0}])
    found = table.scan(["name", "w"]).to_arrow().sort_by("name")
    assert found.to_pylist() == [{"name": f"v{i}", "w": w} for i, w in ((1, 11), (2, 21), (3, 31), (4, 0))]
    table.update({"name": "x"}, "w = 11")
    assert table.scan(["name"]).to_arrow().sort_by("name")["name"].to_pylist() == ["v2", "v3", "v4", "x"]
    assert table.scan(["id"], filter="name = 'v1'").to_arrow().num_rows == 0


def test_a_table_that_was_opened_before_a_column_was_added_is_updated(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(rows(1))
    with catalog.get_table("db.t").update_schema() as change:
        change.add_column("w", pa.int32())
    catalog.get_table("db.t").update({"w": 5})
    table.update({"v": "x"}, "n = 10")
    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x", "n": 10, "w": 5}]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_random_updates_agree_with_a_model(catalog: Catalog, file_format: str) -> None:
    chance = random.Random(file_format)
    table = create(catalog, file_format=file_format, file__index_bloom__filter_columns="v", read_batch__size="16")
    model: dict[int, dict[str, Any]] = {}
    for step in range(14):
        kind = chance.choice(["append", "update", "update", "keys", "compact", "full"])
        if kind == "append" or not model:
            ids = range(len(model), len(model) + chance.randint(1, 400))
            table.append(rows(*ids))
            model.update({i: {"id": i, "v": f"v{i}", "n": i * 10} for i in ids})
        elif kind == "update":
            low, column = chance.randrange(len(model)), chance.choice(["v", "n"])
            value: Any = f"s{step}" if column == "v" else step
            table.update({column: value}, f"id >= {low} and id < {low + 50} and v is not null")
            for i in range(low, min(low + 50, len(model))):
                model[i][column] = value
        elif kind == "keys":
            chosen = chance.sample(sorted(model), min(20, len(model)))
            table.update([{"id": i, "n": -i} for i in chosen], by="id")
            for i in chosen:
                model[i]["n"] = -i
        else:
            table.compact(full=kind == "full")
        found = table.scan(["id", "v", "n", "_ROW_ID"]).to_arrow().sort_by("id").to_pylist()
        assert found == [{**row, "_ROW_ID": row["id"]} for row in model.values()], step
        value = chance.choice(list(model.values()))["v"]
        hits = table.scan(["id"], filter=f"v = '{value}' and n > 5").to_arrow().sort_by("id")["id"].to_pylist()
        assert hits == [r["id"] for r in model.values() if r["v"] == value and r["n"] > 5]
        assert table.maintenance.fsck().is_sound


class RacingUpdate:
    """An update of a table that stops before its commit, while another writer changes the table."""

    def __init__(self, table: Table, values: Mapping[str, Any], chosen: str | None, **more: Any) -> None:
        self._table = table
        self._change = column_change(table.store, table.name, values, chosen, by=None, reads=more.get("reads", []))

    def beside(self, other: Any, monkeypatch: pytest.MonkeyPatch) -> int | None:
        """Update, with the other change between reading and committing."""
        original = FileStoreCommit.commit

        def interrupted(this: Any, *args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(FileStoreCommit, "commit", original)
            other()
            return original(this, *args, **kwargs)

        monkeypatch.setattr(FileStoreCommit, "commit", interrupted)
        return update_columns(self._table.store, self._change, "user")


@pytest.mark.parametrize(
    ("values", "chosen", "other", "conflicts"),
    [
        ({"v": "a"}, None, lambda t: t.append(rows(9)), False),
        ({"v": "a"}, None, lambda t: t.update({"n": 0}), False),
        ({"v": "a"}, "n = 10", lambda t: t.update({"n": 0}), True),
        ({"v": "a"}, "id = 1", lambda t: t.update({"v": "b"}, "id = 2"), True),
        ({"v": "a"}, "id = 1", lambda t: t.update({"v": "b"}, "id = 3"), False),
        ({"v": "a"}, None, lambda t: t.compact(), True),
        ({"v": "a"}, None, lambda t: t.overwrite(rows(7), {}), True),
        ({"v": "a"}, "id = 1", lambda t: t.versions.rollback_to(1), True),
    ],
)
def test_an_update_is_a_conflict_if_its_columns_or_rows_changed_meanwhile(
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    values: dict[str, Any],
    chosen: str | None,
    other: Any,
    conflicts: bool,
) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    race = RacingUpdate(table, values, chosen)
    again = catalog.get_table("db.t")
    if conflicts:
        with pytest.raises(CommitConflictError):
            race.beside(lambda: other(again), monkeypatch)
    else:
        race.beside(lambda: other(again), monkeypatch)
        assert table.scan(["v"], filter="id = 1").to_arrow()["v"].to_pylist() == ["a"]
    assert catalog.get_table("db.t").maintenance.fsck().is_sound


def test_an_update_is_computed_again_after_a_conflict(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    original = FileStoreCommit.commit

    def interrupted(this: Any, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(FileStoreCommit, "commit", original)
        catalog.get_table("db.t").update({"n": 5}, "id = 1")
        return original(this, *args, **kwargs)

    monkeypatch.setattr(FileStoreCommit, "commit", interrupted)
    table.update({"n": lambda batch: pc.add(batch["n"], 1)}, reads=["n"])
    assert [row[2] for row in all_of(table)] == [6, 21]
    assert len(list(Path(table.location).glob("bucket-*/*"))) == 3


def test_values_that_do_not_fit_change_nothing(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), *COLUMNS[1:]])
    table = create(catalog, schema)
    table.append(rows(1, 2).cast(schema))
    wrong: list[tuple[Any, str]] = [
        ({"n": 1.5}, "'n'"),
        ({"n": lambda batch: pa.array(["x"] * batch.num_rows)}, "'n'"),
        ({"id": None}, "'id'"),
    ]
    for values, message in wrong:
        with pytest.raises(SchemaMismatchError, match=message):
            table.update(values)
    with pytest.raises(InvalidInputError, match="returned 1 values for 2 rows"):
        table.update({"n": lambda batch: [1]})
    with pytest.raises(InvalidInputError, match="no column 'q' to update"):
        table.update({"q": 1})
    with pytest.raises(InvalidInputError, match="names no column"):
        table.update({})
    with pytest.raises(InvalidInputError, match="rows with `by`"):
        table.update([{"n": 1}])
    assert len(table.snapshots()) == 1
    assert len(list(Path(table.location).glob("bucket-*/*"))) == 1


def test_null_stays_null_in_a_column_with_a_default(catalog: Catalog) -> None:
    table = create(catalog)
    with table.update_schema() as change:
        change.update_column_default_value("v", "d")
    table.append([{"id": 1}])
    assert all_of(table)[0][1] == "d"
    table.update({"v": None})
    assert all_of(table)[0][1] is None
