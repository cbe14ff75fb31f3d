"""Transports and protocols of clients: buffered, framed and HTTP, binary and compact, TLS.

Anything else costs only its own connection.
"""

import contextlib
import errno
import http.client
import random
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TMemoryBuffer

from interbed.catalog.server.service.errors import MetastoreError
from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client, get_table_args
from tests.support.certificates import make_certificates
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test, table
from tests.support.shares import pairwise
from tests.support.waits import at_most

TIMEOUT_SECONDS = at_most(60)
MEMORY_BYTES_MAX = 64 * 1024 * 1024
LARGE = 300_000
"""Length in bytes of a message that exceeds one read of the server and the buffer of a socket."""

PROTOCOLS = {"binary": TBinaryProtocol, "compact": TCompactProtocol}


@pytest.mark.parametrize(
    ("protocol", "transport", "tls"), pairwise(["binary", "compact"], ["buffered", "framed"], [False, True])
)
def test_every_transport_and_protocol_is_served(
    tmp_path: Path, certificates: Path, transport: str, protocol: str, tls: bool
) -> None:
    arguments = ["--transport", transport, "--protocol", protocol]
    if tls:
        arguments += ["--tls-certificate", f"{certificates}/server.pem", "--tls-key", f"{certificates}/server.key"]
    with _server(tmp_path, *arguments) as running:
        context = ssl.create_default_context(cafile=certificates / "ca.pem") if tls else None
        connected = (
            TSSLSocket("127.0.0.1", running.port, ssl_context=context) if tls else TSocket("127.0.0.1", running.port)
        )
        connected.setTimeout(TIMEOUT_SECONDS * 1000)
        wrapped = TFramedTransport(connected) if transport == "framed" else TBufferedTransport(connected)
        _converse(wrapped, PROTOCOLS[protocol])
        with _connected(running.port, context) as link:
            _garbage(link, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        _harm(running, context)


def test_the_http_transport_is_served(tmp_path: Path) -> None:
    with _http_server(tmp_path) as (running, port):
        # Hive's own client sends the second one.
        for path, database in (("/metastore", "shop"), ("/metastore/*", "shop2")):
            client = THttpClient(f"http://127.0.0.1:{port}{path}")
            client.setTimeout(TIMEOUT_SECONDS * 1000)
            client.setCustomHeaders({"Content-Type": "application/x-thrift", "x-actor-username": "anna"})
            _converse(client, TBinaryProtocol, database=database)
        # The other port is still served.
        _converse(TBufferedTransport(TSocket("127.0.0.1", running.port)), TBinaryProtocol, database="other")
    audited = (tmp_path / "audit.log").read_text()
    assert '"user": "anna"' in audited


@pytest.mark.long
def test_a_change_over_one_port_is_visible_over_the_other_at_once(tmp_path: Path) -> None:
    with _http_server(tmp_path) as (running, port):
        over_http = THttpClient(f"http://127.0.0.1:{port}/metastore")
        over_http.setTimeout(TIMEOUT_SECONDS * 1000)
        over_http.setCustomHeaders({"Content-Type": "application/x-thrift"})
        over_tcp = TBufferedTransport(TSocket("127.0.0.1", running.port))
        clients = [Client(TBinaryProtocol(each)) for each in (over_tcp, over_http)]
        for each in (over_tcp, over_http):
            each.open()
        clients[0].create_table(table("default", "t", parameters={"step": "0"}))
        for step in range(1, 60):
            changed = clients[step % 2].get_table("default", "t")
            assert changed.parameters["step"] == str(step - 1)
            changed.parameters["step"] = str(step)
            clients[step % 2].alter_table("default", "t", changed)
            for client in clients * 2:
                assert client.get_table("default", "t").parameters["step"] == str(step)
        for each in (over_tcp, over_http):
            each.close()


@pytest.mark.long
def test_http_with_tls_is_served_by_worker_processes(tmp_path: Path, certificates: Path) -> None:
    arguments = ["--tls-certificate", f"{certificates}/server.pem", "--tls-key", f"{certificates}/server.key"]
    arguments += ["--tls-client-ca", f"{certificates}/ca.pem", "--workers", "2"]
    call = _message(lambda client: client.send_get_all_databases())
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.load_cert_chain(certificates / "client.pem", certificates / "client.key")
    headers = {"Content-Type": "application/x-thrift"}
    with _http_server(tmp_path, *arguments) as (running, port):
        connections = [
            http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS, context=context) for _ in range(6)
        ]
        for connection in connections * 2:
            connection.request("POST", "/metastore", call, headers)
            _check_databases(connection.getresponse())
        for head in (b"POST /metastore HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"nothing\r\n\r\n"):
            with _connected(port, context) as link:
                link.sendall(head)
                answer = b""
                while chunk := link.recv(65536):
                    answer += chunk
                assert b"\r\nconnection: close\r\n" in answer.lower()
        with contextlib.suppress(OSError), _connected(port) as plain:
            _garbage(plain, call)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS, context=context)
        created = _message(lambda client: client.send_create_database(ttypes.Database(name="audited")))
        connection.request("POST", "/metastore", created, headers)
        assert connection.getresponse().status == 200
        # Idle connections do not keep the server from stopping.
        began = time.monotonic()
        running.running.process.terminate()
        assert running.running.process.wait(timeout=TIMEOUT_SECONDS) == 0
        assert time.monotonic() - began < 9
        for each in (*connections, connection):
            each.close()
    assert '"certificate": "CN=client,O=Interbed tests"' in (tmp_path / "audit.log").read_text()


def test_http_requests_of_all_forms_are_answered(tmp_path: Path) -> None:
    call = _message(lambda client: client.send_get_all_databases())
    with _http_server(tmp_path) as (_, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        headers = {"Content-Type": "application/x-thrift"}
        for _ in range(3):
            # The connection is kept alive.
            connection.request("POST", "/metastore", call, headers)
            _check_databases(connection.getresponse())
        connection.request("POST", "/metastore", iter([call[:5], call[5:]]), headers, encode_chunked=True)
        _check_databases(connection.getresponse())
        connection.request("POST", "/metastore?user=x", call, {"Connection": "close"})
        response = connection.getresponse()
        assert response.getheader("Connection") == "close"
        _check_databases(response)
        with _connected(port) as link:
            head = f"POST /metastore HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {len(call)}\r\n\r\n".encode()
            link.sendall(head)
            assert link.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            link.sendall(call)
            assert link.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
            # Two requests at once, and one that arrives byte by byte.
            whole = b"POST /metastore HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(call), call)
            link.sendall(whole * 2)
            _receive(link, 2, b"HTTP/1.1 200 OK\r\n")
            for number in range(len(whole)):
                link.sendall(whole[number : number + 1])
            _receive(link, 1, b"HTTP/1.1 200 OK\r\n")
            # The last request; its body is sent after the server has accepted its header.
            link.sendall(head.replace(b"Expect: 100-continue", b"Connection: close\r\nExpect: 100-continue"))
            assert link.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            link.sendall(call)
            _receive(link, 1, b"HTTP/1.1 200 OK\r\n")
            while link.recv(1000):
                pass
        connection.close()


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metastore HTTP/1.1\r\n\r\n", 405),
        (b"POST /elsewhere HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 404),
        (b"POST /metastore HTTP/1.1\r\n\r\n", 411),
        (b"POST /metastore HTTP/1.1\r\nContent-Length: 2147483647\r\n\r\n", 413),
        (b"POST /metastore HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /metastore HTTP/1.1\r\nContent-Length: 1_0\r\n\r\n", 400),
        (b"POST /metastore HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
        (b"POST /metastore HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", 501),
        (b"POST /metastore HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nabc", 501),
        (b"POST /metastore HTTP/1.1\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc", 415),
        (b"POST /metastore HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (b"POST /metastore HTTP/1.1\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nabc", 415),
        (b"POST /metastore HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"POST /metastore HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /metastore HTTP/2\r\n\r\n", 400),
        (b"POST /metastore HTTP/1.1\r\n" + b"X-Y: " + b"z" * 100_000, 431),
        (b"\x00\xff\r\n\r\n", 400),
    ],
)
def test_invalid_http_is_answered_and_the_connection_is_closed(
    victim: tuple[MetastoreUnderTest, int], request_bytes: bytes, status: int
) -> None:
    with _connected(victim[1]) as link:
        answer = _garbage(link, request_bytes)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"\r\nconnection: close\r\n" in answer.lower()


@pytest.mark.parametrize(
    "head", [b"Transfer-Encoding: chunked\r\n\r\n7fffffff\r\n", b"Content-Length: 99999999\r\n\r\n"]
)
def test_a_body_that_is_too_long_is_refused_while_it_arrives(
    victim: tuple[MetastoreUnderTest, int], head: bytes
) -> None:
    with _connected(victim[1]) as link:
        answer = _garbage(link, b"POST /metastore HTTP/1.1\r\n" + head + bytes(17 << 20))
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"a message of more than 16777216 bytes (the setting message_bytes_max)" in answer


@pytest.mark.parametrize("service", [0, 1])
def test_random_bytes_cost_only_their_connection(victim: tuple[MetastoreUnderTest, int], service: int) -> None:
    port = (victim[0].port, victim[1])[service]
    source = random.Random(5)
    call = _message(lambda client: client.send_get_table("default", "t"))
    process = psutil.Process(victim[0].running.process.pid)
    before = process.memory_info().rss
    for number in range(150):
        with _connected(port) as link:
            if number % 3 == 0:
                _garbage(link, source.randbytes(source.randrange(1, 3000)))
            elif number % 3 == 1:
                _garbage(link, call[: source.randrange(1, len(call))])
            else:
                head = b"POST /metastore HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (len(call) + 7)
                _garbage(link, head + call)
    assert process.memory_info().rss - before < MEMORY_BYTES_MAX
    _converse(TBufferedTransport(TSocket("127.0.0.1", victim[0].port)), TBinaryProtocol, database=f"d_{service}")


def test_clients_need_a_certificate_if_the_server_requires_one(tmp_path: Path, certificates: Path) -> None:
    arguments = ["--tls-certificate", f"{certificates}/server.pem", "--tls-key", f"{certificates}/server.key"]
    arguments += ["--tls-client-ca", f"{certificates}/ca.pem", "--audit-log", str(tmp_path / "audit.log")]
    with _server(tmp_path, *arguments) as running:
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        with pytest.raises((OSError, EOFError)):
            _ask_for_databases(running.port, context)
        context.load_cert_chain(certificates / "client.pem", certificates / "client.key")
        connected = TSSLSocket("127.0.0.1", running.port, ssl_context=context)
        _converse(TBufferedTransport(connected), TBinaryProtocol)
    assert '"certificate": "CN=client,O=Interbed tests"' in (tmp_path / "audit.log").read_text()


@pytest.mark.long
def test_unfinished_handshakes_do_not_delay_other_clients(tmp_path: Path, certificates: Path) -> None:
    """More handshakes than there are threads; afterwards bytes that are no TLS are sent."""
    arguments = ["--tls-certificate", f"{certificates}/server.pem", "--tls-key", f"{certificates}/server.key"]
    with _server(tmp_path, *arguments) as running, contextlib.ExitStack() as stack:
        for _ in range(100):
            link = stack.enter_context(_connected(running.port))
            # Beginning of a record with a length of 512 bytes.
            link.sendall(b"\x16\x03\x01\x02\x00\x01")
        context = ssl.create_default_context(cafile=certificates / "ca.pem")
        _converse(TBufferedTransport(TSSLSocket("127.0.0.1", running.port, ssl_context=context)), TBinaryProtocol)
        with _connected(running.port) as link:
            _garbage(link, random.Random(3).randbytes(1000))
        _converse(
            TBufferedTransport(TSSLSocket("127.0.0.1", running.port, ssl_context=context)),
            TBinaryProtocol,
            database="again",
        )


def test_an_unusable_certificate_stops_the_start(tmp_path: Path, certificates: Path) -> None:
    with pytest.raises(MetastoreError, match="did not start"):
        metastore_under_test(
            f"sqlite:///{tmp_path / 'metastore.db'}",
            tmp_path,
            *("--tls-certificate", f"{certificates}/server.pem", "--tls-key", f"{certificates}/client.key"),
        ).__enter__()
    assert "the TLS certificate" in (tmp_path / "server.log").read_text()


@pytest.mark.long
def test_idle_connections_cost_no_threads(tmp_path: Path) -> None:
    with _server(tmp_path) as running, contextlib.ExitStack() as stack:
        process = psutil.Process(running.running.process.pid)
        links = [stack.enter_context(_connected(running.port)) for _ in range(500)]
        call = _message(lambda client: client.send_getName())
        for link in links:
            link.sendall(call)
            assert b"interbed" in link.recv(1000)
        assert process.num_threads() < 80
        before = process.cpu_times().user
        with selectors.DefaultSelector() as selector:
            for link in links:
                selector.register(link, selectors.EVENT_READ)
            # The server sends nothing to an idle connection, and keeps it open.
            assert selector.select(timeout=0.5) == []
        assert process.cpu_times().user - before < 0.4


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    with _server(tmp_path) as running, _connected(running.port) as link:
        names = [f"t_{number}" for number in range(50)]
        calls = [_message(lambda client, n=name: client.send_create_table(table("default", n))) for name in names]
        calls += [_message(lambda client, n=name: client.send_get_table("default", n)) for name in names * 2]
        link.sendall(b"".join(calls))
        received = TBufferedTransport(_reading(link))
        client = Client(TBinaryProtocol(received))
        for _ in names:
            client.recv_create_table()
        for name in names * 2:
            assert client.recv_get_table().tableName == name


# Helpers


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create certificates of a server and a client."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MetastoreUnderTest, int]]:
    """Run a server with its HTTP port."""
    with _http_server(tmp_path_factory.mktemp("victim")) as running:
        yield running


@contextlib.contextmanager
def _server(directory: Path, *arguments: str) -> Iterator[MetastoreUnderTest]:
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, *arguments) as running:
        yield running


@contextlib.contextmanager
def _http_server(directory: Path, *arguments: str) -> Iterator[tuple[MetastoreUnderTest, int]]:
    with _server(directory, "--http-port", "0", "--audit-log", str(directory / "audit.log"), *arguments) as running:
        port = _listening(running) - {running.port}
        yield running, port.pop()


def _listening(running: MetastoreUnderTest) -> set[int]:
    connections = psutil.Process(running.running.process.pid).net_connections()
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


@contextlib.contextmanager
def _connected(port: int, context: ssl.SSLContext | None = None) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as plain:
        if context is None:
            yield plain
        else:
            with context.wrap_socket(plain, server_hostname="localhost") as link:
                yield link


def _converse(transport: Any, protocol: Any, database: str = "sales") -> None:
    """Exchange small and large requests and replies, an exception, and calls around an unknown method."""
    transport.open()
    try:
        client = Client(protocol(transport))
        assert client.set_ugi("anna", []) == ["anna"]
        client.create_database(ttypes.Database(name=database, parameters={}))
        large = {"text": "x" * LARGE, "other": "ü"}
        client.create_table(table(database, "large", parameters=large))
        for _ in range(3):
            assert client.get_table(database, "large").parameters["text"] == large["text"]
            assert client.get_table(database, "large").parameters["other"] == large["other"]
            assert client.get_all_tables(database) == ["large"]
        with pytest.raises(ttypes.NoSuchObjectException):
            client.get_table(database, "none")
        _call_nothing(client._oprot)
        client.drop_database(database, True, True)
    finally:
        transport.close()


def _call_nothing(protocol: Any) -> None:
    protocol.writeMessageBegin("no_such_method", TMessageType.CALL, 77)
    get_table_args(dbname="d", tbl_name="t").write(protocol)
    protocol.writeMessageEnd()
    protocol.trans.flush()
    assert protocol.readMessageBegin() == ("no_such_method", TMessageType.EXCEPTION, 77)
    error = TApplicationException()
    error.read(protocol)
    protocol.readMessageEnd()
    assert error.message == "Invalid method name: 'no_such_method'"


def _harm(running: MetastoreUnderTest, context: ssl.SSLContext | None) -> None:
    process = psutil.Process(running.running.process.pid)
    before = process.memory_info().rss
    source = random.Random(9)
    for _ in range(40):
        with _connected(running.port, context) as link:
            _garbage(link, source.randbytes(source.randrange(1, 500)))
    for length in (2**31 - 1, 2**32 - 1, 200 * 1024 * 1024):
        with _connected(running.port, context) as link:
            _garbage(link, struct.pack("!I", length) + b"\x80\x01\x00\x01")
    assert process.memory_info().rss - before < MEMORY_BYTES_MAX
    with _connected(running.port, context):
        pass


def _ask_for_databases(port: int, context: ssl.SSLContext) -> None:
    with _connected(port, context) as link:
        # With TLS 1.3 a missing certificate is reported only after the handshake.
        link.sendall(_message(lambda client: client.send_get_all_databases()))
        if not link.recv(1000):
            raise EOFError


def _garbage(link: socket.socket, data: bytes) -> bytes:
    """Send the bytes, end the sending side, and return what the server sends until it closes the connection."""
    received = b""
    try:
        link.sendall(data)
        if isinstance(link, ssl.SSLSocket):
            link = link.unwrap()
        link.shutdown(socket.SHUT_WR)
        while chunk := link.recv(65536):
            received += chunk
    except ssl.SSLError:
        return received
    except OSError as error:
        if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
            raise
    return received


def _receive(link: socket.socket, count: int, mark: bytes) -> None:
    received = b""
    while received.count(mark) < count:
        data = link.recv(65536)
        assert data
        received += data


def _check_databases(response: http.client.HTTPResponse) -> None:
    assert response.status == 200
    assert response.getheader("Content-Type") == "application/x-thrift"
    client = Client(TBinaryProtocol(TMemoryBuffer(response.read())))
    assert client.recv_get_all_databases() == ["default"]


def _message(send: Any) -> bytes:
    buffer = TMemoryBuffer()
    send(Client(TBinaryProtocol(buffer)))
    value: bytes = buffer.getvalue()
    return value


def _reading(link: socket.socket) -> TSocket:
    wrapped = TSocket("127.0.0.1", 0)
    wrapped.setHandle(link)
    return wrapped
