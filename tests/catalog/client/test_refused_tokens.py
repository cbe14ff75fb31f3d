"""Tokens that a server refuses before their end: each client looks for another one once, and repeats its call."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.client.credentials import RETRIED_SECONDS, ClientCredentials, OAuth2Token
from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from interbed.catalog.client.rest import tokens
from interbed.catalog.client.rest.http import RestHttp, RestRefusedError
from interbed.catalog.client.rest.tokens import (
    BearerToken,
    BearerTokenFile,
    BearerTokenOfClient,
    DlfAuth,
    DlfToken,
    KerberosTickets,
    TokenProvider,
)
from tests.catalog.client.rest.answering_server import ChosenAnswer, ReceivedRequest, answering_server
from tests.catalog.server.migration.commands import run
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import wait_until

OLD, NEW = "old-token", "new-token"


def authorization_of(request: ReceivedRequest) -> str:
    """Return the header of a request that authenticates it."""
    return {name.lower(): value for name, value in request.headers.items()}.get("authorization", "")


@dataclass
class RefusingServer:
    """A REST server that refuses requests by their credentials, and a token endpoint with tokens of its own."""

    accepted: Callable[[str], bool]
    tokens: Iterator[str] = field(default_factory=lambda: iter(()))
    uri: str = ""
    sent: list[str] = field(default_factory=list)
    fetched: int = 0

    def answer(self, request: ReceivedRequest) -> ChosenAnswer:
        """Return a token, or what becomes of a request."""
        if request.path == "/token":
            self.fetched += 1
            token = {"access_token": next(self.tokens), "token_type": "Bearer", "expires_in": 3600}
            return ChosenAnswer(body=json.dumps(token).encode())
        self.sent.append(authorization_of(request))
        if self.accepted(self.sent[-1]):
            return ChosenAnswer(body=b'{"ok": true}')
        return ChosenAnswer(status=401, body=b'{"message": "revoked", "code": 401}')


@contextmanager
def refusing(accepted: Callable[[str], bool], *tokens: str) -> Iterator[RefusingServer]:
    """Run a server that refuses requests whose credentials are not accepted."""
    server = RefusingServer(accepted, iter(tokens))
    with answering_server(server.answer) as (uri, _):
        server.uri = uri
        yield server


def is_new(authorization: str) -> bool:
    """Return whether a request has the new token."""
    return authorization == f"Bearer {NEW}"


def client_of(uri: str) -> ClientCredentials:
    """Return a client of the token endpoint at this address."""
    return ClientCredentials(server_uri=f"{uri}/token", client_id="etl", client_secret="secret")


@pytest.mark.parametrize("method", ["get", "post"])
def test_oauth2_fetches_another_token_once_and_repeats(method: str) -> None:
    with refusing(is_new, OLD, NEW) as server:
        provider = BearerTokenOfClient(OAuth2Token(client_of(server.uri)))
        with closing(RestHttp(server.uri, provider)) as http:
            found = http.get("/v1/x") if method == "get" else http.post("/v1/x", {"a": 1})
            assert found == {"ok": True}
            assert http.get("/v1/y") == {"ok": True}
    assert server.fetched == 2
    assert server.sent == [f"Bearer {OLD}", f"Bearer {NEW}", f"Bearer {NEW}"]


def test_oauth2_does_not_loop_where_no_token_is_accepted() -> None:
    now = [1000.0]
    with refusing(lambda sent: False, *(f"t{number}" for number in range(10))) as server:
        provider = BearerTokenOfClient(OAuth2Token(client_of(server.uri), clock=lambda: now[0]))
        with closing(RestHttp(server.uri, provider)) as http:
            for _ in range(5):
                with pytest.raises(RestRefusedError, match="answers 401"):
                    http.get("/v1/x")
            assert server.fetched == 2
            assert len(server.sent) == 6
            now[0] += RETRIED_SECONDS
            with pytest.raises(RestRefusedError):
                http.get("/v1/x")
    assert server.fetched == 3


def test_an_endpoint_that_issues_the_same_token_again_ends_the_attempt() -> None:
    with refusing(is_new, OLD, OLD) as server:
        provider = BearerTokenOfClient(OAuth2Token(client_of(server.uri)))
        with closing(RestHttp(server.uri, provider)) as http, pytest.raises(RestRefusedError):
            http.get("/v1/x")
    assert server.sent == [f"Bearer {OLD}"]


def test_threads_that_are_refused_at_once_share_one_new_token() -> None:
    with refusing(is_new, OLD, NEW) as server:
        token = OAuth2Token(client_of(server.uri))
        assert token.current() == OLD
        assert [token.replace(OLD) for _ in range(5)] == [True] * 5
    assert server.fetched == 2


def test_a_token_file_is_read_again_whatever_its_time_and_size(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(OLD)
    found = file.stat()

    def accepted(authorization: str) -> bool:
        # The file is rotated while the request is on its way.
        file.write_text(NEW)
        os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
        return is_new(authorization)

    with refusing(accepted) as server, closing(RestHttp(server.uri, BearerTokenFile(str(file)))) as http:
        assert http.post("/v1/x", {}) == {"ok": True}
    assert server.sent == [f"Bearer {OLD}", f"Bearer {NEW}"]


@pytest.mark.parametrize("content", [OLD, "", None])
def test_a_token_file_without_another_token_ends_the_attempt(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    file.write_text(OLD)

    def accepted(authorization: str) -> bool:
        if content is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(content)
        return False

    with (
        refusing(accepted) as server,
        closing(RestHttp(server.uri, BearerTokenFile(str(file)))) as http,
        pytest.raises(RestRefusedError, match="answers 401"),
    ):
        http.get("/v1/x")
    assert server.sent == [f"Bearer {OLD}"]


def test_a_fixed_token_is_sent_once() -> None:
    with (
        refusing(is_new) as server,
        closing(RestHttp(server.uri, BearerToken(OLD))) as http,
        pytest.raises(RestRefusedError),
    ):
        http.get("/v1/x")
    assert server.sent == [f"Bearer {OLD}"]


def test_dlf_loads_its_token_again_once() -> None:
    now = [1_000_000.0]
    loaded: list[str] = []

    def load() -> DlfToken:
        loaded.append(f"key{len(loaded)}")
        return DlfToken(key_id=loaded[-1], key_secret="s", security_token="session")

    with refusing(lambda sent: "Credential=key1/" in sent) as server:
        provider = DlfAuth(load, "cn-hangzhou", clock=lambda: now[0])
        with closing(RestHttp(server.uri, provider)) as http:
            assert http.get("/v1/x") == {"ok": True}
            assert loaded == ["key0", "key1"]
            server.accepted = lambda sent: False
            for _ in range(3):
                with pytest.raises(RestRefusedError):
                    http.get("/v1/x")
            assert loaded == ["key0", "key1"]
            now[0] += RETRIED_SECONDS
            with pytest.raises(RestRefusedError):
                http.get("/v1/x")
    assert loaded == ["key0", "key1", "key2"]
    assert len(server.sent) == 7


def test_every_provider_is_here() -> None:
    # Tickets are tested with a KDC: tests/catalog/server/auth/kerberos.
    here = {BearerToken, BearerTokenFile, BearerTokenOfClient, DlfAuth, KerberosTickets}
    found = {each for each in vars(tokens).values() if isinstance(each, type) and hasattr(each, "redacted")}
    assert found - {TokenProvider, OAuth2Token} == here


# -- clients of interbed's server --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server that takes issued tokens on both ports."""
    directory = tmp_path_factory.mktemp("refusing")
    with metastore_under_test(
        f"sqlite:///{directory / 'metastore.db'}", directory, "--http-port", "0", "--authentication", "token"
    ) as running:
        yield running


def issued(server: MetastoreUnderTest) -> str:
    """Return a new token of `ann`."""
    return run("token", "create", "ann", "--db", server.db).strip()


def revoke(server: MetastoreUnderTest, token: str) -> None:
    """Revoke a token of the server."""
    run("token", "revoke", token.split("_")[1], "--db", server.db)


def hive_options(server: MetastoreUnderTest, way: str, **further: str) -> dict[str, Any]:
    """Return the options of a Hive catalog over HTTP or by SASL."""
    if way == "http":
        uri, settings = server.http.replace("http://", "thrift://"), {"thrift.transport.mode": "http"}
    else:
        uri, settings = server.uri, {"auth.mode": "PLAIN", "plain.username": "ann"}
    prefixed = {f"hive.metastore.client.{name}": value for name, value in settings.items()}
    return {"metastore": "hive", "uri": uri, **prefixed, **further}


class RotatingEndpoint:
    """A token endpoint that issues tokens of the server, in turn."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.fetched = 0

    def answer(self, request: ReceivedRequest) -> ChosenAnswer:
        """Return the next token; the last one again."""
        token = self.tokens[min(self.fetched, len(self.tokens) - 1)]
        self.fetched += 1
        body = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
        return ChosenAnswer(body=json.dumps(body).encode())


@contextmanager
def rotated(first: str, *others: str) -> Iterator[tuple[RotatingEndpoint, dict[str, str]]]:
    """Run a token endpoint; yield it with the options of its clients."""
    endpoint = RotatingEndpoint(first, *others)
    with answering_server(endpoint.answer) as (uri, _):
        yield endpoint, {"credential": "etl:secret", "oauth2-server-uri": f"{uri}/token"}


@pytest.mark.parametrize("way", ["http", "sasl"])
def test_the_hive_catalog_goes_on_with_another_token(server: MetastoreUnderTest, way: str) -> None:
    first, second = issued(server), issued(server)
    with (
        rotated(first, second) as (endpoint, options),
        interbed.load_catalog("l", **hive_options(server, way, **options)) as catalog,
    ):
        assert "default" in catalog.list_databases()
        revoke(server, first)
        # The connection is one of the first token until the server looks at it again.
        wait_until(lambda: "default" in catalog.list_databases() and endpoint.fetched == 2)
        assert "default" in catalog.list_databases()
        assert endpoint.fetched == 2


@pytest.mark.parametrize("way", ["http", "sasl"])
def test_the_hive_catalog_begins_with_another_token(server: MetastoreUnderTest, way: str) -> None:
    first, second = issued(server), issued(server)
    revoke(server, first)
    with (
        rotated(first, second) as (endpoint, options),
        interbed.load_catalog("l", **hive_options(server, way, **options)) as catalog,
    ):
        assert "default" in catalog.list_databases()
    assert endpoint.fetched == 2


@pytest.mark.parametrize("way", ["http", "sasl"])
def test_the_hive_catalog_does_not_loop(server: MetastoreUnderTest, way: str) -> None:
    revoked = [issued(server) for _ in range(4)]
    for token in revoked:
        revoke(server, token)
    with rotated(*revoked) as (endpoint, options):
        for _ in range(2):
            with (
                pytest.raises((CatalogAccessError, CatalogUnavailableError)) as refused,
                interbed.load_catalog("l", **hive_options(server, way, **options)) as catalog,
            ):
                catalog.list_databases()
            assert not any(token in str(refused.value) for token in revoked)
    # Each catalog fetches a token, and another one in place of the refused one.
    assert endpoint.fetched == 4


@pytest.mark.parametrize("way", ["http", "sasl"])
def test_the_hive_catalog_reads_its_token_file_again(server: MetastoreUnderTest, way: str, tmp_path: Path) -> None:
    first, second = issued(server), issued(server)
    file = tmp_path / "token"
    file.write_text(first)
    with interbed.load_catalog("l", **hive_options(server, way, **{"token.provider.path": str(file)})) as catalog:
        assert "default" in catalog.list_databases()
        file.write_text(second)
        revoke(server, first)
        for _ in range(3):
            assert "default" in catalog.list_databases()


def test_the_hive_catalog_names_the_reason_without_another_token(server: MetastoreUnderTest) -> None:
    token = issued(server)
    with interbed.load_catalog("l", **hive_options(server, "sasl", token=token)) as catalog:
        assert "default" in catalog.list_databases()
        revoke(server, token)
        with pytest.raises(CatalogAccessError, match=r"refuses the client: .*it was revoked"):
            wait_until(lambda: not catalog.list_databases())


def test_the_rest_catalog_goes_on_with_another_token(server: MetastoreUnderTest) -> None:
    first, second = issued(server), issued(server)
    with rotated(first, second) as (endpoint, options):
        given: dict[str, Any] = {"token.provider": "bear", **options}
        with interbed.load_catalog(
            "l", metastore="rest", uri=f"{server.http}/paimon", warehouse="hive", **given
        ) as catalog:
            catalog.create_database("goes_on")
            revoke(server, first)
            wait_until(lambda: "goes_on" in catalog.list_databases() and endpoint.fetched == 2)
            catalog.drop_database("goes_on")
    assert endpoint.fetched == 2
