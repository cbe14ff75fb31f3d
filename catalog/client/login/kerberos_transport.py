"""Thrift's transport with SASL GSSAPI, as Hive's clients use it with hive.metastore.sasl.enabled.

Frames with a length of four bytes follow the negotiation. Their content is protected if the layer of protection is
integrity or privacy.
"""

import io
import struct
from collections.abc import Callable
from typing import Any

from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.client.login.gssapi_exchange import GSSAPI, GssapiLogin
from interbed.catalog.client.login.sasl_messages import (
    NegotiationStatus,
    receive_sasl_message,
    sasl_message,
    shown_reason,
)

FRAME_BYTES_MAX = (1 << 30) - 1
"""The longest frame of a server."""

_LENGTH = struct.Struct("!I")
_ROUNDS_MAX = 10


class KerberosTransport(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """Framed transport that authenticates its client when it is opened, with a new exchange each time."""

    def __init__(self, connected: Any, address: str, begin: Callable[[], GssapiLogin]) -> None:
        self._connected = connected
        self._address = address
        self._begin = begin
        self._exchange: GssapiLogin | None = None
        self._reply = io.BytesIO()
        self._request = io.BytesIO()

    def isOpen(self) -> bool:  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride]
        """Return whether the connection is open."""
        return bool(self._connected.isOpen())

    def open(self) -> None:
        """Open the connection and authenticate the client.

        CatalogAccessError if there is no ticket or the server refuses it, TTransportException or OSError if the server
        does not answer.
        """
        exchange = self._begin()
        first = exchange.respond(b"")
        self._connected.open()
        try:
            self._negotiate(exchange, first)
        except BaseException:
            self._connected.close()
            raise
        self._exchange = exchange

    def close(self) -> None:
        """Close the connection to the server."""
        self._connected.close()

    def read(self, sz: int) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return bytes of the reply."""
        found = self._reply.read(sz)
        if not found:
            self._read_frame()
            found = self._reply.read(sz)
        return found

    def write(self, buf: bytes) -> None:
        """Add bytes to the request."""
        self._request.write(buf)

    def flush(self) -> None:
        """Send the request as a frame."""
        message, self._request = self._request.getvalue(), io.BytesIO()
        assert self._exchange is not None
        if self._exchange.is_protected:
            message = self._exchange.wrap(message)
        self._connected.write(_LENGTH.pack(len(message)) + message)
        self._connected.flush()

    @property
    def cstringio_buf(self) -> io.BytesIO:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The buffer that Thrift's decoder in C reads."""
        return self._reply

    def cstringio_refill(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, partialread: bytes, reqlen: int
    ) -> io.BytesIO:
        """Return a buffer with at least the given number of bytes, of which the first were read before."""
        data = partialread
        while len(data) < reqlen:
            self._read_frame()
            data += self._reply.getvalue()
        self._reply = io.BytesIO(data)
        return self._reply

    def _read_frame(self) -> None:
        assert self._exchange is not None
        (length,) = _LENGTH.unpack(self._connected.readAll(_LENGTH.size))
        if length > FRAME_BYTES_MAX:
            raise TTransportException(TTransportException.SIZE_LIMIT, f"the server sends a frame of {length} bytes")
        frame = self._connected.readAll(length)
        if self._exchange.is_protected:
            try:
                frame = self._exchange.unwrap(frame)
            except ValueError as error:
                raise TTransportException(
                    TTransportException.UNKNOWN, f"a frame of {self._address} is not accepted: {error}"
                ) from error
        self._reply = io.BytesIO(frame)

    def _negotiate(self, exchange: GssapiLogin, first: bytes) -> None:
        self._send(sasl_message(NegotiationStatus.START, GSSAPI.encode()) + sasl_message(NegotiationStatus.OK, first))
        for _ in range(_ROUNDS_MAX):
            status, payload = receive_sasl_message(self._connected, self._address)
            if status == NegotiationStatus.BAD:
                raise CatalogAccessError(
                    f"the metastore at {self._address} does not accept the login by Kerberos: {shown_reason(payload)}"
                )
            if status == NegotiationStatus.ERROR:
                raise TTransportException(TTransportException.UNKNOWN, f"no authentication: {shown_reason(payload)}")
            if status == NegotiationStatus.COMPLETE:
                if exchange.has_chosen:
                    return
                break
            response = exchange.respond(payload)
            self._send(
                sasl_message(NegotiationStatus.COMPLETE if exchange.has_chosen else NegotiationStatus.OK, response)
            )
        raise TTransportException(
            TTransportException.UNKNOWN, f"the metastore at {self._address} does not end the negotiation by GSSAPI"
        )

    def _send(self, message: bytes) -> None:
        self._connected.write(message)
        self._connected.flush()
