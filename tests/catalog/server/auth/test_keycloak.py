"""Keycloak as the identity provider of a server and its clients: client credentials, rotated keys, an outage."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.client.credentials import ClientCredentials, OAuth2Token
from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from tests.support.servers.keycloak import AUDIENCE, SECRETS, Keycloak, running_keycloak
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import at_most

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def keycloak() -> Iterator[Keycloak]:
    """Run Keycloak with a realm."""
    with running_keycloak() as running:
        yield running


def settings(keycloak: Keycloak) -> tuple[str, ...]:
    """Return the settings of a server that takes the realm's tokens; it finds the keys by discovery."""
    return (
        *("--http-port", "0", "--authentication", "jwt", "--jwt-issuer", keycloak.issuer),
        *("--jwt-audience", AUDIENCE, "--jwt-principal", "azp", "--jwt-groups", "realm_access.roles"),
    )


def token_of(keycloak: Keycloak, client: str, secret: str | None = None) -> str:
    """Return a new token of a client."""
    given = SECRETS[client] if secret is None else secret
    credentials = ClientCredentials(server_uri=keycloak.token_endpoint, client_id=client, client_secret=given)
    return OAuth2Token(credentials).current()


def status_of(server: MetastoreUnderTest, token: str) -> int:
    """Return the status of a request with a token."""
    request = urllib.request.Request(f"{server.http}/iceberg/v1/config", headers={"authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=at_most(30)) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_clients_use_its_tokens_through_a_rotation_and_an_outage(keycloak: Keycloak, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(database, tmp_path, *settings(keycloak)) as server:
        oauth: dict[str, Any] = {
            "credential": f"etl:{SECRETS['etl']}",
            "oauth2-server-uri": keycloak.token_endpoint,
        }
        plain: dict[str, Any] = {
            "hive.metastore.client.auth.mode": "PLAIN",
            "hive.metastore.client.plain.username": "etl",
        }
        rest: dict[str, Any] = {
            "metastore": "rest",
            "uri": f"{server.http}/paimon",
            "warehouse": "hive",
            "token.provider": "bear",
        }
        with interbed.load_catalog("l", metastore="hive", uri=server.uri, **plain, **oauth) as catalog:
            catalog.create_database("by_plain")
        with interbed.load_catalog("l", **rest, **oauth) as catalog:
            assert "by_plain" in catalog.list_databases()
        with pytest.raises(CatalogAccessError, match="refuses the client etl: it answers 401"):
            token_of(keycloak, "etl", "wrong")

        # A token for another audience, and one whose signature is that of another token.
        first, foreign = token_of(keycloak, "etl"), token_of(keycloak, "other")
        assert status_of(server, first) == 200
        assert status_of(server, foreign) == 401
        assert status_of(server, first.rpartition(".")[0] + "." + foreign.rpartition(".")[2]) == 401

        # Tokens of the new key and of the older one are both accepted.
        keycloak.rotate_keys()
        second = token_of(keycloak, "etl")
        assert first.partition(".")[0] != second.partition(".")[0]
        assert [status_of(server, second), status_of(server, first)] == [200, 200]

        # Known keys serve on; the client reports that it gets no token.
        keycloak.kill()
        assert status_of(server, second) == 200
        with pytest.raises(CatalogUnavailableError, match="does not issue a token"):
            token_of(keycloak, "etl")
    # A server that starts during the outage has no keys, and says that it is not the token's fault.
    with metastore_under_test(database, tmp_path, *settings(keycloak)) as server:
        assert status_of(server, second) == 503
