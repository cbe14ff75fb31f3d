"""Tokens of Google's store that are bound to the directory of a table, in a store that enforces their boundaries."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.server.credentials.issued import (
    CredentialsError,
    CredentialsUnavailableError,
    StorageOperation,
)
from interbed.catalog.server.credentials.issuers import DownscopedTokens, access_boundary
from tests.support.servers.google_store import EnforcingGoogle, enforcing_google
from tests.support.servers.keyed_server import KeyedServer, keyed_server
from tests.support.waits import at_most, wait_until

BUCKET = "lake"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
READ, WRITE = StorageOperation.READ, StorageOperation.WRITE


@dataclass(frozen=True, kw_only=True)
class GoogleServer(KeyedServer):
    """A server that issues tokens of a store, and a token of its principal `ann`."""

    google: EnforcingGoogle
    directory: Path


def status_of(google: EnforcingGoogle, token: str, method: str, path: str, **headers: str) -> int:
    """Return the status of a request to the store."""
    given = {"Authorization": f"Bearer {token}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    content = b"x" if method == "PUT" else None
    request = urllib.request.Request(google.endpoint + path, data=content, headers=given, method=method)
    try:
        with urllib.request.urlopen(request, timeout=at_most(60)) as response:
            response.read()
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnforcingGoogle]:
    """Run a store whose boundaries are enforced."""
    with enforcing_google(BUCKET, tmp_path_factory.mktemp("google")) as google:
        yield google


@pytest.fixture(scope="module")
def issuing(tmp_path_factory: pytest.TempPathFactory, google: EnforcingGoogle) -> Iterator[GoogleServer]:
    """Run a server that has the only credentials."""
    directory = tmp_path_factory.mktemp("issuing")
    flags = (
        *("--credentials-google", "on", "--credentials-google-endpoint", google.endpoint),
        *("--credentials-google-token-endpoint", google.token_service),
    )
    with keyed_server(directory, f"gs://{BUCKET}/wh", google.environment, *flags) as server:
        yield GoogleServer(http=server.http, tokens=server.tokens, google=google, directory=directory)


@pytest.fixture(scope="module")
def written(issuing: GoogleServer) -> GoogleServer:
    """Write two tables, one of which has the name of the other as its beginning."""
    with interbed.load_catalog("lake", **issuing.options) as catalog:
        catalog.create_database("shop")
        for name in ("t", "t_old"):
            created = catalog.create_table(f"shop.{name}", ROWS.schema, primary_keys=["id"], options={"bucket": "1"})
            created.upsert(ROWS)
    return issuing


def test_clients_without_keys_write_and_read(written: GoogleServer) -> None:
    with interbed.load_catalog("lake", **written.options) as catalog:
        assert catalog.get_table("shop.t").scan().to_arrow()["id"].to_pylist() == [1, 2]
    assert written.google.used


def test_a_token_of_one_table_is_refused_for_its_neighbour(written: GoogleServer) -> None:
    google = written.google
    answer = written.ask("/paimon/v1/hive/databases/shop/tables/t/token")
    token = answer["token"]["fs.gs.auth.access.token"]
    assert answer["token"]["fs.gs.storage.root.url"] == google.endpoint
    own, other = f"/{BUCKET}/wh/shop.db/t", f"/{BUCKET}/wh/shop.db/t_old"
    assert status_of(google, token, "GET", f"{own}/snapshot/snapshot-1") == HTTPStatus.OK
    assert status_of(google, token, "PUT", f"{own}/data/new") == HTTPStatus.OK
    copy = quote(f"{BUCKET}/wh/shop.db/t/data/new")
    assert status_of(google, token, "PUT", f"{own}/data/copy", x_goog_copy_source=copy) == HTTPStatus.OK
    assert status_of(google, token, "DELETE", f"{own}/data/new") == HTTPStatus.NO_CONTENT
    lists = f"/{BUCKET}?list-type=2&prefix="
    assert status_of(google, token, "GET", f"{lists}wh%2Fshop.db%2Ft%2F") == HTTPStatus.OK
    assert status_of(google, "none", "GET", f"{own}/snapshot/snapshot-1") == HTTPStatus.UNAUTHORIZED
    for method, path in (
        ("GET", f"{other}/snapshot/snapshot-1"),
        ("PUT", f"{other}/new"),
        ("DELETE", f"{other}/snapshot/snapshot-1"),
        ("GET", f"/{BUCKET}"),
        ("GET", lists),
        ("GET", f"{lists}wh%2Fshop.db%2Ft"),
        ("GET", f"{lists}wh%2Fshop.db%2Ft_old%2F"),
        ("GET", "/other/wh/shop.db/t/f"),
    ):
        assert status_of(google, token, method, path) == HTTPStatus.FORBIDDEN, (method, path)
    copy = quote(f"{BUCKET}/wh/shop.db/t_old/snapshot/snapshot-1")
    assert status_of(google, token, "PUT", f"{own}/copy", x_goog_copy_source=copy) == HTTPStatus.FORBIDDEN


def test_iceberg_s_clients_get_tokens_by_its_names(written: GoogleServer) -> None:
    table = "/iceberg/v1/hive/namespaces/shop/tables/t"
    (found,) = written.ask(f"{table}/credentials")["storage-credentials"]
    assert found["prefix"] == f"gs://{BUCKET}/wh/shop.db/t"
    config = found["config"]
    assert (
        status_of(written.google, config["gcs.oauth2.token"], "GET", f"/{BUCKET}/wh/shop.db/t/schema/schema-0") == 200
    )
    assert int(config["gcs.oauth2.token-expires-at"]) > 0
    asked = written.ask(table, **{"X-Iceberg-Access-Delegation": "vended-credentials"})["config"]
    assert asked["gcs.oauth2.token"] == config["gcs.oauth2.token"]
    assert asked["gcs.oauth2.refresh-credentials-endpoint"].endswith("/tables/t/credentials")


def test_a_long_job_renews_its_tokens(written: GoogleServer) -> None:
    google = written.google
    google.token_seconds = 0.5
    before = len(google.used)
    try:
        with interbed.load_catalog("lake", **written.options) as catalog:
            table = catalog.create_table("shop.long", ROWS.schema, primary_keys=["id"], options={"bucket": "1"})

            def has_renewed() -> bool:
                table.upsert(ROWS)
                return len(google.used) >= before + 3

            wait_until(has_renewed)
            assert table.scan().to_arrow()["id"].to_pylist() == [1, 2]
    finally:
        google.token_seconds = 3600.0


def test_no_secret_is_stored_or_logged(written: GoogleServer) -> None:
    kept = b"".join(path.read_bytes() for path in written.directory.iterdir() if path.is_file())
    assert b"shop" in kept
    assert len(written.google.secrets) > 3
    for secret in written.google.secrets:
        assert secret.encode() not in kept
    answer = written.ask("/paimon/v1/hive/databases/shop/tables/t/token")["token"]
    assert set(answer) == {
        "fs.gs.auth.access.token",
        "fs.gs.auth.access.token.expires-at",
        "fs.gs.storage.root.url",
    }


def test_a_boundary_has_the_objects_and_the_lists_of_one_directory() -> None:
    (rule,) = access_boundary("lake", "wh/t", READ)["accessBoundary"]["accessBoundaryRules"]
    assert rule == {
        "availableResource": "//storage.googleapis.com/projects/_/buckets/lake",
        "availablePermissions": ["inRole:roles/storage.objectViewer"],
        "availabilityCondition": {
            "expression": "resource.name.startsWith('projects/_/buckets/lake/objects/wh/t/') || "
            "api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('wh/t/')"
        },
    }


@pytest.mark.parametrize("directory", ["", "wh/a'b", "wh/') || true || ('", "wh/a\\", "wh/a\nb"])
def test_what_a_condition_cannot_quote_gets_none(directory: str) -> None:
    with pytest.raises(CredentialsError):
        access_boundary("lake", directory, WRITE)


def test_a_reader_only_reads(google: EnforcingGoogle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(google.key_file))
    issuer = DownscopedTokens(token_service=google.token_service)
    issued = issuer.issue(f"gs://{BUCKET}/wh/t", READ, "rita")
    writers = issuer.issue(f"gs://{BUCKET}/wh/t", WRITE, "ann")
    path = f"/{BUCKET}/wh/t/f"
    assert status_of(google, writers.token, "PUT", path) == HTTPStatus.OK
    assert status_of(google, issued.token, "GET", path) == HTTPStatus.OK
    for method in ("PUT", "DELETE"):
        assert status_of(google, issued.token, method, path) == HTTPStatus.FORBIDDEN
    assert issued.token not in repr(issued)


def test_an_unavailable_token_service_is_an_error_to_retry(
    google: EnforcingGoogle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(google.key_file))
    issuer = DownscopedTokens(token_service="http://127.0.0.1:9/sts")
    with pytest.raises(CredentialsUnavailableError, match="does not answer: TransportError"):
        issuer.issue(f"gs://{BUCKET}/wh/t", READ, "ann")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/none.json")
    with pytest.raises(CredentialsUnavailableError, match="has no credentials of Google"):
        DownscopedTokens(token_service=google.token_service)
