"""Rows as a writer is given them, made those of the table: columns by name, types, defaults, kinds."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrow_values import array_of, scalar_of
from interbed.storage.base.errors import InvalidInputError, SchemaMismatchError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import cast_to_schema
from interbed.storage.base.types.data_type import STRINGS, AtomicType
from interbed.storage.base.types.default_value import default_scalar
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.write.lengths import limited_values
from interbed.storage.write.row_kinds import Kinds, kinds_of

_NEW = (RowKind.INSERT, RowKind.UPDATE_AFTER)


class IncomingRows:
    """What one table takes; `table` is what it is called in errors."""

    def __init__(self, schema: TableSchema, table: str) -> None:
        self._schema = schema
        self._table = table
        self._limited = limited_values(schema)

    def batches(self, data: pa.Table | pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows with the table's columns; all are checked before any is handed out.

        Columns are matched by name; absent nullable ones become null or their default. Raises SchemaMismatchError and
        InvalidInputError.
        """
        if not isinstance(data, pa.Table | pa.RecordBatch):
            raise InvalidInputError(
                f"Rows are written as an Arrow table, batch or reader of batches, not as {type(data).__name__}; see "
                "pyarrow.Table.from_pylist, from_pydict and from_pandas."
            )
        # Chunks are cast one by one, which spares a table of several a copy.
        parts: Sequence[pa.Table | pa.RecordBatch] = [data]
        if isinstance(data, pa.Table):
            # A table without rows has no chunks, but its columns are checked all the same.
            parts = data.to_batches() or parts
        target, defaults = self._target()
        batches: list[pa.RecordBatch] = []
        first_row = 0
        for part in parts:
            batches += cast_to_schema(part, target, what=self._table, first_row=first_row)
            first_row += part.num_rows
        if not defaults:
            return batches
        filled = []
        for batch in batches:
            columns = list(batch.columns)
            for index, default in defaults.items():
                columns[index] = pc.fill_null(columns[index], default)
            filled.append(pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow))
        return filled

    def check_new_rows(self, batch: pa.RecordBatch, kinds: "Kinds | None", default_name: str, first_row: int) -> None:
        """Raise SchemaMismatchError for rows that are inserted or updated and that the table must not have.

        Rows that are deleted may be what another system has written. Null partitions are called `default_name`. Rows
        are counted from `first_row` on.
        """
        is_new = None if kinds is None else pc.is_in(kinds, array_of([int(kind) for kind in _NEW], pa.int8()))
        self.check_lengths(batch, is_new, first_row)
        self.check_partitions(batch, is_new, default_name, first_row)

    def check_lengths(self, batch: pa.RecordBatch, is_new: Any, first_row: int) -> None:
        """Raise SchemaMismatchError for a text or bytes longer than the type says, as Spark does."""
        for values in self._limited:
            values.check(batch, is_new, self._table, first_row)

    def too_long(self, batch: pa.RecordBatch) -> dict[int, tuple[str, str]]:
        """Return the column and the reason of rows with a text or bytes longer than the type says, by their number."""
        found: dict[int, tuple[str, str]] = {}
        for values in self._limited:
            for row, reason in values.refused(batch).items():
                found.setdefault(row, (values.column, reason))
        return found

    def check_partitions(self, batch: pa.RecordBatch, is_new: Any, default_name: str, first_row: int) -> None:
        """Raise SchemaMismatchError for a partition value that is the name of the null partitions.

        In a list of partitions that text and null look alike.
        """
        for f in self._schema.partition_fields:
            if not isinstance(f.type, AtomicType) or f.type.root not in STRINGS:
                continue
            is_name: Any = pc.equal(batch.column(f.name), scalar_of(default_name, pa.string()))
            if is_new is not None:
                is_name = pc.and_(is_name, is_new)
            if pc.any(is_name).as_py():
                row = first_row + pc.index(is_name, True).as_py()
                raise SchemaMismatchError(
                    f"The partition column {f.name!r} of {self._table} has the text {default_name!r} in row {row} "
                    "(counted from 0), which is the name of the partition of nulls; write null or another text. The "
                    "option 'partition.default-name' of a new table gives that partition another name."
                )

    def kinds(self, given: "pa.Array[Any] | pa.ChunkedArray[Any]", rows: int) -> Kinds:
        """The kinds of so many rows as int8; raises InvalidInputError, also where the table takes insertions only."""
        array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        if len(array) != rows:
            raise InvalidInputError(f"Row kinds are one for each row; got {len(array)} for {rows} rows.")
        kinds = kinds_of(array, source="The array of row kinds")
        inserted = scalar_of(int(RowKind.INSERT), pa.int8())
        if not self._schema.has_primary_key and pc.any(pc.not_equal(kinds, inserted)).as_py():
            raise InvalidInputError(
                f"The {self._table} has no primary key, so it takes insertions (+I) only; "
                "rows that go or change are found by a filter, in a DELETE, an UPDATE or a MERGE."
            )
        return kinds

    def _target(self) -> tuple[pa.Schema, dict[int, Any]]:
        """The schema to cast to, which admits nulls where a default stands in for them, and the defaults by column."""
        schema = self._schema.arrow
        defaults: dict[int, Any] = {}
        for index, f in enumerate(self._schema.fields):
            if f.default_value is not None:
                try:
                    defaults[index] = default_scalar(f.default_value, f.type, column=f.name)
                except InvalidInputError as error:
                    raise SchemaMismatchError(str(error)) from error
                schema = schema.set(index, schema.field(index).with_nullable(True))
        return schema, defaults
