"""The worker's side of the protocol with a task; the test takes the place of the JVM."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.process import worker
from interbed.spark_ext.process.planner import VARIABLE, PlannerHandler, interface_version
from interbed.spark_ext.read.task import ReadTask
from interbed.spark_ext.write.writer import decode_messages, plan_write
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner.ttypes import ErrorKind
from tests.spark_ext.write.test_writer import Request
from tests.support.spark.forked_worker import forked_worker
from tests.support.waits import at_most

TIMEOUT_SECONDS = at_most(60)
SCHEMA = pa.schema((("id", pa.int64()), ("v", pa.string())))
ROWS = pa.RecordBatch.from_pydict({"id": [1, 2], "v": ["a", "b"]}, schema=SCHEMA)


class WorkerConversation:
    """A worker process and the test's end of its socket."""

    def __init__(self, **environment: str) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(TIMEOUT_SECONDS)
        with theirs:
            self.process = forked_worker(theirs, environment)
        self.input: BinaryIO = self.socket.makefile("rb")
        self.output: BinaryIO = self.socket.makefile("wb")

    def send_int(self, number: int) -> None:
        self.output.write(struct.pack("!i", number))

    def request(self, operation: int, *payloads: bytes) -> None:
        self.send_int(operation)
        self.send_int(len(payloads))
        for payload in payloads:
            self.send_int(len(payload))
            self.output.write(payload)
        self.output.flush()

    def read_int(self) -> int:
        number: int = struct.unpack("!i", self.input.read(4))[0]
        return number

    def read_bytes(self) -> bytes:
        return self.input.read(self.read_int())

    def disconnect(self) -> int:
        """Close the socket and wait for the worker. Return its exit code."""
        for part in (self.output, self.input, self.socket):
            try:
                part.close()
            except BrokenPipeError:
                # The worker ended first and did not read the test's last request.
                continue
        self.process.join(TIMEOUT_SECONDS)
        code = self.process.exitcode
        assert code is not None
        return code


@pytest.fixture
def conversation() -> Iterator[WorkerConversation]:
    """A worker that waits for its first request."""
    made = WorkerConversation()
    yield made
    if made.process.is_alive():
        made.disconnect()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of one bucket."""
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    return catalog.create_table("db.t", SCHEMA, options={"bucket": "1", "bucket-key": "id"})


def _handle(table: Table, snapshot_id: int | None = None) -> TableHandle:
    return TableHandle(
        catalog="lake",
        catalog_options={},
        database="db",
        table="t",
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=snapshot_id,
    )


def _files(table: Table) -> list[Path]:
    return sorted(Path(table.location).rglob("bucket-*/*"))


def _start_write(conversation: WorkerConversation, table: Table) -> Any:
    conversation.request(worker.WRITE, plan_write(_handle(table), Request()).task)
    conversation.send_int(worker.BATCH)
    output: Any = conversation.output
    stream = pa.ipc.new_stream(output, SCHEMA)
    stream.write_batch(ROWS)
    conversation.output.flush()
    assert conversation.read_int() == worker.BATCH
    return stream


def test_batches_are_acknowledged_and_the_end_returns_the_commit_message(
    conversation: WorkerConversation, table: Table
) -> None:
    stream = _start_write(conversation, table)
    conversation.send_int(worker.BATCH)
    stream.write_batch(ROWS)
    conversation.output.flush()
    assert conversation.read_int() == worker.BATCH
    conversation.send_int(worker.END)
    conversation.output.flush()

    assert conversation.read_int() == worker.END
    (message,) = decode_messages([conversation.read_bytes()])
    assert sum(file.row_count for file in message.data.new_files) == 4
    conversation.send_int(worker.END)
    assert conversation.disconnect() == 1
    assert len(_files(table)) == 1


@pytest.mark.parametrize("last_words", [b"", struct.pack("!i", worker.ABORT)])
def test_files_whose_task_did_not_receive_the_result_are_deleted(
    conversation: WorkerConversation, table: Table, last_words: bytes
) -> None:
    _start_write(conversation, table)
    conversation.send_int(worker.END)
    conversation.output.flush()
    assert conversation.read_int() == worker.END
    assert conversation.read_bytes()
    assert len(_files(table)) == 1

    conversation.output.write(last_words)
    assert conversation.disconnect() == 1
    assert _files(table) == []


@pytest.mark.long
def test_a_worker_serves_several_requests_in_sequence(conversation: WorkerConversation, table: Table) -> None:
    snapshot_id = table.append(pa.Table.from_batches([ROWS]))
    (split,) = table.new_scan().plan().splits
    task = ReadTask(handle=_handle(table, snapshot_id), columns=("v",), filters=()).to_bytes()

    for _ in range(2):
        conversation.request(worker.READ, task, split.to_bytes())
        assert conversation.read_int() == worker.BATCH
        answer: Any = conversation.input
        batch = pa.ipc.open_stream(answer).read_next_batch()
        assert batch.to_pydict() == {"v": ["a", "b"]}
        assert conversation.read_int() == worker.END


@pytest.mark.long
def test_a_worker_reports_the_deleted_rows_of_each_file(conversation: WorkerConversation, tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, options={"deletion-vectors.enabled": "true"})
    table.append(pa.table({"id": [1, 2, 3, 4], "v": ["a"] * 4}, schema=SCHEMA))
    table.append(pa.Table.from_batches([ROWS]))
    snapshot_id = table.delete("id > 2 or v = 'b'")
    (split,) = table.new_scan().plan().splits
    task = ReadTask(handle=_handle(table, snapshot_id), columns=("v",), filters=()).to_bytes()

    conversation.request(worker.DELETIONS, task, split.to_bytes())

    assert conversation.read_int() == worker.END
    found = {file.row_count: conversation.read_bytes() for file in split.files}
    assert found == {4: struct.pack("!qq", 2, 3), 2: struct.pack("!q", 1)}


def test_an_abort_deletes_the_files_and_is_acknowledged(conversation: WorkerConversation, table: Table) -> None:
    _start_write(conversation, table)
    conversation.send_int(worker.ABORT)
    conversation.output.flush()

    assert conversation.read_int() == worker.END
    assert _files(table) == []


@pytest.mark.parametrize(
    "last_words", [b"", struct.pack("!i", worker.BATCH), struct.pack("!i", worker.BATCH) + b"\xff\xff"]
)
def test_a_worker_cleans_up_and_exits_when_the_jvm_disconnects(
    conversation: WorkerConversation, table: Table, last_words: bytes
) -> None:
    _start_write(conversation, table)
    conversation.output.write(last_words)
    conversation.output.flush()

    assert conversation.disconnect() == 1
    assert _files(table) == []


def test_an_error_is_reported_with_its_traceback_while_the_jvm_still_sends(
    conversation: WorkerConversation, table: Table
) -> None:
    stream = _start_write(conversation, table)
    Path(table.location, "bucket-0").write_text("a file in the way of the directory")
    conversation.send_int(worker.END)
    # More bytes than a socket buffers, which the worker no longer reads as a batch.
    conversation.output.flush()
    assert conversation.read_int() == worker.FAILURE
    conversation.read_int()
    message = conversation.read_bytes().decode()
    conversation.output.write(b"x" * (4 << 20))
    conversation.output.flush()

    assert "bucket-0" in message
    assert conversation.disconnect() == 1
    assert stream is not None


def test_an_unknown_request_is_refused(conversation: WorkerConversation) -> None:
    conversation.request(77)

    assert conversation.read_int() == worker.FAILURE
    assert conversation.read_int() == ErrorKind.INTERNAL
    assert "77" in conversation.read_bytes().decode()
    assert "Traceback" in conversation.read_bytes().decode()


def test_a_jar_of_another_version_is_refused(table: Table) -> None:
    conversation = WorkerConversation(**{VARIABLE: "0123456789abcdef"})
    conversation.request(worker.WRITE, plan_write(_handle(table), Request()).task)

    assert conversation.read_int() == worker.FAILURE
    assert conversation.read_int() == ErrorKind.UNSUPPORTED
    message = conversation.read_bytes().decode()
    assert "0123456789abcdef" in message
    assert interface_version() in message
    assert conversation.disconnect() == 1


@pytest.mark.long
def test_a_jar_of_the_same_version_is_served(table: Table) -> None:
    conversation = WorkerConversation(**{VARIABLE: interface_version()})
    stream = _start_write(conversation, table)
    conversation.send_int(worker.ABORT)
    conversation.output.flush()

    assert conversation.read_int() == worker.END
    assert conversation.disconnect() == 1
    assert stream is not None


def test_a_planner_refuses_a_jar_of_another_version() -> None:
    PlannerHandler().checkInterface(interface_version())
    with pytest.raises(NotSupportedError, match=r"0123456789abcdef.*different versions"):
        PlannerHandler().checkInterface("0123456789abcdef")


@pytest.mark.long
def test_an_idle_worker_exits_when_the_jvm_disconnects(conversation: WorkerConversation) -> None:
    assert conversation.disconnect() == 1
