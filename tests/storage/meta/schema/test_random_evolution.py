"""Random sequences of schema changes with writes in between, read back against a model."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interbed import load_catalog
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import (
    AddColumn,
    DropColumn,
    Position,
    RenameColumn,
    SchemaChange,
    UpdateColumnPosition,
    UpdateColumnType,
)
from interbed.storage.table.table import Table
from tests.support.examples import examples

INT = AtomicType(TypeRoot.INT)
BIGINT = AtomicType(TypeRoot.BIGINT)
PAIR = pa.struct([("a", pa.int32()), ("b", pa.int32())])
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.int32()),
        pa.field("s", PAIR),
        pa.field("l", pa.list_(PAIR)),
    ]
)
LEVELS: tuple[tuple[str, ...], ...] = ((), ("s",), ("l", "element"))


@dataclass
class SchemaModel:
    """Field names of each level by numbers that stay the same over renames, and the rows by these numbers."""

    names: dict[tuple[str, ...], dict[int, str]] = field(
        default_factory=lambda: {(): {0: "v"}, ("s",): {1: "a", 2: "b"}, ("l", "element"): {3: "a", 4: "b"}}
    )
    rows: dict[int, dict[int, int]] = field(default_factory=dict)
    next_number: int = 5

    def row(self, key: int, value: int) -> dict[str, Any]:
        """A row with the present names, in which every field has a distinct value."""
        values = {number: value + number for level in self.names.values() for number in level}
        self.rows[key] = values
        return self.renamed_row(key, values)

    def renamed_row(self, key: int, values: dict[int, int]) -> dict[str, Any]:
        """A row of old values with the present names; a field without a value is null."""

        def fields(level: tuple[str, ...]) -> dict[str, Any]:
            return {name: values.get(number) for number, name in self.names[level].items()}

        return {"id": key, **fields(()), "s": fields(("s",)), "l": [fields(("l", "element"))]}


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    kinds = st.sampled_from(["write", "add", "drop", "rename", "widen", "move"])
    return draw(st.lists(st.tuples(kinds, st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=10))


def change(model: SchemaModel, kind: str, level: tuple[str, ...], pick: int) -> SchemaChange | None:
    """Return the change of one field of a level, and apply it to the model; None when no field is left to change."""
    names = model.names[level]
    if kind == "add":
        number = model.next_number
        model.next_number += 1
        # A name that a dropped or renamed field may have had, unless another field has it now.
        name = next(n for n in [f"f{pick % 3}", f"n{number}"] if n not in names.values())
        names[number] = name
        return AddColumn((*level, name), INT, position=Position() if pick % 2 else None)
    if not names:
        return None
    number = sorted(names)[pick % len(names)]
    path = (*level, names[number])
    if kind == "drop":
        if len(names) == 1:
            return None
        del names[number]
        return DropColumn(path)
    if kind == "rename":
        new = next(n for n in [f"f{pick % 3}", f"r{model.next_number}"] if n not in names.values())
        model.next_number += 1
        names[number] = new
        return RenameColumn(path, new)
    return UpdateColumnPosition(path, Position()) if kind == "move" else UpdateColumnType(path, BIGINT)


def names_of(value: Any) -> Any:
    """Return the value with its fields in a canonical order, so that moves make no difference."""
    if isinstance(value, dict):
        return {name: names_of(value[name]) for name in sorted(value)}
    return [names_of(v) for v in value] if isinstance(value, list) else value


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=steps(), keyed=st.booleans(), file_format=st.sampled_from(["parquet", "orc", "avro"]))
def test_rows_keep_their_values_through_all_schema_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], keyed: bool, file_format: str
) -> None:
    catalog = load_catalog(warehouse=str(tmp_path_factory.mktemp("evolution")))
    catalog.create_database("db")
    options = {"file.format": file_format, **({"bucket": "1"} if keyed else {})}
    table: Table = catalog.create_table("db.t", COLUMNS, primary_keys=["id"] if keyed else None, options=options)
    model = SchemaModel()
    for kind, level, pick in [("write", 0, 1), *steps, ("write", 0, 2)]:
        if kind == "write":
            key = len(model.rows)
            table.append(pa.Table.from_pylist([model.row(key, pick)], table.arrow_schema))
            continue
        changed = change(model, kind, LEVELS[level], pick)
        if changed is not None:
            catalog.alter_table("db.t", changed)
            table = catalog.get_table("db.t")
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    expected = [model.renamed_row(key, values) for key, values in model.rows.items()]
    assert names_of(found) == names_of(expected)
