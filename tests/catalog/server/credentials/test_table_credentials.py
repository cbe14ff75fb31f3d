"""For which directories credentials are issued, and for how long they are kept."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from interbed.catalog.server.credentials.issued import (
    CredentialsError,
    S3Credentials,
    StorageCredentials,
    StorageOperation,
    TableCredentials,
)
from interbed.catalog.server.credentials.s3_requests import CheckedRequest, S3Address, S3Request, TableSigning
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.model import (
    EXTERNAL_TABLE,
    MetastoreColumn,
    MetastoreDatabase,
    MetastoreTable,
    StorageDescriptor,
)
from interbed.catalog.server.service.repository import Transaction
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated

SECONDS = 3600.0


class CountingIssuer:
    """An issuer whose credentials are numbered."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.issued: list[tuple[str, StorageOperation, str]] = []
        self._guard = threading.Lock()

    def serves(self, scheme: str) -> bool:
        return scheme in ("s3", "s3a")

    def issue(self, location: str, operation: StorageOperation, principal: str) -> S3Credentials:
        with self._guard:
            self.issued.append((location, operation, principal))
            number = len(self.issued)
        return S3Credentials(
            location=location,
            access_key=f"key{number}",
            secret_key="s",
            session_token="t",
            expires_millis=int((self.now + SECONDS) * 1000),
        )


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[SqlRepository]:
    """A metastore with tables in one bucket."""
    repository = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    metastore = Metastore(repository, f"file:{tmp_path / 'warehouse'}")
    metastore.databases.bootstrap()
    metastore.databases.create(MetastoreDatabase(name="shop", location=f"file:{tmp_path / 'warehouse' / 'shop.db'}"))
    for name, location in (
        ("orders", "s3a://lake/wh/orders"),
        ("orders_old", "s3://lake/wh/orders_old"),
        ("around", "s3://lake/outer"),
        ("inside", "s3://lake/outer/inner"),
        ("twin", "s3n://lake/twin"),
        ("other_twin", "s3://lake/twin"),
        ("root", "s3://bucket"),
        ("local", f"file:{tmp_path / 'elsewhere'}"),
    ):
        columns = (MetastoreColumn(name="id", type="bigint"),)
        storage = StorageDescriptor(columns=columns, location=location)
        parameters = {"EXTERNAL": "TRUE"}
        table = MetastoreTable(
            database="shop", name=name, table_type=EXTERNAL_TABLE, storage=storage, parameters=parameters
        )
        repository.write(partial(added, table))
    yield repository
    repository.close()


def added(table: MetastoreTable, transaction: Transaction) -> None:
    """Add a table's entry, whatever the rules for new tables say."""
    database = transaction.databases.find("hive", "shop")
    assert database is not None
    assert transaction.tables.add(database.id, table) is not None


def credentials(repository: SqlRepository, issuer: CountingIssuer) -> TableCredentials:
    """Return the credentials of all tables, for writing."""
    return TableCredentials(repository, [issuer], lambda table: StorageOperation.WRITE, lambda: issuer.now)


def key_of(issued: StorageCredentials) -> str:
    """Return the number of credentials."""
    assert isinstance(issued, S3Credentials)
    return issued.access_key


def test_credentials_are_for_the_directory_of_the_table(repository: SqlRepository) -> None:
    issuer = CountingIssuer()
    issued = credentials(repository, issuer).of_table("hive", "shop", "orders", "ann")
    assert issued.location == "s3://lake/wh/orders"
    assert issuer.issued == [("s3://lake/wh/orders", StorageOperation.WRITE, "ann")]


@pytest.mark.parametrize("name", ["around", "inside", "twin", "other_twin", "root", "local", "missing"])
def test_a_directory_that_is_not_the_table_s_alone_gets_none(repository: SqlRepository, name: str) -> None:
    issuer = CountingIssuer()
    with pytest.raises(CredentialsError):
        credentials(repository, issuer).of_table("hive", "shop", name, "ann")
    assert issuer.issued == []


def test_credentials_are_kept_for_half_of_their_time(repository: SqlRepository) -> None:
    issuer = CountingIssuer()
    found = credentials(repository, issuer)
    first = found.of_table("hive", "shop", "orders", "ann")
    issuer.now += SECONDS / 2 - 1
    assert found.of_table("hive", "shop", "orders", "ann") is first
    issuer.now += 2
    assert key_of(found.of_table("hive", "shop", "orders", "ann")) == "key2"


def test_each_principal_has_its_own(repository: SqlRepository) -> None:
    issuer = CountingIssuer()
    found = credentials(repository, issuer)
    keys = {key_of(found.of_table("hive", "shop", "orders", name)) for name in ("ann", "bob", "ann")}
    assert keys == {"key1", "key2"}


def test_many_requests_at_once_ask_the_issuer_once(repository: SqlRepository) -> None:
    issuer = CountingIssuer()
    found = credentials(repository, issuer)
    with ThreadPoolExecutor(8) as pool:
        issued = list(pool.map(lambda _: found.of_table("hive", "shop", "orders", "ann"), range(32)))
    assert {key_of(each) for each in issued} == {"key1"}


def test_a_refusal_of_the_operation_comes_first(repository: SqlRepository) -> None:
    issuer = CountingIssuer()

    def refuse(_table: object) -> StorageOperation:
        raise PermissionError

    with pytest.raises(PermissionError):
        TableCredentials(repository, [issuer], refuse).of_table("hive", "shop", "orders", "ann")
    assert issuer.issued == []


def test_secrets_are_not_shown() -> None:
    issued = CountingIssuer().issue("s3://b/t", StorageOperation.READ, "ann")
    assert "secret" not in repr(issued)
    assert "session_token" not in repr(issued)


def signing(repository: SqlRepository, signed: list[CheckedRequest], operation: StorageOperation) -> TableSigning:
    """Return the signatures for all tables, which are recorded."""

    def sign(request: CheckedRequest, region: str) -> dict[str, str]:
        signed.append(request)
        return {"Authorization": region}

    return TableSigning(repository, S3Address(region="eu-central-1"), lambda table: operation, sign)


def read_of(bucket: str, key: str) -> S3Request:
    """Return a request for an object."""
    uri = f"https://s3.eu-central-1.amazonaws.com/{bucket}/{key}"
    return S3Request(method="GET", uri=uri, region="eu-central-1", headers={})


def test_requests_are_signed_for_the_directory_of_the_table(repository: SqlRepository) -> None:
    signed: list[CheckedRequest] = []
    found = signing(repository, signed, StorageOperation.READ)
    answer = found.sign("hive", "shop", "orders", read_of("lake", "wh/orders/f"))
    assert answer.headers == {"Authorization": "eu-central-1"}
    assert answer.is_read
    assert "Authorization" not in repr(answer)
    for bucket, key in (("lake", "wh/orders_old/f"), ("lake", "wh/f"), ("other", "wh/orders/f")):
        with pytest.raises(CredentialsError):
            found.sign("hive", "shop", "orders", read_of(bucket, key))
    assert [each.action for each in signed] == ["GetObject"]


@pytest.mark.parametrize("name", ["around", "inside", "twin", "other_twin", "root", "local", "missing"])
def test_nothing_is_signed_for_a_directory_that_is_not_the_table_s_alone(repository: SqlRepository, name: str) -> None:
    signed: list[CheckedRequest] = []
    found = signing(repository, signed, StorageOperation.WRITE)
    for bucket, key in (("lake", "outer/inner/f"), ("lake", "outer/f"), ("lake", "twin/f"), ("bucket", "f")):
        with pytest.raises(CredentialsError):
            found.sign("hive", "shop", name, read_of(bucket, key))
    with pytest.raises(CredentialsError):
        found.check("hive", "shop", name)
    assert signed == []


def test_a_refusal_of_the_operation_comes_before_a_signature(repository: SqlRepository) -> None:
    def refuse(_table: object) -> StorageOperation:
        raise PermissionError

    def sign(_request: object, _region: str) -> dict[str, str]:
        raise AssertionError("a refused request is not signed")

    found = TableSigning(repository, S3Address(region="eu-central-1"), refuse, sign)
    with pytest.raises(PermissionError):
        found.sign("hive", "shop", "orders", read_of("lake", "wh/orders/f"))
