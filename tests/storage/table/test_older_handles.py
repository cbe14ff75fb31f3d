"""A table that was opened before its columns changed loses no value of a newer column, whatever it rewrites."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import CommitConflictError, InterbedError, SchemaMismatchError
from interbed.storage.table.table import Table

Rows = dict[int, dict[str, Any]]
KINDS: dict[str, dict[str, str]] = {
    "key": {"bucket": "1"},
    "write-only": {"bucket": "1", "write-only": "true"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "full compaction": {"bucket": "1", "changelog-producer": "full-compaction"},
    "partial update": {"bucket": "1", "merge-engine": "partial-update"},
    "dynamic": {"bucket": "-1"},
    "append": {},
    "append with vectors": {"deletion-vectors.enabled": "true"},
    "append in buckets": {"bucket": "1", "bucket-key": "k"},
}
RENAMES = (False, True)


def _pinned(work: Callable[[Table], object]) -> Callable[[Table], object]:
    return lambda table: work(table.copy({"scan.snapshot-id": "1"}))


def _sevenfold(table: Table) -> None:
    for _ in range(7):
        (table.upsert if table.primary_keys else table.append)([{"k": 9, "a": 9}])


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "compact": lambda t: t.compact(full=True),
    "compact what is due": lambda t: t.compact(full=False),
    "compact of a pinned table": _pinned(lambda t: t.compact(full=True)),
    "sort": lambda t: t.compact(order_strategy="order", order_by=["k"]),
    "rescale": lambda t: t.maintenance.rescale(2),
    "delete": lambda t: t.delete("k = 3"),
    "delete of a pinned table": _pinned(lambda t: t.delete("k = 3")),
    "seven writes of another key": _sevenfold,
    "upsert of present columns": lambda t: t.upsert([{"k": 4, "a": 40}], columns="present"),
    "rewrite of indexes": lambda t: t.maintenance.rewrite_file_index(),
}


def _refusal(work: Callable[[Table], object], table: Table) -> InterbedError | None:
    try:
        work(table)
    except InterbedError as error:
        return error
    return None


def _expected(operation: str, before: Rows, value: str) -> Rows:
    after = {key: dict(row) for key, row in before.items()}
    if operation.startswith("delete"):
        del after[3]
    if operation == "upsert of present columns":
        after[4][value] = 40
    return after


@pytest.mark.sample(6)
@pytest.mark.parametrize("renames", RENAMES, ids=["added", "renamed"])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_newer_columns_stay(kind: str, renames: bool, tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64())])
    keys = None if kind.startswith("append") else ["k"]
    value = "b" if renames else "a"
    for number, (operation, work) in enumerate(OPERATIONS.items()):
        name = f"d.t{number}"
        made = catalog.create_table(name, schema, primary_keys=keys, options=KINDS[kind])
        made.append([{"k": 1, "a": 1}, {"k": 2, "a": 2}])
        older = catalog.get_table(name)
        with made.update_schema() as update:
            update.add_column("c", "STRING")
            if renames:
                update.rename_column("a", "b")
                update.add_column("a", "STRING")
        newer = catalog.get_table(name)
        newer.append(
            pa.Table.from_pylist(
                [{"k": key, value: key, "c": f"c{key}"} | ({"a": f"a{key}"} if renames else {}) for key in (3, 4)],
                newer.arrow_schema,
            )
        )
        before = {row["k"]: row for row in newer.to_arrow().to_pylist()}
        refusal = _refusal(work, older)
        # Operations that the kind of table does not have are refused as such.
        assert renames or not isinstance(refusal, CommitConflictError), (operation, refusal)
        catalog.get_table(name).compact(full=True)
        found = {row["k"]: row for row in catalog.get_table(name).to_arrow().to_pylist() if row["k"] != 9}
        assert found == (_expected(operation, before, value) if refusal is None else before), operation
        assert catalog.get_table(name).maintenance.fsck().is_sound


def test_a_widened_value_is_not_read_with_the_narrower_type(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int32())])
    older = catalog.create_table("d.t", schema, primary_keys=["k"], options={"bucket": "1"})
    with older.update_schema() as update:
        update.add_column("c", "CHAR(3)")
        update.add_column("m", "MAP<STRING, ROW<x INT>>")
    older.upsert([{"k": 1, "a": 1, "c": "abc", "m": {"a": {"x": 1}}}])
    newer = catalog.get_table("d.t")
    with newer.update_schema() as update:
        update.update_column_type("a", "BIGINT")
    newer.upsert([{"k": 2, "a": 2**40 + 5}])
    with pytest.raises(SchemaMismatchError, match=r"'a' .* was INT when it was opened; newer files hold BIGINT"):
        older.to_arrow()
    assert older.scan(["k", "c", "m"]).to_arrow().num_rows == 2
    older.compact(full=True)
    assert sorted(row["a"] for row in newer.to_arrow().to_pylist()) == [1, 2**40 + 5]


INDEXES = ("bloom-filter", "bitmap", "bsi", "range-bitmap")


@pytest.mark.parametrize("kind", INDEXES)
def test_indexes_that_are_rewritten_have_the_names_of_their_files(kind: str, tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("a", pa.int32())])
    table = catalog.create_table("d.t", schema)
    table.append([{"k": i, "a": i} for i in range(5)])
    with table.update_schema() as update:
        update.rename_column("a", "old")
        update.add_column("a", "INT")
        update.set_option(f"file-index.{kind}.columns", "a,old")
    table.append([{"k": i, "a": i - 5, "old": i} for i in range(5, 10)])
    table.maintenance.rewrite_file_index()

    def keys(condition: str) -> list[int]:
        return sorted(row["k"] for row in table.scan(["k"], filter=condition).to_arrow().to_pylist())

    assert keys("old = 3") == [3]
    assert keys("a = 3") == [8]
    assert keys("old <> 3") == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert keys("a IS NULL") == [0, 1, 2, 3, 4]
    table.delete("old = 3")
    assert keys("k >= 0") == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_write_of_rewritten_files_with_an_older_schema_is_a_conflict(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64())])
    older = catalog.create_table("d.t", schema, primary_keys=["k"], options={"bucket": "1"})
    write = older.new_write("old")
    write.write_arrow(pa.table({"k": [1], "a": [1]}, schema=schema))
    newer = catalog.get_table("d.t")
    with newer.update_schema() as update:
        update.add_column("c", "STRING")
    newer.upsert([{"k": 2, "a": 2, "c": "kept"}])
    write.compact_all()
    messages = write.prepare_commit()
    older.new_commit("old").commit(messages)
    write.close()
    assert sorted(row["k"] for row in catalog.get_table("d.t").to_arrow().to_pylist()) == [1, 2]
    assert catalog.get_table("d.t").scan(filter="k = 2").to_arrow().to_pylist() == [{"k": 2, "a": 2, "c": "kept"}]


def test_a_default_that_was_set_later_changes_no_row_of_the_table(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    schema = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64()), pa.field("w", pa.int64())]
    )
    for keyed in (False, True):
        table = catalog.create_table(f"d.t{int(keyed)}", schema, primary_keys=["k"] if keyed else None)
        table.append(pa.Table.from_pylist([{"k": 1}, {"k": 2, "v": 5}, {"k": 3}], schema))
        with table.update_schema() as update:
            update.update_column_default_value("v", "7")
        table.delete("k = 2")
        table.append([{"k": 4}])
        expected = {1: None, 3: None, 4: 7}
        if keyed:
            table.upsert([{"k": 1, "w": 1}, {"k": 5, "w": 5}], columns="present")
            expected[5] = 7
        table.compact(full=True)
        assert {row["k"]: row["v"] for row in table.to_arrow().to_pylist()} == expected


def test_the_past_is_merged_by_the_names_that_columns_had_then(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    schema = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64()), pa.field("s", pa.int64())]
    )
    options = {
        "sum": {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
        "sequence": {"sequence.field": "s"},
        "group": {"merge-engine": "partial-update", "fields.s.sequence-group": "a"},
    }
    expected = {"sum": 3, "sequence": 1, "group": 1}
    for kind, each in options.items():
        table = catalog.create_table(f"d.{kind}", schema, primary_keys=["k"], options={"bucket": "1", **each})
        table.upsert(pa.Table.from_pylist([{"k": 1, "a": 1, "s": 9}], schema))
        table.upsert(pa.Table.from_pylist([{"k": 1, "a": 2, "s": 1}], schema))
        table.versions.create_tag("then")
        with table.update_schema() as update:
            update.rename_column("a", "total")
            update.rename_column("s", "at")
        again = catalog.get_table(f"d.{kind}")
        reads = [
            again.scan(["a"], snapshot_id=2),
            again.copy({"scan.tag-name": "then"}).scan(["a"]),
            again.scan(["total"]),
        ]
        assert [read.to_arrow().column(0).to_pylist() for read in reads] == [[expected[kind]]] * 3, kind


def test_a_fallback_branch_is_read_with_the_columns_that_it_had_then(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    columns: list[pa.Field[Any]] = [pa.field("p", pa.string()), pa.field("k", pa.int32()), pa.field("v", pa.int32())]
    schema = pa.schema(columns)
    table = catalog.create_table("d.t", schema, partition_keys=["p"])
    table.versions.create_branch("live")
    branch = catalog.get_table("d.t$branch_live")
    branch.append(pa.Table.from_pylist([{"p": "2", "k": 2, "v": 200}], schema))
    table.append(pa.Table.from_pylist([{"p": "1", "k": 1, "v": 1}], schema))
    with table.update_schema() as update:
        update.set_option("scan.fallback-branch", "live")
    for each in (table, branch):
        with each.update_schema() as update:
            update.drop_column("v")
            update.add_column("v", "INT")
            update.rename_column("k", "key")
    table.append(pa.Table.from_pylist([{"p": "1", "key": 5, "v": 5}], table.arrow_schema))
    branch.append(pa.Table.from_pylist([{"p": "2", "key": 6, "v": 6}], branch.arrow_schema))
    again = catalog.get_table("d.t")
    past = again.scan(snapshot_id=1).to_arrow().sort_by("k").to_pylist()
    assert past == [{"p": "1", "k": 1, "v": 1}, {"p": "2", "k": 2, "v": 200}]
    assert again.scan(["k"], filter="v = 200", snapshot_id=1).to_arrow().to_pylist() == [{"k": 2}]
    now = again.to_arrow().sort_by("key").to_pylist()
    assert [(row["key"], row["v"]) for row in now] == [(1, None), (2, None), (5, 5), (6, 6)]
