"""Writing Avro data files: a header with schema and codec, then blocks of whole rows, each compressed by itself."""

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.avro.blocks import SYNC_BYTES, block_bytes, header_bytes
from interbed.storage.base.avro.codec import compressor
from interbed.storage.base.avro.encode import encode_rows
from interbed.storage.base.avro.schema import record_schema
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import DataField
from interbed.storage.base.types.not_null import without_hidden_nulls
from interbed.storage.meta.options.core import CoreOptions

BLOCK_BYTES = 16_000
"""Plain bytes at which a block is closed, a quarter of Java's: our reader decodes many blocks at once."""
_ENCODED_ROWS = 16_384
"""Rows that are encoded at once; they take some ten times their size in memory."""
_ENCODED_BYTES = 4 << 20


class AvroFileWriter:
    """One Avro file of rows with the columns `fields`; `schema` is their Arrow schema."""

    def __init__(
        self, sink: Any, fields: Sequence[DataField], schema: pa.Schema, options: CoreOptions, *, codec: str | None
    ) -> None:
        self._sink = sink
        self._fields = tuple(fields)
        self._schema = schema
        self._compress = compressor(codec or "null", options.zstd_level)
        self._sync = os.urandom(SYNC_BYTES)
        sink.write(header_bytes(json.dumps(record_schema(fields)), codec or "null", self._sync))

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Append the batches."""
        for batch in batches:
            width = max(1, batch.nbytes // max(1, batch.num_rows))
            step = max(1, min(_ENCODED_ROWS, _ENCODED_BYTES // width))
            for start in range(0, batch.num_rows, step):
                self._write_rows(batch.slice(start, step))

    def position(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def finish(self) -> int:
        """The size of the file; there is nothing at its end."""
        return self.position()

    def _write_rows(self, rows: pa.RecordBatch) -> None:
        for column, field in zip(rows.columns, self._schema, strict=True):
            if not field.nullable and column.null_count:
                # Merging may leave none of a column's values; Avro has no way to say so.
                raise InvalidInputError(
                    f"The column {field.name!r} admits no nulls, but merging left one (did an aggregate retract "
                    "the last value?); make the column nullable."
                )
        columns = [without_hidden_nulls(c, f.type, f.name) for c, f in zip(rows.columns, self._schema, strict=True)]
        encoded = encode_rows(columns, self._fields, rows.num_rows)
        ends = np.cumsum(encoded.lengths)
        row = begin = 0
        while row < rows.num_rows:
            # The last row goes beyond the limit, as it does in Java.
            last = min(int(np.searchsorted(ends, begin + BLOCK_BYTES)) + 1, rows.num_rows)
            end = int(ends[last - 1])
            block = self._compress(encoded.data[begin:end].tobytes())
            self._sink.write(block_bytes(last - row, block, self._sync))
            row, begin = last, end
