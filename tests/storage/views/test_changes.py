"""Reading changes: applying them to an empty table results in the table."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.table.table import Table

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))


def create(warehouse: Path, name: str = "t", keys: tuple[str, ...] = ("id",), **options: str) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    named = {k.replace("_", "-"): v for k, v in options.items()}
    bucket = {"bucket": "2"} if keys else {}
    return catalog.create_table(f"db.{name}", SCHEMA, primary_keys=list(keys), options={**bucket, **named})


def rows(ids: list[int], kinds: list[int], v: str) -> pa.Table:
    return pa.table(
        {"id": ids, "v": [f"{v}{i}" for i in ids], "_row_kind": pa.array(kinds, pa.int8())},
        schema=SCHEMA.append(pa.field("_row_kind", pa.int8())),
    )


def sorted_rows(table: Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r["id"])


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_a_copy_made_from_changes_equals_the_table(tmp_path: Path, producer: str) -> None:
    table, copy = create(tmp_path, changelog_producer=producer), create(tmp_path, "copy")
    source = random.Random(3)
    seen = 0
    for commit in range(12):
        ids = source.sample(range(30), 8)
        table.write_changes(rows(ids, [source.choice([0, 0, 3]) for _ in ids], f"{commit}-"))
        if producer == "full-compaction" and commit % 3:
            continue
        table.compact(full=True)
        last = table.snapshots()[-1].id
        changes = table.changes(from_snapshot=seen + 1, to_snapshot=last)
        copy.write_changes(changes.to_arrow())
        seen = last
        assert sorted_rows(copy) == sorted_rows(table)
    if producer != "none":
        kinds = table.changes().to_arrow()["_row_kind"].to_pylist()
        assert set(kinds) == {0, 1, 2, 3}
        # Each update has the previous row.
        assert kinds.count(1) == kinds.count(2)


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_changes_follow_the_sequence_field(tmp_path: Path, order: str) -> None:
    named = {"sequence.field": "v", "sequence.field.sort-order": order, "changelog-producer": "lookup"}
    table, copy = create(tmp_path, "t", ("id",), **named), create(tmp_path, "copy")
    model: dict[int, str] = {}
    source = random.Random(5)
    better = max if order == "ascending" else min
    for _ in range(8):
        ids = [source.randrange(20) for _ in range(15)]
        values = [f"{source.randrange(1000):03}" for _ in ids]
        table.upsert(pa.table({"id": ids, "v": values}, schema=SCHEMA))
        for i, v in zip(ids, values, strict=True):
            model[i] = better(model.get(i, v), v)
        assert {r["id"]: r["v"] for r in sorted_rows(table)} == model
    copy.write_changes(table.changes().to_arrow())
    assert sorted_rows(copy) == sorted_rows(table)


def test_changes_of_an_append_table_are_its_new_rows(tmp_path: Path) -> None:
    table = create(tmp_path, keys=())
    for number in range(3):
        table.append(pa.table({"id": [number], "v": [f"x{number}"]}, schema=SCHEMA))
    table.compact()
    assert table.changes(2).to_arrow().to_pylist() == [
        {"id": 1, "v": "x1", "_row_kind": 0},
        {"id": 2, "v": "x2", "_row_kind": 0},
    ]


def test_invalid_ranges_are_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.append(rows([1], [0], "a").drop_columns(["_row_kind"]))
    assert table.changes(from_snapshot=2).to_arrow().num_rows == 0
    with pytest.raises(SnapshotNotFoundError, match=r"no snapshot 3 .*the newest is 1"):
        table.changes(from_snapshot=3).to_arrow()
    assert table.changes(from_snapshot=2, to_snapshot=1).to_arrow().num_rows == 0
    with pytest.raises(InvalidInputError, match="from snapshot 3 to 1 end before they begin"):
        table.changes(from_snapshot=3, to_snapshot=1).to_arrow()
    for number in (0, -1):
        for mode in IncrementalScanMode:
            with pytest.raises(SnapshotNotFoundError, match=f"no snapshot {number} .*numbers begin with 1"):
                table.changes(number, 1, mode=mode).to_arrow()


def test_changes_are_projected_and_filtered(tmp_path: Path) -> None:
    table = create(tmp_path, changelog_producer="lookup")
    table.write_changes(rows([1, 2, 3], [0, 0, 0], "a"))
    table.write_changes(rows([1, 2], [0, 3], "b"))
    found = table.changes(columns=["v"], filter="id < 2").to_arrow().to_pylist()
    assert found == [
        {"v": "a1", "_row_kind": 0},
        {"v": "a1", "_row_kind": 1},
        {"v": "b1", "_row_kind": 2},
    ]


def test_the_error_names_missing_snapshots_and_columns(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert table.changes().to_arrow().num_rows == 0
    table.write_changes(rows([1], [0], "a"))
    with pytest.raises(SnapshotNotFoundError, match=r"The changes of snapshots 1 to 7 .* no snapshot 2"):
        table.changes(to_snapshot=7).to_arrow()
    with pytest.raises(InvalidInputError, match="'w'"):
        table.changes(columns=["w"])


def test_all_queries_count_their_rows(tmp_path: Path) -> None:
    table = create(tmp_path, changelog_producer="input")
    table.write_changes(rows([1, 2], [0, 0], "a"))
    table.write_changes(rows([1, 1], [1, 2], "b"))
    log = table.audit_log()
    assert log.scan().count() == len(log.scan().to_arrow()) == 2
    assert log.scan(filter="v = 'b1'").count() == log.scan(limit=1).count() == 1
    assert log.copy({"incremental-between": "1,2"}).scan(["id"]).count() == 2
    assert (table.changes().count(), table.changes(2, 2).count()) == (4, 2)
    assert table.binlog().scan().count() == 2
    snapshots = interbed.load_catalog("test", warehouse=f"file:{tmp_path}").get_table("db.t$snapshots")
    assert snapshots.scan().count() == 2


# -- columns of the table with the names of the columns of kinds -------------------------------------------------------


def named_as_kinds(path: Path, name: str, keys: tuple[str, ...]) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{path}")
    catalog.create_database("db")
    fields = [SCHEMA.field("id"), pa.field(name, pa.int64()), SCHEMA.field("v")]
    bucket = {"bucket": "1"} if keys else {}
    table = catalog.create_table("db.t", pa.schema(fields), primary_keys=list(keys), options=bucket)
    table.append([{"id": 1, name: 3, "v": "a"}])
    return table


@pytest.mark.parametrize("keys", [("id",), ()])
def test_kinds_do_not_hide_a_column_of_the_table(tmp_path: Path, keys: tuple[str, ...]) -> None:
    table = named_as_kinds(tmp_path, "_row_kind", keys)
    builder = table.new_stream_read_builder().with_include_row_kind()
    refused: list[Callable[[], object]] = [
        lambda: table.changes().to_arrow(),
        lambda: table.changes(columns=["_row_kind"]).to_arrow(),
        lambda: table.changes().to_polars(lazy=True),
        lambda: table.changes().to_duckdb(),
        lambda: next(iter(table.stream(idle_seconds=0))).to_arrow(),
        lambda: table.new_change_read().schema,
        lambda: builder.new_read().to_arrow(table.new_stream_scan().plan().splits),  # type: ignore[union-attr]
    ]
    for read in refused:
        with pytest.raises(InvalidInputError, match="has a column '_row_kind', which is the name of the column for"):
            read()
    shown = table.changes(columns=["id", "v"], filter="_row_kind = 3").to_arrow().to_pylist()
    assert shown == [{"id": 1, "v": "a", "_row_kind": 0}]
    with pytest.raises(InvalidInputError, match="Give the kinds another name by kind_column"):
        table.write_changes([{"id": 2, "_row_kind": 3, "v": "b"}])
    table.write_changes([{"id": 2, "_row_kind": 3, "v": "b", "kind": 0}], kind_column="kind")
    assert [row["_row_kind"] for row in sorted_rows(table)] == [3, 3]


@pytest.mark.parametrize("view", ["audit_log", "binlog"])
def test_a_column_of_the_table_named_rowkind_is_refused_in_the_audit_log(tmp_path: Path, view: str) -> None:
    shown = getattr(named_as_kinds(tmp_path, "rowkind", ("id",)), view)()
    for columns in (None, ["rowkind"]):
        with pytest.raises(InvalidInputError, match="has a column 'rowkind', which is the name of the column for"):
            shown.scan(columns=columns).to_arrow()
    with pytest.raises(InvalidInputError, match="rowkind"):
        shown.scan(columns=["id"], filter="rowkind = 3").to_arrow()
    assert shown.scan(columns=["id"]).to_arrow().num_rows == 1
