"""The negotiation of SASL PLAIN at the beginning of a connection, without a server."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.auth.principals import Credentials
from interbed.catalog.server.thrift.edge.sasl import (
    RESPONSE_BYTES_MAX,
    Negotiation,
    NegotiationError,
    SaslStatus,
    packed,
)

START = packed(SaslStatus.START, b"PLAIN")
RESPONSE = b"\0ann\0secret"
CREDENTIALS = Credentials(user="ann", password="secret")


def negotiated(*pieces: bytes) -> Credentials | bytes | None:
    """Return what a negotiation has found when it has all pieces."""
    negotiation = Negotiation()
    found: Credentials | bytes | None = None
    for piece in pieces:
        assert found is None
        found = negotiation.feed(piece)
    return found


@pytest.mark.parametrize("status", [SaslStatus.OK, SaslStatus.COMPLETE])
def test_the_response_has_the_credentials(status: SaslStatus) -> None:
    assert negotiated(START + packed(status, RESPONSE)) == CREDENTIALS
    assert negotiated(START, packed(status, b"ann\0ann\0secret")) == CREDENTIALS


@given(st.data())
def test_pieces_of_any_size_are_gathered(data: st.DataObject) -> None:
    whole = START + packed(SaslStatus.OK, RESPONSE)
    cuts = sorted(data.draw(st.lists(st.integers(1, len(whole) - 1), unique=True)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert negotiated(*pieces) == CREDENTIALS


@pytest.mark.parametrize(
    "message",
    [
        b"\x80\x01\x00\x01\x00\x00\x00\x07set_ugi",
        b"\x82\x21\x00\x07set_ugi",
        b"\x00\x00\x00\x07set_ugi\x01",
        b"\x00\x00\x00\x20\x80\x01\x00\x01",
        # The longest frames have lengths that begin with the byte of START.
        b"\x01\x00\x00\x00\x80\x01\x00\x01",
        b"\x01\x00\x00\x00\x82\x21\x00\x07",
        b"\x01\x00\x00\x00\x00\x00\x00\x07",
        b"GET / HTTP/1.1",
        b"\x02\x00\x00\x00\x05PLAIN",
    ],
)
def test_messages_of_thrift_are_no_negotiation(message: bytes) -> None:
    assert negotiated(message) == message
    if message[:1] == b"\x01":
        assert negotiated(message[:3], message[3:]) == message


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (packed(SaslStatus.START, b"GSSAPI"), SaslStatus.BAD, "'GSSAPI' is not offered; offered is PLAIN"),
        (packed(SaslStatus.START, b"plain"), SaslStatus.BAD, "'plain' is not offered"),
        (packed(SaslStatus.START, b"PLAIN\0"), SaslStatus.BAD, r"'PLAIN\\x00' is not offered"),
        (packed(SaslStatus.START, b"\xff\n"), SaslStatus.BAD, "is not offered"),
        (START + START, SaslStatus.ERROR, "Expected the status OK or COMPLETE, received 1"),
        (START + packed(SaslStatus.BAD, RESPONSE), SaslStatus.ERROR, "received 3"),
        (START + struct.pack("!BI", 77, 0), SaslStatus.ERROR, "received 77"),
        (START + struct.pack("!BI", 2, RESPONSE_BYTES_MAX + 1), SaslStatus.ERROR, "too long"),
        (START + struct.pack("!BI", 2, 0xFFFFFFFF), SaslStatus.ERROR, "4294967295 bytes is too long"),
        (START + packed(SaslStatus.OK, RESPONSE) + b"x", SaslStatus.ERROR, "bytes after the response"),
        (START + 2 * packed(SaslStatus.OK, RESPONSE), SaslStatus.ERROR, "bytes after the response"),
        (START + packed(SaslStatus.OK, b""), SaslStatus.BAD, "1 parts"),
        (START + packed(SaslStatus.OK, b"ann\0secret"), SaslStatus.BAD, "2 parts"),
        (START + packed(SaslStatus.OK, b"\0ann\0sec\0ret"), SaslStatus.BAD, "4 parts"),
        (START + packed(SaslStatus.OK, b"\0ann\0"), SaslStatus.BAD, "no password"),
        (START + packed(SaslStatus.OK, b"\0\0secret"), SaslStatus.BAD, "not a name"),
        (START + packed(SaslStatus.OK, b"\0 ann\0secret"), SaslStatus.BAD, "blanks"),
        (START + packed(SaslStatus.OK, b"\0a\nb\0secret"), SaslStatus.BAD, "cannot be shown"),
        (START + packed(SaslStatus.OK, b"root\0ann\0secret"), SaslStatus.BAD, "act for another"),
        (START + packed(SaslStatus.OK, b"\0\xff\0secret"), SaslStatus.BAD, "UTF-8"),
        (START + packed(SaslStatus.OK, b"\0" + b"a" * 300 + b"\0secret"), SaslStatus.BAD, "characters"),
    ],
)
def test_other_negotiations_are_refused(data: bytes, status: SaslStatus, text: str) -> None:
    with pytest.raises(NegotiationError, match=text) as refused:
        negotiated(data)
    assert refused.value.status is status
    assert "secret" not in str(refused.value)


@given(st.binary(max_size=200))
def test_any_bytes_after_the_mechanism_are_credentials_or_refused(data: bytes) -> None:
    negotiation = Negotiation()
    assert negotiation.feed(START) is None
    try:
        found = negotiation.feed(data)
    except NegotiationError:
        return
    assert found is None or isinstance(found, Credentials)


def test_credentials_show_no_secret() -> None:
    assert "secret" not in repr(negotiated(START + packed(SaslStatus.OK, RESPONSE)))
