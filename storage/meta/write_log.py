"""What a writer tells of its rows before they are committed, where the table's log is eventual (`log.consistency`)."""

from typing import Any, Protocol

import pyarrow as pa


class WriteLog(Protocol):
    """Takes the rows of one writer. Not for use by several threads."""

    def send(self, bucket: int, rows: pa.RecordBatch, kinds: "pa.Array[Any] | None") -> None:
        """Send rows of a bucket with all columns of the table, and their kinds as int8, None for insertions.

        Raises LogUnavailableError, MissingExtraError, InvalidOptionError for a topic that is none of a log.
        """
        ...

    def flush(self) -> None:
        """Wait until all that was sent is in the log; raises LogUnavailableError when some of it is not."""
        ...
