"""New values of the columns of a table, as a statement of `interbed sql` gives them."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from interbed.catalog.client.cli.forms.text_values import value_of_text
from interbed.catalog.client.cli.group import check_columns
from interbed.catalog.client.cli.sql_statements import LiteralRows, SqlNumber
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import INTEGERS, STRINGS, AtomicType, DataType, TypeRoot
from interbed.storage.base.types.exact_cast import exact_cast
from interbed.storage.base.types.nested import nullable_inside
from interbed.storage.table.table import Table

_NUMBERS = INTEGERS | {TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE}


class NewValues:
    """The columns of one table, and their names in a statement."""

    def __init__(self, table: Table, name: str) -> None:
        self._name = name
        self._types: dict[str, DataType] = {f.name: f.type for f in table.schema.fields}
        self._arrow = table.arrow_schema
        self._by_lower = {n.lower(): n for n in self._types}

    @property
    def names(self) -> list[str]:
        """The names of all columns, in their order."""
        return list(self._types)

    def column(self, name: str) -> str:
        """Return the column of that name, ignoring case as DuckDB does; raise InvalidInputError for an unknown one."""
        found = self._by_lower.get(name.lower())
        if found is None:
            check_columns(self._name, self.names, [name])
        return found or name

    def columns(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return expressions by the columns that they are for."""
        return {self.column(name): value for name, value in given.items()}

    def batch(self, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Return the columns of a result as columns of these names; the writer fills in missing columns."""
        columns = [self.fitting(rows.column(i), name) for i, name in enumerate(names)]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def literals(self, literals: LiteralRows, names: Sequence[str]) -> pa.RecordBatch:
        """Return rows of VALUES as columns of these names.

        Numbers are read from their texts; raises InvalidInputError.
        """
        cells = zip(*literals.rows, strict=True)
        columns = [self._of_literals(list(column), name) for column, name in zip(cells, names, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _of_literals(self, cells: list[SqlNumber | str | None], name: str) -> Any:
        kind = self._types[name]
        numbers = [cell for cell in cells if isinstance(cell, SqlNumber)]
        texts = [cell for cell in cells if isinstance(cell, str)]
        if not numbers and not texts:
            return pa.nulls(len(cells), self._arrow.field(name).type)
        if not numbers or (isinstance(kind, AtomicType) and kind.root in _NUMBERS):
            read = [cell.text if isinstance(cell, SqlNumber) else cell for cell in cells]
            return self.fitting(pa.array(read, pa.string()), name)
        if texts:
            raise InvalidInputError(
                f"The column '{name}' of {self._name} is given the number {numbers[0].text} and the text "
                f"{texts[0]!r}; write all of its values in one way."
            )
        # `append` casts it, or raises an error.
        values = [Decimal(cell.text) if isinstance(cell, SqlNumber) else None for cell in cells]
        is_whole = all(value is None or value == int(value) for value in values)
        return pa.array([None if v is None else int(v) for v in values] if is_whole else values)

    def same(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """Return the batch with the types of the table, as `append` casts them; `first_row` counts
        from 0 for errors.
        """
        columns: list[Any] = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            target = nullable_inside(self._arrow.field(name).type)
            chunked: Any = pa.chunked_array([column])
            what = f"the table '{self._name}'"
            cast = exact_cast(chunked, target, name=name, what=what, first_row=first_row)
            columns.append(cast.combine_chunks())
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def fitting(self, column: Any, name: str) -> Any:
        """Return the values for a column of this name; texts are parsed. Raises InvalidInputError naming the value."""
        kind = self._types[name]
        if not isinstance(kind, AtomicType) or kind.root in STRINGS or not _is_text(column.type):
            return column
        try:
            values = [None if text is None else value_of_text(text, kind) for text in column.to_pylist()]
        except ValueError as error:
            raise InvalidInputError(f"The column '{name}' of {self._name}: {error}.") from error
        return pa.array(values, self._arrow.field(name).type)


def replaced(batch: pa.RecordBatch, found: Any, names: list[str], values: NewValues) -> pa.RecordBatch:
    """Return the rows of a batch with new values for some columns."""
    for name in names:
        column = values.fitting(found.column(name).combine_chunks(), name)
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
