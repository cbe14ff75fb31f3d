"""The rows of data files, as a stream of Arrow batches: Parquet, CSV, JSON lines, ORC and Arrow IPC.

CSV and JSON have no types of their own, so that the table's are read from their texts. An empty field of a CSV file is
null, an empty text is written `""`. A JSON file has one object in a line; bytes are base 64, dates, times and decimals
are text, maps objects or lists of pairs. Files that end in .gz, .bz2, .zst and the like are decompressed.
"""

import base64
import io
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet

from interbed.catalog.cli.near_names import check_columns
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.values import parse_literal, to_float32, type_name
from interbed.storage.base.suggestion import did_you_mean
from interbed.storage.base.types.data_type import (
    BINARIES,
    INTEGERS,
    TIMESTAMPS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)

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
_JSON_ROWS = 10_000
"""Lines of a JSON file that make a batch."""
_FROM_TEXT = frozenset({TypeRoot.DATE, TypeRoot.TIME, *TIMESTAMPS})


class _Number(float):
    """A number of a JSON file that keeps its digits, for decimals."""

    def __new__(cls, text: str) -> "_Number":
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """One file, and the format that it has."""

    path: Path
    form: str
    delimiter: str

    @staticmethod
    def of(path: Path, form: str | None = None, delimiter: str | None = None) -> "FileRows":
        """A file, of the format that its name ends with unless one is given; raises InvalidInputError."""
        suffixes = [s.lower() for s in path.suffixes]
        suffix = next((s for s in reversed(suffixes) if s not in _COMPRESSED), "")
        found = form or _BY_SUFFIX.get(suffix)
        if found is None:
            raise InvalidInputError(
                f"The name of {path} says no format{f': {suffix!r} is unknown' if suffix else ''}; give --format, one "
                f"of {', '.join(FORMATS)}.{did_you_mean(suffix, _BY_SUFFIX)}"
            )
        return FileRows(path=path, form=found, delimiter=delimiter or ("\t" if suffix == ".tsv" else ","))

    def batches(self, table: str, fields: Sequence[DataField], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows for a table of these columns, of which `schema` has the Arrow types.

        Raises InvalidInputError naming the file, and a column that the table does not have.
        """
        with _naming(self.path):
            if self.form == "json":
                yield from self._json(table, fields, schema)
                return
            for batch in self._typed(fields, schema):
                check_columns(table, schema.names, batch.schema.names)
                yield batch

    def inferred_schema(self) -> pa.Schema:
        """The columns that the file has; those of CSV and JSON as its first rows suggest."""
        with _naming(self.path):
            if self.form == "json":
                rows = [row for _, row in itertools.islice(self._lines(float), _JSON_ROWS)]
                names = dict.fromkeys(name for row in rows for name in row)
                return pa.schema([(name, pa.array([row.get(name) for row in rows]).type) for name in names])
            first = next(self._typed((), pa.schema([])), None)
            if first is None:
                raise InvalidInputError(f"{self.path} has no rows to take columns of.")
            return first.schema

    def _typed(self, fields: Sequence[DataField], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        match self.form:
            case "parquet":
                with pyarrow.parquet.ParquetFile(self.path) as parquet:
                    yield from _or_empty(parquet.iter_batches(), parquet.schema_arrow)
            case "orc":
                orc = pyarrow.orc.ORCFile(self.path)
                stripes = (orc.read_stripe(i) for i in range(orc.nstripes))
                yield from _or_empty(stripes, orc.schema)
            case "arrow":
                yield from self._arrow()
            case _:
                yield from self._csv(fields, schema)

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

    def _csv(self, fields: Sequence[DataField], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        nested = [f.name for f in fields if not isinstance(f.type, AtomicType)]
        in_base64 = {f.name for f in fields if isinstance(f.type, AtomicType) and f.type.root in BINARIES}
        types = {f.name: pa.string() if f.name in in_base64 else f.type for f in schema if f.name not in nested}
        convert = pyarrow.csv.ConvertOptions(
            column_types=types,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        with (
            self._decompressed() as source,
            pyarrow.csv.open_csv(
                source,
                parse_options=pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=convert,
            ) as reader,
        ):
            for name in nested:
                if name in reader.schema.names:
                    raise InvalidInputError(
                        f"{self.path}: CSV can't hold the nested column '{name}'; use JSON lines or Parquet."
                    )
            for batch in _or_empty(reader, reader.schema):
                yield _decoded(batch, in_base64)

    def _json(self, table: str, fields: Sequence[DataField], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        known = set(schema.names)
        converted = {f.name: convert for f in fields if (convert := _converter(f.type)) is not None}
        lines = self._lines(_Number)
        while block := list(itertools.islice(lines, _JSON_ROWS)):
            # Row by row, because they come as objects.
            for line, row in block:
                if not row.keys() <= known:
                    check_columns(table, schema.names, row)
                for name, convert in converted.items():
                    value = row.get(name)
                    if value is not None:
                        try:
                            row[name] = convert(value)
                        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
                            raise InvalidInputError(f"{self.path}, line {line}, '{name}': {error}") from error
            try:
                yield pa.RecordBatch.from_pylist([row for _, row in block], schema=schema)
            except (pa.ArrowException, TypeError, OverflowError) as error:
                raise InvalidInputError(
                    f"{self.path}, {_first_misfit(block, schema) or f'lines {block[0][0]} to {block[-1][0]}: {error}'}"
                ) from error

    def _decompressed(self) -> Any:
        # The stubs of pyarrow know less of what it returns than it does.
        return pa.input_stream(str(self.path), compression="detect")

    def _lines(self, number: Callable[[str], float]) -> Iterator[tuple[int, dict[str, Any]]]:
        with self._decompressed() as source, io.TextIOWrapper(source, "utf-8") as text:
            for line_number, line in enumerate(text, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line, parse_float=number, object_pairs_hook=_object)
                except json.JSONDecodeError as error:
                    raise InvalidInputError(f"{self.path}, line {line_number} is not JSON: {error}.") from error
                except ValueError as error:
                    raise InvalidInputError(f"{self.path}, line {line_number}: {error}.") from error
                if not isinstance(row, dict):
                    raise InvalidInputError(f"{self.path}, line {line_number} is no object; each line holds a row.")
                yield line_number, row


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} comes twice")
    return found


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turns errors of Arrow and of the file system into ones that name the file."""
    try:
        yield
    except InvalidInputError:
        raise
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise InvalidInputError(f"{path}: {error}") from error


def _or_empty(batches: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches; without any an empty one, so that the columns are seen and checked."""
    some = False
    for batch in batches:
        some = True
        yield batch
    if not some:
        yield pa.RecordBatch.from_pylist([], schema=schema)


def _decoded(batch: pa.RecordBatch, in_base64: set[str]) -> pa.RecordBatch:
    for name in in_base64 & set(batch.schema.names):
        texts = batch.column(name).to_pylist()
        # Value by value: Arrow has no kernel for base 64.
        column = pa.array([None if t is None else base64.b64decode(t, validate=True) for t in texts], pa.binary())
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def _first_misfit(block: list[tuple[int, dict[str, Any]]], schema: pa.Schema) -> str | None:
    for line, row in block:
        for field in schema:
            try:
                pa.array([row.get(field.name)], field.type)
            except (pa.ArrowException, TypeError, OverflowError) as error:
                return f"line {line}, '{field.name}': {error}"
    return None


def _converter(data_type: DataType) -> Callable[[Any], Any] | None:
    """What makes an Arrow value of a JSON value; None where nothing is to be done."""
    match data_type:
        case AtomicType(root=root) if root in _FROM_TEXT:
            return lambda value: _of_text(value, data_type)
        case AtomicType(root=TypeRoot.DECIMAL):
            return lambda value: _decimal(value, data_type)
        case AtomicType(root=root) if root in INTEGERS:
            return _whole
        case AtomicType(root=TypeRoot.FLOAT | TypeRoot.DOUBLE as root):
            return lambda value: _float(value, root)
        case AtomicType(root=root) if root in BINARIES:
            return lambda value: base64.b64decode(value, validate=True)
        case ArrayType(element=element):
            convert = _converter(element)
            return None if convert is None else lambda values: [None if v is None else convert(v) for v in values]
        case MapType(key=key, value=value):
            return _map_converter(key, value)
        case RowType(fields=fields):
            return _row_converter(fields)
        case _:
            return None


def _of_text(value: Any, data_type: DataType) -> object:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text of a {type_name(data_type)}")
    return parse_literal(value, data_type)


def _decimal(value: Any, data_type: DataType) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is no number")
    return parse_literal(getattr(value, "text", None) or str(value), data_type)


def _whole(value: Any) -> Any:
    """An integer that JSON may have with a point; what is none is left to Arrow, which refuses it."""
    if not isinstance(value, float):
        return value
    number = Decimal(getattr(value, "text", None) or repr(value))
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(f"{number} is no whole number")
    return int(number)


def _float(value: Any, root: TypeRoot) -> Any:
    """A number that is a float or an integer without more digits; infinite only where JSON says Infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    nearest = to_float32(float(value)) if root is TypeRoot.FLOAT else float(value)
    text = getattr(value, "text", value)
    if math.isinf(nearest) and (isinstance(value, _Number) or not math.isinf(value)):
        raise ValueError(f"{text} is beyond the range of {root.value}")
    if isinstance(value, int) and nearest != value:
        raise ValueError(f"{text} has more digits than a {root.value}")
    return value


def _row_converter(fields: Sequence[DataField]) -> Callable[[Any], Any]:
    inside = {f.name: _converter(f.type) for f in fields}

    def convert(row: Any) -> Any:
        if not isinstance(row, dict):
            raise ValueError(f"{row!r} is no object")
        unknown = next((name for name in row if name not in inside), None)
        if unknown is not None:
            raise ValueError(f"there is no field {unknown!r}; the fields are {', '.join(inside)}")
        return {
            name: value if value is None or (of := inside[name]) is None else of(value) for name, value in row.items()
        }

    return convert


def _map_converter(key: DataType, value: DataType) -> Callable[[Any], Any]:
    convert_value = _converter(value)
    as_value = _converter(key) or (lambda given: given)

    def of_key(given: Any) -> Any:
        # Keys of objects are texts, whatever they stand for.
        return parse_literal(given, key) if isinstance(key, AtomicType) and isinstance(given, str) else as_value(given)

    def convert(given: Any) -> list[tuple[Any, Any]]:
        pairs = given.items() if isinstance(given, dict) else given
        return [(of_key(k), v if v is None or convert_value is None else convert_value(v)) for k, v in pairs]

    return convert
