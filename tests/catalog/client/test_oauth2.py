"""Tokens by OAuth 2.0 client credentials: fetched, renewed, and sent by every client."""

import json
import logging
import threading
import time
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.credentials import RENEWED_AT, RETRIED_SECONDS, ClientCredentials, OAuth2Token
from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from interbed.catalog.client.hive.settings import hive_settings
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.rest.settings import token_provider
from interbed.storage.base.backoff import ExponentialBackoff
from interbed.storage.base.errors import InvalidOptionError
from tests.catalog.client.rest.answering_server import CLOSE, ChosenAnswer, ReceivedRequest, answering_server
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, public_jwk, rsa_key
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import wait_until

SECRET = "s3cr3t:with+signs"
QUICK = ExponentialBackoff(first_seconds=0.01, retries=3, sleep=lambda seconds: None)


def issued(token: str, seconds: float | None = 100) -> ChosenAnswer:
    """Return the answer of a token endpoint."""
    body = {"access_token": token, "token_type": "Bearer", **({} if seconds is None else {"expires_in": seconds})}
    return ChosenAnswer(body=json.dumps(body).encode())


def client(uri: str, scope: str | None = None) -> ClientCredentials:
    """Return a client of the server at this address."""
    return ClientCredentials(server_uri=f"{uri}/token", client_id="etl", client_secret=SECRET, scope=scope)


def test_a_token_is_fetched_once_and_renewed_before_its_end() -> None:
    now = [1000.0]
    with answering_server(lambda request: issued(f"t{len(asked)}")) as (uri, asked):
        token = OAuth2Token(client(uri, "catalog lake"), clock=lambda: now[0])
        assert [token.current() for _ in range(3)] == ["t1"] * 3
        now[0] += 100 * RENEWED_AT - 0.1
        assert token.current() == "t1"
        now[0] += 0.2
        assert [token.current() for _ in range(3)] == ["t2"] * 3
    first = asked[0]
    assert (first.method, first.path) == ("POST", "/token")
    assert parse_qs(first.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["catalog lake"]}
    headers = {name.lower(): value for name, value in first.headers.items()}
    assert b64decode(headers["authorization"].removeprefix("Basic ")) == b"etl:s3cr3t%3Awith%2Bsigns"


def test_many_threads_share_one_request() -> None:
    with answering_server(lambda request: issued("t")) as (uri, asked):
        token = OAuth2Token(client(uri))
        threads = [threading.Thread(target=token.current) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(asked) == 1


def test_a_server_that_fails_is_asked_again_and_a_valid_token_survives_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [1000.0]
    answers: list[ChosenAnswer | str] = [ChosenAnswer(status=503), CLOSE, issued("t1", 1000)]
    with answering_server(lambda request: answers.pop(0)) as (uri, asked):
        token = OAuth2Token(client(uri), backoff=QUICK, clock=lambda: now[0])
        assert token.current() == "t1"
        assert len(asked) == 3
        answers[:] = [ChosenAnswer(status=500, body=SECRET.encode()) for _ in range(20)]
        now[0] += 900
        with caplog.at_level(logging.DEBUG):
            assert token.current() == "t1"
        assert "used further" in caplog.text
        assert len(asked) == 4
        assert token.current() == "t1"
        assert len(asked) == 4
        now[0] += RETRIED_SECONDS
        assert token.current() == "t1"
        assert len(asked) == 5
        now[0] += 100
        with pytest.raises(CatalogUnavailableError, match="answers 500") as failed:
            token.current()
        assert len(asked) == 9
        answers[:] = [issued("t2")]
        assert token.current() == "t2"
    for text in (str(failed.value), repr(failed.value), caplog.text, repr(token)):
        assert SECRET not in text


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ChosenAnswer(status=401, body=b'{"error": "invalid_client"}'), "refuses the client etl: it answers 401"),
        (ChosenAnswer(status=400, body=f"bad {SECRET}".encode()), r"answers 400: bad \*+"),
        (ChosenAnswer(status=302, headers={"Location": "http://127.0.0.1:1/elsewhere"}), "answers 302"),
        (ChosenAnswer(body=b"no json"), "no bearer token"),
        (ChosenAnswer(body=b"[]"), "no bearer token"),
        (ChosenAnswer(body=b'{"access_token": 7}'), "no bearer token"),
        (ChosenAnswer(body=b'{"access_token": "t", "token_type": "mac"}'), "no bearer token"),
    ],
)
def test_a_refusal_is_reported_at_once_without_the_secret(answer: ChosenAnswer, message: str) -> None:
    with (
        answering_server(lambda request: answer) as (uri, asked),
        pytest.raises(CatalogAccessError, match=message) as refused,
    ):
        OAuth2Token(client(uri), backoff=QUICK).current()
    assert len(asked) == 1
    assert SECRET not in str(refused.value)


def test_a_token_without_a_lifetime_is_renewed_in_an_hour() -> None:
    for seconds in (None, -5, "soon"):
        now = [0.0]
        with answering_server(lambda request, seconds=seconds: issued("t", seconds)) as (uri, asked):  # type: ignore[misc]
            token = OAuth2Token(client(uri), clock=lambda now=now: now[0])  # type: ignore[misc]
            token.current()
            now[0] = 2000.0
            token.current()
            now[0] = 3000.0
            token.current()
        assert len(asked) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"credential": "a:b"}, "needs 'oauth2-server-uri'"),
        ({"oauth2-server-uri": "https://h/token"}, "needs 'credential'"),
        ({"credential": "secret", "oauth2-server-uri": "https://h/token"}, "CLIENT_ID:CLIENT_SECRET"),
        ({"credential": "a:b", "oauth2-server-uri": "http://h/token"}, "takes an https address"),
        ({"credential": "a:b", "oauth2-server-uri": "https://u:p@h/token"}, "takes an https address"),
        ({"credential": "a:b", "oauth2-server-uri": "file:///etc/passwd"}, "takes an https address"),
        ({"credential": "a:b", "oauth2-server-uri": "https://h/token", "token": "t"}, "excludes 'token'"),
    ],
)
def test_options_that_do_not_fit_are_refused(given: dict[str, str], message: str) -> None:
    rest = {"metastore": "rest", "uri": "http://h", "warehouse": "w", "token.provider": "bear"}
    hive = {"metastore": "hive", "uri": "thrift://h:1", "hive.metastore.client.thrift.transport.mode": "http"}
    with pytest.raises(InvalidOptionError, match=message):
        token_provider(CatalogOptions({**rest, **given}))
    with pytest.raises(InvalidOptionError, match=message):
        hive_settings(CatalogOptions({**hive, **given}), {})


def test_every_client_authenticates_itself_with_renewed_tokens(tmp_path: Path) -> None:
    key = rsa_key()
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [public_jwk(key, "k")]}))

    def endpoint(request: ReceivedRequest) -> ChosenAnswer:
        # Shorter than the skew that the server allows, so that each token is renewed soon and none is refused.
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "etl", "exp": int(time.time()) + 30, "jti": str(len(asked))}
        return issued(jwt.encode(claims, key, "RS256", headers={"kid": "k"}), 1)

    settings = (
        *("--http-port", "0", "--authentication", "jwt", "--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE),
        *("--jwt-keys", str(keys), "--audit-log", str(tmp_path / "audit.log")),
    )
    with (
        metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as server,
        answering_server(endpoint) as (uri, asked),
    ):
        oauth: dict[str, Any] = {"credential": f"etl:{SECRET}", "oauth2-server-uri": f"{uri}/token"}
        plain = {"hive.metastore.client.auth.mode": "PLAIN", "hive.metastore.client.plain.username": "etl"}
        by_http = {"hive.metastore.client.thrift.transport.mode": "http"}
        for name, options in (
            (
                "rest",
                {"metastore": "rest", "uri": f"{server.http}/paimon", "warehouse": "hive", "token.provider": "bear"},
            ),
            ("plain", {"metastore": "hive", "uri": server.uri, **plain}),
            ("http", {"metastore": "hive", "uri": server.http.replace("http://", "thrift://"), **by_http}),
        ):
            given: dict[str, Any] = {**options, **oauth}
            with interbed.load_catalog("l", **given) as catalog:
                catalog.create_database(name)
                before = len(asked)

                def is_renewed(catalog: interbed.Catalog = catalog, before: int = before) -> bool:
                    assert "default" in catalog.list_databases()
                    return len(asked) > before

                wait_until(is_renewed, "the token is renewed")
                table = catalog.create_table(f"{name}.t", pa.schema([("id", pa.int64())]), options={"bucket": "-1"})
                table.append([{"id": 1}])
                assert SECRET not in repr(catalog.options)
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert {line["user"] for line in lines} == {"etl"}
