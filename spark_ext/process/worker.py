"""Operations of interbed in a Python process of Spark's worker pool: reads, writes, plans, and tasks of procedures.

READ sends the rows of a split, WRITE writes the rows of a task into files, TASK carries out a task of a procedure, and
BLOCKS a task that takes the blocks of other tasks. DELETIONS sends the positions of deleted rows of a split's files,
for Spark's own reader.

A request is four bytes for the operation, four for the number of payloads, and each payload after four bytes of length;
integers are big-endian. Messages follow, with markers of four bytes:

    READ   worker: (BATCH, Arrow message)* END
    WRITE  JVM: (BATCH, Arrow message)* then END or ABORT; once it has the result, END again or ABORT
           worker: BATCH for each batch that it has taken; END and its result; END when it has aborted
    TASK   worker: END and its result
    BLOCKS JVM: (BATCH, a group's name, a block of it, each after its length)* END
           worker: END and its result
    PLAN   Thrift calls of planner.thrift until the JVM closes the connection
    DELETIONS  worker: END, then for each file the positions, ascending, each in eight bytes, after their length

Instead of a marker the worker may send FAILURE, an ErrorKind of planner.thrift, a message and a traceback, each text
after its length. When the JVM closes the connection, the worker deletes the files of the unfinished task and exits; it
is never killed. The JVM's side is spark_ext/jvm/src/interbed/spark/planner/PythonWorkerChannel.java.
"""

import os
import struct
import sys
from io import BufferedReader, BufferedWriter
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


READ = 1
WRITE = 2
PLAN = 3
TASK = 4
DELETIONS = 5
BLOCKS = 6

END = 0
BATCH = 1
ABORT = 2
FAILURE = -2

_INT = struct.Struct("!i")
_DRAIN_BYTES = 1 << 20


def main(infile: BufferedReader, outfile: BufferedWriter) -> None:
    """Serve requests until the JVM closes the connection; called by Spark's daemon in a forked process."""
    while True:
        try:
            operation = _read_int(infile)
            payloads = [_read_bytes(infile) for _ in range(_read_int(infile))]
        except (EOFError, OSError):
            # The JVM closed the connection between two requests: it has no more work for this process.
            sys.exit(1)
        try:
            _serve(operation, payloads, infile, outfile)
            outfile.flush()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            # The JVM closed the connection within a request: a query ended early, or a task was killed. The buffer is
            # discarded, since Spark's daemon would report that it can't be flushed.
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), outfile.fileno())
            sys.exit(1)
        except Exception as error:  # noqa: BLE001 - the request loop: every error has to reach the task.
            _report(error, infile, outfile)
            sys.exit(1)


def _serve(operation: int, payloads: list[bytes], infile: BufferedReader, outfile: BufferedWriter) -> None:
    if operation != PLAN:
        # Imported late, see below. A planner gets the version with its first call.
        from interbed.spark_ext.process.planner import VARIABLE, check_interface

        check_interface(os.environ.get(VARIABLE))
    match operation:
        case 1:
            _serve_read(payloads, outfile)
        case 2:
            _serve_write(payloads, infile, outfile)
        case 3:
            # Imported late: this module has to load without them. The daemon has loaded them already (see there).
            from interbed.spark_ext.process.planner import serve

            serve(infile, outfile)
            sys.exit(1)
        case 4:
            _serve_task(payloads, outfile)
        case 5:
            _serve_deletions(payloads, outfile)
        case 6:
            _serve_blocks(payloads, infile, outfile)
        case _:
            raise ValueError(
                f"The JVM requests the operation {operation}, which this version of interbed does not know."
            )


def _serve_read(payloads: list[bytes], outfile: BufferedWriter) -> None:
    # Imported late, see above.
    import pyarrow as pa

    from interbed.spark_ext.read.reader import read_split

    task, split = payloads
    stream: pa.RecordBatchStreamWriter | None = None
    for batch in read_split(task, split):
        outfile.write(_INT.pack(BATCH))
        if stream is None:
            stream = pa.ipc.new_stream(outfile, batch.schema)
        stream.write_batch(batch)
    outfile.write(_INT.pack(END))


class RowsWriter(Protocol):
    """Writer of the rows of one task attempt, to a table of any kind."""

    def write(self, batch: "pa.RecordBatch") -> None: ...
    def finish(self) -> bytes: ...
    def abort(self) -> None: ...


def task_writer(task: bytes) -> RowsWriter:
    """Return the writer of the rows of one task attempt."""
    # Imported late, see above.
    from interbed.spark_ext.write.writer import CommitToken, TaskWriter

    token = CommitToken.from_bytes(task)
    if not token.handle.is_format:
        return TaskWriter(task)
    # By use: most tables are none.
    from interbed.spark_ext.write.format_writer import FormatTaskWriter

    return FormatTaskWriter(token)


def _serve_write(payloads: list[bytes], infile: BufferedReader, outfile: BufferedWriter) -> None:
    # Imported late, see above.
    import pyarrow as pa

    (task,) = payloads
    writer = task_writer(task)
    stream: pa.RecordBatchReader | None = None
    try:
        while (marker := _read_int(infile)) == BATCH:
            if stream is None:
                stream = pa.ipc.open_stream(infile)
            writer.write(_next_batch(stream))
            outfile.write(_INT.pack(BATCH))
            outfile.flush()
        if marker == END:
            result = writer.finish()
            outfile.write(_INT.pack(END) + _INT.pack(len(result)) + result)
            outfile.flush()
            # Until the task has taken the result, this process has to delete the files.
            if _read_int(infile) == END:
                return
    except BaseException:
        writer.abort()
        raise
    writer.abort()
    outfile.write(_INT.pack(END))


def _serve_task(payloads: list[bytes], outfile: BufferedWriter) -> None:
    # Imported late, see above.
    from interbed.spark_ext.procedures.registry import run_task

    procedure, shared, payload = payloads
    result = run_task(procedure.decode(), shared, payload)
    outfile.write(_INT.pack(END) + _INT.pack(len(result)) + result)


def _serve_blocks(payloads: list[bytes], infile: BufferedReader, outfile: BufferedWriter) -> None:
    # Imported late, see above.
    from interbed.spark_ext.procedures.registry import take_blocks

    procedure, shared, payload = payloads
    result = take_blocks(procedure.decode(), shared, payload, _blocks(infile))
    outfile.write(_INT.pack(END) + _INT.pack(len(result)) + result)


def _blocks(infile: BufferedReader) -> "Iterator[tuple[str, bytes]]":
    while _read_int(infile) == BATCH:
        yield _read_bytes(infile).decode(), _read_bytes(infile)


def _serve_deletions(payloads: list[bytes], outfile: BufferedWriter) -> None:
    # Imported late, see above.
    from interbed.spark_ext.read.reader import deleted_positions

    task, split = payloads
    # All are read before the marker is sent, so that an error can be sent instead.
    found = list(deleted_positions(task, split))
    outfile.write(_INT.pack(END))
    for positions in found:
        outfile.write(_INT.pack(len(positions)) + positions)


def _next_batch(stream: "pa.RecordBatchReader") -> "pa.RecordBatch":
    try:
        return stream.read_next_batch()
    except (OSError, StopIteration) as error:
        # Arrow's error for a stream that ends within a message.
        raise EOFError from error


def _report(error: Exception, infile: BufferedReader, outfile: BufferedWriter) -> None:
    # Imported late, see above.
    from interbed.spark_ext.handle.reports import planner_error

    # The generated class has no declared fields for type checkers.
    described: Any = planner_error(error)
    try:
        outfile.write(_INT.pack(FAILURE) + _INT.pack(described.kind))
        for text in (described.message, described.detail or ""):
            content = text.encode()
            outfile.write(_INT.pack(len(content)) + content)
        outfile.flush()
        # The JVM may be sending a batch. Closing the socket with unread data would lose the report.
        while infile.read(_DRAIN_BYTES):
            pass
    except OSError:
        # The JVM has closed the connection and needs no report.
        return


def _read_int(infile: BufferedReader) -> int:
    content = infile.read(_INT.size)
    if len(content) < _INT.size:
        raise EOFError
    number: int = _INT.unpack(content)[0]
    return number


def _read_bytes(infile: BufferedReader) -> bytes:
    length = _read_int(infile)
    content = infile.read(length)
    if len(content) < length:
        raise EOFError
    return content
