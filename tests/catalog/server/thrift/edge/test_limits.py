"""Limits of a server: clients that send or do not read at will delay no others, memory is bounded, and the server
stops.

Some limits are those of tests/benchmarks/edge.py.
"""

import errno
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.process.command import RunningServer
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, plain_client, storage, table
from tests.support.servers.raw_thrift import call, reluctant, text
from tests.support.shares import LONG
from tests.support.waits import at_most, wait_until

SECONDS_MAX = at_most(60)
REPLY_BYTES = 1_000_000
UNREAD_CLIENTS = 80
SERVER_BYTES_MAX = 600 << 20
END_SECONDS_MAX = 25.0
"""Twelve seconds on an idle machine."""


@contextmanager
def server(directory: Path, *arguments: str) -> Iterator[MetastoreUnderTest]:
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, *arguments) as running:
        yield running


def log_of(running: MetastoreUnderTest) -> str:
    return (running.warehouse.parent / "server.log").read_text()


def is_served(running: MetastoreUnderTest) -> None:
    with plain_client(running.port) as client:
        for _ in range(5):
            assert client.get_all_databases() == ["default"]


def ends_soon(running: RunningServer) -> None:
    began = time.monotonic()
    running.process.terminate()
    assert running.process.wait(timeout=SECONDS_MAX) == 0
    assert time.monotonic() - began < END_SECONDS_MAX


def hung_up(connection: socket.socket) -> bool:
    """Wait until the server has closed the connection."""
    try:
        while connection.recv(1 << 20):
            pass
    except OSError as error:
        if error.errno not in (errno.ECONNRESET, errno.EPIPE):
            raise
    return True


@pytest.mark.parametrize("protocol", ["binary", "compact"])
def test_a_frame_that_is_too_long_is_refused_by_its_header(tmp_path: Path, protocol: str) -> None:
    with server(tmp_path, "--transport", "framed", "--protocol", protocol, "--message-bytes-max", "1MB") as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=SECONDS_MAX) as connection:
            connection.sendall(struct.pack("!I", (1 << 20) + 1))
            assert hung_up(connection)
        assert "a message of more than 1048576 bytes (the setting message_bytes_max)" in log_of(running)


def test_incomplete_messages_are_refused_or_bounded(tmp_path: Path) -> None:
    with server(tmp_path, "--partial-bytes-max", "8MB") as running, ExitStack() as stack:
        process = psutil.Process(running.running.process.pid)
        before = process.memory_info().rss
        hundred = call("get_database", struct.pack("!bhi", 11, 1, 100_000_000))
        twelve = call("get_database", struct.pack("!bhi", 11, 1, 12_000_000))
        for number in range(20):
            connection = stack.enter_context(reluctant(running.port))
            with suppress(OSError):
                connection.sendall(hundred if number % 2 else twelve)
                connection.sendall(b"x" * 4_000_000)
            is_served(running)
        wait_until(lambda: "(the setting partial_bytes_max), and this one is of the largest" in log_of(running))
        assert "a length of 100000000, allowed are 16777216" in log_of(running)
        assert process.memory_info().rss - before < 100 << 20
        # A message within the limits is accepted.
        with HiveMetastoreClient(running.uri, timeout_seconds=SECONDS_MAX) as client:
            client.create_table(table("default", "large", parameters={"text": "x" * 3_000_000}))
            assert len(client.get_table("default", "large").parameters["text"]) == 3_000_000


def test_a_request_of_many_small_values_is_answered_with_an_error(tmp_path: Path) -> None:
    with server(tmp_path, "--decoded-bytes-max", "64MB") as running:
        process = psutil.Process(running.running.process.pid)
        before = process.memory_info().rss
        with socket.create_connection(("127.0.0.1", running.port), timeout=SECONDS_MAX) as connection:
            # 900,000 tables of one byte each.
            tables = struct.pack("!bhbi", 15, 2, 12, 900_000) + b"\x00" * 900_000
            for _ in range(3):
                connection.sendall(call("get_table_objects_by_name", tables + b"\x00"))
                reply = connection.recv(65536)
                assert b"half of the setting decoded_bytes_max" in reply
            connection.sendall(call("get_all_databases", b"\x00"))
            assert b"default" in connection.recv(65536)
        assert process.memory_info().rss - before < 64 << 20


@pytest.mark.longer
def test_clients_that_never_read_do_not_delay_others(tmp_path: Path) -> None:
    with server(tmp_path, "--reply-bytes-max", "4MB") as running, ExitStack() as stack:
        with HiveMetastoreClient(running.uri) as client:
            client.create_table(table("default", "big", parameters={"text": "x" * REPLY_BYTES}))
        process = psutil.Process(running.running.process.pid)
        request = call("get_table", text(1, "default") + text(2, "big") + b"\x00")
        for _ in range(UNREAD_CLIENTS):
            stack.enter_context(reluctant(running.port)).sendall(request * 20)
            assert process.memory_info().rss < SERVER_BYTES_MAX
        is_served(running)
        wait_until(lambda: "reply_bytes_max), and it is the slowest" in log_of(running))
        is_served(running)
        assert process.num_threads() < 150
        assert process.memory_info().rss < SERVER_BYTES_MAX
        if LONG:
            ends_soon(running.running)
        else:
            # A server waits for ten seconds for clients that do not read.
            process.kill()


@pytest.mark.long
def test_a_server_of_workers_stops_although_clients_never_read(tmp_path: Path) -> None:
    with server(tmp_path, "--workers", "2") as running, ExitStack() as stack:
        with HiveMetastoreClient(running.uri) as client:
            client.create_table(table("default", "big", parameters={"text": "x" * REPLY_BYTES}))
        request = call("get_table", text(1, "default") + text(2, "big") + b"\x00")
        for _ in range(20):
            stack.enter_context(reluctant(running.port)).sendall(request * 20)
        is_served(running)
        children = psutil.Process(running.running.process.pid).children()
        ends_soon(running.running)
        assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.sample(1)
@pytest.mark.parametrize("transport", ["buffered", "framed", "compact", "http"])
def test_slow_messages_do_not_delay_other_clients(tmp_path: Path, transport: str) -> None:
    arguments = {
        "framed": ("--transport", "framed"),
        "compact": ("--protocol", "compact"),
        "http": ("--http-port", "0"),
    }.get(transport, ())
    message = call("get_database", text(1, "default") + b"\x00")
    beginning = {
        "framed": struct.pack("!I", len(message)) + message,
        "compact": b"\x82\x21\x01\x0cget_database\x18\x07default\x00",
        "http": b"POST /metastore HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345",
    }.get(transport, message)[:-1]
    with server(tmp_path, "--message-seconds", "2", *arguments) as running, ExitStack() as stack:
        port = http_port_of(running) if transport == "http" else running.port
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)) for _ in range(100)
        ]
        for number in range(len(beginning)):
            for connection in slow:
                with suppress(OSError):
                    connection.send(beginning[number : number + 1])
        assert psutil.Process(running.running.process.pid).num_threads() < 90
        if transport == "buffered":
            is_served(running)
        for connection in slow:
            assert hung_up(connection)
        wait_until(lambda: log_of(running).count("a message took too long to arrive") == 100)


def listening_ports(running: MetastoreUnderTest) -> set[int]:
    connections = psutil.Process(running.running.process.pid).net_connections()
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def http_port_of(running: MetastoreUnderTest) -> int:
    return (listening_ports(running) - {running.port}).pop()


@pytest.mark.long
def test_slow_http_clients_do_not_delay_others(tmp_path: Path) -> None:
    limits = ("--reply-bytes-max", "4MB", "--partial-bytes-max", "8MB")
    with server(tmp_path, "--http-port", "0", *limits) as running, ExitStack() as stack:
        with HiveMetastoreClient(running.uri) as client:
            client.create_table(table("default", "big", parameters={"text": "x" * REPLY_BYTES}))
        port = http_port_of(running)
        process = psutil.Process(running.running.process.pid)
        message = call("get_table", text(1, "default") + text(2, "big") + b"\x00")
        head = b"POST /metastore HTTP/1.1\r\nContent-Length: %d\r\n\r\n"
        request = head % len(message) + message
        for _ in range(UNREAD_CLIENTS // 2):
            stack.enter_context(reluctant(port)).sendall(request * 20)
        for _ in range(10):
            with suppress(OSError):
                stack.enter_context(reluctant(port)).sendall(head % 12_000_000 + b"x" * 4_000_000)
        is_served(running)
        wait_until(lambda: "reply_bytes_max), and it is the slowest" in log_of(running))
        wait_until(lambda: "(the setting partial_bytes_max), and this one is of the largest" in log_of(running))
        is_served(running)
        assert process.num_threads() < 90
        assert process.memory_info().rss < SERVER_BYTES_MAX
        ends_soon(running.running)


def test_an_http_request_in_progress_is_completed_before_the_server_stops(tmp_path: Path) -> None:
    with server(tmp_path, "--http-port", "0") as running, socket.create_server(("127.0.0.1", 0)) as silent:
        location = f"hdfs://127.0.0.1:{silent.getsockname()[1]}/x".encode()
        created = struct.pack("!bhbhi", 12, 1, 11, 1, 3) + b"far" + struct.pack("!bhi", 11, 3, len(location)) + location
        message = call("create_database", created + b"\x00\x00")
        head = b"POST /metastore HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(message)
        with socket.create_connection(("127.0.0.1", http_port_of(running)), timeout=SECONDS_MAX) as connection:
            connection.sendall(head + message)
            # The request is connected to the name node, which closes the connection while the server stops.
            asking, _ = silent.accept()
            running.running.process.terminate()
            wait_until(lambda: not listening_ports(running), "the server has closed its ports")
            asking.close()
            silent.close()
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"create_database" in answer
            assert hung_up(connection)
        assert running.running.process.wait(timeout=SECONDS_MAX) == 0


@pytest.mark.long
def test_silent_name_nodes_do_not_delay_other_clients(tmp_path: Path) -> None:
    with server(tmp_path, "--store-seconds", "1") as running, ExitStack() as stack:
        errors: list[str] = []

        def create(number: int, location: str) -> None:
            with HiveMetastoreClient(running.uri, timeout_seconds=SECONDS_MAX) as client:
                try:
                    client.create_table(table("default", f"s_{number}", location=location))
                except CatalogError as error:
                    errors.append(str(error))

        threads = []
        for number in range(70):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            # Each name node has two requests.
            for part in range(2):
                location = f"hdfs://127.0.0.1:{listener.getsockname()[1]}/x/{part}"
                threads.append(threading.Thread(target=create, args=(2 * number + part, location)))
        for thread in threads:
            thread.start()
        with HiveMetastoreClient(running.uri, timeout_seconds=SECONDS_MAX) as client:
            for number in range(10):
                client.create_table(table("default", f"t_{number}"))
                assert client.get_table("default", f"t_{number}").tableName == f"t_{number}"
        for thread in threads:
            thread.join(SECONDS_MAX)
            assert not thread.is_alive()
        assert len(errors) == 140
        assert any("did not answer within 1 s (the setting store_seconds)" in error for error in errors)
        # The threads that wait for name nodes do not keep the server from stopping.
        ends_soon(running.running)


def test_name_nodes_that_refuse_connections_delay_no_other_client(tmp_path: Path) -> None:
    with server(tmp_path, "--store-seconds", "1") as running:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            location = f"hdfs://127.0.0.1:{closed.getsockname()[1]}/x"
        errors: list[str] = []

        def create(number: int) -> None:
            with HiveMetastoreClient(running.uri, timeout_seconds=SECONDS_MAX) as client:
                try:
                    client.create_table(table("default", f"s_{number}", location=f"{location}/{number}"))
                except CatalogError as error:
                    errors.append(str(error))

        threads = [threading.Thread(target=create, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        with HiveMetastoreClient(running.uri, timeout_seconds=SECONDS_MAX) as client:
            for number in range(10):
                client.create_table(table("default", f"t_{number}"))
        for thread in threads:
            thread.join(SECONDS_MAX)
            assert not thread.is_alive()
        assert len(errors) == 40
        ends_soon(running.running)


def test_calls_of_a_client_that_has_gone_are_not_carried_out(tmp_path: Path) -> None:
    count = 5000
    with server(tmp_path) as running:
        client = socket.create_connection(("127.0.0.1", running.port), timeout=SECONDS_MAX)
        # The connection ends at once, and not when its bytes are read.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        calls = [
            call("create_database", struct.pack("!bhbhi", 12, 1, 11, 1, len(name)) + name + b"\x00\x00")
            for name in (f"d{number}".encode() for number in range(count))
        ]
        client.sendall(b"".join(calls))
        client.close()
        with HiveMetastoreClient(running.uri, timeout_seconds=SECONDS_MAX) as other:
            counts: list[int] = []

            def is_settled() -> bool:
                counts.append(len(other.get_all_databases()))
                return len(counts) > 20 and len(set(counts[-20:])) == 1

            wait_until(is_settled, "no more databases come")
            assert counts[-1] < count / 2
        ends_soon(running.running)


def test_a_drop_with_a_silent_name_node_drops_the_table(tmp_path: Path) -> None:
    with server(tmp_path, "--store-seconds", "1") as running, socket.create_server(("127.0.0.1", 0)) as listener:
        location = f"hdfs://127.0.0.1:{listener.getsockname()[1]}/x"
        with HiveMetastoreClient(running.uri, timeout_seconds=SECONDS_MAX) as client:
            client.create_table(table("default", "t"))
            moved = client.get_table("default", "t")
            moved.sd.location = location
            client.alter_table("default", "t", moved)
            client.drop_table("default", "t", delete_data=True)
            assert client.get_all_tables("default") == []


@pytest.mark.long
def test_ten_thousand_partitions_are_added_by_one_message(tmp_path: Path) -> None:
    with server(tmp_path) as running, plain_client(running.port) as client:
        columns = [(f"column_{number}", "decimal(10,2)") for number in range(20)]
        client.create_table(table("default", "t", *columns, partition_keys=(("p", "int"),)))
        parts = [
            ttypes.Partition(
                values=[str(number)],
                dbName="default",
                tableName="t",
                sd=storage(*columns, location=f"file:{tmp_path}/p/{number}"),
                parameters={"a": "b"},
            )
            for number in range(10_000)
        ]
        assert client.add_partitions(parts) == 10_000
        assert len(client.get_partition_names("default", "t", -1)) == 10_000
