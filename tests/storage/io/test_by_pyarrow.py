"""Object stores without obstore: pyarrow uses the options that it supports, and the others are refused by name."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

import interbed
from interbed.storage.base.errors import InvalidOptionError, MissingExtraError, NotSupportedError
from interbed.storage.io import resolve
from interbed.storage.io.pyarrow_files import PyarrowFileIO
from interbed.storage.io.resolve import file_io_for
from interbed.storage.io.stores import options as store_options
from tests.support.servers.http_servers import AZURITE_ACCOUNT, for_hadoop, running_azurite, running_s3

AZURE = "abfss://c@acct.dfs.core.windows.net/w"
KEY = {"s3.access-key": "A", "s3.secret-key": "S"}
ENDPOINT = {"s3.endpoint": "http://h:1"}
SERVICE = {
    "fs.azure.account.oauth2.client.id": "i",
    "fs.azure.account.oauth2.client.secret": "s",
    "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
}


@pytest.fixture(autouse=True)
def no_obstore(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        *("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL"),
        *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_TENANT_ID"),
    ):
        monkeypatch.delenv(name, raising=False)
    for module in (resolve, store_options):
        monkeypatch.setattr(module, "is_installed", lambda library: library != "obstore")
    resolve._remote.cache_clear()
    yield
    resolve._remote.cache_clear()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the arguments with which pyarrow's classes were called, by name."""
    found: dict[str, Any] = {}

    def noting(name: str) -> Any:
        def open_one(*given: Any, **named: Any) -> pafs.FileSystem:
            found.update(kind=name, given=given, **named)
            return pafs.LocalFileSystem()

        return open_one

    for name in ("S3FileSystem", "GcsFileSystem", "AzureFileSystem"):
        monkeypatch.setattr(pafs, name, noting(name))
    return found


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3("lake") as options:
        yield options


@pytest.fixture(scope="module")
def azure() -> Iterator[dict[str, str]]:
    with running_azurite("lake") as options:
        yield options


@pytest.mark.parametrize("by_hadoop", [False, True])
def test_a_commit_to_s3_needs_a_lock_with_options_of_paimon_and_hadoop(store: dict[str, str], by_hadoop: bool) -> None:
    options = for_hadoop(store) if by_hadoop else store
    lake = interbed.load_catalog("lake", warehouse=f"s3a://lake/{uuid.uuid4()}", **options)
    lake.create_database("shop")
    with pytest.raises(NotSupportedError, match=r"pip install 'interbed\[stores\]'"):
        lake.create_table("shop.orders", pa.schema([("id", pa.int64())])).append([{"id": 1}])


@pytest.mark.long
def test_files_in_azure_are_located_in_their_container(azure: dict[str, str]) -> None:
    root = f"abfss://lake@{AZURITE_ACCOUNT}.dfs.core.windows.net/w"
    io, at = file_io_for(root, azure)
    assert isinstance(io, PyarrowFileIO)
    io.overwrite(f"{at}/d/x", b"mine")
    assert io.read_bytes(f"{at}/d/x") == b"mine"
    assert [entry.path for entry in io.list(f"{at}/d")] == [f"{root}/d/x"]
    assert io.delete(f"{at}/d/x")
    assert not io.exists(f"{at}/d/x")


def test_options_of_s3_are_translated_to_pyarrows(opened: dict[str, Any]) -> None:
    options = {
        "fs.s3a.endpoint": "h:1",
        "fs.s3a.connection.ssl.enabled": "false",
        "hadoop.fs.s3a.access.key": "A",
        "fs.s3.accessKeySecret": "S",
        "fs.s3a.session.token": "T",
        "fs.s3a.endpoint.region": "eu-1",
        "s3.path.style.access": "false",
        "fs.s3a.connection.establish.timeout": "2s",
        "s3.connection.timeout": "3s",
        "s3.retry.limit": "4",
        "s3.conditional-put": "disabled",
        "fs.s3a.connection.maximum": "100",
    }
    io, _ = file_io_for("s3://lake/w", options)
    assert isinstance(io, PyarrowFileIO)
    strategy = opened.pop("retry_strategy")
    assert strategy.max_attempts == 5
    assert opened == {
        "kind": "S3FileSystem",
        "given": (),
        "scheme": "http",
        "endpoint_override": "h:1",
        "access_key": "A",
        "secret_key": "S",
        "session_token": "T",
        "region": "eu-1",
        "force_virtual_addressing": True,
        "connect_timeout": 2.0,
        "request_timeout": 3.0,
    }


def test_requests_to_s3_may_be_anonymous(opened: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://h:2/")
    file_io_for("s3://lake/w", {"fs.s3a.aws.credentials.provider": "x.AnonymousAWSCredentialsProvider"})
    assert (opened["anonymous"], opened["endpoint_override"]) == (True, "h:2")
    assert "access_key" not in opened


def test_options_of_google_are_translated_to_pyarrows(opened: dict[str, Any]) -> None:
    file_io_for("gs://lake/w", {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.storage.root.url": "http://h:1"})
    assert (opened["anonymous"], opened["scheme"], opened["endpoint_override"]) == (True, "http", "h:1")
    assert opened["retry_time_limit"].total_seconds() == 90
    file_io_for("gs://other/w", {})
    assert opened["anonymous"] is False


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"fs.azure.account.key.acct.dfs.core.windows.net": "K"}, {"account_key": "K"}),
        ({"fs.azure.sas.c.acct.blob.core.windows.net": "?sig=x"}, {"sas_token": "sig=x"}),
        (SERVICE, {"client_id": "i", "client_secret": "s", "tenant_id": "tenant"}),
        ({}, {}),
        (
            {"fs.azure.account.key": "K", "fs.azure.endpoint": "http://h:1/acct"},
            {
                "account_key": "K",
                "blob_storage_authority": "h:1",
                "blob_storage_scheme": "http",
                "dfs_storage_authority": "h:1",
                "dfs_storage_scheme": "http",
            },
        ),
        (
            {"fs.azure.endpoint": "https://acct.blob.core.chinacloudapi.cn"},
            {
                "blob_storage_authority": ".blob.core.chinacloudapi.cn",
                "blob_storage_scheme": "https",
                "dfs_storage_authority": ".dfs.core.chinacloudapi.cn",
                "dfs_storage_scheme": "https",
            },
        ),
    ],
)
def test_options_of_azure_are_translated_to_pyarrows(
    opened: dict[str, Any], options: dict[str, str], arguments: dict[str, str]
) -> None:
    file_io_for(AZURE, options)
    assert opened == {"kind": "AzureFileSystem", "given": ("acct",), **arguments}


def test_an_azure_key_may_be_given_by_the_environment(opened: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "K")
    file_io_for(AZURE.replace("abfss", "wasbs"), {})
    assert opened["account_key"] == "K"


@pytest.mark.parametrize(
    ("location", "options", "named"),
    [
        ("s3://b/w", {**KEY, "s3.bogus": "x"}, "'s3.bogus'"),
        ("s3://b/w", {**KEY, "fs.s3a.access.key": "B"}, "contradict"),
        ("s3://b/w", {**KEY, "s3.path.style.access": "nope"}, "'s3.path.style.access'"),
        ("s3://b/w", {**KEY, "s3.conditional-put": "zzz"}, "'s3.conditional-put'"),
        ("s3://b/w", {"s3.access-key": "A"}, "'s3.secret-key'"),
        ("s3://b/w", {**KEY, "s3.endpoint": "http://u:word@h"}, "'s3.endpoint' is no address"),
        ("gs://b/w", {"fs.gs.bogus": "x"}, "'fs.gs.bogus'"),
        (AZURE, {"fs.azure.bogus": "x"}, "'fs.azure.bogus'"),
    ],
)
def test_options_that_are_invalid_with_obstore_are_invalid_without(
    location: str, options: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidOptionError, match=named):
        file_io_for(location, options)


@pytest.mark.parametrize(
    ("location", "options", "named"),
    [
        ("s3://b/w", {**ENDPOINT, "s3.retry.interval": "1s"}, "s3.retry.interval"),
        ("s3://b/w", {**ENDPOINT, "fs.s3a.connection.request.timeout": "1s"}, "fs.s3a.connection.request.timeout"),
        ("s3://b/w", {**ENDPOINT, "s3.conditional-put": "etag"}, "s3.conditional-put"),
        ("s3://b/w", {"s3.path.style.access": "true"}, "s3.path.style.access"),
        ("s3://b/w", {**ENDPOINT, "local-cache.enabled": "true", "local-cache.dir": "/c"}, "local-cache.enabled"),
        ("gs://b/w", {"fs.gs.auth.service.account.json.keyfile": "/k"}, "fs.gs.auth.service.account.json.keyfile"),
        ("gs://b/w", {"fs.gs.http.max.retry": "1"}, "fs.gs.http.max.retry"),
        (AZURE, {"fs.azure.io.retry.max.retries": "1"}, "fs.azure.io.retry.max.retries"),
        (AZURE, {"fs.azure.account.oauth2.msi.tenant": "t"}, "fs.azure.account.oauth2.msi.tenant"),
        (
            AZURE,
            {**SERVICE, "fs.azure.account.oauth2.client.endpoint": "https://login.example.org/t/oauth2/token"},
            "fs.azure.account.oauth2.client.endpoint",
        ),
    ],
)
def test_options_that_pyarrow_does_not_support_are_refused(location: str, options: dict[str, str], named: str) -> None:
    with pytest.raises(MissingExtraError, match=rf"'{named}' .* needs obstore: pip install 'interbed\[stores\]'"):
        file_io_for(location, options)


def test_an_address_that_pyarrow_cannot_represent_is_refused() -> None:
    with pytest.raises(MissingExtraError, match=r"at https://h/proxy needs obstore"):
        file_io_for(AZURE, {"fs.azure.endpoint": "https://h/proxy"})
