"""Options as callers give them: booleans, numbers, None, and values with which no table can be created."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed import DataField, Schema, data_type
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("v", pa.int32()),
        pa.field("list", pa.list_(pa.int32())),
        pa.field("map", pa.map_(pa.string(), pa.int32())),
        pa.field("row", pa.struct([("a", pa.int32())])),
    ]
)


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    """A catalog with the database `d`."""
    found = interbed.load_catalog(warehouse=tmp_path / "lake")
    found.create_database("d")
    return found


def test_a_copy_accepts_booleans_and_numbers_and_drops_options_set_to_none(catalog: interbed.Catalog) -> None:
    table = catalog.create_table("d.t", COLUMNS, primary_keys=["id"], options={"write-only": "true", "bucket": "2"})
    changed = table.copy({"read.batch-size": 7, "ignore-delete": True})
    assert changed.store.options.raw["read.batch-size"] == "7"
    assert changed.store.options.raw["ignore-delete"] == "true"
    assert table.store.options.write_only
    without = table.copy({"write-only": None, "read.batch-size": None})
    assert not without.store.options.write_only
    assert "write-only" not in without.store.options.raw
    # A dropped option returns with a new table object, and the stored schema is unchanged.
    assert (
        without.copy({"read.batch-size": 7}).copy({"read.batch-size": None}).store.options.raw
        == without.store.options.raw
    )
    assert catalog.get_table("d.t").store.options.write_only


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"read.batch-size": ["7"]}, "takes a text, a number or a boolean"),
        ({"source.split.target-size": "many"}, "takes a size"),
        ({"bucket": None}, "layout"),
        ({"merge-engine": None}, "layout"),
    ],
)
def test_a_copy_refuses_an_invalid_value_by_the_name_of_the_option(
    catalog: interbed.Catalog, options: dict[str, object], text: str
) -> None:
    table = catalog.create_table(
        "d.t", COLUMNS, primary_keys=["id"], options={"bucket": "2", "merge-engine": "partial-update"}
    )
    with pytest.raises(InvalidOptionError, match=next(iter(options))) as caught:
        table.copy(options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "list"},
        {"sequence.field": "v,map"},
        {"sequence.field": "row"},
        {"sequence.field": "id,,v"},
        {"sequence.field": "v,"},
        {"type": "view"},
        {"type": "format-table"},
        {"bucket-function.type": "hive"},
        {"fields.row.a.aggregate-function": "sum", "merge-engine": "aggregation"},
        {"fields.row.a.sequence-group": "v", "merge-engine": "partial-update"},
        {"fields.row.a.stats-mode": "full"},
    ],
)
def test_a_table_that_no_reader_could_read_is_not_created(catalog: interbed.Catalog, options: dict[str, str]) -> None:
    with pytest.raises((InvalidOptionError, NotSupportedError), match=next(iter(options))):
        catalog.create_table("d.t", COLUMNS, primary_keys=["id"], options=options)
    assert catalog.list_tables("d") == []
    table = catalog.create_table("d.t", COLUMNS, primary_keys=["id"])
    if "sequence.field" in options:
        change = interbed.SchemaChange.set_option("sequence.field", options["sequence.field"])
        with pytest.raises(InvalidOptionError, match=r"sequence\.field"):
            catalog.alter_table("d.t", change)
        assert catalog.get_table("d.t").schema.id == table.schema.id


@pytest.mark.parametrize("kind", ["BYTES", "BINARY(4)", "VARBINARY(9)"])
def test_binary_partitions_need_names_of_the_new_form(catalog: interbed.Catalog, kind: str) -> None:
    fields = [DataField(id=0, name="p", type=data_type(kind)), DataField(id=1, name="v", type=data_type("INT"))]
    with pytest.raises(
        InvalidOptionError, match=r"partition column 'p' has the type .*'partition\.legacy-name' = 'false'"
    ):
        catalog.create_table("d.t", Schema(fields=fields, partition_keys=["p"]))
    options = {"partition.legacy-name": "false"}
    table = catalog.create_table("d.t", Schema(fields=fields, partition_keys=["p"], options=options))
    with pytest.raises(InvalidOptionError, match=r"'partition\.legacy-name'"):
        table.update_schema().remove_option("partition.legacy-name").commit()
    values = [b"\xe3\xbc\xd1\x00", b"\xbc\xd1\x00\x00", b"abcd", None]
    table.append([{"p": value, "v": number} for number, value in enumerate(values)])
    table.delete("p = X'bcd10000'")
    assert sorted(row["v"] for row in table.to_arrow().to_pylist()) == [0, 2, 3]
    assert [table.scan(filter=f).count() for f in ("p = X'e3bcd100'", "p > X'61'", "p IS NULL")] == [1, 2, 1]
