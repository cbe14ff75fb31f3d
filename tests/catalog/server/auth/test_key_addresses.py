"""Requests that a token or an answer could make the server send: to metadata services, to files, to other hosts."""

from typing import Any

import jwt
import pytest

from interbed.catalog.server.auth.json_web_tokens import JwtVerifier, SigningKeys, discovering_fetcher, url_fetcher
from interbed.catalog.server.auth.principals import AuthenticationError, JwtRules
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, NOW, Issuer, claims, public_jwk, rsa_key, served

pytestmark = pytest.mark.attack("SSRF by the address of keys")

OWN, FOREIGN = rsa_key(), rsa_key()

ADDRESSES = (
    "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://127.0.0.1.example.org/keys",
    "http://localhost.example.org/keys",
    "http://127.0.0.1@id.example.org/keys",
    "http://id.example.org#@127.0.0.1/keys",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "/etc/passwd",
    "ftp://127.0.0.1/keys",
    "gopher://127.0.0.1:6379/_INFO",
    "data:application/json,{}",
    "ldap://127.0.0.1/",
    "unix:/run/server.sock",
    "",
)
"""Addresses that are neither https nor http on loopback."""

HEADERS = ("jku", "x5u", "kid", "iss")
"""Headers of a token that could name an address."""


def verifier(keys: SigningKeys) -> JwtVerifier:
    """Return a verifier of the issuer's tokens."""
    return JwtVerifier(JwtRules(issuer=ISSUER, audience=AUDIENCE), keys, clock=lambda: NOW)


@pytest.mark.integration
@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("address", ADDRESSES)
def test_no_header_of_a_token_names_the_address_of_a_key(header: str, address: str) -> None:
    with served(Issuer([public_jwk(OWN, "own")])) as own, served(Issuer([public_jwk(FOREIGN, "own")])) as foreign:
        keys = SigningKeys(url_fetcher(f"{own.url}/keys"), clock=lambda: 0.0)
        for named in (address, f"{foreign.url}/keys"):
            token = jwt.encode(claims(), FOREIGN, algorithm="RS256", headers={"kid": "own", header: named})
            with pytest.raises(AuthenticationError):
                verifier(keys).verify(token)
        assert set(own.requests) == {"/keys"}
        assert foreign.requests == []


@pytest.mark.parametrize("header", ["jwk", "x5c", "x5t", "jwks"])
def test_no_header_of_a_token_brings_a_key(header: str) -> None:
    values: dict[str, Any] = {
        "jwk": public_jwk(FOREIGN, "own"),
        "jwks": {"keys": [public_jwk(FOREIGN, "own")]},
        "x5c": ["MIIB"],
        "x5t": "AAAA",
    }
    keys = SigningKeys(lambda: {"keys": [public_jwk(OWN, "own")]}, clock=lambda: 0.0)
    token = jwt.encode(claims(), FOREIGN, algorithm="RS256", headers={"kid": "own", header: values[header]})
    with pytest.raises(AuthenticationError):
        verifier(keys).verify(token)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_without_authenticity_is_no_setting(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        url_fetcher(address)


@pytest.mark.integration
@pytest.mark.parametrize("address", ADDRESSES)
def test_metadata_of_the_issuer_do_not_lead_elsewhere(address: str) -> None:
    with served(Issuer([public_jwk(OWN, "own")])) as issuer:
        issuer.keys_url = address
        with pytest.raises(ValueError, match="address"):
            discovering_fetcher(issuer.url)()
        assert issuer.requests == ["/.well-known/openid-configuration"]


@pytest.mark.integration
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "http://169.254.169.254/", "own", "gopher://127.0.0.1/", "//x"]
)
def test_redirects_are_not_followed(status: int, target: str) -> None:
    with served(Issuer([public_jwk(OWN, "own")])) as issuer:
        issuer.redirect_status = status
        issuer.redirect = f"{issuer.url}/keys" if target == "own" else target
        with pytest.raises(OSError, match=str(status)):
            url_fetcher(f"{issuer.url}/first")()
        assert issuer.requests == ["/first"]
