"""Frames that no client sends: each is answered or refused without a traceback, and other clients are served."""

import logging
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import BinaryCodec, Codec, CompactCodec, MemorySource
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.catalog.server.thrift.edge.transport import BAD_INPUT
from tests.support import shares
from tests.support.databases import open_migrated
from tests.support.fuzzed_frames import HOSTILE_TEXTS, METHODS, FrameGenerator, without_each_part
from tests.support.sandbox import sandbox
from tests.support.servers.metastore import foreign_client, metastore_under_test
from tests.support.tally import Tally
from tests.support.waits import at_most

FRAMES = 100_000 if shares.LONG else 1_500
FRAMES_TO_SERVER = 2_000 if shares.LONG else 80
SESSION = ClientSession(peer="192.0.2.1:1234")

NAMED = [
    (BinaryCodec(), "800100010000000c6765745f6461746162617365000000010b0063ffffffff"),
    (CompactCodec(), "82210001781f00"),
    (
        BinaryCodec(),
        "800100010000001e7570646174655f7461626c655f636f6c756d6e5f7374617469737469637300000001" + "0c00010000",
    ),
]
"""Regressions: inputs that once caused tracebacks."""


class _LogRecorder(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


class Target:
    """Dispatcher in this process, on SQLite."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.refused = 0
        self.answered = 0

    def take(self, codec: Codec, frame: bytes) -> None:
        """Read a frame, execute its call, and check the reply."""
        try:
            request = self.dispatcher.read(codec, MemorySource(frame))
        except BAD_INPUT:
            self.refused += 1
            return
        answer = self.dispatcher.call(request, SESSION)
        self.answered += 1
        if answer.reply:
            protocol = (TBinaryProtocol if isinstance(codec, BinaryCodec) else TCompactProtocol)(
                TMemoryBuffer(answer.reply)
            )
            name, kind, sequence = protocol.readMessageBegin()
            # The five bytes of the compact protocol can hold more than the 32 bits of a sequence id.
            assert (name, sequence & 0xFFFFFFFF) == (request.name, request.sequence & 0xFFFFFFFF)
            assert kind in (TMessageType.REPLY, TMessageType.EXCEPTION)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """Return a dispatcher whose deletions are limited to a directory, whatever locations mutated requests have."""
    monkeypatch.chdir(tmp_path)
    store = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    # Durability does not matter for these tests.
    metastore = Metastore(store, f"file:{tmp_path / 'warehouse'}")
    metastore.databases.bootstrap()
    with closing(store), sandbox(tmp_path):
        yield Target(dispatcher_for(metastore))


@contextmanager
def no_tracebacks() -> Iterator[list[logging.LogRecord]]:
    """Collect the log records of the block, and check that none is an error or has a traceback."""
    records: list[logging.LogRecord] = []
    handler = _LogRecorder(records)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield records
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    bad = [record for record in records if record.exc_info or record.levelno >= logging.ERROR]
    assert not bad, [(record.getMessage(), record.exc_info) for record in bad[:5]]


@pytest.mark.parametrize(("codec", "frame"), NAMED)
def test_frames_that_once_caused_tracebacks_are_refused(target: Target, codec: Codec, frame: str) -> None:
    with no_tracebacks():
        target.take(codec, bytes.fromhex(frame))


@pytest.mark.parametrize("location", [b"ftp://host/x", b"file:{root}/" + b"d/" * 1500, b"file:{root}/" + b"d" * 5000])
def test_invalid_locations_are_refused(target: Target, tmp_path: Path, location: bytes) -> None:
    frames = FrameGenerator(6, tmp_path)
    arguments = frames.arguments("create_database", whole=True)
    frames.with_texts(arguments, location.replace(b"{root}", str(tmp_path).encode()))
    with no_tracebacks():
        target.take(BinaryCodec(), frames.encoded("create_database", arguments))
    assert target.answered == 1


@pytest.mark.longer
def test_mutated_requests_of_every_method_cause_no_traceback(target: Target, tmp_path: Path, tally: Tally) -> None:
    sources: list[tuple[Codec, FrameGenerator]] = [
        (BinaryCodec(), FrameGenerator(1, tmp_path)),
        (CompactCodec(), FrameGenerator(2, tmp_path, compact=True)),
    ]
    with no_tracebacks() as records:
        for _ in range(FRAMES // 2):
            for codec, frames in sources:
                target.take(codec, frames.next())
    assert target.answered > FRAMES // 3
    assert any("192.0.2.1:1234" in record.getMessage() for record in records)
    tally("fuzzed frames, in process: answered", target.answered)
    tally("fuzzed frames, in process: refused as no message", target.refused)


@pytest.mark.longer
def test_requests_without_one_of_their_parts_cause_no_traceback(target: Target, tmp_path: Path, tally: Tally) -> None:
    """Every field, element and pair of a complete request of every method is left out, one at a time."""
    frames = FrameGenerator(3, tmp_path)
    taken = 0
    with no_tracebacks():
        for method in METHODS:
            arguments = frames.arguments(method, whole=True)
            for number, _ in enumerate(without_each_part(arguments)):
                if number < (1 << 30 if shares.LONG else 3):
                    target.take(BinaryCodec(), frames.encoded(method, arguments))
                    taken += 1
    tally("requests with one part left out", taken)


@pytest.mark.longer
def test_hostile_texts_in_every_method_cause_no_traceback(target: Target, tmp_path: Path, tally: Tally) -> None:
    frames = FrameGenerator(4, tmp_path)
    with no_tracebacks():
        for text in HOSTILE_TEXTS if shares.LONG else HOSTILE_TEXTS[::9]:
            for method in METHODS:
                target.take(BinaryCodec(), frames.encoded(method, frames.with_texts(frames.arguments(method), text)))
    tally("requests whose texts are all hostile", target.answered + target.refused)


@pytest.mark.longer
@pytest.mark.parametrize("transport", ["buffered", "framed", "http"])
def test_a_server_survives_fuzzed_frames(tmp_path: Path, tally: Tally, transport: str) -> None:
    """Each frame has a connection of its own; afterwards hmsclient is served."""
    arguments = ["--transport", "framed"] if transport == "framed" else []
    with socket.create_server(("127.0.0.1", 0)) as free:
        http_port = free.getsockname()[1]
    if transport == "http":
        arguments = ["--http-port", str(http_port)]
    pack: Callable[[bytes], bytes] = {
        "buffered": lambda frame: frame,
        "framed": lambda frame: struct.pack("!I", len(frame)) + frame,
        "http": lambda frame: b"POST /metastore HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(frame) + frame,
    }[transport]
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    frames = FrameGenerator(5, tmp_path / "locations", with_locations=False)
    with metastore_under_test(db, tmp_path, *arguments) as running:
        port = http_port if transport == "http" else running.port
        for _ in range(FRAMES_TO_SERVER):
            _exchange(port, pack(frames.next()))
        if transport != "framed":
            with foreign_client(running.port) as client:
                assert "default" in client.get_all_databases()
        else:
            call = frames.encoded("get_all_databases", frames.arguments("get_all_databases"))
            assert b"default" in _exchange(port, pack(call))
    log = (tmp_path / "server.log").read_text()
    assert "Traceback" not in log
    assert " ERROR " not in log
    tally("fuzzed frames, to a server", FRAMES_TO_SERVER)


def _exchange(port: int, data: bytes) -> bytes:
    """Send data and return what the server sends until it closes the connection, which must not be
    written to any more.
    """
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=at_most(20)) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                received += chunk
        except ConnectionError:
            # The server has closed the connection because the data is no message.
            return received
    return received
