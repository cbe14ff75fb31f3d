"""Messages of Thrift's binary protocol as bytes, and connections that read replies slowly."""

import socket
import struct


def call(name: str, arguments: bytes = b"") -> bytes:
    """Return the message of a call; `arguments` are the fields of its structure and the byte that ends them."""
    encoded = name.encode()
    return struct.pack("!Ii", 0x80010001, len(encoded)) + encoded + struct.pack("!i", 1) + arguments


def text(number: int, value: str) -> bytes:
    """Return a text as the field with this number."""
    return struct.pack("!bhi", 11, number, len(value)) + value.encode()


def reluctant(port: int, timeout_seconds: float = 60) -> socket.socket:
    """Return a connection with a small receive buffer, so that most of the replies stay in the server."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(timeout_seconds)
    connection.connect(("127.0.0.1", port))
    return connection
