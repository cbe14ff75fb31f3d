"""JWTs: what is accepted, and attacks on the verification of tokens."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.auth.json_web_tokens import KEPT_SECONDS_MAX, TOKEN_BYTES_MAX, JwtVerifier, SigningKeys
from interbed.catalog.server.auth.principals import ALGORITHMS, AuthenticationError, JwtRules, Mechanism, Principal
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, NOW, claims, ec_key, public_jwk, rsa_key

RSA, OTHER, CURVE = rsa_key(), rsa_key(), ec_key()
KEYS = {"keys": [public_jwk(RSA, "rsa"), public_jwk(CURVE, "ec"), {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"}]}


def verifier(now: float = NOW, **changes: Any) -> JwtVerifier:
    """Return a verifier of the issuer's tokens."""
    values: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, **changes}
    return JwtVerifier(JwtRules(**values), SigningKeys(lambda: KEYS, clock=lambda: 0.0), clock=lambda: now)


def token(key: Any = RSA, algorithm: str = "RS256", key_id: str | None = "rsa", **changes: Any) -> str:
    """Return a signed token; `changes` are those of its claims."""
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers=headers)


def encoded(part: Any) -> str:
    """Return a part of a token."""
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def forged(header: dict[str, Any], sign: Callable[[bytes], bytes], **changes: Any) -> str:
    """Return a token with any header, signed by a function."""
    signed = f"{encoded(header)}.{encoded(claims(**changes))}"
    return f"{signed}.{encoded(sign(signed.encode()))}"


def with_secret(secret: bytes) -> Callable[[bytes], bytes]:
    """Return the HMAC with a secret as a function that signs."""
    return lambda content: hmac.new(secret, content, hashlib.sha256).digest()


PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_token_names_its_principal_and_groups() -> None:
    found, until = verifier(groups_claim="realm_access.roles", principal_claim="preferred_username").verify(
        token(preferred_username="ann@example.org", realm_access={"roles": ["etl", "lake"]}, jti="j-1")
    )
    assert found == Principal(
        name="ann@example.org", mechanism=Mechanism.JWT, groups=frozenset({"etl", "lake"}), token_id="j-1"
    )
    assert until == NOW + KEPT_SECONDS_MAX


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: token(CURVE, "ES256", "ec"), "ann"),
        (lambda: token(aud=["other", AUDIENCE]), "ann"),
        (lambda: token(exp=NOW - 29), "ann"),
        (lambda: token(nbf=NOW + 29, iat=NOW + 29), "ann"),
        (lambda: token(**{"https://example.org/user": "bob"}), "ann"),
    ],
    ids=["curve", "one-of-two-audiences", "skew-of-expiry", "skew-of-begin", "other-claims"],
)
def test_tokens_within_the_rules_are_accepted(made: Callable[[], str], expected: str) -> None:
    assert verifier().verify(made())[0].name == expected


def test_a_claim_whose_name_has_dots_is_found_by_it() -> None:
    made = token(**{"https://example.org/user": "bob"})
    assert verifier(principal_claim="https://example.org/user").verify(made)[0].name == "bob"


def test_an_answer_is_kept_no_longer_than_the_token_lasts() -> None:
    assert verifier().verify(token(exp=NOW - 20))[1] == NOW + 10


def test_a_scope_is_a_list_of_groups() -> None:
    assert verifier(groups_claim="scope").verify(token(scope="read write"))[0].groups == {"read", "write"}


ATTACKS: dict[str, Callable[[], str]] = {
    "no-signature": lambda: forged({"alg": "none", "kid": "rsa"}, lambda content: b""),
    "no-signature-in-capitals": lambda: forged({"alg": "None", "kid": "rsa"}, lambda content: b""),
    "no-algorithm": lambda: forged({"kid": "rsa"}, lambda content: b""),
    "algorithm-of-another-type": lambda: forged({"alg": ["RS256"], "kid": "rsa"}, lambda content: b""),
    "public-key-as-secret": lambda: forged({"alg": "HS256", "kid": "rsa"}, with_secret(PEM)),
    "published-secret": lambda: forged({"alg": "HS256", "kid": "oct"}, with_secret(b"secret")),
    "published-secret-as-rsa": lambda: forged({"alg": "RS256", "kid": "oct"}, with_secret(b"secret")),
    "empty-secret": lambda: forged({"alg": "HS256", "kid": "rsa"}, with_secret(b"")),
    "other-key": lambda: token(OTHER),
    "key-of-another-type": lambda: token(key_id="ec"),
    "curve-as-rsa": lambda: token(CURVE, "ES256", "rsa"),
    "unknown-key": lambda: token(key_id="missing"),
    "no-key-id-of-several": lambda: token(key_id=None),
    "key-id-as-path": lambda: token(key_id="../../../dev/null"),
    "key-id-as-query": lambda: token(key_id="rsa' OR '1'='1"),
    "key-id-of-another-type": lambda: forged({"alg": "RS256", "kid": {"a": 1}}, lambda content: b""),
    "embedded-key": lambda: jwt.encode(
        claims(), OTHER, algorithm="RS256", headers={"kid": "mine", "jwk": public_jwk(OTHER, "mine")}
    ),
    "embedded-address": lambda: jwt.encode(
        claims(), OTHER, algorithm="RS256", headers={"kid": "mine", "jku": "https://attacker.example.org/keys"}
    ),
    "critical-extension": lambda: jwt.encode(
        claims(), RSA, algorithm="RS256", headers={"kid": "rsa", "crit": ["x"], "x": 1}
    ),
    "algorithm-not-allowed": lambda: token(algorithm="PS256"),
    "other-issuer": lambda: token(iss="https://id.example.org/realms/lake2"),
    "issuer-with-a-slash": lambda: token(iss=ISSUER + "/"),
    "issuers": lambda: forged({"alg": "RS256", "kid": "rsa"}, lambda content: b"x", iss=[ISSUER]),
    "no-issuer": lambda: token(iss=None),
    "other-audience": lambda: token(aud="interbed2"),
    "audience-as-part": lambda: token(aud="inter"),
    "no-audience": lambda: token(aud=None),
    "empty-audiences": lambda: token(aud=[]),
    "expired": lambda: token(exp=NOW - 31),
    "no-expiry": lambda: token(exp=None),
    "expiry-as-text": lambda: token(exp="never"),
    "expiry-as-truth": lambda: token(exp=True),
    "expiry-as-list": lambda: token(exp=[NOW + 300]),
    "endless-expiry": lambda: token(exp=1e308),
    "not-yet": lambda: token(nbf=NOW + 31),
    "issued-later": lambda: token(iat=NOW + 31),
    "begin-as-text": lambda: token(nbf="now"),
    "no-subject": lambda: token(sub=None),
    "empty-subject": lambda: token(sub=""),
    "blank-subject": lambda: token(sub=" "),
    "subject-with-a-blank": lambda: token(sub="ann "),
    "subject-with-a-newline": lambda: token(sub="ann\nadmin"),
    "subject-with-an-escape": lambda: token(sub="ann\x1b[2J"),
    "subject-with-a-reversal": lambda: token(sub="ann\u202eadmin"),
    "long-subject": lambda: token(sub="a" * 257),
    "empty-token": lambda: "",
    "two-parts": lambda: token().rpartition(".")[0],
    "four-parts": lambda: token() + ".x",
    "changed-claims": lambda: ".".join((token().split(".")[0], encoded(claims(sub="admin")), token().split(".")[2])),
    "cut-signature": lambda: token()[:-4],
    "no-json": lambda: f"{encoded(b'rsa')}.{encoded(b'ann')}.x",
    "deep-json": lambda: f"{encoded(b'[' * 5000)}.{encoded(b'{}')}.x",
    "claims-as-a-list": lambda: f"{token().split('.')[0]}.{encoded([1])}.{token().split('.')[2]}",
    "too-long": lambda: token(padding="x" * TOKEN_BYTES_MAX),
    "another-alphabet": lambda: token().replace(token()[5], "ä"),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.attack("forged tokens")
def test_a_forged_token_is_refused(attack: str) -> None:
    with pytest.raises(AuthenticationError) as refused:
        verifier().verify(ATTACKS[attack]())
    assert len(str(refused.value)) < 400
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("groups", [7, {"a": 1}, [7], [""], ["a\nb"], ["a"] * 1001], ids=repr)
@pytest.mark.attack("forged tokens")
def test_groups_of_another_form_are_refused(groups: Any) -> None:
    with pytest.raises(AuthenticationError, match="roles"):
        verifier(groups_claim="roles").verify(token(roles=groups))


def test_every_supported_algorithm_has_public_keys() -> None:
    assert not [each for each in ALGORITHMS if each.startswith("HS") or each.lower() == "none"]


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda content: content.decode("latin-1")))
@pytest.mark.attack("forged tokens")
def test_any_text_is_refused_without_another_error(text: str) -> None:
    for attempt in (text, f"{token().split('.')[0]}.{text}", f"{text}.{text}.{text}", f"{encoded(text.encode())}.a.b"):
        with pytest.raises(AuthenticationError):
            verifier().verify(attempt)
