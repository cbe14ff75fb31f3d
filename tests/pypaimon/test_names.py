"""Types, names, options and errors of pypaimon, and the page about them."""

from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed import pypaimon as pp
from interbed.storage.base.errors import (
    BranchNotFoundError,
    CommitError,
    CorruptFileError,
    FilterError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from tests.pypaimon.tables import ORDERS, bought, written
from tests.support.pages import Page


def test_the_python_of_the_page_runs_as_documented(tmp_path: Path) -> None:
    assert Page("pypaimon.md").run_python(warehouse=str(tmp_path / "lake")) > 15


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("INT", "INT"),
        ("integer", "INT"),
        ("STRING", "STRING"),
        ("VARCHAR(10) NOT NULL", "VARCHAR(10) NOT NULL"),
        ("DECIMAL(10,2)", "DECIMAL(10, 2)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ],
)
def test_an_atomic_type_is_parsed_from_its_text(text: str, shown: str) -> None:
    made = pp.AtomicType(text)
    assert str(made) == shown
    assert made.type == shown.removesuffix(" NOT NULL")
    assert pp.DataTypeParser.parse_data_type(made.to_dict()) == made


def test_an_atomic_type_takes_nullability_second() -> None:
    assert str(pp.AtomicType("BIGINT", False)) == "BIGINT NOT NULL"
    assert pp.AtomicType("BIGINT", nullable=False) == pp.AtomicType("BIGINT NOT NULL") != pp.AtomicType("BIGINT")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("INTT", InvalidInputError, "Unknown data type 'INTT'"),
        ("", InvalidInputError, "Unknown data type"),
        ("DECIMAL(50, 2)", InvalidInputError, "precision from 1 to 38"),
        ("VARCHAR(0)", InvalidInputError, "length from 1"),
        ("BLOB", NotSupportedError, "BLOB"),
    ],
)
def test_text_of_an_unknown_type_is_refused(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        pp.AtomicType(text)


def test_nested_types_take_nullability_first_or_by_name() -> None:
    number, text = pp.AtomicType("INT"), pp.AtomicType("STRING", False)
    assert pp.ArrayType(False, number) == pp.ArrayType(number, nullable=False)
    assert pp.ArrayType(nullable=True, element_type=number) == pp.ArrayType(element=number)
    assert pp.MapType(True, text, number) == pp.MapType(text, number) == pp.MapType(key=text, value=number)
    assert pp.MultisetType(True, text) == pp.MultisetType(text)
    fields = [pp.DataField(0, "a", number, "first"), pp.DataField(1, "b", pp.ArrayType(True, text))]
    row = pp.RowType(False, fields)
    assert row == pp.RowType(tuple(fields), nullable=False)
    assert str(row) == "ROW<a INT, b ARRAY<STRING NOT NULL>> NOT NULL"
    assert pp.DataType.from_dict(row.to_dict()) == row
    with pytest.raises(TypeError, match="MapType takes key, value and nullable"):
        pp.MapType(True, text)  # type: ignore[call-overload]


def test_a_field_is_written_in_the_form_of_a_schema_file() -> None:
    field = pp.DataField.from_dict({"id": 3, "name": "x", "type": "DATE NOT NULL", "description": "when"})
    assert field == pp.DataField(3, "x", pp.AtomicType("DATE", False), "when")
    assert field.to_dict() == {"id": 3, "name": "x", "type": "DATE NOT NULL", "description": "when"}
    with pytest.raises(CorruptFileError, match="DATEE"):
        pp.DataField.from_dict({"id": 3, "name": "x", "type": "DATEE"})


def test_a_schema_renumbers_fields_that_share_an_id(catalog: interbed.Catalog) -> None:
    inside = pp.RowType(True, [pp.DataField(0, "x", pp.AtomicType("INT")), pp.DataField(1, "y", pp.AtomicType("INT"))])
    fields = [pp.DataField(0, "id", pp.AtomicType("BIGINT")), pp.DataField(1, "at", inside)]
    options: dict[str, Any] = {"bucket": 2}
    schema = pp.Schema(fields, [], ["id"], options, "places")
    made = catalog.create_table("shop.places", schema, False)
    assert [f.id for f in made.fields] == [0, 1]
    nested = made.fields[1].type
    assert isinstance(nested, pp.RowType)
    assert [f.id for f in nested.fields] == [2, 3]
    assert (made.comment(), made.table_schema.highest_field_id, made.total_buckets) == ("places", 3, 2)
    assert pp.Schema(fields[:1]).fields == tuple(fields[:1])


def test_an_identifier_has_a_database_a_table_a_branch_and_a_system_table() -> None:
    whole = pp.Identifier.from_string("shop.orders$branch_b$files")
    assert whole == pp.Identifier("shop", "orders", branch="b", system_table="files")
    assert (whole.get_database_name(), whole.get_table_name(), whole.get_branch_name()) == ("shop", "orders", "b")
    assert (whole.get_system_table_name(), whole.is_system_table()) == ("files", True)
    assert whole.get_object_name() == whole.object == "orders$branch_b$files"
    assert whole.get_full_name() == str(whole) == "shop.orders$branch_b$files"
    plain = pp.Identifier.create("shop", "orders", branch="main")
    assert plain == pp.Identifier("shop", "orders")
    assert (plain.branch, plain.get_branch_name_or_default(), plain.is_system_table()) == (None, "main", False)
    assert pp.Identifier("unknown", "t").get_full_name() == "t"


def test_an_identifier_is_parsed_with_dots_between_backquotes() -> None:
    assert pp.Identifier.from_string("`a.b`.`c.d`") == pp.Identifier("a.b", "c.d")
    assert pp.Identifier.from_string("a.b.c") == pp.Identifier("a", "b.c")
    for wrong in ("", "  ", "orders", "`a.b", "`a`b`.c", "a.b`c"):
        with pytest.raises(ValueError, match="table name"):
            pp.Identifier.from_string(wrong)
    with pytest.raises(ValueError, match="files"):
        pp.Identifier("shop", "orders$files$more").get_table_name()


def test_a_catalog_takes_identifiers_with_branches_and_system_tables(
    catalog: interbed.Catalog, orders: interbed.Table
) -> None:
    written(orders, bought((1, "x", 1.0)))
    orders.versions.create_tag("first")
    catalog.create_branch("shop.orders", "b", "first")
    branch = catalog.get_table(pp.Identifier("shop", "orders", branch="b"))
    assert (branch.current_branch(), orders.current_branch()) == ("b", "main")
    assert branch.scan().to_arrow().num_rows == 1
    snapshots = catalog.get_table(pp.Identifier("shop", "orders", system_table="snapshots"))
    assert snapshots.scan().to_arrow().num_rows == 1


def test_options_have_pypaimons_names(orders: interbed.Table) -> None:
    written(orders, bought((1, "x", 1.0)))
    written(orders, bought((2, "y", 2.0)))
    assert pp.CoreOptions.SCAN_SNAPSHOT_ID.key() == "scan.snapshot-id"
    older = orders.copy({pp.CoreOptions.SCAN_SNAPSHOT_ID: "1"})
    assert older.scan().to_arrow().num_rows == 1
    assert "BUCKET_KEY" in dir(pp.CoreOptions)
    with pytest.raises(AttributeError, match=r"'SCAN_SNAPSHOT'.*give its key as text"):
        _ = pp.CoreOptions.SCAN_SNAPSHOT
    options = pp.Options({"bucket": "4"})
    assert options.contains(pp.CoreOptions.BUCKET)
    assert not options.contains("path")
    assert options.to_map() == {"bucket": "4"}


def test_errors_are_caught_by_pypaimons_names_and_by_built_in_types(
    catalog: interbed.Catalog, orders: interbed.Table
) -> None:
    with pytest.raises(pp.DatabaseNotExistException):
        catalog.get_database("none")
    with pytest.raises(pp.DatabaseAlreadyExistException):
        catalog.create_database("shop", False)
    with pytest.raises(pp.TableNotExistException):
        catalog.get_table("shop.none")
    with pytest.raises(pp.TableAlreadyExistException):
        catalog.create_table("shop.orders", interbed.Schema.from_pyarrow_schema(ORDERS), False)
    with pytest.raises(pp.TagNotExistException):
        orders.versions.get_tag("none")
    with pytest.raises(pp.BranchNotExistException):
        orders.branch("none")
    for error in (SnapshotNotFoundError, TagNotFoundError, BranchNotFoundError, FilterError):
        assert issubclass(error, ValueError)
    assert issubclass(CommitError, RuntimeError)
    assert issubclass(NotSupportedError, NotImplementedError)


def test_the_module_has_exactly_the_listed_names() -> None:
    assert pp.__all__ == sorted(set(pp.__all__), key=lambda name: (not name.isupper(), name))
    for name in pp.__all__:
        assert getattr(pp, name) is not None
