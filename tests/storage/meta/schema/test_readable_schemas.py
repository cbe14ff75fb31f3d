"""Only schemas that can be read again are written: a value that is no text or no number is refused before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.catalog.client.api import Catalog
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import ArrayType, AtomicType, DataField, RowType, TypeRoot
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.opening import schema_manager
from tests.support.examples import examples

INT = AtomicType(TypeRoot.INT)
NO_TEXTS: tuple[Any, ...] = (5, 0.5, True, b"a", ["a"], {"a": 1}, ("a",), "\udc80")
Changed = Callable[[Any], SchemaChange]
CHANGES: tuple[Changed, ...] = (
    SchemaChange.update_comment,
    lambda value: SchemaChange.update_column_comment("a", value),
    lambda value: SchemaChange.update_column_default_value("a", value),
    lambda value: SchemaChange.rename_column("a", value),
    lambda value: SchemaChange.add_column("b", "INT", value),
    lambda value: SchemaChange.set_option(value, "x"),
    SchemaChange.remove_option,
)

CHANGES_WITH_VALUES = [
    (change, value)
    for change in CHANGES
    for value in NO_TEXTS
    # An option that no table has may be removed.
    if not (change is SchemaChange.remove_option and isinstance(value, str))
]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Open a catalog with the table d.t."""
    made = interbed.load_catalog("lake", warehouse=str(tmp_path))
    made.create_database("d")
    made.create_table("d.t", Schema([DataField(0, "a", INT)])).append(pa.table({"a": pa.array([1], pa.int32())}))
    return made


@pytest.mark.parametrize(("change", "value"), CHANGES_WITH_VALUES)
def test_a_change_with_another_value_than_text_is_refused(catalog: Catalog, change: Changed, value: Any) -> None:
    with pytest.raises(InvalidInputError):
        catalog.alter_table("d.t", change(value))
    table = catalog.get_table("d.t")
    assert (table.schema.comment, table.to_arrow().to_pydict()) == (None, {"a": [1]})


@pytest.mark.parametrize("value", NO_TEXTS, ids=repr)
def test_a_table_with_another_value_than_text_is_not_created(catalog: Catalog, value: Any) -> None:
    column = DataField(0, "a", INT)
    schemas: list[Callable[[], Schema]] = [
        lambda: Schema([column], comment=value),
        lambda: Schema([DataField(0, "a", INT, description=value)]),
        lambda: Schema([DataField(0, "a", INT, default_value=value)]),
        lambda: Schema([DataField(0, value, INT)]),
        lambda: Schema([DataField(0, "a", ArrayType(RowType((DataField(1, "x", INT, description=value),))))]),
    ]
    for make in schemas:
        with pytest.raises(InvalidInputError):
            catalog.create_table("d.new", make())
    assert catalog.list_tables("d") == ["t"]


@settings(max_examples=examples(60), deadline=None)
@given(
    comment=st.none() | st.text(max_size=20),
    description=st.none() | st.text(max_size=20),
    key=st.text(min_size=1, max_size=10),
    text=st.text(max_size=10),
)
def test_every_text_is_read_as_written_or_refused(
    tmp_path_factory: pytest.TempPathFactory, comment: str | None, description: str | None, key: str, text: str
) -> None:
    location = str(tmp_path_factory.mktemp("table"))
    manager = schema_manager(location)
    schema = Schema([DataField(0, "a", INT, description)], options={f"x.{key}": text}, comment=comment)
    try:
        written = manager.create_table(schema)
    except InvalidInputError:
        assert manager.ids() == []
        return
    assert schema_manager(location).latest() == written
