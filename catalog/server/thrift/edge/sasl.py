"""SASL at the beginning of a connection, in the messages of TSaslServerTransport of Java's thrift; mechanism PLAIN.

A message of the negotiation is a status of one byte, the length of its payload in four bytes, and the payload. The
client sends START with the name of a mechanism, then OK or COMPLETE with its response. That of PLAIN (RFC 4616) is
`authorization identity, NUL, user, NUL, password`. The server answers COMPLETE, or BAD or ERROR with a text. Frames
with a length of four bytes follow.

No message of Thrift begins as a negotiation does: with 1, and a length of at most MECHANISM_BYTES_MAX. So clients of
one port may negotiate or not.
"""

import struct
from enum import IntEnum

from interbed.catalog.server.auth.principals import AuthenticationError, Credentials, checked_name

MECHANISM = "PLAIN"
"""The mechanism that is offered."""

MECHANISM_BYTES_MAX = 20
"""The longest name of a mechanism (RFC 4422)."""

RESPONSE_BYTES_MAX = 20 * 1024
"""The longest response: the longest JWT, and two names."""

_HEAD = struct.Struct("!BI")


class SaslStatus(IntEnum):
    """Status of a message."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class NegotiationError(Exception):
    """The negotiation has failed. `status` and the text are for the client."""

    def __init__(self, status: SaslStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def packed(status: SaslStatus, payload: bytes = b"") -> bytes:
    """Return the bytes of a message."""
    return _HEAD.pack(status, len(payload)) + payload


class Negotiation:
    """The server's side of a negotiation, up to the credentials. Without I/O."""

    __slots__ = ("_data", "_has_mechanism")

    def __init__(self) -> None:
        self._data = b""
        self._has_mechanism = False

    def feed(self, data: bytes) -> Credentials | bytes | None:
        """Take bytes of the client; return its credentials, or None if more bytes are needed, or all bytes if they
        are not the beginning of a negotiation. NegotiationError.
        """
        self._data += data
        if not self._has_mechanism:
            if not _may_begin(self._data):
                return self._data
            start = self._message(MECHANISM_BYTES_MAX)
            if start is None:
                return None
            name = start.decode("ascii", "replace")
            if name != MECHANISM:
                raise NegotiationError(
                    SaslStatus.BAD, f"The mechanism {name!a:.40} is not offered; offered is {MECHANISM}"
                )
            self._has_mechanism = True
        if self._data and self._data[0] not in (SaslStatus.OK, SaslStatus.COMPLETE):
            raise NegotiationError(SaslStatus.ERROR, f"Expected the status OK or COMPLETE, received {self._data[0]}")
        response = self._message(RESPONSE_BYTES_MAX)
        if response is None:
            return None
        if self._data:
            raise NegotiationError(SaslStatus.ERROR, "There are bytes after the response, before it was accepted")
        return _credentials(response)

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


def _may_begin(data: bytes) -> bool:
    if data[:1] != bytes((SaslStatus.START,)):
        return False
    return len(data) < _HEAD.size or 0 < _HEAD.unpack_from(data)[1] <= MECHANISM_BYTES_MAX


def _credentials(response: bytes) -> Credentials:
    """Return the credentials in a response of PLAIN. NegotiationError."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise NegotiationError(
            SaslStatus.BAD, f"The response of PLAIN has {len(parts)} parts; it is [identity] NUL user NUL password"
        )
    try:
        identity, user, password = (part.decode() for part in parts)
        checked_name(user, "The user")
    except UnicodeDecodeError as error:
        raise NegotiationError(SaslStatus.BAD, "The response of PLAIN is not UTF-8") from error
    except AuthenticationError as error:
        raise NegotiationError(SaslStatus.BAD, str(error)) from error
    if identity not in ("", user):
        raise NegotiationError(SaslStatus.BAD, "A user cannot act for another one")
    if not password:
        raise NegotiationError(SaslStatus.BAD, "The response of PLAIN has no password")
    return Credentials(user=user, password=password)
