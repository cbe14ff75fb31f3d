"""Values that make obstore's Rust code panic are refused before they reach it; a panic is reported as an ordinary
error.

No message contains a secret, neither of an option nor one that an object store has sent back.
"""

from pathlib import Path
from typing import Any

import obstore
import pytest

from interbed.storage.base.errors import AccessRefusedError, InvalidInputError, InvalidOptionError, StorageAccessError
from interbed.storage.io.resolve import file_io_for
from interbed.storage.io.stores.file_io import ObjectStoreFileIO
from interbed.storage.io.stores.options import StoreSettings
from interbed.storage.io.stores.requests import store_error
from interbed.storage.io.stores.settings import store_settings

AZURE = "c@acct.dfs.core.windows.net"
KEY = {"s3.access-key": "A", "s3.secret-key": "S"}
OAUTH = {"fs.azure.account.oauth2.client.id": "i", "fs.azure.account.oauth2.client.secret": "s"}
LOGIN = "fs.azure.account.oauth2.client.endpoint"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        *("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"),
    ):
        monkeypatch.delenv(name, raising=False)


ADDRESSES = [
    "127.0.0.1:9",
    "http://host name:99",
    "http://h%zz/",
    "http://1.2.3.4.5:9",
    "http://ü:9",
    "http://h:0",
    "http://h:65536",
    "http://h/a b",
    "http://h\n",
    "ftp://h",
    "http://user:word@h:1",
    "http://h:1?sig=word",
    "http://h:1#word",
    "://",
]
"""Strings that are no addresses of object stores."""


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    ("scheme", "authority", "name", "more"),
    [
        ("s3", "b", "s3.endpoint", KEY),
        ("s3", "b", "hadoop.fs.s3a.endpoint", KEY),
        ("gs", "b", "fs.gs.storage.root.url", {}),
        ("abfss", AZURE, "fs.azure.endpoint", {}),
        ("abfss", AZURE, LOGIN, OAUTH),
    ],
)
def test_an_endpoint_that_is_no_address_is_refused(
    scheme: str, authority: str, name: str, more: dict[str, str], address: str
) -> None:
    if name.endswith("endpoint") and scheme == "s3" and "://" not in address:
        # An endpoint of S3 may lack the scheme.
        assert store_settings(scheme, authority, {**more, name: address}).endpoint == f"https://{address}"
        return
    with pytest.raises(InvalidOptionError, match=f"'{name}' is no address") as refused:
        store_settings(scheme, authority, {**more, name: address})
    assert "word" not in str(refused.value)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    ("scheme", "authority", "variable"),
    [
        ("s3", "b", "AWS_ENDPOINT_URL"),
        ("s3", "b", "AWS_ENDPOINT_URL_S3"),
        ("s3", "b", "AWS_ENDPOINT"),
        ("gs", "b", "GOOGLE_BASE_URL"),
        ("abfss", AZURE, "AZURE_STORAGE_ENDPOINT"),
        ("abfss", AZURE, "AZURE_ENDPOINT"),
    ],
)
def test_an_endpoint_of_the_environment_that_is_no_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, scheme: str, authority: str, variable: str, address: str
) -> None:
    monkeypatch.setenv(variable, address)
    with pytest.raises(InvalidOptionError, match=f"variable {variable} is no address") as refused:
        store_settings(scheme, authority, {})
    assert "word" not in str(refused.value)


@pytest.mark.parametrize(
    "address", ["http://h", "https://my_host:9000/", "http://127.0.0.1:9", "http://[::1]:9", "https://h/proxy/s3/"]
)
def test_valid_addresses_are_accepted(address: str) -> None:
    assert store_settings("s3", "b", {"s3.endpoint": address}).config["endpoint"] == address.rstrip("/")
    assert store_settings("gs", "b", {"fs.gs.storage.root.url": address}).config["base_url"] == address.rstrip("/")
    assert store_settings("abfss", AZURE, {"fs.azure.endpoint": address}).config["endpoint"] == address.rstrip("/")


def test_an_option_takes_precedence_over_an_endpoint_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    options = {**KEY, "s3.endpoint": "http://127.0.0.1:1", "s3.retry.limit": "0"}
    store, root = file_io_for("s3://b/w", options)
    with pytest.raises(StorageAccessError, match=r"http://127\.0\.0\.1:1/b"):
        store.read_bytes(f"{root}/x")


@pytest.mark.parametrize("host", ["127.0.0.1:9", "[::1]:9"])
def test_a_bucket_cannot_be_part_of_an_ip_address(host: str) -> None:
    options = {**KEY, "s3.endpoint": f"http://{host}", "fs.s3a.path.style.access": "false"}
    with pytest.raises(InvalidOptionError, match=r"'fs\.s3a\.path\.style\.access' = 'false'"):
        store_settings("s3", "b", options)


@pytest.mark.parametrize(
    ("scheme", "authority", "options", "named"),
    [
        ("s3", "b", {"s3.access-key": "hidden\n", "s3.secret-key": "S"}, "s3.access-key"),
        ("s3", "b", {"fs.s3a.access.key": "A", "fs.s3a.secret.key": " hidden"}, "fs.s3a.secret.key"),
        ("s3", "b", {**KEY, "s3.session-token": "hid\nden"}, "s3.session-token"),
        ("s3", "b", {**KEY, "s3.region": "eu\n1"}, "s3.region"),
        ("abfss", AZURE, {"fs.azure.account.key": "hidden\n"}, "fs.azure.account.key"),
        ("abfss", AZURE, {"fs.azure.account.key.acct.x": "hidden\n"}, "fs.azure.account.key.acct.x"),
        ("abfss", AZURE, {"fs.azure.sas.fixed.token": "sig=hid den"}, "fs.azure.sas.fixed.token"),
        ("abfss", AZURE, {**OAUTH, "fs.azure.account.oauth2.msi.tenant": "t t"}, "msi.tenant"),
    ],
)
def test_a_key_with_white_space_is_refused(scheme: str, authority: str, options: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"{named}' has a space, a line break") as refused:
        store_settings(scheme, authority, options)
    assert "hid" not in str(refused.value)


def test_a_key_with_white_space_in_the_environment_or_a_profile_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[default]\naws_access_key_id = P\naws_secret_access_key = Q\n R\n")
    with pytest.raises(InvalidOptionError, match="aws_secret_access_key of the profile 'default'"):
        store_settings("s3", "b", {})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "A\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S")
    with pytest.raises(InvalidOptionError, match="variable AWS_ACCESS_KEY_ID"):
        store_settings("s3", "b", {})
    monkeypatch.setenv("AWS_REGION", "eu\n1")
    with pytest.raises(InvalidOptionError, match="variable AWS_REGION"):
        store_settings("s3", "b", KEY)


@pytest.mark.parametrize(
    ("scheme", "authority"),
    [("s3", "a b"), ("s3", "a:99"), ("s3", "a%20b"), ("gs", "a b"), ("s3", ""), ("abfss", f"a b{AZURE}")],
)
def test_an_invalid_bucket_name_is_refused(scheme: str, authority: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{scheme}://{authority} names no (bucket|container)"):
        store_settings(scheme, authority, {})


def panicking(kind: str) -> Any:
    """A function of obstore that panics as its Rust code does."""

    def panic(*_: Any, **__: Any) -> Any:
        raise type(kind, (BaseException,), {})("called `Result::unwrap()` on an `Err` value: InvalidHeaderValue")

    return panic


@pytest.fixture
def io() -> tuple[ObjectStoreFileIO, str]:
    found, root = file_io_for("s3://b/w", {**KEY, "s3.endpoint": "http://127.0.0.1:9", "s3.retry.limit": "0"})
    assert isinstance(found, ObjectStoreFileIO)
    return found, root


def test_a_panic_is_an_error_that_names_the_path(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = io
    for name in ("get", "put", "list", "delete", "list_with_delimiter", "head", "open_writer"):
        monkeypatch.setattr(obstore, name, panicking("PanicException"))
    steps = (
        lambda: files.read_bytes(f"{root}/x"),
        lambda: files.overwrite(f"{root}/x", b"1"),
        lambda: files.list(f"{root}/x"),
        lambda: files.make_directories(f"{root}/x"),
        lambda: files.create_exclusive(f"{root}/x", b"1"),
        lambda: files.delete(f"{root}/x"),
        lambda: files.open_output(f"{root}/x").write(b"1" * (6 << 20)),
    )
    for step in steps:
        with pytest.raises(StorageAccessError, match=rf"Can't .* {root}.*panicked"):
            step()


def test_a_keyboard_interrupt_is_not_converted_to_an_error(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = io

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(obstore, "get", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.read_bytes(f"{root}/x")


def test_a_panic_while_opening_a_store_names_the_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstore.store, "S3Store", panicking("PanicException"))
    with pytest.raises(StorageAccessError, match=r"Can't open s3://other with the option 's3.access-key': .*panicked"):
        file_io_for("s3://other/w", KEY)


def test_the_error_of_a_store_that_cannot_be_opened_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(StorageAccessError, match=rf"Can't open abfss://{AZURE} with the option 'fs.azure.account.key'"):
        file_io_for(f"abfss://{AZURE}/w", {"fs.azure.account.key": "no-base64!"})
    named = "fs.gs.auth.service.account.json.keyfile"
    with pytest.raises(StorageAccessError, match=rf"Can't open gs://b with the option '{named}'"):
        file_io_for("gs://b/w", {named: str(tmp_path / "none.json")})


ECHOED = [
    "token {token} auth {header}",
    "x-amz-security-token: {token}",
    "Authorization: {header} and more",
    '{{"authorization": "{header}"}}',
    "<Error><Code>Bad</Code><Message>you sent {token} and {secret}</Message></Error>",
    "<Error><Code>Bad</Code><Message>Authorization: {header}</Message></Error>",
]


@pytest.mark.parametrize("echoed", ECHOED)
def test_secrets_that_a_gateway_echoes_are_masked(echoed: str) -> None:
    secret, token = "wJalrXUtnFEMI/K7MDENG", "FwoGZXIvYXdzEBYaD+"
    header = "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu/s3/aws4_request, SignedHeaders=host, Signature=f00ba4"
    settings = store_settings("s3", "b", {"s3.access-key": "A", "s3.secret-key": secret, "s3.session-token": token})
    body = echoed.format(token=token, secret=secret, header=header)
    error = store_error(
        "read", "s3://b/x", ValueError(f"status code: 400\n{body}"), settings.source, secrets=settings.secrets
    )
    reported = str(error)
    assert "******" in reported
    for part in (secret, token, "f00ba4", "AKID", "20260101"):
        assert part not in reported


def test_keys_and_signatures_of_azure_are_secrets() -> None:
    def secrets(options: dict[str, str]) -> frozenset[str]:
        return store_settings("abfss", AZURE, options).secrets

    assert "hidden" in secrets({"fs.azure.account.key": "hidden"})
    assert "sig=hidden" in secrets({"fs.azure.sas.fixed.token": "?sig=hidden"})
    assert "s" in secrets({**OAUTH, LOGIN: "https://login.microsoftonline.com/t/oauth2/token"})
    assert "hidden" not in repr(store_settings("abfss", AZURE, {"fs.azure.account.key": "hidden"}))


def test_short_secrets_are_not_masked_in_messages_of_a_store() -> None:
    settings = StoreSettings(kind="AzureStore", bucket="c", config={"account_key": "is"})
    error = store_error("read", "abfss://c/x", ValueError("this is it"), secrets=settings.secrets)
    assert str(error) == "Can't read abfss://c/x: this is it"
    assert not isinstance(error, AccessRefusedError)
