"""Files of a query, as datasets for DuckDB with types that hold all their values."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from interbed.catalog.client.cli.forms.file_batch import BadLine, BadLines, shortened
from interbed.catalog.client.cli.forms.file_rows import FileRows
from interbed.storage.base.errors import InterbedError, InvalidInputError
from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow
from interbed.storage.base.types.column_names import check_apart_without_case


class ExactFile(ds.Dataset):
    """A JSON or Parquet file as a dataset for DuckDB, with types that hold all its values."""

    def __init__(self, path: Path, failures: list[InterbedError]) -> None:
        # The base class is only an interface here, without data of its own.
        self._rows = FileRows.of(path)
        self._schema = self._rows.inferred_schema()
        check_apart_without_case(self._schema, f"the file '{path}'")
        self._failures = failures

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return self._schema

    def scanner(self, columns: list[str] | None = None, filter: Any = None, *_: Any, **__: Any) -> ds.Scanner:  # noqa: A002
        """Return the rows with some columns that match the filter."""
        reader = pa.RecordBatchReader.from_batches(self._schema, noting(self._batches(), self._failures))
        return ds.Scanner.from_batches(reader, columns=columns, filter=filter)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        fields = fields_from_arrow(list(self._schema), FieldIds())
        for each in self._rows.batches(str(self._rows.path), fields, self._schema, _FirstBadLine(skip=False)):
            yield each.batch


class _FirstBadLine(BadLines):
    """Raises an error for the first bad line; a statement leaves no line out."""

    def add(self, found: Iterable[BadLine]) -> None:
        for line in sorted(found, key=lambda each: each.number):
            raise InvalidInputError(f"{line}. The {line.unit}: {shortened(line.text)}.")


def noting(batches: Iterable[pa.RecordBatch], failures: list[InterbedError]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; record an error that ends them in `failures`."""
    try:
        yield from batches
    except InterbedError as error:
        failures.append(error)
        raise
