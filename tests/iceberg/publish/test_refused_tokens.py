"""Publications in an Iceberg REST catalog, interbed's, that refuses a token before its end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog

from interbed.iceberg.publish.registration import SECRETS
from interbed.storage.table.table import Table
from tests.catalog.client.test_refused_tokens import issued, revoke, rotated
from tests.iceberg.publish.tables import STORAGE, published, rows
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server that takes issued tokens."""
    directory = tmp_path_factory.mktemp("refusing")
    with metastore_under_test(
        f"sqlite:///{directory / 'metastore.db'}", directory, "--http-port", "0", "--authentication", "token"
    ) as running:
        yield running


def made(warehouse: Path, server: MetastoreUnderTest, endpoint: str | None = None) -> Table:
    """Create a table that is published in the server's catalog, in the namespace of the test's directory. `endpoint` is
    the address that issues tokens for a credential.
    """
    further = {} if endpoint is None else {"metadata.iceberg.rest.oauth2-server-uri": endpoint}
    options = {
        STORAGE: "rest-catalog",
        "metadata.iceberg.rest.uri": f"{server.http}/iceberg",
        "metadata.iceberg.database": namespace(warehouse),
    }
    return published(warehouse, {**options, **further})


def namespace(warehouse: Path) -> str:
    """Return the namespace of a test."""
    return warehouse.name.replace("-", "_").lower()


def snapshots(server: MetastoreUnderTest, warehouse: Path, token: str) -> int:
    """Return the number of snapshots that the catalog has of the table."""
    catalog = RestCatalog("theirs", uri=f"{server.http}/iceberg", token=token)
    try:
        return len(catalog.load_table((namespace(warehouse), "t")).snapshots())
    finally:
        catalog.close()


def test_a_credential_gets_another_token_once(
    tmp_path: Path, server: MetastoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = issued(server), issued(server)
    revoke(server, first)
    with rotated(first, second) as (endpoint, options):
        monkeypatch.setenv(SECRETS["credential"], options["credential"])
        table = made(tmp_path, server, options["oauth2-server-uri"])
        table.append(rows(1))
        assert snapshots(server, tmp_path, second) == 1
        # The first token was fetched, refused, and replaced; a catalog of pyiceberg fetches one of its own.
        assert 2 <= endpoint.fetched <= 3


def test_a_credential_whose_tokens_are_refused_ends_the_publication(
    tmp_path: Path, server: MetastoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked = [issued(server) for _ in range(5)]
    for token in revoked:
        revoke(server, token)
    with rotated(*revoked) as (endpoint, options):
        monkeypatch.setenv(SECRETS["credential"], options["credential"])
        table = made(tmp_path, server, options["oauth2-server-uri"])
        table.append(rows(1))
        # The rows are committed, and published with the next commit that reaches the catalog.
        assert table.scan().to_arrow().num_rows == 1
        assert 2 <= endpoint.fetched <= 6


def test_a_token_of_the_environment_is_read_again(
    tmp_path: Path, server: MetastoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = issued(server), issued(server)
    monkeypatch.setenv(SECRETS["token"], first)
    table = made(tmp_path, server)
    table.append(rows(1))
    assert snapshots(server, tmp_path, second) == 1
    revoke(server, first)
    monkeypatch.setenv(SECRETS["token"], second)
    table.append(rows(2))
    assert snapshots(server, tmp_path, second) == 2
