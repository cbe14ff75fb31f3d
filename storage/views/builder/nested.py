"""Columns of a read that may lie inside of ROW columns: `with_projection(["id", "address.city"])`.

A field inside is handed out as a column of its own, named by its path with `_` between the parts: `address_city`. Where
names collide, the later ones end in `__0`, `__1` and so on. Source: pypaimon's NestedProjection.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.data_type import DataField, RowType


@dataclass(frozen=True, slots=True)
class NestedColumns:
    """The columns handed out, and by which path each is found in a row of the columns that are read."""

    fields: tuple[DataField, ...]
    paths: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(fields: Sequence[DataField], names: Sequence[str]) -> "NestedColumns":
        """Those of names with dots; a column whose own name has the dot comes first. Raises InvalidInputError."""
        found, paths, taken, clashes = [], [], set[str](), 0
        for name in names:
            path = (name,) if any(f.name == name for f in fields) else tuple(name.split("."))
            field = _leaf(fields, path, name)
            label = "_".join(path)
            if label in taken:
                label, clashes = f"{label}__{clashes}", clashes + 1
            taken.add(label)
            found.append(replace(field, name=label))
            paths.append(path)
        return NestedColumns(tuple(found), tuple(paths))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table to read."""
        return tuple(dict.fromkeys(path[0] for path in self.paths))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what is handed out."""
        return fields_to_schema(self.fields)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns handed out of a batch of the columns read; a field of a null ROW is null."""
        arrays: list[Any] = []
        for path in self.paths:
            array: Any = batch.column(path[0])
            for name in path[1:]:
                array = pc.struct_field(array, [array.type.get_field_index(name)])
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _leaf(fields: Sequence[DataField], path: tuple[str, ...], name: str) -> DataField:
    """The field at the end of a path, admitting nulls if any ROW around it does."""
    nullable = False
    inside: Sequence[DataField] = fields
    field: DataField | None = None
    for part in path:
        field = next((f for f in inside if f.name == part), None)
        if field is None:
            known = ", ".join(f.name for f in inside) or "nothing inside, because it is no ROW"
            raise InvalidInputError(f"The table has no column {name!r}: there is no {part!r}, but {known}.")
        nullable = nullable or field.type.nullable
        inside = field.type.fields if isinstance(field.type, RowType) else ()
    assert field is not None
    return replace(field, type=field.type.with_nullable(nullable))
