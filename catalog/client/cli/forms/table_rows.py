"""Rows of files as a table takes them: all of its columns, in its types, without the rows that it would refuse."""

import numpy as np
import pyarrow as pa

from interbed.catalog.client.cli.forms.file_batch import BadLines, FileBatch
from interbed.storage.base.errors import InvalidInputError, SchemaMismatchError
from interbed.storage.base.types.arrow import cast_to_schema
from interbed.storage.table.table import Table
from interbed.storage.write.incoming import IncomingRows
from interbed.storage.write.row_check import RowCheck


class TableRows:
    """What one table takes of files; `name` is what it is called in errors."""

    def __init__(self, table: Table, name: str, bad: BadLines) -> None:
        self._what = f"the table '{name}'"
        self._incoming = IncomingRows(table.schema, self._what)
        self._check = RowCheck(name, table.schema, table.options, table.store.paths)
        # The table itself fills in defaults, and says which column a file lacks.
        self._nullable = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
        self._required = [f.name for f in table.schema.fields if not f.type.nullable and f.default_value is None]
        self._bad = bad

    def taken(self, found: FileBatch) -> pa.RecordBatch:
        """The rows with all columns of the table; those that a file lacks are null.

        Raises InvalidInputError naming the file and the first line or row that does not fit, unless bad ones are left
        out, and for a column that can't be taken at all.
        """
        rows = found.batch.num_rows
        reasons: dict[int, tuple[str | None, str]] = {}
        given = set(found.batch.schema.names)
        for field in self._required:
            if field not in given:
                raise SchemaMismatchError(f"{found.path} lacks the column '{field}', which admits no nulls.")
        # A column of another type is no matter of single rows.
        self._cast(found.batch.slice(0, 0), found, 0)
        self._refuse(found, range(rows), reasons)
        if reasons:
            self._bad.add(found.bad_lines(reasons))
        good = np.array([row not in reasons for row in range(rows)], bool) if reasons else None
        batch = found.batch if good is None else found.batch.filter(pa.array(good))
        [cast] = self._cast(batch, found, found.first) or [pa.RecordBatch.from_pylist([], schema=self._nullable)]
        return cast

    def _cast(self, batch: pa.RecordBatch, found: FileBatch, first: int) -> list[pa.RecordBatch]:
        try:
            return cast_to_schema(batch, self._nullable, what=self._what, first_row=first)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"{found.path}: {error}") from error

    def _refuse(self, found: FileBatch, rows: range, reasons: dict[int, tuple[str | None, str]]) -> None:
        """Note why rows are refused, which are found by halves."""
        if not rows:
            return
        batch = found.batch.slice(rows.start, len(rows))
        try:
            cast = pa.Table.from_batches(cast_to_schema(batch, self._nullable, what=self._what))
            written = np.ones(len(rows), bool)
            refused = self._check.refused(cast, np.zeros(len(rows), np.int8), written)
            for row, reason in refused.items():
                reasons[rows.start + row] = (None, reason)
            good = cast if not refused else cast.filter(pa.array([row not in refused for row in range(len(rows))]))
            self._incoming.batches(good)
            for whole in cast.combine_chunks().to_batches():
                for row, why in self._incoming.too_long(whole).items():
                    reasons.setdefault(rows.start + row, why)
        except InvalidInputError as error:
            if len(rows) == 1:
                reasons.setdefault(rows.start, (None, str(error)))
                return
            half = len(rows) // 2
            self._refuse(found, rows[:half], reasons)
            self._refuse(found, rows[half:], reasons)
