"""The columns of a read: those of the result, and those that its filter needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, bind, columns_of
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import TableSchema


@dataclass(frozen=True)
class ReadColumns:
    """Columns of a read: `names` are returned, `fields` are read; `predicate` is None if it keeps every row."""

    names: tuple[str, ...]
    fields: tuple[DataField, ...]
    predicate: Predicate | None

    @staticmethod
    def of(table: TableSchema, columns: Sequence[str] | None, predicate: Predicate | None) -> "ReadColumns":
        """Return the columns of a read, all of the table for None; its hidden columns by their names.

        Raises InvalidInputError for an unknown or duplicate column, FilterError for a predicate that does not fit the
        table.
        """
        names = table.names if columns is None else tuple(columns)
        check_asked_once(names)
        known = readable_by_name(table)
        for name in names:
            if name not in known:
                raise InvalidInputError(f"The table has no column {name!r}; it has {', '.join(table.names)}.")
        bound = None if predicate is None else bind(predicate, tuple(known.values()))
        if isinstance(bound, AlwaysTrue):
            bound = None
        filtered = () if bound is None else sorted(columns_of(bound))
        return ReadColumns(names, tuple(known[name] for name in dict.fromkeys((*names, *filtered))), bound)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        return fields_to_schema(self.fields[: len(self.names)])

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the predicate keeps, with all columns."""
        return batch if self.predicate is None else batch.filter(mask(self.predicate, batch))
