"""Reading Avro data files.

Avro is a row format: rows are decoded one by one to Python values and gathered into batches. Timestamps are
milliseconds or microseconds since the epoch, with or without zone; a map whose keys are no strings is an array of
records `key`, `value`. Source: Paimon's documentation of file formats (Avro type mapping).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any, cast

import fastavro
import pyarrow as pa

from interbed.storage.fileio.api import FileIO
from interbed.storage.format.api import Positions, data_file_errors
from interbed.storage.predicate.expr import Predicate
from interbed.storage.types.arrow import type_to_arrow
from interbed.storage.types.data_type import (
    TIMESTAMPS,
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    is_atomic,
)

_MAGIC = b"Obj\x01"
MAX_BATCH_ROWS = 16_384
"""Rows are Python objects before they are a batch, so batches are kept small."""

_Convert = Callable[[Any], Any]


class AvroReader:
    """FormatReader of Avro files; holds no state."""

    def batches(
        self,
        path: str,
        fields: Sequence[DataField],
        *,
        file_io: FileIO,
        batch_rows: int,
        predicate: Predicate | None = None,
        use_threads: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """See FormatReader; nothing is skipped, because Avro has no statistics."""
        found = self.positioned(
            path, fields, file_io=file_io, batch_rows=batch_rows, predicate=predicate, use_threads=use_threads
        )
        for _, batch in found:
            yield batch

    def positioned(
        self,
        path: str,
        fields: Sequence[DataField],
        *,
        file_io: FileIO,
        batch_rows: int,
        predicate: Predicate | None = None,
        wanted: Positions | None = None,
        use_threads: bool = False,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See FormatReader."""
        with data_file_errors(path), file_io.open_input(path) as source:
            if source.read(len(_MAGIC)) != _MAGIC:
                raise ValueError("it does not begin as an Avro file does")
            source.seek(0)
            reader = fastavro.reader(cast("IO[bytes]", source))
            schema = reader.writer_schema
            if not isinstance(schema, Mapping):
                raise ValueError("its schema is not a record")
            present = {f["name"] for f in schema["fields"]}
            columns = [(f, _converter(f.type)) for f in fields if f.name in present]
            # fastavro hands out rows; there is no columnar decoder of Avro's nested types at hand.
            records: Iterator[Any] = iter(reader)
            position = 0
            while rows := list(islice(records, min(batch_rows, MAX_BATCH_ROWS))):
                batch = pa.record_batch([pa.nulls(len(rows))], names=["rows"]).select([])
                if columns:
                    batch = pa.record_batch(
                        [
                            pa.array([convert(row[f.name]) for row in rows], type_to_arrow(f.type))
                            for f, convert in columns
                        ],
                        names=[f.name for f, _ in columns],
                    )
                yield position, batch
                position += len(rows)


def _converter(data_type: DataType) -> _Convert:
    """From what fastavro gives for the type to what Arrow takes; all pass nulls on."""
    match data_type:
        case ArrayType(element=element):
            inner = _converter(element)
            return lambda value: None if value is None else [inner(v) for v in value]
        case MapType(key=key, value=item):
            return _map_converter(_converter(key), _converter(item))
        case MultisetType(element=element):
            return _map_converter(_converter(element), _same)
        case RowType(fields=fields):
            converters = [(f.name, _converter(f.type)) for f in fields]
            return lambda value: None if value is None else {n: c(value.get(n)) for n, c in converters}
        case _ if is_atomic(data_type, *TIMESTAMPS):
            # A column without zone may still be stored as an instant; its UTC form is the wall-clock time meant.
            return lambda value: value.replace(tzinfo=None) if value is not None else None
        case _:
            return _same


def _same(value: Any) -> Any:
    return value


def _map_converter(key: _Convert, item: _Convert) -> _Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Mapping):
            return [(key(k), item(v)) for k, v in value.items()]
        return [(key(entry["key"]), item(entry["value"])) for entry in value]

    return convert
