"""Signatures of Azure's store for the directory of a table, in a store that checks them."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow as pa
import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import ContainerClient

import interbed
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.rest.data_tokens import DataToken, DataTokenFileIO, DataTokenOrigin, TableTokens
from interbed.catalog.server.credentials.issued import (
    CredentialsError,
    CredentialsUnavailableError,
    StorageOperation,
)
from interbed.catalog.server.credentials.issuers import DelegatedSignatures
from interbed.catalog.server.rest.paimon.tables import token_options
from tests.support.servers.azure_store import ACCOUNT, HOST, EnforcingAzure, enforcing_azure
from tests.support.servers.keyed_server import KeyedServer, keyed_server
from tests.support.waits import at_most

CONTAINER = "lake"
ROOT = f"abfss://{CONTAINER}@{HOST}"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
READ, WRITE = StorageOperation.READ, StorageOperation.WRITE
TOKEN = "/paimon/v1/hive/databases/shop/tables/t/token"


@dataclass(frozen=True, kw_only=True)
class AzureServer(KeyedServer):
    """A server that issues signatures of a store, and a token of its principal `ann`."""

    azure: EnforcingAzure
    directory: Path


def status_of(azure: EnforcingAzure, signature: str, method: str, name: str, **headers: str) -> int:
    """Return the status of a request to the store; `name` is that of a blob, or a query of the container."""
    address = urlsplit(azure.endpoint)
    path = f"{address.path}/{CONTAINER}" + (name if name.startswith("?") else f"/{quote(name)}?")
    given = {"x-ms-version": "2022-11-02", **{key.replace("_", "-"): value for key, value in headers.items()}}
    connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=at_most(60))
    try:
        body = b"x" if method == "PUT" and "x-ms-copy-source" not in given else None
        if body is not None:
            given["x-ms-blob-type"] = "BlockBlob"
        connection.request(method, f"{path}&{signature}" if signature else path, body, given)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnforcingAzure]:
    """Run an account whose signatures are checked."""
    with enforcing_azure(CONTAINER, tmp_path_factory.mktemp("azure")) as azure:
        yield azure


@pytest.fixture(scope="module")
def issuing(tmp_path_factory: pytest.TempPathFactory, azure: EnforcingAzure) -> Iterator[AzureServer]:
    """Run a server that has the only credentials, with two tables."""
    directory = tmp_path_factory.mktemp("issuing")
    flags = ("--credentials-azure-endpoint", azure.endpoint, "--credentials-azure-key-endpoint", azure.key_endpoint)
    with keyed_server(directory, f"{ROOT}/wh", azure.environment, "--credentials-azure", "on", *flags) as server:
        issuing = AzureServer(http=server.http, tokens=server.tokens, azure=azure, directory=directory)
        with interbed.load_catalog("lake", **issuing.options) as catalog:
            catalog.create_database("shop")
            for name in ("t", "t_old"):
                options = {"bucket": "1"}
                made = catalog.create_table(f"shop.{name}", ROWS.schema, primary_keys=["id"], options=options)
                made.upsert(ROWS)
        yield issuing


@pytest.fixture
def issuer(azure: EnforcingAzure, monkeypatch: pytest.MonkeyPatch) -> DelegatedSignatures:
    """Return an issuer with the identity of a server, whose clock the tests set."""
    for name in ("IDENTITY_ENDPOINT", "IDENTITY_HEADER", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, azure.environment[name])
    return DelegatedSignatures(seconds=3600, key_endpoint=azure.key_endpoint, store_endpoint=azure.endpoint)


def test_clients_without_keys_write_and_read(issuing: AzureServer) -> None:
    with interbed.load_catalog("lake", **issuing.options) as catalog:
        table = catalog.get_table("shop.t")
        table.upsert(pa.table({"id": pa.array([3], pa.int64())}))
        assert table.scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
        table.compact()
        assert table.scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert issuing.azure.used


def test_a_signature_of_one_table_is_refused_for_its_neighbour(issuing: AzureServer) -> None:
    azure = issuing.azure
    token = issuing.ask(TOKEN)["token"]
    signature = token["fs.azure.sas.fixed.token"]
    assert token["fs.azure.endpoint"] == azure.endpoint
    own, other = "wh/shop.db/t", "wh/shop.db/t_old"
    assert status_of(azure, signature, "GET", f"{own}/snapshot/snapshot-1") == 200
    assert status_of(azure, signature, "PUT", f"{own}/data/new") == 201
    assert status_of(azure, signature, "DELETE", f"{own}/data/new") == 202
    lists = "?restype=container&comp=list&prefix="
    assert status_of(azure, signature, "GET", f"{lists}wh%2Fshop.db%2Ft%2F") == 200
    assert status_of(azure, "", "GET", f"{own}/snapshot/snapshot-1") == 401
    for method, name in (
        ("GET", f"{other}/snapshot/snapshot-1"),
        ("PUT", f"{other}/new"),
        ("DELETE", f"{other}/snapshot/snapshot-1"),
        ("PUT", own),
        ("GET", f"{lists}"),
        ("GET", f"{lists}wh%2Fshop.db%2F"),
        ("GET", f"{lists}wh%2Fshop.db%2Ft_old%2F"),
        ("GET", "?restype=container&comp=acl"),
    ):
        assert status_of(azure, signature, method, name) == 403, (method, name)
    for longer in ("sdd=2", "sdd=1", "sdd=0"):
        assert status_of(azure, signature.replace("sdd=3", longer), "GET", f"{own}/snapshot/snapshot-1") == 403
    more = signature.replace(f"se={quote(parse_qs(signature)['se'][0])}", "se=2999-01-01T00%3A00%3A00Z")
    assert more != signature
    assert status_of(azure, more, "GET", f"{own}/snapshot/snapshot-1") == 403


def test_azure_s_own_client_reads_with_a_signature(issuing: AzureServer) -> None:
    signature = issuing.ask(TOKEN)["token"]["fs.azure.sas.fixed.token"]
    with ContainerClient.from_container_url(f"{issuing.azure.endpoint}/{CONTAINER}?{signature}") as client:
        names = [each.name for each in client.list_blobs(name_starts_with="wh/shop.db/t/snapshot/")]
        assert "wh/shop.db/t/snapshot/snapshot-1" in names
        assert json.loads(client.download_blob(names[0]).readall() or b"1")
        with pytest.raises(HttpResponseError) as error:
            client.download_blob("wh/shop.db/t_old/snapshot/snapshot-1").readall()
        assert error.value.status_code == 403


def test_iceberg_s_clients_get_signatures_by_its_names(issuing: AzureServer) -> None:
    table = "/iceberg/v1/hive/namespaces/shop/tables/t"
    (found,) = issuing.ask(f"{table}/credentials")["storage-credentials"]
    assert found["prefix"] == f"{ROOT}/wh/shop.db/t"
    signature = found["config"][f"adls.sas-token.{HOST}"]
    assert status_of(issuing.azure, signature, "GET", "wh/shop.db/t/schema/schema-0") == 200
    end = datetime.fromtimestamp(int(found["config"][f"adls.sas-token-expires-at-ms.{HOST}"]) / 1000, UTC)
    assert end == datetime.fromisoformat(parse_qs(signature)["se"][0])
    asked = issuing.ask(table, **{"X-Iceberg-Access-Delegation": "vended-credentials"})["config"]
    assert asked[f"adls.sas-token.{HOST}"] == signature
    assert asked["adls.refresh-credentials-endpoint"].endswith("/tables/t/credentials")


def test_no_secret_is_stored_or_logged(issuing: AzureServer) -> None:
    answer = issuing.ask(TOKEN)
    kept = b"".join(path.read_bytes() for path in issuing.directory.iterdir() if path.is_file())
    assert b"shop" in kept
    signature = parse_qs(answer["token"]["fs.azure.sas.fixed.token"])["sig"][0]
    for secret in (*issuing.azure.secrets, signature, quote(signature)):
        assert secret.encode() not in kept
    for secret in issuing.azure.secrets:
        assert secret not in json.dumps(answer)


def test_a_reader_only_reads(azure: EnforcingAzure, issuer: DelegatedSignatures) -> None:
    issued = issuer.issue(f"{ROOT}/wh/r", READ, "rita")
    writers = issuer.issue(f"{ROOT}/wh/r", WRITE, "ann")
    assert status_of(azure, writers.signature, "PUT", "wh/r/f") == 201
    assert status_of(azure, issued.signature, "GET", "wh/r/f") == 200
    for method in ("PUT", "DELETE"):
        assert status_of(azure, issued.signature, method, "wh/r/f") == 403
    assert issued.signature not in repr(issued)
    assert ACCOUNT in repr(issued)


def test_a_key_serves_many_signatures_until_near_its_end(
    azure: EnforcingAzure, issuer: DelegatedSignatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC).timestamp()
    clock = [now]
    keyed = DelegatedSignatures(seconds=3600, key_endpoint=azure.key_endpoint, clock=lambda: clock[0])
    before = azure.keys_given
    signatures = {keyed.issue(f"{ROOT}/wh/{name}", WRITE, "ann").signature for name in ("a", "b", "c")}
    assert (len(signatures), azure.keys_given - before) == (3, 1)
    # A signature never lasts longer than its key.
    for minutes in (59, 61):
        clock[0] = now + timedelta(minutes=minutes).total_seconds()
        given = parse_qs(keyed.issue(f"{ROOT}/wh/a", WRITE, "ann").signature)
        assert datetime.fromisoformat(given["se"][0]) <= datetime.fromisoformat(given["ske"][0])
    assert azure.keys_given - before == 2


def test_files_are_written_with_the_newest_signature_of_a_long_job(
    azure: EnforcingAzure, issuer: DelegatedSignatures
) -> None:
    start = datetime.now(UTC).timestamp()
    clock = [start]
    issuing = DelegatedSignatures(
        seconds=3600, key_endpoint=azure.key_endpoint, store_endpoint=azure.endpoint, clock=lambda: clock[0]
    )

    def fetch() -> DataToken:
        issued = issuing.issue(f"{ROOT}/wh/job", WRITE, "ann")
        return DataToken(options=token_options(issued), expires_millis=issued.expires_millis)

    origin = DataTokenOrigin(CatalogOptions({}), Identifier("shop", "job"), "1", f"{ROOT}/wh/job")
    files = DataTokenFileIO(TableTokens(fetch, "shop.job", lambda: int(clock[0] * 1000)), origin)
    before = len(azure.used)
    for minutes in (0, 20, 31, 50, 62):
        clock[0] = start + minutes * 60
        files.overwrite(f"{ROOT}/wh/job/f{minutes}", b"content")
        assert files.read_bytes(f"{ROOT}/wh/job/f0") == b"content"
    assert len(azure.used) - before == 3


@pytest.mark.parametrize("location", [ROOT, f"{ROOT}/wh/a*", f"{ROOT}/wh/a?", f"abfss://{CONTAINER}/wh/t"])
def test_directories_without_an_account_or_of_a_pattern_get_none(issuer: DelegatedSignatures, location: str) -> None:
    with pytest.raises(CredentialsError):
        issuer.issue(location, WRITE, "ann")
    assert not issuer.serves("wasbs")


def test_a_server_that_azure_does_not_accept_issues_none(
    azure: EnforcingAzure, issuer: DelegatedSignatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "identity_token", "another")
    other = DelegatedSignatures(seconds=3600, key_endpoint=azure.key_endpoint)
    issuer.issue(f"{ROOT}/wh/t", WRITE, "ann")
    monkeypatch.setattr(azure, "key_for", lambda *_: None)
    with pytest.raises(CredentialsError, match=f"Azure refuses a user delegation key of {HOST}"):
        other.issue(f"{ROOT}/wh/t", WRITE, "ann")
    monkeypatch.setattr(azure, "_identity_header", "another")
    third = DelegatedSignatures(seconds=3600, key_endpoint=azure.key_endpoint)
    with pytest.raises(CredentialsUnavailableError):
        third.issue(f"{ROOT}/wh/t", WRITE, "ann")
