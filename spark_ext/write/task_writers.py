"""Choice of the writer of a task by the kind of its table."""

from typing import Protocol

import pyarrow as pa

from interbed.spark_ext.write.writer import CommitToken, TaskWriter


class RowsWriter(Protocol):
    """Writer of the rows of one task attempt, to a table of any kind."""

    def write(self, batch: pa.RecordBatch) -> None: ...
    def finish(self) -> bytes: ...
    def abort(self) -> None: ...


def task_writer(task: bytes) -> RowsWriter:
    """Return the writer of the rows of one task attempt."""
    token = CommitToken.from_bytes(task)
    if not token.handle.is_format:
        return TaskWriter(task)
    # By use: most tables are none.
    from interbed.spark_ext.write.format_writes import FormatTaskWriter

    return FormatTaskWriter(token)
