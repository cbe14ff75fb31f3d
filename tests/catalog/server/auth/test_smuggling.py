"""Requests in requests: bytes that two readers of HTTP could split in different ways never become a second request."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.server.migration.commands import run
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.strangers import REFUSALS, statuses
from tests.support.waits import at_most

pytestmark = pytest.mark.attack("request smuggling")

NAMESPACE = "smuggled"
BODY = json.dumps({"namespace": [NAMESPACE], "properties": {}}).encode()
TARGET = b"POST /iceberg/v1/hive/namespaces HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"

FRAMINGS: dict[str, tuple[bytes, bytes]] = {
    "length-then-coding": (b"Content-Length: 5\r\n" + CHUNKED, b"0\r\n\r\n"),
    "coding-then-length": (CHUNKED + b"Content-Length: 5\r\n", b"0\r\n\r\n"),
    "two-lengths": (b"Content-Length: 0\r\nContent-Length: 5\r\n", b""),
    "two-lengths-reversed": (b"Content-Length: 5\r\nContent-Length: 0\r\n", b"01234"),
    "two-equal-lengths": (b"Content-Length: 0\r\nContent-Length: 0\r\n", b""),
    "listed-lengths": (b"Content-Length: 0, 0\r\n", b""),
    "length-with-a-sign": (b"Content-Length: +0\r\n", b""),
    "length-below-zero": (b"Content-Length: -1\r\n", b""),
    "length-in-hexadecimal": (b"Content-Length: 0x0\r\n", b""),
    "length-with-a-point": (b"Content-Length: 0.0\r\n", b""),
    "length-with-a-blank": (b"Content-Length: 0 0\r\n", b""),
    "length-that-overflows": (b"Content-Length: 18446744073709551616\r\n", b""),
    "empty-length": (b"Content-Length:\r\n", b""),
    "length-with-a-blank-name": (b"Content-Length : 5\r\n", b""),
    "length-on-a-folded-line": (b"X: y\r\n Content-Length: 5\r\n", b""),
    "unknown-coding": (b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "coding-in-quotes": (b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n"),
    "coding-and-identity": (b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"),
    "identity": (b"Transfer-Encoding: identity\r\n", b""),
    "gzip": (b"Transfer-Encoding: gzip\r\n", b""),
    "two-codings": (CHUNKED + b"Transfer-Encoding: identity\r\n", b"0\r\n\r\n"),
    "coding-with-a-blank-name": (b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    "coding-on-a-folded-line": (b"X: y\r\n Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "folded-coding": (b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"),
    "coding-with-a-vertical-tab": (b"Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n"),
    "coding-with-a-nul": (b"Transfer-Encoding: chunked\0\r\n", b"0\r\n\r\n"),
    "coding-after-a-bare-return": (b"X: y\rTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "coding-after-a-bare-newline": (b"X: y\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "chunk-size-that-overflows": (CHUNKED, b"10000000000000000\r\n"),
    "chunk-size-with-a-sign": (CHUNKED, b"+0\r\n\r\n"),
    "chunk-size-below-zero": (CHUNKED, b"-1\r\n\r\n"),
    "chunk-size-with-a-prefix": (CHUNKED, b"0x0\r\n\r\n"),
    "chunk-size-with-a-blank": (CHUNKED, b" 0\r\n\r\n"),
    "chunk-size-with-an-underscore": (CHUNKED, b"0_0\r\n\r\n"),
    "empty-chunk-size": (CHUNKED, b"\r\n\r\n"),
    "chunk-with-bare-newlines": (CHUNKED, b"0\n\n"),
    "chunk-with-bare-returns": (CHUNKED, b"0\r\r"),
    "chunk-that-is-too-long": (CHUNKED, b"1\r\nxx\r\n0\r\n\r\n"),
    "chunk-without-an-end": (CHUNKED, b"1\r\nx0\r\n\r\n"),
    "chunk-extension-with-a-newline": (CHUNKED, b"0;a\nb\r\n\r\n"),
    "blank-before-the-first-header": (b" X: y\r\n", b""),
    "header-without-a-colon": (b"X\r\n", b""),
    "header-without-a-name": (b": y\r\n", b""),
    "nul-in-a-name": (b"X\0: y\r\n", b""),
    "nul-in-a-value": (b"X: \0\r\n", b""),
    "blank-in-a-name": (b"X y: z\r\n", b""),
}
"""Headers and the beginning of a body, which another request follows."""


@pytest.fixture(scope="module")
def token_and_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, MetastoreUnderTest]]:
    """Run a server that takes tokens, with a token of a client that may do everything."""
    directory: Path = tmp_path_factory.mktemp("smuggling")
    with metastore_under_test(
        f"sqlite:///{directory / 'metastore.db'}", directory, "--http-port", "0", "--authentication", "token"
    ) as server:
        yield run("token", "create", "ann", "--db", server.db).strip(), server


def exchanged(server: MetastoreUnderTest, data: bytes) -> bytes:
    """Send bytes on a connection, and return what the server sends until it closes the connection."""
    host, _, port = server.http.removeprefix("http://").partition(":")
    reply = b""
    with socket.create_connection((host, int(port)), timeout=at_most(30)) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                reply += part
        except ConnectionError:
            return reply
    return reply


def namespaces(server: MetastoreUnderTest, token: str) -> list[list[str]]:
    """Return the namespaces of the server."""
    request = urllib.request.Request(
        f"{server.http}/iceberg/v1/hive/namespaces", headers={"authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=at_most(30)) as response:
        found: list[list[str]] = json.loads(response.read())["namespaces"]
    return found


def inner(authorization: bytes) -> bytes:
    """Return the request that is to be smuggled: it would create a namespace."""
    head = TARGET + HOST + authorization + b"Content-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("method", [b"GET", b"POST"], ids=["get", "post"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_an_ambiguous_request_is_the_last_one_of_its_connection(
    token_and_server: tuple[str, MetastoreUnderTest], framing: str, method: bytes, is_known: bool
) -> None:
    token, server = token_and_server
    headers, begin = FRAMINGS[framing]
    authorization = b"Authorization: Bearer %s\r\n" % token.encode()
    outer = authorization if is_known else b""
    data = (
        method + b" /iceberg/v1/config HTTP/1.1\r\n" + HOST + headers + outer + b"\r\n" + begin + inner(authorization)
    )
    reply = exchanged(server, data)
    assert [NAMESPACE] not in namespaces(server, token), reply
    # Whatever the server takes for the first request, there is no second one.
    assert len(statuses(reply)) <= 1, reply
    if not is_known:
        assert set(statuses(reply)) <= REFUSALS, reply


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.1\nHost: localhost\n\n",
        b"POST /metastore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
        b"CONNECT 127.0.0.1:9083 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_a_request_after_a_refused_one_is_not_served(
    token_and_server: tuple[str, MetastoreUnderTest], begin: bytes
) -> None:
    token, server = token_and_server
    reply = exchanged(server, begin + inner(b""))
    assert set(statuses(reply)) <= REFUSALS, reply
    assert [NAMESPACE] not in namespaces(server, token)


def test_credentials_of_one_request_do_not_count_for_the_next(token_and_server: tuple[str, MetastoreUnderTest]) -> None:
    token, server = token_and_server
    first = b"GET /iceberg/v1/config HTTP/1.1\r\n" + HOST + b"Authorization: Bearer %s\r\n\r\n" % token.encode()
    trailer = first[:-2] + CHUNKED + b"\r\n0\r\nAuthorization: Bearer %s\r\n\r\n" % token.encode()
    for begin in (first, first * 3, trailer):
        found = statuses(exchanged(server, begin + inner(b"")))
        assert found[-1] == 401
        assert set(found[:-1]) == {200}
    assert [NAMESPACE] not in namespaces(server, token)


def test_credentials_in_a_trailer_do_not_count(token_and_server: tuple[str, MetastoreUnderTest]) -> None:
    token, server = token_and_server
    chunk = b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\nAuthorization: Bearer %s\r\n\r\n" % token.encode()
    reply = exchanged(server, TARGET + HOST + CHUNKED + b"\r\n" + chunk)
    assert statuses(reply) == [401]
    assert [NAMESPACE] not in namespaces(server, token)
