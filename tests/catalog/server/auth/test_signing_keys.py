"""Keys of an issuer: rotation, outages, requests that tokens can cause, addresses."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.auth.json_web_tokens import (
    DOCUMENT_BYTES_MAX,
    REFRESH_SECONDS,
    RETRY_SECONDS,
    STALE_SECONDS,
    SigningKeys,
    discovering_fetcher,
    file_fetcher,
    url_fetcher,
)
from interbed.catalog.server.auth.principals import AuthenticationError, AuthenticationUnavailableError
from tests.catalog.server.auth.issuer import Issuer, public_jwk, rsa_key, served
from tests.support.waits import at_most

KEY = public_jwk(rsa_key(), "first")
NEXT = public_jwk(rsa_key(), "second")


class Source:
    """Keys of an issuer that a test changes, with the number of requests."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.document: Any = {"keys": list(keys)}
        self.error: Exception | None = None
        self.slow: Callable[[], Any] | None = None
        self.count = 0
        self.now = 1000.0
        self.keys = SigningKeys(self.fetch, clock=lambda: self.now)

    def fetch(self) -> Any:
        self.count += 1
        if self.slow is not None:
            return self.slow()
        if self.error is not None:
            raise self.error
        return self.document


def test_keys_are_fetched_once() -> None:
    source = Source(KEY)
    assert [source.keys.find("first").key_id for _ in range(5)] == ["first"] * 5
    assert source.count == 1


def test_a_new_key_is_found_at_once_and_an_old_one_is_dropped() -> None:
    source = Source(KEY)
    source.keys.find("first")
    source.document = {"keys": [NEXT]}
    source.now += RETRY_SECONDS
    assert source.keys.find("second").key_id == "second"
    with pytest.raises(AuthenticationError, match="does not publish"):
        source.keys.find("first")


@pytest.mark.attack("SSRF by the address of keys")
def test_unknown_key_ids_cause_one_request_in_a_while() -> None:
    source = Source(KEY)
    for number in range(1000):
        with pytest.raises(AuthenticationError):
            source.keys.find(f"unknown-{number}")
    assert source.count == 1
    source.now += RETRY_SECONDS
    for number in range(1000):
        with pytest.raises(AuthenticationError):
            source.keys.find(f"unknown-{number}")
    assert source.count == 2


def test_an_issuer_that_answers_slowly_takes_one_thread() -> None:
    source = Source(KEY)
    source.keys.find("first")
    source.now += RETRY_SECONDS
    begun, released = threading.Event(), threading.Event()

    def slowly() -> Any:
        begun.set()
        assert released.wait(at_most(30))
        return {"keys": [KEY, NEXT]}

    source.slow = slowly
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(source.keys.find("second")))
    waiting.start()
    assert begun.wait(at_most(30))
    assert source.keys.find("first").key_id == "first"
    for key_id in ("second", "unknown"):
        # It may be a new key, so it is not refused.
        with pytest.raises(AuthenticationUnavailableError, match="try again"):
            source.keys.find(key_id)
    released.set()
    waiting.join(at_most(30))
    assert [key.key_id for key in found] == ["second"]
    assert source.keys.find("second").key_id == "second"


def test_known_keys_outlast_an_outage_for_a_day() -> None:
    source = Source(KEY)
    source.keys.find("first")
    source.error = OSError("connection refused")
    source.now += REFRESH_SECONDS + 1
    assert source.keys.find("first").key_id == "first"
    source.now += STALE_SECONDS
    with pytest.raises(AuthenticationUnavailableError):
        source.keys.find("first")
    source.error = None
    source.now += RETRY_SECONDS
    assert source.keys.find("first").key_id == "first"


def test_an_issuer_that_never_answered_is_no_reason_to_refuse_a_token() -> None:
    source = Source(KEY)
    source.error = OSError("connection refused")
    with pytest.raises(AuthenticationUnavailableError):
        source.keys.find("first")


def test_a_token_without_a_key_id_has_the_only_key() -> None:
    assert Source(KEY).keys.find(None).key_id == "first"
    with pytest.raises(AuthenticationError):
        Source(KEY, NEXT).keys.find(None)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"keys": "all"},
        {"keys": []},
        {"keys": [None, 1, "a"]},
        {"keys": [{"kty": "oct", "kid": "first", "k": "c2VjcmV0"}]},
        {"keys": [{**KEY, "use": "enc"}]},
        {"keys": [{**KEY, "n": "!"}]},
        {"keys": [{"kty": "RSA", "kid": "first"}]},
        {"keys": [KEY] * 101},
        [],
        None,
    ],
    ids=lambda document: json.dumps(document)[:30],
)
@pytest.mark.attack("SSRF by the address of keys")
def test_documents_without_usable_keys_give_none(document: Any) -> None:
    source = Source()
    source.document = document
    with pytest.raises(AuthenticationUnavailableError):
        source.keys.find("first")


@pytest.mark.integration
def test_keys_by_discovery_and_by_address() -> None:
    with served(Issuer([KEY])) as issuer:
        assert SigningKeys(discovering_fetcher(issuer.url)).find("first").key_id == "first"
        assert issuer.requests == ["/.well-known/openid-configuration", "/keys"]
        assert SigningKeys(url_fetcher(f"{issuer.url}/keys")).find("first").key_id == "first"


@pytest.mark.integration
@pytest.mark.attack("SSRF by the address of keys")
def test_metadata_of_another_issuer_are_refused() -> None:
    with served(Issuer([KEY])) as issuer:
        fetch = discovering_fetcher(issuer.url)
        issuer.url = "http://127.0.0.1:1"
        with pytest.raises(ValueError, match="those of the issuer"):
            fetch()


@pytest.mark.integration
@pytest.mark.attack("SSRF by the address of keys")
def test_redirects_and_long_documents_are_refused() -> None:
    with served(Issuer([KEY])) as issuer:
        issuer.redirect = f"{issuer.url}/keys"
        with pytest.raises(OSError, match="302"):
            url_fetcher(f"{issuer.url}/other")()
        issuer.redirect = None
        issuer.keys = [{"x": "y" * DOCUMENT_BYTES_MAX}]
        with pytest.raises(ValueError, match="more than"):
            url_fetcher(f"{issuer.url}/keys")()


@pytest.mark.parametrize(
    "address",
    [
        "http://id.example.org/keys",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "ftp://127.0.0.1/keys",
        "https://user:password@id.example.org/keys",
        "http://127.0.0.1@id.example.org/keys",
        "http://localhost.example.org/keys",
        "https:///keys",
        "keys.json",
    ],
)
@pytest.mark.attack("SSRF by the address of keys")
def test_addresses_without_authenticity_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        url_fetcher(address)
    with pytest.raises(ValueError, match="address"):
        discovering_fetcher(address)


def test_keys_in_a_file_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [KEY]}))
    source = Source()
    keys = SigningKeys(file_fetcher(file), clock=lambda: source.now)
    assert keys.find("first").key_id == "first"
    file.write_text(json.dumps({"keys": [NEXT]}))
    source.now += RETRY_SECONDS
    assert keys.find("second").key_id == "second"
