"""SASL at the beginning of a connection, in the messages of TSaslServerTransport of Java's thrift.

A message of the negotiation is a status of one byte, the length of its payload in four bytes, and the payload. The
client sends START with the name of a mechanism, then OK or COMPLETE with its response. The server answers OK with a
challenge, to which the client sends a further response, or COMPLETE at the end, or BAD or ERROR with a text. Frames
with a length of four bytes follow; a mechanism may have negotiated their protection.

No message of Thrift begins as a negotiation does: with 1, and a length of at most MECHANISM_BYTES_MAX. So clients of
one port may negotiate or not.
"""

import struct
from dataclasses import dataclass

from interbed.catalog.server.auth.sasl import (
    NegotiationError,
    SaslExchange,
    SaslMechanism,
    SaslMechanisms,
    SaslStatus,
)

MECHANISM_BYTES_MAX = 20
"""The longest name of a mechanism (RFC 4422)."""

_HEAD = struct.Struct("!BI")


def packed(status: SaslStatus, payload: bytes = b"") -> bytes:
    """Return the bytes of a message."""
    return _HEAD.pack(status, len(payload)) + payload


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslResponse:
    """A response of the client that is complete, and the exchange that evaluates it. `is_quick` is the mechanism's."""

    exchange: SaslExchange
    payload: bytes
    is_quick: bool


class Negotiation:
    """The messages of the client in a negotiation. Without I/O."""

    __slots__ = ("_data", "_exchange", "_mechanism")

    def __init__(self) -> None:
        self._data = b""
        self._mechanism: SaslMechanism | None = None
        self._exchange: SaslExchange | None = None

    def feed(self, data: bytes, offered: SaslMechanisms, peer: str) -> SaslResponse | bytes | None:
        """Take bytes of the client; return its next response, or None if more bytes are needed, or all bytes if they
        are not the beginning of a negotiation. NegotiationError.

        Until the server has answered a response, the client sends nothing more.
        """
        self._data += data
        if self._mechanism is None or self._exchange is None:
            if not _may_begin(self._data):
                return self._data
            start = self._message(MECHANISM_BYTES_MAX)
            if start is None:
                return None
            self._mechanism = _chosen(start, offered)
            self._exchange = self._mechanism.start(peer)
        if self._data and self._data[0] not in (SaslStatus.OK, SaslStatus.COMPLETE):
            raise NegotiationError(SaslStatus.ERROR, f"Expected the status OK or COMPLETE, received {self._data[0]}")
        response = self._message(self._mechanism.response_bytes_max)
        if response is None:
            return None
        if self._data:
            raise NegotiationError(SaslStatus.ERROR, "There are bytes after the response, before it was accepted")
        return SaslResponse(exchange=self._exchange, payload=response, is_quick=self._mechanism.is_quick)

    def _message(self, bytes_max: int) -> bytes | None:
        """Take the payload of the first message out of the bytes; None if it is incomplete."""
        if len(self._data) < _HEAD.size:
            return None
        length = _HEAD.unpack_from(self._data)[1]
        if length > bytes_max:
            raise NegotiationError(
                SaslStatus.ERROR, f"A message of {length} bytes is too long; allowed are {bytes_max} bytes"
            )
        end = _HEAD.size + length
        if len(self._data) < end:
            return None
        payload, self._data = self._data[_HEAD.size : end], self._data[end:]
        return payload


def _chosen(start: bytes, offered: SaslMechanisms) -> SaslMechanism:
    """Return the mechanism that the client has named. NegotiationError for one that is not offered."""
    name = start.decode("ascii", "replace")
    found = offered.get(name)
    if found is None:
        names = ", ".join(offered)
        raise NegotiationError(SaslStatus.BAD, f"The mechanism {name!a:.40} is not offered; offered is {names}")
    return found


def _may_begin(data: bytes) -> bool:
    if data[:1] != bytes((SaslStatus.START,)):
        return False
    return len(data) < _HEAD.size or 0 < _HEAD.unpack_from(data)[1] <= MECHANISM_BYTES_MAX
