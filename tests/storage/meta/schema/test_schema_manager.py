"""Schema files and changes of the schema."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from interbed.storage.base.errors import (
    CorruptFileError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
)
from interbed.storage.base.types.data_type import AtomicType, DataField, RowType, TypeRoot
from interbed.storage.meta.schema.change import (
    AddColumn,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.table.option_rules import changed_schema

BIGINT = AtomicType(TypeRoot.BIGINT)


def orders() -> TableSchema:
    return Schema.from_pyarrow_schema(
        pa.schema((("dt", pa.string()), ("id", pa.int32()), ("amount", pa.float32()))),
        partition_keys=["dt"],
        primary_keys=["dt", "id"],
        options={"bucket": "2", "sequence.field": "amount", "fields.amount.ignore-retract": "true"},
    ).to_table_schema()


def test_a_created_table_is_opened_with_its_schema(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    schema_manager(location).create_table(orders())
    store = open_store(location)
    assert store.schema == orders() or store.schema.fields == orders().fields
    assert store.options.bucket == 2
    with pytest.raises(InvalidInputError, match="There is a table already"):
        schema_manager(location).create_table(orders())


def test_a_location_without_a_table_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=str(tmp_path)):
        open_store(str(tmp_path))


def test_dynamic_options_that_change_the_layout_are_refused(tmp_path: Path) -> None:
    schema_manager(str(tmp_path)).create_table(orders())
    store = open_store(str(tmp_path), dynamic_options={"target-file-size": "1 mb"})
    assert store.options.target_file_size == 1 << 20
    assert store.with_options({"commit.max-retries": "3"}).options.target_file_size == 1 << 20
    with pytest.raises(InvalidOptionError, match="bucket"):
        store.with_options({"bucket": "8"})


def test_each_of_several_concurrent_changes_is_applied_once(tmp_path: Path) -> None:
    schema_manager(str(tmp_path)).create_table(orders())

    def add(number: int) -> None:
        schema_manager(str(tmp_path)).change([AddColumn(f"c{number}", BIGINT)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(8)))
    schemas = schema_manager(str(tmp_path)).list_all()
    assert [s.id for s in schemas] == list(range(9))
    assert {f"c{i}" for i in range(8)} <= set(schemas[-1].names)
    assert len({f.id for f in schemas[-1].fields}) == 11


def test_the_error_names_a_torn_schema_file(tmp_path: Path) -> None:
    schema_manager(str(tmp_path)).create_table(orders())
    (tmp_path / "schema" / "schema-0").write_text('{"id": ')
    with pytest.raises(CorruptFileError, match="schema/schema-0"):
        open_store(str(tmp_path))


def test_changes_produce_the_next_schema() -> None:
    nested = RowType((DataField(id=0, name="x", type=BIGINT),))
    changed = changed_schema(
        orders(),
        [
            AddColumn("note", nested, position=Position(after="id")),
            RenameColumn("amount", "total"),
            RenameColumn("id", "number"),
            UpdateColumnType("total", AtomicType(TypeRoot.DOUBLE)),
            UpdateColumnComment("total", "with tax"),
            UpdateColumnPosition("total", Position()),
            UpdateComment("orders"),
            SetOption("commit.max-retries", "5"),
            RemoveOption("fields.total.ignore-retract"),
        ],
        time_millis=1,
    )
    assert changed.id == 1
    assert changed.names == ("total", "dt", "number", "note")
    assert changed.primary_keys == ("dt", "number")
    assert changed.options == {"bucket": "2", "sequence.field": "total", "commit.max-retries": "5"}
    note = changed.by_name["note"]
    assert (note.id, changed.highest_field_id) == (3, 4)
    assert isinstance(note.type, RowType)
    assert note.type.fields[0].id == 4
    assert changed.by_name["total"].id == orders().by_name["amount"].id
    dropped = changed_schema(changed, [RemoveOption("sequence.field"), DropColumn("total")])
    again = changed_schema(dropped, [AddColumn("total", BIGINT)])
    assert again.by_name["total"].id == 5


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (SetOption("merge-engine", "aggregation"), InvalidOptionError, "merge-engine"),
        (SetOption("bucket", "-1"), InvalidOptionError, "bucket"),
        (SetOption("bucket", "x"), InvalidOptionError, "bucket"),
        (RemoveOption("bucket"), InvalidOptionError, "bucket"),
        (AddColumn("id", BIGINT), InvalidInputError, "'id'"),
        (AddColumn("n", BIGINT.with_nullable(False)), InvalidInputError, "NOT NULL"),
        (AddColumn("n", BIGINT, position=Position(after="nope")), InvalidInputError, "'nope'"),
        (RenameColumn("dt", "day"), InvalidInputError, "partition"),
        (RenameColumn("amount", "id"), InvalidInputError, "'id'"),
        (DropColumn("id"), InvalidInputError, "primary key"),
        (DropColumn("amount"), InvalidInputError, "sequence.field"),
        (DropColumn("nope"), InvalidInputError, "'nope'"),
        (UpdateColumnType("id", BIGINT), InvalidInputError, "keys"),
        (UpdateColumnType("amount", AtomicType(TypeRoot.DATE)), NotSupportedError, "FLOAT to DATE"),
        (UpdateColumnNullability("amount", False), InvalidInputError, "NOT NULL"),
        (UpdateColumnNullability("id", True), InvalidInputError, "primary key"),
    ],
)
def test_changes_that_would_break_existing_files_are_refused(
    change: SchemaChange, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        changed_schema(orders(), [change])


def test_the_number_of_buckets_may_be_altered() -> None:
    assert changed_schema(orders(), [SetOption("bucket", "8")]).core.bucket == 8


def test_a_blank_name_of_another_program_is_kept_until_it_is_renamed() -> None:
    inside = RowType((DataField(id=2, name="\t", type=BIGINT),))
    fields = (DataField(id=0, name=" ", type=BIGINT), DataField(id=1, name="s", type=inside))
    there = TableSchema(id=0, fields=fields, highest_field_id=2)
    added = changed_schema(there, [AddColumn("x", BIGINT)])
    assert added.names == (" ", "s", "x")
    with pytest.raises(InvalidInputError, match="blank name ''"):
        changed_schema(added, [RenameColumn(" ", "")])
    with pytest.raises(InvalidInputError, match="blank name ' '"):
        changed_schema(added, [RenameColumn(" ", "y"), RenameColumn("x", " ")])
    named = changed_schema(added, [RenameColumn(" ", "a"), RenameColumn(("s", "\t"), "b")])
    assert named.names == ("a", "s", "x")
    assert [child.name for child in cast(RowType, named.fields[1].type).fields] == ["b"]


@pytest.mark.parametrize("name", ["\u200b", " \u2060", "\u0001", "\u00ad"])
def test_a_name_of_invisible_characters_is_blank(name: str) -> None:
    there = TableSchema(id=0, fields=(DataField(id=0, name="id", type=BIGINT),), highest_field_id=0)
    with pytest.raises(InvalidInputError, match="blank name"):
        changed_schema(there, [AddColumn(name, BIGINT)])
