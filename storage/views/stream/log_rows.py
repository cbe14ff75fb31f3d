"""The records of a table's log as the rows that a stream hands out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.log.records import LogRecords, RecordCodec
from interbed.storage.meta.schema.evolution import map_fields
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.change_read import ROW_KIND
from interbed.storage.read.columns import ReadColumns
from interbed.storage.scan.split import Split

_ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class LogRowDecoder:
    """Makes rows of the stream's columns of records that were written by one of the table's schemas."""

    written: TableSchema
    columns: ReadColumns
    schema: pa.Schema
    place: str

    def batches(self, records: LogRecords) -> Iterator[pa.RecordBatch]:
        """The rows with their kinds, filtered; raises CorruptFileError."""
        codec = RecordCodec(self.written)
        mapping = map_fields(self.columns.fields, self.written.fields)
        for start in range(0, len(records), _ROWS_AT_ONCE):
            end = start + _ROWS_AT_ONCE
            some = LogRecords(
                keys=records.keys[start:end], values=records.values[start:end], kinds=records.kinds[start:end]
            )
            rows, kinds = codec.decoded(some, place=self.place)
            mapped = mapping.apply(rows)
            told = pa.RecordBatch.from_arrays(
                [*mapped.columns, from_numpy(kinds.astype(np.int8))], names=[*mapped.schema.names, ROW_KIND]
            )
            kept = self.columns.kept(told)
            if kept.num_rows:
                yield pa.RecordBatch.from_arrays([kept.column(n) for n in self.schema.names], schema=self.schema)


@dataclass(frozen=True, slots=True)
class LogRead:
    """A SplitsRead of records, part after part, which needs no splits."""

    parts: Sequence[LogRecords]
    decoder: LogRowDecoder

    @property
    def schema(self) -> pa.Schema:
        """See SplitsRead."""
        return self.decoder.schema

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """See SplitsRead."""
        batches = (batch for records in self.parts for batch in self.decoder.batches(records))
        return pa.RecordBatchReader.from_batches(self.schema, batches)
