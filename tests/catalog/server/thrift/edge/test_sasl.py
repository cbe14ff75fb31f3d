"""The negotiation of SASL at the beginning of a connection, with PLAIN and with several rounds, without a server."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.auth.attempts import address_of
from interbed.catalog.server.auth.authentication import (
    RESPONSE_BYTES_MAX,
    CredentialsIdentity,
    NegotiationError,
    PlainMechanism,
    ProtectionError,
    SaslChallenge,
    SaslMechanism,
    SaslStatus,
    SaslSuccess,
)
from interbed.catalog.server.auth.issued_tokens import OptimizerIdentity
from interbed.catalog.server.auth.principals import Credentials
from interbed.catalog.server.thrift.edge.codec import BinaryCodec
from interbed.catalog.server.thrift.edge.transport import (
    QUICK_BYTES_MAX,
    IncomingBytes,
    Negotiation,
    ProtectedFraming,
    SaslResponse,
    packed,
)

START = packed(SaslStatus.START, b"PLAIN")
RESPONSE = b"\0ann\0secret"
PEER = "127.0.0.1:5000"
CREDENTIALS = Credentials(user="ann", password="secret", address=address_of(PEER))
OFFERED: dict[str, SaslMechanism] = {"PLAIN": PlainMechanism(OptimizerIdentity())}


def negotiated(*pieces: bytes) -> Credentials | bytes | None:
    """Return what a negotiation by PLAIN has found when it has all pieces."""
    negotiation = Negotiation()
    found: SaslResponse | bytes | None = None
    for piece in pieces:
        assert found is None
        found = negotiation.feed(piece, OFFERED, PEER)
    return evaluated(found)


def evaluated(found: SaslResponse | bytes | None) -> Credentials | bytes | None:
    """Return the credentials of a response of PLAIN, and everything else as it is."""
    if not isinstance(found, SaslResponse):
        return found
    assert found.is_quick
    success = found.exchange.respond(found.payload)
    assert isinstance(success, SaslSuccess)
    assert isinstance(success.identity, CredentialsIdentity)
    return success.identity.credentials


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
    assert negotiation.feed(START, OFFERED, PEER) is None
    try:
        found = evaluated(negotiation.feed(data, OFFERED, PEER))
    except NegotiationError:
        return
    assert found is None or isinstance(found, Credentials)


def test_credentials_show_no_secret() -> None:
    assert "secret" not in repr(negotiated(START + packed(SaslStatus.OK, RESPONSE)))


class CountingExchange:
    """Exchange of three responses, which are the numbers of the rounds."""

    def __init__(self) -> None:
        self.round = 0

    def respond(self, response: bytes) -> SaslChallenge | SaslSuccess:
        assert response == str(self.round).encode()
        self.round += 1
        if self.round < 3:
            return SaslChallenge(payload=response)
        identity = CredentialsIdentity(verifier=OptimizerIdentity(), credentials=CREDENTIALS)
        return SaslSuccess(identity=identity, payload=b"end")


class CountingMechanism:
    """Mechanism of several rounds."""

    response_bytes_max = 10
    is_quick = False

    def start(self, peer: str) -> CountingExchange:
        assert peer == PEER
        return CountingExchange()


def test_a_mechanism_may_take_several_rounds() -> None:
    negotiation = Negotiation()
    offered = {**OFFERED, "COUNTING": CountingMechanism()}
    exchange = None
    begin = packed(SaslStatus.START, b"COUNTING")
    for number in range(3):
        response = packed(SaslStatus.OK, str(number).encode())
        assert negotiation.feed(begin + response[:-1], offered, PEER) is None
        found = negotiation.feed(response[-1:], offered, PEER)
        assert isinstance(found, SaslResponse)
        assert not found.is_quick
        assert exchange is None or found.exchange is exchange
        exchange, begin = found.exchange, b""
        answer = exchange.respond(found.payload)
        assert answer.payload == (b"end" if number == 2 else str(number).encode())
    with pytest.raises(NegotiationError, match="11 bytes is too long; allowed are 10"):
        negotiation.feed(packed(SaslStatus.OK, b"x" * 11), offered, PEER)
    with pytest.raises(NegotiationError, match="'OTHER' is not offered; offered is PLAIN, COUNTING"):
        Negotiation().feed(packed(SaslStatus.START, b"OTHER"), offered, PEER)


class ReversedBytes:
    """Protection of frames that turns their bytes around, and refuses those that end with `!`."""

    def wrap(self, message: bytes) -> bytes:
        return message[::-1]

    def unwrap(self, frame: bytes) -> bytes:
        if frame.startswith(b"!"):
            raise ProtectionError("the frame is not authentic")
        return frame[::-1]


def test_protected_frames_are_unwrapped_and_replies_wrapped() -> None:
    framing = ProtectedFraming(2 * QUICK_BYTES_MAX, ReversedBytes())
    assert framing.whole(b"\0\0\0\3abc") == b"cba"
    assert framing.whole(b"\0\0\0\3ab") is None
    assert b"".join(framing.pack(b"ab", b"c")) == b"\0\0\0\3cba"
    assert framing.pack() == framing.pack(b"") == ()
    with pytest.raises(ProtectionError):
        framing.whole(b"\0\0\0\2!a")
    # A long frame is left to the threads.
    long = b"".join(framing.pack(b"a" * QUICK_BYTES_MAX))
    assert framing.whole(long) is None
    incoming = IncomingBytes()
    incoming.data += long + b"\0\0\0\2!a" + b"\0\1\0\0"
    assert framing.next(incoming, BinaryCodec()) == b"a" * QUICK_BYTES_MAX
    with pytest.raises(ProtectionError):
        framing.next(incoming, BinaryCodec())
    with pytest.raises(TTransportException, match="more than 16384 bytes"):
        framing.next(incoming, BinaryCodec())
