"""The rows of data files, as a stream of Arrow batches: Parquet, CSV, JSON lines, ORC and Arrow IPC.

CSV and JSON have no types of their own, so their texts are converted to the types of the table. An empty field of a CSV
file is null, an empty text is written `""`. A JSON file has one object in a line; bytes are base64, dates, times and
decimals are text, maps objects or lists of pairs. Files that end in .gz, .bz2, .zst and the like are decompressed.

`TableRows` completes them to rows of a table: with all of its columns, in its types, without rows that it would refuse.
"""

import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

from interbed.catalog.client.cli.forms.csv_rows import csv_batches, inferred_csv_schema
from interbed.catalog.client.cli.forms.json_rows import inferred_json_schema, json_batches
from interbed.catalog.client.cli.forms.row_formats import BadLines, FileBatch
from interbed.catalog.client.cli.group import check_columns
from interbed.catalog.client.table_parts import as_format_table
from interbed.storage.base.errors import InvalidInputError, SchemaMismatchError
from interbed.storage.base.shown_text import did_you_mean
from interbed.storage.base.types.arrow import cast_to_schema
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.format.hybrid_calendar import (
    HybridCalendar,
    TimeUnit,
    hybrid_calendar,
    open_foreign,
    orc_calendar,
    unit_of,
)
from interbed.storage.table.table import Table
from interbed.storage.write.row_converter import RowCheck, RowConverter

FORMATS = ("parquet", "csv", "json", "orc", "arrow")
_BY_SUFFIX = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".lz4"})
_HEAD_BYTES = 4096
_BUFFER_BYTES = 1 << 20
_MAGIC = {
    b"PAR1": "a Parquet file; give --format parquet",
    b"ORC": "an ORC file; give --format orc",
    b"ARROW1": "an Arrow file; give --format arrow",
    b"PK\x03\x04": "a ZIP archive, as the files of spreadsheets are; export CSV from it",
    b"\x1f\x8b": "compressed by gzip; let its name end in .gz",
    b"BZh": "compressed by bzip2; let its name end in .bz2",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; let its name end in .zst",
    b"\xff\xfe": "UTF-16; convert it to UTF-8",
    b"\xfe\xff": "UTF-16; convert it to UTF-8",
}
"""The first bytes of files that are no text, and the way out for such a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """One file, and its format."""

    path: Path
    form: str
    delimiter: str

    @staticmethod
    def of(path: Path, form: str | None = None, delimiter: str | None = None) -> "FileRows":
        """Return a file, by default of the format of its suffix; raise InvalidInputError."""
        suffixes = [s.lower() for s in path.suffixes]
        suffix = next((s for s in reversed(suffixes) if s not in _COMPRESSED), "")
        found = form or _BY_SUFFIX.get(suffix)
        if found is None:
            raise InvalidInputError(
                f"The name of {path} says no format{f': {suffix!r} is unknown' if suffix else ''}; give --format, one "
                f"of {', '.join(FORMATS)}.{did_you_mean(suffix, _BY_SUFFIX)}"
            )
        return FileRows(path=path, form=found, delimiter=delimiter or ("\t" if suffix == ".tsv" else ","))

    def batches(self, table: str, fields: Sequence[DataField], schema: pa.Schema, bad: BadLines) -> Iterator[FileBatch]:
        """Yield the rows for a table of these columns, of which `schema` has the Arrow types.

        Lines that hold no row go to `bad`. Raises InvalidInputError naming the file, and a column that the table does
        not have.
        """
        with _naming(self.path):
            if self.form == "json":
                with self._text() as source:
                    yield from json_batches(source, self.path, table, fields, schema, bad)
                return
            for batch in self._csv(fields, schema, bad) if self.form == "csv" else self._typed():
                check_columns(table, schema.names, batch.batch.schema.names)
                yield batch

    def inferred_schema(self, given: Collection[str] = ()) -> pa.Schema:
        """Return the columns of the file, with types guessed from the rows of CSV and JSON.

        For JSON no type is guessed for the `given` columns, whose values may be of several types.
        """
        with _naming(self.path):
            if self.form in ("json", "csv"):
                with self._text() as source:
                    if self.form == "json":
                        return inferred_json_schema(source, self.path, given)
                    return inferred_csv_schema(source, self.path, self.delimiter)
            return self._typed_schema()

    def _typed_schema(self) -> pa.Schema:
        if self.form == "parquet":
            with open_foreign(str(self.path)) as parquet:
                return next(_or_empty(parquet.iter_batches(), parquet.schema_arrow)).schema
        return next(self._typed()).batch.schema

    def _csv(self, fields: Sequence[DataField], schema: pa.Schema, bad: BadLines) -> Iterator[FileBatch]:
        with self._text() as source:
            yield from csv_batches(source, self.path, self.delimiter, fields, schema, bad)

    def _typed(self) -> Iterator[FileBatch]:
        first = 0
        for batch in self._typed_batches():
            yield FileBatch(batch=batch, path=self.path, unit="row", first=first)
            first += batch.num_rows

    def _typed_batches(self) -> Iterator[pa.RecordBatch]:
        match self.form:
            case "parquet":
                with open_foreign(str(self.path), self._timestamp_unit()) as parquet:
                    batches = _or_empty(parquet.iter_batches(), parquet.schema_arrow)
                    yield from _checked(batches, hybrid_calendar(parquet), self.path)
            case "orc":
                orc = pyarrow.orc.ORCFile(self.path)
                stripes = (orc.read_stripe(i) for i in range(orc.nstripes))
                yield from _checked(_or_empty(stripes, orc.schema), orc_calendar(str(self.path)), self.path)
            case _:
                yield from self._arrow()

    def _timestamp_unit(self) -> TimeUnit:
        status = self.path.stat()
        return _unit_of(str(self.path), status.st_mtime_ns, status.st_size)

    def _arrow(self) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(self.path)) as source:
            magic = source.read(6)
            source.seek(0)
            if magic == b"ARROW1":
                reader = pa.ipc.open_file(source)
                yield from _or_empty(map(reader.get_batch, range(reader.num_record_batches)), reader.schema)
            else:
                stream = pa.ipc.open_stream(source)
                yield from _or_empty(stream, stream.schema)

    @contextmanager
    def _text(self) -> Iterator[Any]:
        """Yield the bytes of the file, decompressed; raise InvalidInputError for a file that is no text."""
        # The stubs of pyarrow lack methods of the returned stream.
        opened: Any = pa.input_stream(str(self.path), compression="detect")
        with opened, io.BufferedReader(opened, _BUFFER_BYTES) as source:
            head = source.peek(_HEAD_BYTES)[:_HEAD_BYTES]
            what = next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)
            if what is None and b"\0" in head:
                what = f"not {self.form.upper()}: it has a byte 0x00 at position {head.index(0)}, which no text has"
            if what is not None:
                raise InvalidInputError(f"{self.path} is {what}.")
            yield source


@lru_cache(maxsize=64)
def _unit_of(path: str, changed_nanos: int, size: int) -> TimeUnit:
    """Return the unit of a file, which several reads of one statement need; a changed file is looked at again."""
    return unit_of(path)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the name of the file to errors of Arrow and of the file system."""
    try:
        yield
    except InvalidInputError:
        raise
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise InvalidInputError(f"{path}: {error}") from error


def _checked(
    batches: Iterator[pa.RecordBatch], calendar: HybridCalendar | None, path: Path
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; raise NotSupportedError for days that are others in Paimon's calendar."""
    for batch in batches:
        if calendar is not None:
            calendar.check(batch, str(path))
        yield batch


def _or_empty(batches: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches, or an empty one, so that the columns are checked."""
    some = False
    for batch in batches:
        some = True
        yield batch
    if not some:
        yield pa.RecordBatch.from_pylist([], schema=schema)


class TableRows:
    """Conversion of the rows of files for one table; `name` is its name in errors."""

    def __init__(self, table: Table, name: str, bad: BadLines) -> None:
        self._what = f"the table '{name}'"
        self._incoming = RowConverter(table.schema, self._what)
        of_files = as_format_table(table)
        paths = table.store.paths if of_files is None else of_files.directories.paths
        self._check = RowCheck(name, table.schema, table.options, paths)
        # The table itself fills in defaults, and reports columns that a file lacks.
        self._nullable = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
        self._required = [f.name for f in table.schema.fields if not f.type.nullable and f.default_value is None]
        self._bad = bad

    def taken(self, found: FileBatch) -> pa.RecordBatch:
        """Return the rows with all columns of the table; missing columns are null.

        Raises InvalidInputError naming the file and the first line or row that does not fit, unless bad ones are left
        out, and for a column of a wrong type.
        """
        rows = found.batch.num_rows
        reasons: dict[int, tuple[str | None, str]] = {}
        given = set(found.batch.schema.names)
        for field in self._required:
            if field not in given:
                raise SchemaMismatchError(f"{found.path} lacks the column '{field}', which admits no nulls.")
        # A wrong type of a column is reported for the column, not for single rows.
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
        """Record the reasons of refused rows, which are found by bisection."""
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
