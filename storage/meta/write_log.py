"""Log of a writer's rows before they are committed, where the table's log is eventual (`log.consistency`)."""

from typing import Any, Protocol

import pyarrow as pa


class WriteLog(Protocol):
    """Receiver of the rows of one writer. Not thread-safe."""

    def send(self, bucket: int, rows: pa.RecordBatch, kinds: "pa.Array[Any] | None") -> None:
        """Send rows of a bucket with all columns of the table, and their kinds as int8, None for insertions.

        Raises LogUnavailableError, MissingExtraError, InvalidOptionError for a topic that is not that of a log.
        """
        ...

    def flush(self) -> None:
        """Wait until all sent rows are in the log; raises LogUnavailableError when some of them are not."""
        ...
