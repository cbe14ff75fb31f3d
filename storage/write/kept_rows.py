"""Rows that a writer needs again after all others: in memory, and in a temporary file if they are many."""

import tempfile
import weakref
from collections.abc import Iterator

import pyarrow as pa

ROW_BYTES_IN_MEMORY = 32 * 1024 * 1024


class KeptRows:
    """Rows in their order, all batches with one schema. The file ends with the object, however that ends."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(ROW_BYTES_IN_MEMORY)  # noqa: SIM115 - closed by close
        self._closing = weakref.finalize(self, self._file.close)
        self._stream: pa.RecordBatchStreamWriter | None = None
        self.count = 0
        """The number of rows."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Keep the rows; all batches have one schema."""
        if self._stream is None:
            self._stream = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), rows.schema)
        self._stream.write_batch(rows)
        self.count += rows.num_rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in their order; no rows can be added afterwards."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self.count:
            self._file.seek(0)
            yield from pa.ipc.open_stream(pa.PythonFile(self._file, "r"))

    def close(self) -> None:
        """Forget the rows so far."""
        self._closing()
