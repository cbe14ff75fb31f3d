"""SASL DIGEST-MD5 with delegation tokens: the exchange, attacks on it, and the protection of frames."""

import base64
import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from interbed.catalog.server.auth.authentication import (
    NegotiationError,
    ProtectionError,
    SaslChallenge,
    SaslStatus,
    SaslSuccess,
)
from interbed.catalog.server.auth.delegation.digest_md5 import (
    RESPONSE_BYTES_MAX,
    DigestMd5Exchange,
    DigestMd5Mechanism,
    DigestQuality,
    DigestResponse,
)
from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken
from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.auth.principals import AuthenticationError
from interbed.catalog.server.database.session import SqlRepository
from tests.catalog.server.auth.delegation.digest_client import ClientLayer, DigestClient, directives, token_client
from tests.catalog.server.auth.delegation.issued import ANN, HIVE, PEER, SetClock, migrated

PROTECTIONS = [("auth-int", None), ("auth-conf", "rc4"), ("auth-conf", "3des")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlRepository]:
    """Yield one database for all tests: each has tokens of its own."""
    yield from migrated(f"sqlite:///{tmp_path_factory.mktemp('digest') / 'metastore.db'}")


@pytest.fixture
def text(tokens: DelegationTokenService) -> str:
    """Return a token of ann's."""
    return tokens.issue(ANN, "ann", "hive", PEER)


@pytest.fixture
def exchange(tokens: DelegationTokenService) -> DigestMd5Exchange:
    """Return a new exchange."""
    return DigestMd5Mechanism(tokens).start(PEER)


def challenge_of(exchange: DigestMd5Exchange) -> bytes:
    """Return the challenge of an exchange."""
    found = exchange.respond(b"")
    assert isinstance(found, SaslChallenge)
    return found.payload


def success_of(exchange: DigestMd5Exchange, client: DigestClient) -> SaslSuccess:
    """Return the success of a client."""
    found = exchange.respond(client.respond(challenge_of(exchange)))
    assert isinstance(found, SaslSuccess)
    assert found.payload.decode() == client.expected
    return found


def test_the_example_of_the_rfc() -> None:
    response = (
        b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,'
        b'cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",'
        b"response=d388dad90d4bbd760a152321f2143af7,qop=auth"
    )
    parsed = DigestResponse.parsed(response)
    key = parsed.session_key("secret")
    assert parsed.digest(key, "AUTHENTICATE") == parsed.response == "d388dad90d4bbd760a152321f2143af7"
    assert parsed.digest(key, "") == "ea40f60335c427b5527b84dbabcdfffd"


def test_the_challenge_is_hadoops(exchange: DigestMd5Exchange, tokens: DelegationTokenService) -> None:
    found = directives(challenge_of(exchange))
    assert found["realm"] == "default"
    assert found["qop"] == "auth,auth-int,auth-conf"
    assert found["cipher"] == "3des,rc4"
    assert (found["algorithm"], found["charset"]) == ("md5-sess", "utf-8")
    other = DigestMd5Mechanism(tokens, (DigestQuality.AUTH,)).start(PEER)
    plain = directives(challenge_of(other))
    assert plain["qop"] == "auth"
    assert "cipher" not in plain
    assert plain["nonce"] != found["nonce"]


@pytest.mark.parametrize(("quality", "cipher"), [("auth", None), *PROTECTIONS])
def test_the_owner_of_a_token_is_authenticated(
    exchange: DigestMd5Exchange, text: str, quality: str, cipher: str | None
) -> None:
    found = success_of(exchange, token_client(text, quality, cipher))
    assert found.identity.verified().name == "ann"
    assert (found.protection is None) == (quality == "auth")


def test_a_cancelled_and_an_expired_token_say_so_to_those_that_have_it(
    tokens: DelegationTokenService, text: str, clock: SetClock
) -> None:
    tokens.cancel(HIVE, text)
    ended = success_of(DigestMd5Mechanism(tokens).start(PEER), token_client(text))
    with pytest.raises(AuthenticationError, match="it was cancelled"):
        ended.identity.verified()
    other = tokens.issue(ANN, "ann", "hive", PEER)
    clock.now += 86400
    ended = success_of(DigestMd5Mechanism(tokens).start(PEER), token_client(other))
    with pytest.raises(AuthenticationError, match="it has expired"):
        ended.identity.verified()
    # A client without the password learns nothing.
    client = token_client(text)
    client.password = base64.b64encode(b"x" * 20).decode()
    stranger = DigestMd5Mechanism(tokens).start(PEER)
    with pytest.raises(AuthenticationError, match=r"^The delegation token is not valid$"):
        stranger.respond(client.respond(challenge_of(stranger)))


def forged(text: str, **changes: Any) -> DigestClient:
    """Return a client with the password of a token and a changed identifier."""
    token = HadoopToken.from_text(text)
    fields = {name: getattr(token.identifier, name) for name in type(token.identifier).__slots__} | changes
    return token_client(HadoopToken(identifier=type(token.identifier)(**fields), password=token.password).to_text())


@pytest.mark.parametrize(
    "changes", [{"owner": "root"}, {"sequence": 2}, {"key_id": 2}, {"max_at": 2**50}, {"real_user": "hive"}]
)
def test_a_forged_identifier_is_refused(exchange: DigestMd5Exchange, text: str, changes: dict[str, Any]) -> None:
    client = forged(text, **changes)
    with pytest.raises(AuthenticationError, match=r"^The delegation token is not valid$"):
        exchange.respond(client.respond(challenge_of(exchange)))


WRONG = {
    "a password of another token": {"password": base64.b64encode(b"p" * 20).decode()},
    "no password": {"password": ""},
    "a user name that is not Base64": {"username": "ann"},
    "a user name beyond ASCII": {"username": "änn"},
    "an empty identifier": {"username": ""},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_another_user_or_password_is_refused(exchange: DigestMd5Exchange, text: str, wrong: str) -> None:
    client = token_client(text)
    for name, value in WRONG[wrong].items():
        setattr(client, name, value)
    with pytest.raises(AuthenticationError, match=r"^The delegation token is not valid$"):
        exchange.respond(client.respond(challenge_of(exchange)))


def test_a_response_is_good_for_one_connection_and_once(tokens: DelegationTokenService, text: str) -> None:
    mechanism, client = DigestMd5Mechanism(tokens), token_client(text)
    first, second = mechanism.start(PEER), mechanism.start(PEER)
    response = client.respond(challenge_of(first))
    assert isinstance(first.respond(response), SaslSuccess)
    with pytest.raises(NegotiationError, match="is over"):
        first.respond(response)
    challenge_of(second)
    with pytest.raises(NegotiationError, match="not to the challenge of this connection"):
        second.respond(response)
    with pytest.raises(NegotiationError, match="is over"):
        second.respond(response)
    with pytest.raises(NegotiationError, match="no earlier session"):
        mechanism.start(PEER).respond(response)


BAD: dict[str, tuple[dict[str, str | None], str]] = {
    "count": ({"nc": "00000002"}, "not to the challenge"),
    "short count": ({"nc": "1"}, "not to the challenge"),
    "nonce": ({"nonce": '"x"'}, "not to the challenge"),
    "realm": ({"realm": '"other"'}, "others than default"),
    "no realm": ({"realm": None}, "others than default"),
    "server": ({"digest-uri": '"null/other"'}, "others than default"),
    "service name": ({"digest-uri": '"null/default/other"'}, "others than default"),
    "another host": ({"digest-uri": '"null/other/default"'}, "others than default"),
    "another user": ({"authzid": '"root"'}, "cannot act for another"),
    "quality": ({"qop": "auth-none"}, "not offered"),
    "two qualities": ({"qop": '"auth,auth-int"'}, "not offered"),
    "cipher": ({"cipher": '"des"'}, "cipher 'des' is not offered"),
    "confidentiality without a cipher": ({"qop": "auth-conf"}, "cipher None is not offered"),
    "charset": ({"charset": "latin1"}, "charset"),
    "buffer": ({"maxbuf": "many"}, "maxbuf"),
    "no response": ({"response": None}, "no response"),
    "no user": ({"username": None}, "no username"),
    "no nonce": ({"nonce": None}, "no nonce"),
    "no nonce of the client": ({"cnonce": None}, "no cnonce"),
    "twice": ({"qop": "auth,qop=auth"}, "qop twice"),
    "an open quotation": ({"cnonce": '"x'}, "not a list"),
    "a directive without a value": ({"qop": ""}, "not a list"),
}


@pytest.mark.parametrize("bad", BAD)
def test_other_responses_are_refused_by_name(exchange: DigestMd5Exchange, text: str, bad: str) -> None:
    changes, reason = BAD[bad]
    client = token_client(text)
    client.changes = changes
    with pytest.raises(NegotiationError, match=reason) as refused:
        exchange.respond(client.respond(challenge_of(exchange)))
    assert refused.value.status is SaslStatus.BAD


def test_a_weaker_quality_than_the_hashed_one_is_refused(exchange: DigestMd5Exchange, text: str) -> None:
    client = token_client(text, "auth-int", qop="auth")
    with pytest.raises(AuthenticationError, match="not valid"):
        exchange.respond(client.respond(challenge_of(exchange)))


def test_a_quality_that_is_not_offered_is_refused(tokens: DelegationTokenService, text: str) -> None:
    exchange = DigestMd5Mechanism(tokens, (DigestQuality.INTEGRITY,)).start(PEER)
    with pytest.raises(NegotiationError, match="offered are auth-int"):
        exchange.respond(token_client(text).respond(challenge_of(exchange)))


def test_truncated_and_mutated_responses_admit_no_other_user(tokens: DelegationTokenService, text: str) -> None:
    mechanism, chance = DigestMd5Mechanism(tokens), Random(5)
    for round_number in range(400):
        exchange = mechanism.start(PEER)
        response = token_client(text).respond(challenge_of(exchange))
        if round_number % 2:
            changed = response[: chance.randrange(len(response))]
        else:
            at = chance.randrange(len(response))
            changed = response[:at] + bytes([chance.randrange(256)]) + response[at + 1 :]
        try:
            found = exchange.respond(changed)
        except (AuthenticationError, NegotiationError):
            continue
        # A change of what the response does not depend on: the case of a name, the buffer, a space.
        assert isinstance(found, SaslSuccess)
        assert found.identity.verified().name == "ann"
    assert len(response) <= RESPONSE_BYTES_MAX


def test_a_long_response_takes_little_time(exchange: DigestMd5Exchange) -> None:
    challenge_of(exchange)
    with pytest.raises(NegotiationError):
        exchange.respond((b'a="' + b"\\" * RESPONSE_BYTES_MAX)[:RESPONSE_BYTES_MAX])


def layers(exchange: DigestMd5Exchange, text: str, quality: str, cipher: str | None) -> tuple[Any, ClientLayer]:
    """Return the protections of both sides after an exchange."""
    client = token_client(text, quality, cipher)
    return success_of(exchange, client).protection, client.layer()


@pytest.mark.parametrize(("quality", "cipher"), PROTECTIONS)
def test_protected_frames_are_read_by_the_other_side(
    exchange: DigestMd5Exchange, text: str, quality: str, cipher: str | None
) -> None:
    server, client = layers(exchange, text, quality, cipher)
    for size in (0, 1, 7, 8, 9, 100, 70_000):
        message = os.urandom(size)
        frame = client.wrap(message)
        if size == 0 or size > 8 or quality == "auth-int":
            # A few bytes may be in encrypted ones by chance.
            assert (message in frame) == (quality == "auth-int" or not message)
        assert server.unwrap(frame) == message
        assert client.unwrap(server.wrap(message)) == message


@pytest.mark.parametrize(("quality", "cipher"), PROTECTIONS)
def test_changed_frames_are_refused(
    tokens: DelegationTokenService, text: str, quality: str, cipher: str | None
) -> None:
    message = b"get_all_databases"
    size = 0
    for at in range(64):
        server, client = layers(DigestMd5Mechanism(tokens).start(PEER), text, quality, cipher)
        frame = bytearray(client.wrap(message))
        size = len(frame)
        if at < size:
            frame[at] ^= 1
        else:
            del frame[at - size :]
        with pytest.raises(ProtectionError):
            server.unwrap(bytes(frame))
    assert 16 < size < 64


@pytest.mark.parametrize(("quality", "cipher"), PROTECTIONS)
def test_repeated_skipped_and_reflected_frames_are_refused(
    tokens: DelegationTokenService, text: str, quality: str, cipher: str | None
) -> None:
    server, client = layers(DigestMd5Mechanism(tokens).start(PEER), text, quality, cipher)
    frame = client.wrap(b"one")
    assert server.unwrap(frame) == b"one"
    with pytest.raises(ProtectionError):
        server.unwrap(frame)
    server, client = layers(DigestMd5Mechanism(tokens).start(PEER), text, quality, cipher)
    client.wrap(b"one")
    with pytest.raises(ProtectionError):
        server.unwrap(client.wrap(b"two"))
    server, client = layers(DigestMd5Mechanism(tokens).start(PEER), text, quality, cipher)
    with pytest.raises(ProtectionError):
        server.unwrap(server.wrap(b"one"))
