"""How the columns of one data file become those that are asked for.

A column that the file lacks is the value of its partition, where that is the column itself; else the column's initial
default; else null. Source: Iceberg's table specification, "Column Projection".
"""

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from interbed.iceberg.meta.types import data_field, schema_to_arrow, type_to_arrow
from interbed.iceberg.read.conform import Array, conform, constant, default_of
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, columns_of, rename_columns, restrict_to
from interbed.storage.base.types.data_type import DataField


class FileColumns:
    """The columns `wanted` of a file whose columns are `of_file`; `constants` are values by the id of the column."""

    def __init__(self, wanted: Schema, of_file: Schema, constants: Mapping[int, object]) -> None:
        self._wanted = wanted.fields
        self._in_file = {field.field_id: field for field in of_file.fields}
        self._constants = constants
        self._schema = schema_to_arrow(wanted)

    @property
    def fields(self) -> list[DataField]:
        """What to read of the file."""
        return [data_field(field) for field in self._in_file.values()]

    def predicate(self, predicate: Predicate | None) -> Predicate | None:
        """What of a predicate over the wanted columns the file's own statistics can be asked; None for nothing."""
        if predicate is None:
            return None
        names = {
            field.name: mine.name
            for field in self._wanted
            if (mine := self._in_file.get(field.field_id)) is not None and mine.field_type == field.field_type
        }
        asked = restrict_to(predicate, columns_of(predicate) & names.keys())
        return None if isinstance(asked, AlwaysTrue) else rename_columns(asked, names)

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch of the file with the columns that are asked for.

        Raises CorruptFileError and what Arrow raises for a column that can't be that.
        """
        if not self._wanted:
            return batch.select([]) if batch.num_columns else batch
        arrays = [self._array(field, batch) for field in self._wanted]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: NestedField, batch: pa.RecordBatch) -> Array:
        number = field.field_id
        mine = self._in_file.get(number)
        if mine is not None:
            return conform(batch.column(mine.name), mine.field_type, field.field_type)
        if number in self._constants:
            return constant(self._constants[number], type_to_arrow(field.field_type), batch.num_rows)
        return default_of(field, batch.num_rows)
