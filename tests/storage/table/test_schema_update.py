"""Schema changes by name, and blocks that apply several changes together."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed import Move, SchemaChange
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from interbed.storage.base.types.data_type import type_to_json

SCHEMA = pa.schema(
    (pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("n", pa.int32()))
)


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("shop")
    return catalog


@pytest.fixture
def table(catalog: interbed.Catalog) -> interbed.Table:
    return catalog.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})


def column(field_id: int, name: str, text: str) -> dict[str, object]:
    return {"id": field_id, "name": name, "type": text}


def columns(table: interbed.Table) -> dict[str, object]:
    return {f.name: type_to_json(f.type) for f in table.fields}


def test_a_catalog_accepts_one_change_or_a_list(catalog: interbed.Catalog, table: interbed.Table) -> None:
    catalog.alter_table("shop.t", SchemaChange.add_column("x", "DECIMAL(10, 2)", "a comment"))
    catalog.alter_table(
        "shop.t",
        [
            SchemaChange.add_column("y", pa.list_(pa.int32()), move=Move.first("y")),
            SchemaChange.add_column("z", interbed.data_type("ROW<a INT>"), move=Move.after("z", "id")),
            SchemaChange.add_column(["z", "b"], "STRING", move=Move.before(["z", "b"], "a")),
            SchemaChange.rename_column("name", "title"),
            SchemaChange.update_column_type("n", "BIGINT"),
            SchemaChange.update_column_comment("n", "how many"),
            SchemaChange.update_column_default_value(["n"], "5"),
            SchemaChange.update_column_position(Move.before("n", "y")),
            SchemaChange.set_option("write-only", True),
            SchemaChange.update_comment("things"),
        ],
    )
    altered = catalog.get_table("shop.t")
    assert columns(altered) == {
        "n": "BIGINT",
        "y": {"type": "ARRAY", "element": "INT"},
        "id": "BIGINT NOT NULL",
        "z": {
            "type": "ROW",
            "fields": [{"id": 7, "name": "b", "type": "STRING"}, {"id": 6, "name": "a", "type": "INT"}],
        },
        "title": "STRING",
        "x": "DECIMAL(10, 2)",
    }
    by_name = altered.schema.by_name
    assert (by_name["x"].description, by_name["n"].description, by_name["n"].default_value) == (
        "a comment", "how many", "5",
    )  # fmt: skip
    assert (altered.schema.comment, altered.schema.options["write-only"], altered.schema.id) == ("things", "true", 2)
    catalog.alter_table(
        "shop.t",
        [
            SchemaChange.drop_column("y"),
            SchemaChange.update_column_position(Move.last("n")),
            SchemaChange.remove_option("write-only"),
            SchemaChange.update_comment(None),
        ],
    )
    altered = catalog.get_table("shop.t")
    assert altered.field_names == ["id", "z", "title", "x", "n"]
    assert (altered.schema.comment, "write-only" in altered.schema.options) == (None, False)


def test_a_type_change_sets_the_nullability_unless_it_is_to_be_kept(
    catalog: interbed.Catalog, table: interbed.Table
) -> None:
    strict = pa.schema([pa.field("v", pa.int32(), nullable=False), pa.field("w", pa.int32(), nullable=False)])
    catalog.create_table("shop.s", strict)
    changes = [
        SchemaChange.update_column_type("v", "BIGINT"),
        SchemaChange.update_column_type("w", "BIGINT", keep_nullability=True),
    ]
    catalog.alter_table("shop.s", changes)
    assert columns(catalog.get_table("shop.s")) == {"v": "BIGINT", "w": "BIGINT NOT NULL"}
    catalog.alter_table("shop.s", SchemaChange.update_column_nullability("w", True))
    assert columns(catalog.get_table("shop.s")) == {"v": "BIGINT", "w": "BIGINT"}
    with pytest.raises(InvalidInputError, match="can't become NOT NULL"):
        catalog.alter_table("shop.t", SchemaChange.update_column_type("n", "INT NOT NULL"))


def test_a_block_applies_its_changes_as_one_schema_and_updates_the_table(table: interbed.Table) -> None:
    before = interbed.load_table(table.location)
    with table.update_schema() as update:
        update.add_column("x", "INT").rename_column("name", "title")
        update.set_option("snapshot.num-retained.max", 20)
        assert len(update.changes) == 3
        assert table.schema.id == 0
    assert (table.schema.id, table.field_names) == (1, ["id", "title", "n", "x"])
    table.upsert(pa.table({"id": [1], "x": pa.array([5], pa.int32())}))
    assert table.scan(columns=["id", "x"]).to_arrow().to_pylist() == [{"id": 1, "x": 5}]
    # Another table object keeps the columns with which it was opened.
    assert before.field_names == ["id", "name", "n"]
    with pytest.raises(SchemaMismatchError, match="unknown column 'x'"):
        before.upsert(pa.table({"id": [1], "x": [5]}))


def test_a_block_that_fails_changes_nothing(table: interbed.Table) -> None:
    with pytest.raises(InvalidInputError, match="'WORD' is not a data type"), table.update_schema() as update:
        update.drop_column("n").add_column("x", "WORD")
    update = table.update_schema().drop_column("n").drop_column("no_such")
    with pytest.raises(InvalidInputError, match="no_such"):
        update.commit()
    with table.update_schema():
        pass
    assert interbed.load_table(table.location).schema.id == table.schema.id == 0


def test_an_invalid_change_is_refused_by_name(catalog: interbed.Catalog, table: interbed.Table) -> None:
    with pytest.raises(InvalidInputError, match="'add x' is no change of a schema"):
        catalog.alter_table("shop.t", ["add x"])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="names no column"):
        SchemaChange.drop_column([])
    with pytest.raises(InvalidInputError, match="'TEXT' is not a data type"):
        SchemaChange.add_column("x", "TEXT")
    with pytest.raises(InvalidInputError, match="position of another one, 'y'"):
        SchemaChange.add_column("x", "INT", move=Move.first("y"))
    with pytest.raises(NotSupportedError, match=r"nested field 'a\.b'"):
        SchemaChange.update_column_default_value(["a", "b"], "1")


def test_a_table_object_follows_changes_by_its_own_methods(catalog: interbed.Catalog, table: interbed.Table) -> None:
    table.upsert(pa.table({"id": [1, 2, 3], "extra": ["a", "b", "c"]}), merge_schema=True)
    assert table.field_names == ["id", "name", "n", "extra"]
    table.maintenance.rescale(3)
    assert table.options.bucket == 3
    table.upsert(pa.table({"id": [4]}))
    assert table.scan().count() == 4
    view = table.copy({"scan.snapshot-id": "1"})
    assert view is not table
    assert table.branch("main") is not table
