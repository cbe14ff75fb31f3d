"""Credentials that expire in the middle of a job.

Renewable credentials are read again. The error of fixed ones names them and says what to do. A commit is known not to
have happened in that case.
"""

import base64
import hmac
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import AccessRefusedError
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import file_io_for
from interbed.storage.io.stores import options as store_options
from tests.support.servers.http_servers import AZURITE_ACCOUNT, AZURITE_KEY, running_azurite, running_s3
from tests.support.servers.store_proxy import Fault, Request, StoreProxy
from tests.support.shares import each_run

BUCKET = "lake"
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
EXPIRED = (
    b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message><Token-0>%s</Token-0></Error>"
)


class ValidTokens:
    """ValidTokens that the store accepts; requests with another token get the response of AWS."""

    def __init__(self, *valid: str, status: int = 400) -> None:
        self.valid = set(valid)
        self.status = status
        self.refused = 0

    def __call__(self, request: Request) -> Fault | None:
        token = request.headers.get("x-amz-security-token", "")
        if token in self.valid:
            return None
        self.refused += 1
        return Fault(kind="answer", status=self.status, body=EXPIRED % token.encode())


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3(BUCKET) as options:
        yield options


@pytest.fixture
def proxy(store: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StoreProxy]:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with StoreProxy.before(store) as running:
        yield running


def endpoint(proxy: StoreProxy) -> dict[str, str]:
    """The options without the keys."""
    return {
        "s3.endpoint": proxy.options["s3.endpoint"],
        "s3.region": "us-east-1",
        "s3.retry.interval": "1ms",
        "s3.conditional-put": "etag",
    }


def keys(token: str) -> dict[str, str]:
    return {"s3.access-key": "a", "s3.secret-key": "b", "s3.session-token": token}


def ids(table: interbed.Table) -> list[int]:
    column: Any = table.to_arrow()["id"]
    return sorted(column.to_pylist())


def write(io: FileIO, path: str) -> None:
    with io.open_output(path) as out:
        out.write(b"x")


OPERATIONS: dict[str, Callable[[FileIO, str], object]] = {
    "read": lambda io, path: io.read_bytes(path),
    "open": lambda io, path: io.open_input(path),
    "size": lambda io, path: io.size(path),
    "look up": lambda io, path: io.exists(path),
    "list": lambda io, path: io.list(path.rpartition("/")[0]),
    "write": write,
    "overwrite": lambda io, path: io.overwrite(path, b"x"),
    "create": lambda io, path: io.create_exclusive(f"{path}-new", b"x"),
    "delete": lambda io, path: io.delete(path),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("operation", "status"),
    each_run(product(OPERATIONS, [400, 403]), lambda case: case[1] == 400 or case[0] in ("read", "write")),
)
def test_the_error_names_expired_fixed_credentials_without_retries(
    operation: str, status: int, proxy: StoreProxy
) -> None:
    path = f"s3://{BUCKET}/fixed/{operation.replace(' ', '-')}-{status}/x"
    proxy.fault = tokens = ValidTokens("first", status=status)
    io, _ = file_io_for(path, {**endpoint(proxy), **keys("first")})
    io.overwrite(path, b"x")
    tokens.valid = {"second"}
    with pytest.raises(AccessRefusedError, match=r"'s3\.session-token', has expired; give new ones") as caught:
        OPERATIONS[operation](io, path)
    assert path.rpartition("/")[0] in str(caught.value)
    assert "first" not in str(caught.value)
    # The second request finds out why the first was refused.
    assert tokens.refused <= 2


# The test above covers the refusal of each operation in every run.
@pytest.mark.parametrize("operation", each_run(OPERATIONS, lambda operation: operation in ("read", "write", "list")))
def test_credentials_of_a_profile_are_renewed(operation: str, proxy: StoreProxy, tmp_path: Path) -> None:
    def log_in(token: str) -> None:
        (tmp_path / ".aws").mkdir(exist_ok=True)
        (tmp_path / ".aws" / "credentials").write_text(
            f"[default]\naws_access_key_id=a\naws_secret_access_key=b\naws_session_token={token}\n"
        )

    path = f"s3://{BUCKET}/profile/{operation.replace(' ', '-')}/x"
    log_in("first")
    proxy.fault = tokens = ValidTokens("first")
    io, _ = file_io_for(path, endpoint(proxy))
    io.overwrite(path, b"x")
    log_in("second")
    tokens.valid = {"second"}
    OPERATIONS[operation](io, path)
    tokens.valid = {"third"}
    with pytest.raises(AccessRefusedError, match="the profile 'default', has expired"):
        OPERATIONS[operation](io, path)


@pytest.mark.parametrize("operation", ["size", "look up", "delete"])
def test_a_refusal_is_repeated_when_the_client_has_renewed_its_credentials_since(
    operation: str, proxy: StoreProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"s3://{BUCKET}/meanwhile/{operation.replace(' ', '-')}/x"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    io, _ = file_io_for(path, endpoint(proxy))
    io.overwrite(path, b"x")
    refused = 0

    def once(request: Request) -> Fault | None:
        nonlocal refused
        if request.method != "HEAD" or refused:
            return None
        refused += 1
        return Fault(kind="answer", status=400, body=EXPIRED % b"first")

    proxy.fault = once
    assert OPERATIONS[operation](io, path)
    assert refused == 1


def test_credentials_of_the_environment_are_renewed(proxy: StoreProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"s3://{BUCKET}/environment/x"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "first")
    proxy.fault = tokens = ValidTokens("first")
    io, _ = file_io_for(path, {**endpoint(proxy), "fs.s3a.threads.max": "1"})
    io.overwrite(path, b"x")
    tokens.valid = {"second"}
    with pytest.raises(AccessRefusedError, match="AWS_SESSION_TOKEN"):
        io.read_bytes(path)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "second")
    assert io.read_bytes(path) == b"x"


def test_a_commit_that_failed_by_expired_credentials_can_be_repeated(proxy: StoreProxy) -> None:
    def opened(token: str) -> interbed.Table:
        options = {"warehouse": f"s3://{BUCKET}/commit", **endpoint(proxy), **keys(token)}
        return interbed.CatalogFactory.create(options).get_table("d.t")

    options = {"warehouse": f"s3://{BUCKET}/commit", **endpoint(proxy), **keys("first")}
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("d")
        catalog.create_table("d.t", SCHEMA, options={"bucket": "-1"})
    opened("first").append([{"id": 1, "v": 1}])
    tokens = ValidTokens("first", "second")

    def expires(request: Request) -> Fault | None:
        if request.method == "PUT" and request.path.endswith("/snapshot-2"):
            tokens.valid.discard("first")
        return tokens(request)

    proxy.fault = expires
    with pytest.raises(AccessRefusedError, match="Nothing was committed; the same work may be done again"):
        opened("first").append([{"id": 2, "v": 2}])
    table = opened("second")
    assert [s.id for s in table.snapshots()] == [1]
    assert table.append([{"id": 2, "v": 2}]) == 2
    assert ids(table) == [1, 2]


def test_a_job_survives_the_expiry_of_tokens(
    proxy: StoreProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Keys that expire within five minutes are read again after a tenth of a second, without a refusal.
    monkeypatch.setattr(store_options, "_RENEWAL_MINUTES", 60)
    (tmp_path / ".aws").mkdir()
    tokens, number = ValidTokens("0"), 0

    def issue() -> None:
        nonlocal number
        number += 1
        (tmp_path / ".aws" / "credentials").write_text(
            f"[default]\naws_access_key_id=a\naws_secret_access_key=b\naws_session_token={number}\n"
        )
        tokens.valid = {str(number)}

    issue()
    requests = 0

    def expires(request: Request) -> Fault | None:
        nonlocal requests
        fault = tokens(request)
        if fault is None:
            requests += 1
            if requests % 50 == 0:
                issue()
        return fault

    proxy.fault = expires
    options = {"warehouse": f"s3://{BUCKET}/job", **endpoint(proxy), "fs.s3a.threads.max": "2"}
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("d")
        table = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        for n in range(20):
            table.upsert([{"id": n, "v": n}])
        table.compact()
        assert ids(table) == list(range(20))
    assert number > 5
    # The first token was valid from the beginning, and after the last one there may have been no request.
    assert tokens.refused >= number - 2


@pytest.fixture(scope="module")
def azurite() -> Iterator[dict[str, str]]:
    with running_azurite(BUCKET) as options:
        yield options


def signature(expiry: str) -> str:
    """A shared access signature of the container, valid until then for all operations of this test."""
    version, permissions = "2020-12-06", "racwdl"
    resource = f"/blob/{AZURITE_ACCOUNT}/{BUCKET}"
    signed = "\n".join((permissions, "", expiry, resource, "", "", "", version, "c", *[""] * 7))
    code = hmac.digest(base64.b64decode(AZURITE_KEY), signed.encode(), "sha256")
    parts = {"sp": permissions, "se": expiry, "sv": version, "sr": "c", "sig": base64.b64encode(code).decode()}
    return urlencode(parts)


@pytest.mark.long
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_error_names_an_expired_signature(operation: str, azurite: dict[str, str]) -> None:
    path = f"abfss://{BUCKET}@{AZURITE_ACCOUNT}.dfs.core.windows.net/{operation.replace(' ', '-')}/x"

    def opened(expiry: str) -> FileIO:
        own = {"fs.azure.endpoint": azurite["fs.azure.endpoint"], "fs.azure.sas.fixed.token": signature(expiry)}
        return file_io_for(path, own)[0]

    opened("2999-01-01T00:00:00Z").overwrite(path, b"x")
    words = r"'fs\.azure\.sas\.fixed\.token', ended at 2020-01-01T00:00:00Z; give new ones"
    with pytest.raises(AccessRefusedError, match=words) as caught:
        OPERATIONS[operation](opened("2020-01-01T00:00:00Z"), path)
    assert "sig=" not in str(caught.value)
