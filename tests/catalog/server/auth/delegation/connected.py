"""Clients of Thrift's port by SASL PLAIN and DIGEST-MD5, for tests."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TTransportBase

from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore
from tests.catalog.server.auth.delegation.digest_client import ClientLayer, DigestClient, token_client
from tests.support.waits import at_most

START, OK, BAD, ERROR, COMPLETE = range(1, 6)


class RefusedError(Exception):
    """The server has refused a negotiation with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def message(status: int, payload: bytes = b"") -> bytes:
    """Return a message of the negotiation."""
    return struct.pack("!BI", status, len(payload)) + payload


def received(connection: socket.socket, count: int) -> bytes:
    """Return this many bytes, or fewer if the server closes the connection."""
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def answered(connection: socket.socket) -> tuple[int, bytes]:
    """Return status and payload of the server's message. ConnectionError if it closes the connection."""
    head = received(connection, 5)
    if len(head) < 5:
        raise ConnectionError("the server has closed the connection")
    status, length = struct.unpack("!BI", head)
    return status, received(connection, length)


def challenged(connection: socket.socket) -> bytes:
    """Begin DIGEST-MD5 and return the challenge."""
    connection.sendall(message(START, b"DIGEST-MD5") + message(OK))
    status, payload = answered(connection)
    if status != OK:
        raise RefusedError(status, payload.decode())
    return payload


def by_digest(connection: socket.socket, client: DigestClient) -> ClientLayer | None:
    """Negotiate DIGEST-MD5, and return the protection of frames. RefusedError."""
    connection.sendall(message(OK, client.respond(challenged(connection))))
    status, payload = answered(connection)
    if status != COMPLETE:
        raise RefusedError(status, payload.decode())
    assert payload.decode() == client.expected
    return None if client.quality == "auth" else client.layer()


def by_plain(connection: socket.socket, user: str, secret: str) -> None:
    """Negotiate PLAIN with a secret. RefusedError."""
    connection.sendall(message(START, b"PLAIN") + message(COMPLETE, f"\0{user}\0{secret}".encode()))
    status, payload = answered(connection)
    if status != COMPLETE:
        raise RefusedError(status, payload.decode())


class FrameTransport(TTransportBase):  # type: ignore[misc]
    """Frames on a connection, with a protection."""

    def __init__(self, connection: socket.socket, layer: ClientLayer | None = None) -> None:
        self._connection = connection
        self._layer = layer
        self._outgoing = b""
        self._incoming = b""

    def isOpen(self) -> bool:
        return True

    def write(self, data: bytes) -> None:
        self._outgoing += data

    def flush(self) -> None:
        content = self._outgoing if self._layer is None else self._layer.wrap(self._outgoing)
        self._outgoing = b""
        self._connection.sendall(struct.pack("!I", len(content)) + content)

    def read(self, sz: int) -> bytes:
        if not self._incoming:
            head = received(self._connection, 4)
            if len(head) < 4:
                raise ConnectionError("the server has closed the connection")
            content = received(self._connection, struct.unpack("!I", head)[0])
            self._incoming = content if self._layer is None else self._layer.unwrap(content)
        found, self._incoming = self._incoming[:sz], self._incoming[sz:]
        return found


@contextmanager
def connection_to(port: int) -> Iterator[socket.socket]:
    """Yield a connection to a server."""
    with socket.create_connection(("127.0.0.1", port), timeout=at_most(30)) as connection:
        yield connection


def thrift_on(connection: socket.socket, layer: ClientLayer | None = None) -> Any:
    """Return the client of Hive's interface on a negotiated connection."""
    return ThriftHiveMetastore.Client(TBinaryProtocol(FrameTransport(connection, layer)))


@contextmanager
def plain_client(port: int, user: str, secret: str) -> Iterator[Any]:
    """Yield a client that has authenticated itself by PLAIN. RefusedError."""
    with connection_to(port) as connection:
        by_plain(connection, user, secret)
        yield thrift_on(connection)


@contextmanager
def delegated_client(port: int, text: str, quality: str = "auth", cipher: str | None = None) -> Iterator[Any]:
    """Yield a client that has authenticated itself by a delegation token. RefusedError."""
    with connection_to(port) as connection:
        yield thrift_on(connection, by_digest(connection, token_client(text, quality, cipher)))
