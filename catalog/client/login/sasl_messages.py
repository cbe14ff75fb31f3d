"""Messages of a SASL negotiation, as TSaslClientTransport of Java's thrift sends and receives them.

A message has a status of one byte, the length of its payload in four bytes, and the payload.
"""

import struct
from enum import IntEnum
from typing import Any

from thrift.transport.TTransport import TTransportException

from interbed.storage.base.shown_text import escaped

_HEAD = struct.Struct("!BI")
_ANSWER_BYTES_MAX = 64 * 1024
_TEXT_CHARACTERS_MAX = 1000


class NegotiationStatus(IntEnum):
    """Status of a message."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


def sasl_message(status: NegotiationStatus, payload: bytes = b"") -> bytes:
    """Return the bytes of a message."""
    return _HEAD.pack(status, len(payload)) + payload


def receive_sasl_message(connected: Any, address: str) -> tuple[NegotiationStatus, bytes]:
    """Return status and payload of the server's next message. TTransportException for other bytes."""
    status, length = _HEAD.unpack(connected.readAll(_HEAD.size))
    if status not in (
        NegotiationStatus.OK,
        NegotiationStatus.BAD,
        NegotiationStatus.ERROR,
        NegotiationStatus.COMPLETE,
    ) or (length > _ANSWER_BYTES_MAX):
        raise TTransportException(TTransportException.UNKNOWN, f"the metastore at {address} does not speak SASL")
    return NegotiationStatus(status), connected.readAll(length) if length else b""


def shown_reason(payload: bytes) -> str:
    """Return the text of a refusal for a message."""
    return escaped(payload.decode(errors="replace"))[:_TEXT_CHARACTERS_MAX]
