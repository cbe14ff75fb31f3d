"""Bytes that are no calls: only their connection is lost, other clients are served, and memory does not grow."""

import errno
import random
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.process.command import stop_server
from tests.support.servers.metastore import (
    MetastoreUnderTest,
    foreign_client,
    metastore_under_test,
    started_server,
    table,
)
from tests.support.servers.raw_thrift import call, reluctant, text
from tests.support.waits import at_most, wait_until

MEMORY_BYTES_MAX = 64 * 1024 * 1024

SLOW_CLIENTS = 10
REPLY_BYTES = 2_000_000


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server on SQLite; the kind of database does not matter for these tests."""
    directory = tmp_path_factory.mktemp("victim")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        yield running


@pytest.fixture(autouse=True)
def unharmed(victim: MetastoreUnderTest) -> Iterator[None]:
    """Check after each test that the server answers and that its memory has not grown."""
    process = psutil.Process(victim.running.process.pid)
    before = process.memory_info().rss
    yield
    with HiveMetastoreClient(victim.uri, timeout_seconds=at_most(10)) as client:
        assert client.get_all_databases() == ["default"]
    assert process.memory_info().rss - before < MEMORY_BYTES_MAX


def test_random_bytes_are_harmless(victim: MetastoreUnderTest) -> None:
    source = random.Random(7)
    for _ in range(200):
        _send(victim, source.randbytes(source.randrange(1, 400)))


def test_other_protocols_are_harmless(victim: MetastoreUnderTest) -> None:
    _send(victim, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    _send(victim, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64)
    _send(victim, struct.pack("!i", 40) + call("get_all_databases"))


def test_truncated_calls_are_harmless(victim: MetastoreUnderTest) -> None:
    whole = call("get_table", b"\x0b\x00\x01" + struct.pack("!i", 7) + b"default\x00")
    for length in range(len(whole)):
        _send(victim, whole[:length])


@pytest.mark.parametrize("length", [2**31 - 1, 200 * 1024 * 1024, -1, -(2**31)])
def test_a_string_of_an_enormous_declared_length_closes_its_connection(victim: MetastoreUnderTest, length: int) -> None:
    assert _send(victim, call("get_database", b"\x0b\x00\x01" + struct.pack("!i", length))) == b""
    assert _send(victim, struct.pack("!Ii", 0x80010001, length)) == b""


@pytest.mark.parametrize("length", [2**31 - 1, 500_000_000, -1])
@pytest.mark.parametrize(
    "kind", [b"\x0f\x00\x02\x0b", b"\x0f\x00\x02\x0c", b"\x0f\x00\x09\x0c", b"\x0d\x00\x09\x0b\x0b"]
)
def test_a_list_of_an_enormous_declared_length_closes_its_connection(
    victim: MetastoreUnderTest, kind: bytes, length: int
) -> None:
    assert _send(victim, call("get_table_objects_by_name", kind + struct.pack("!i", length))) == b""


def test_deeply_nested_structures_are_harmless(victim: MetastoreUnderTest) -> None:
    """They are in a field unknown to the method, which the decoder skips, and in the arguments of an unknown method."""
    nested = b"\x0c\x00\x63" * 200_000
    _send(victim, call("get_database", nested))
    _send(victim, call("no_such_method", nested))


def test_an_unknown_method_is_answered_and_the_connection_is_kept(victim: MetastoreUnderTest) -> None:
    with socket.create_connection(("127.0.0.1", victim.port), timeout=at_most(10)) as connection:
        for _ in range(2):
            # An integer, and a binary value that is not valid UTF-8.
            arguments = b"\x08\x00\x01\x00\x00\x00\x05" + b"\x0b\x00\x02\x00\x00\x00\x02\xff\xa0" + b"\x00"
            connection.sendall(call("open_txns", arguments))
            error = _reply(connection.recv(65536))
            assert error.type == TApplicationException.UNKNOWN_METHOD
            assert error.message == "Invalid method name: 'open_txns'"
        connection.sendall(call("get_all_databases", b"\x00"))
        assert b"default" in connection.recv(65536)
    log = (victim.warehouse.parent / "server.log").read_text()
    assert log.count("a client called open_txns, which is not served") == 1


@pytest.mark.parametrize("method", ["show_locks", "get_table_req", "lock", "add_partitions_req"])
def test_a_request_without_its_structure_is_answered_with_the_missing_argument(
    victim: MetastoreUnderTest, method: str
) -> None:
    with socket.create_connection(("127.0.0.1", victim.port), timeout=at_most(60)) as connection:
        connection.sendall(call(method, b"\x00"))
        error = _reply(connection.recv(65536))
    assert error.type == TApplicationException.PROTOCOL_ERROR
    assert f"{method} needs its argument" in str(error.message)
    log = (victim.warehouse.parent / "server.log").read_text()
    assert f"{method} failed" not in log
    # None of the earlier tests has caused a failure of the server either.
    assert "Traceback" not in log


def test_a_text_that_is_not_utf_8_is_harmless(victim: MetastoreUnderTest) -> None:
    _send(victim, call("get_database", b"\x0b\x00\x01" + struct.pack("!i", 2) + b"\xff\xfe\x00"))


def test_a_thousand_idle_connections_do_not_delay_other_clients(victim: MetastoreUnderTest) -> None:
    with ExitStack() as stack:
        _allow_descriptors()
        for number in range(1000):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", victim.port), timeout=at_most(60)))
            if number % 2:
                # Half of the connections have sent a request, and one has sent the beginning of a request.
                connection.sendall(call("get_all_databases", b"\x00"))
                assert b"default" in connection.recv(65536)
        connection.sendall(call("get_database")[:9])
        started = time.monotonic()
        with foreign_client(victim.port) as client:
            for _ in range(100):
                assert client.get_all_databases() == ["default"]
        assert time.monotonic() - started < 30


def test_a_server_accepts_more_connections_than_its_soft_limit_of_files(tmp_path: Path) -> None:
    """Most systems limit a process to 1024 open files until it raises its soft limit."""
    _allow_descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # This process has open files of its own, also for the servers of other tests.
    few = 50 + psutil.Process().num_fds()
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        running = started_server(
            f"sqlite:///{tmp_path / 'm.db'}", f"file:{tmp_path / 'w'}", log=tmp_path / "server.log"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with ExitStack() as stack:
        stack.callback(stop_server, running)
        port = int(running.uri.rpartition(":")[2])
        for _ in range(few + 100):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=at_most(60)))
        with foreign_client(port) as client:
            assert client.get_all_databases() == ["default"]


@pytest.mark.long
def test_a_client_that_does_not_read_its_replies_is_dropped_and_delays_no_other(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    log = tmp_path / "server.log"
    with (
        metastore_under_test(db, tmp_path, "--message-seconds", "1") as running,
        HiveMetastoreClient(running.uri) as client,
    ):
        client.create_table(table("default", "big", parameters={"text": "x" * REPLY_BYTES}))
        process = psutil.Process(running.running.process.pid)
        sizes = []

        def timed_out(count: int) -> bool:
            return log.read_text().count("timed out") >= count

        for turn in range(1, 4):
            with ExitStack() as stack:
                slow = [stack.enter_context(reluctant(running.port)) for _ in range(SLOW_CLIENTS)]
                for connection in slow:
                    # The requests need more than the buffers of the sockets, so that the server has to keep the rest.
                    connection.sendall(call("get_table", text(1, "default") + text(2, "big") + b"\x00") * 20)
                for _ in range(10):
                    assert len(client.get_table("default", "big").parameters["text"]) == REPLY_BYTES
                # Others were served meanwhile; now the server closes the connections of all that have not read a byte.
                wait_until(partial(timed_out, turn * SLOW_CLIENTS))
                for connection in slow:
                    assert _received_until_the_end(connection) < 20 * REPLY_BYTES
            sizes.append(process.memory_info().rss)
        assert client.get_all_tables("default") == ["big"]
        # Memory does not grow with the number of such clients.
        assert sizes[-1] - sizes[0] < MEMORY_BYTES_MAX


def test_a_message_that_arrives_too_slowly_closes_its_connection(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with (
        metastore_under_test(db, tmp_path, "--message-seconds", "1") as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=at_most(60)) as connection,
    ):
        started = time.monotonic()
        connection.sendall(call("get_database")[:9])
        assert connection.recv(1) == b""
        assert time.monotonic() - started > 0.5


@pytest.mark.long
def test_clients_beyond_the_limit_of_connections_wait(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path, "--connections-max", "2") as running:
        first = HiveMetastoreClient(running.uri)
        assert first.get_all_databases() == ["default"]
        with socket.create_connection(("127.0.0.1", running.port), timeout=at_most(10)):
            third = socket.create_connection(("127.0.0.1", running.port), timeout=at_most(10))
            third.sendall(call("get_all_databases", b"\x00"))
        with third:
            assert b"default" in third.recv(65536)
        first.close()
    assert "all 2 connections are in use" in (tmp_path / "server.log").read_text()


def _received_until_the_end(connection: socket.socket) -> int:
    """Return the number of bytes received before the server closes the connection."""
    received = 0
    try:
        while chunk := connection.recv(1 << 20):
            received += len(chunk)
    except OSError as error:
        if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
            raise
    return received


def _allow_descriptors() -> None:
    """Raise the limit of open files of this process to the maximum."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _send(victim: MetastoreUnderTest, data: bytes) -> bytes:
    """Send the bytes, end the sending side, and return what the server sends until it closes.

    If the server closes early, the error is a reset or a broken pipe while data is sent, and ENOTCONN when the reset
    arrives between the last byte and the end of the sending side.
    """
    with socket.create_connection(("127.0.0.1", victim.port), timeout=at_most(10)) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
        except OSError as error:
            if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                raise
            return b""
        return received


def _reply(data: bytes) -> TApplicationException:
    protocol = TBinaryProtocol(TMemoryBuffer(data))
    _, kind, _ = protocol.readMessageBegin()
    assert kind == TMessageType.EXCEPTION
    error = TApplicationException()
    error.read(protocol)
    return error
