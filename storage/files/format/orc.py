"""Reader and writer of ORC data files.

Rows are decoded batch by batch, so that the decoded rows of a stripe, which may be many times its 64 MB in the file,
are never all in memory. Columns are found by name, as Paimon does.

Written files have Paimon's form. Columns have their ids in the type attribute `paimon.id`; TIME is INT
milliseconds, CHAR and VARCHAR are STRING, both kinds of timestamps have nanoseconds, MULTISET is a map. Source:
Paimon's OrcTypeUtil and OrcFileFormat.

Timestamps with local time zone are instants. Paimon's `orc.timestamp-ltz.legacy.type`, which is on by default, stores
local times of the JVM's time zone instead: the same in a JVM whose time zone is UTC.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from interbed.storage.base.arrays import Positions
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.checksums import ChecksumSink, check_orc
from interbed.storage.base.columnar_records import ORC_ID
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.arrow import FIELD_ID
from interbed.storage.base.types.data_type import DataField
from interbed.storage.base.types.nested import leaves_of
from interbed.storage.files.format.api import CHECKSUMS, DecodeTally, QuietSink, ReadChecks, data_file_errors
from interbed.storage.io.api import FileIO, open_sized
from interbed.storage.meta.options.core import CoreOptions

_OUT_OF_RANGE = "out of range for nanosecond"


class OrcReader:
    """FormatReader of ORC files, without state. It skips no rows: pyarrow does not expose statistics of stripes.

    Files of interbed have a checksum of the whole file. It is verified before decoding where the file is on this
    machine; a remote file would be read twice.
    """

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
        checks: ReadChecks = CHECKSUMS,
        tally: DecodeTally | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return the rows as for FormatReader.positioned."""
        with data_file_errors(path), open_sized(file_io, path, checks.size) as source:
            if checks.checksums and isinstance(source, pa.MemoryMappedFile):
                check_orc(source)
            file = orc.ORCFile(source)
            checks.expect_rows(file.nrows)
            present = set(file.schema.names)
            names = [f.name for f in fields if f.name in present]
            if not names:
                # Without columns pyarrow reads all of them, so the narrowest column counts the rows.
                yield from _empty_columns(file.nrows, batch_rows)
                return
            if any("." in name for name in present):
                with _range_errors(path):
                    yield from _by_stripe(file, names, batch_rows, tally)
                return
            readable: Any = source
            # By use: it loads pandas where that is installed.
            import pyarrow.dataset as ds

            fragment: Any = ds.OrcFileFormat().make_fragment(readable)
            scanner = fragment.scanner(
                columns=names, batch_size=batch_rows, use_threads=False, batch_readahead=0, fragment_readahead=0
            )
            position = 0
            with _range_errors(path):
                for batch in scanner.to_batches():
                    if tally is not None:
                        tally.add_whole(batch)
                    yield position, batch
                    position += batch.num_rows
            checks.expect_rows(position)


def _by_stripe(
    file: "orc.ORCFile", names: Sequence[str], batch_rows: int, tally: DecodeTally | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read all columns of each stripe: to Arrow a name with a dot is the path of a field in another column."""
    position = 0
    for number in range(file.nstripes):
        stripe: Any = file.read_stripe(number)
        if tally is not None:
            tally.add_whole(stripe)
        chosen = stripe.select(names)
        for offset in range(0, stripe.num_rows, batch_rows):
            yield position + offset, chosen.slice(offset, batch_rows)
        position += stripe.num_rows


@contextmanager
def _range_errors(path: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        if _OUT_OF_RANGE not in str(error):
            raise
        raise NotSupportedError(
            f"The data file {path} has timestamps before 1678 or after 2261, which are not read from ORC files: {error}"
        ) from error


def _empty_columns(rows: int, batch_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    for start in range(0, rows, batch_rows):
        yield start, pa.record_batch([pa.nulls(min(batch_rows, rows - start))], names=["rows"]).select([])


_MAGIC_BYTES = 3
_MEMORY_BLOCK = 64 << 10
_GUESSED_SHARE = 0.2
"""Paimon's estimate of the ratio of rows' size in the file to their size in memory, before the first stripe."""
_COMPACT_LEVEL = 2
"""From this zstd level on liborc compresses for size; it has two levels, for speed and for size."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MOST_SECONDS = 2**63 // 10**9
"""Seconds from the epoch to the last instant, in 2262, of Arrow's nanoseconds, the unit in which it reads ORC."""


class OrcFileWriter:
    """Writer of one ORC file; liborc cuts its stripes. `schema` has field ids as for Parquet."""

    def __init__(self, sink: Any, schema: pa.Schema, options: CoreOptions, *, codec: str | None) -> None:
        self._checksum_sink = ChecksumSink(sink)
        self._sink = QuietSink(self._checksum_sink)
        self._schema = schema
        self._physical = pa.schema([_orc_field(f) for f in schema])
        self._timestamps = [i for i, f in enumerate(schema) if _has_timestamps(f.type)]
        # The stubs of pyarrow lack some of the writer's arguments.
        make: Any = orc.ORCWriter
        self._writer: orc.ORCWriter = make(
            self._sink,
            batch_size=1024,
            stripe_size=options.orc_stripe_size,
            compression=codec or "uncompressed",
            # liborc accepts multiples of its memory blocks only.
            compression_block_size=max(1, -(-options.orc_block_size // _MEMORY_BLOCK)) * _MEMORY_BLOCK,
            compression_strategy="compression" if options.orc_zstd_level >= _COMPACT_LEVEL else "speed",
            row_index_stride=options.orc_row_index_stride,
            dictionary_key_size_threshold=options.orc_dictionary_threshold,
            bloom_filter_columns=_places(schema, options.orc_bloom_filter_columns) or None,
            bloom_filter_fpp=options.orc_bloom_filter_fpp,
        )
        self._flushed_at = _MAGIC_BYTES
        self._flushed = 0
        self._unflushed = 0

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Append batches as for FileWriter.write."""
        physical = [self._to_physical(b) for b in batches]
        self._writer.write(pa.Table.from_batches(physical, self._physical))
        self._sink.check()
        self._unflushed += sum(b.nbytes for b in physical)
        if self._sink.tell() > self._flushed_at:
            # A stripe was written; less than a stripe of these rows is left in memory.
            self._flushed_at = self._sink.tell()
            self._flushed += self._unflushed
            self._unflushed = 0

    def position(self) -> int:
        """Return the number of bytes written so far, with an estimate of the bytes still in memory."""
        share = self._flushed_at / self._flushed if self._flushed else _GUESSED_SHARE
        return int(self._sink.tell() + self._unflushed * share)

    def finish(self) -> int:
        """Write the last stripe and the footer, and return the size of the file."""
        self._writer.close()
        self._sink.check()
        return self._sink.tell() + self._checksum_sink.write_checksum()

    def _to_physical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for index in self._timestamps:
            _check_timestamps(self._schema.field(index).name, batch.column(index))
        columns = [_as_stored(column, field.type) for column, field in zip(batch.columns, self._physical, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._physical)


def _orc_field(field: "pa.Field[Any]", *, key: bool = False) -> Any:
    """Return the field with its id in ORC's attribute; all columns except keys of maps admit nulls."""
    number = (field.metadata or {}).get(FIELD_ID)
    metadata = {ORC_ID: number} if number is not None else None
    return pa.field(field.name, _orc_type(field.type), not key, metadata)


def _orc_type(arrow: pa.DataType) -> pa.DataType:
    if isinstance(arrow, pa.MapType):
        stored: pa.DataType = pa.map_(_orc_field(arrow.key_field, key=True), _orc_field(arrow.item_field))
        return stored
    if isinstance(arrow, pa.ListType):
        return pa.list_(_orc_field(arrow.value_field))
    if isinstance(arrow, pa.StructType):
        return pa.struct([_orc_field(f) for f in arrow])
    return pa.int32() if pa.types.is_time32(arrow) else arrow


def _as_stored(column: "pa.Array[Any]", arrow: pa.DataType) -> "pa.Array[Any]":
    if pa.types.is_nested(arrow):
        # The encoder ignores the offset of a struct in its children; a copy has the offset 0.
        rows: Any = from_numpy(np.arange(len(column), dtype=np.int32))
        column = column.take(rows)
    return column if column.type.equals(arrow, check_metadata=True) else column.view(arrow)


def _has_timestamps(arrow: pa.DataType) -> bool:
    if isinstance(arrow, pa.MapType):
        return _has_timestamps(arrow.key_type) or _has_timestamps(arrow.item_type)
    if isinstance(arrow, pa.ListType):
        return _has_timestamps(arrow.value_type)
    if isinstance(arrow, pa.StructType):
        return any(_has_timestamps(f.type) for f in arrow)
    return isinstance(arrow, pa.TimestampType)


def _check_timestamps(name: str, column: "pa.Array[Any]") -> None:
    """Raise InvalidInputError for timestamps that readers would not get back from the file.

    Arrow reads ORC's timestamps as nanoseconds, which end in 2262. It writes timestamps before the epoch with a
    negative fraction, which Java's readers misread unless it is a number of whole milliseconds.
    """
    for _, values in leaves_of(name, column):
        if not isinstance(values.type, pa.TimestampType):
            continue
        unit = str(values.type.unit)
        counts = to_numpy(values.drop_null().view(pa.int64()))
        if not len(counts) or ((low := int(counts.min())) >= 0 and unit == "ns"):
            continue
        most = _MOST_SECONDS * _PER_SECOND[unit]
        if unit != "ns" and not (-most < low and int(counts.max()) < most):
            raise InvalidInputError(
                f"The column {name!r} has timestamps before 1678 or after 2261, which can't be read back from "
                "ORC files. Set 'file.format' to 'parquet' or 'avro'."
            )
        step = _PER_SECOND[unit] // 1000
        if low < 0 and step > 1 and (counts[counts < 0] % step).any():
            raise InvalidInputError(
                f"The column {name!r} has timestamps before 1970 with a fraction of milliseconds, which Java's readers "
                "can't take out of the ORC files that Arrow writes. Set 'file.format' to 'parquet' or 'avro'."
            )


def _places(schema: pa.Schema, names: Sequence[str]) -> list[int]:
    return [i for i, f in enumerate(schema) if f.name in names]
