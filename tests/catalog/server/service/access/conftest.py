"""A metastore with roles and grants."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.granting import GrantRequest
from interbed.catalog.server.service.access.objects import (
    Access,
    Caller,
    Grantee,
    Privilege,
    SecuredObject,
    grantee_from_key,
    table_object,
)
from interbed.catalog.server.service.model import (
    Function,
    MetastoreColumn,
    MetastoreDatabase,
    MetastoreTable,
    StorageDescriptor,
)
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(kw_only=True)
class AccessLake:
    """A metastore with the database `sales`, and its roles and grants. `root` is in the setting `access_admins`."""

    store: SqlRepository
    metastore: Metastore
    authorizer: BuiltinAuthorizer
    access: AccessAdministration
    clock: Clock

    def add_database(self, name: str, *, owner: str | None = None, kind: int = 1) -> None:
        """Create a database of an owner."""
        self.metastore.databases.create(MetastoreDatabase(name=name, owner_name=owner, owner_type=kind))

    def add_table(
        self, name: str, *, database: str = "sales", owner: str | None = None, kind: int = 1
    ) -> SecuredObject:
        """Create a table of an owner."""
        storage = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),))
        self.metastore.tables.create(
            MetastoreTable(database=database, name=name, owner=owner, storage=storage, extra={"ownerType": kind})
        )
        return table_object("hive", database, name)

    def add_function(self, name: str, *, owner: str | None = None) -> None:
        """Create a function in `sales`."""
        self.metastore.functions.create(
            Function(database="sales", name=name, class_name="a.B", owner_name=owner, owner_type=1)
        )

    def grant(
        self,
        privilege: str,
        on: SecuredObject,
        to: str,
        *,
        by: str | None = None,
        grant_option: bool = False,
    ) -> None:
        """Give a privilege to a grantee, `user:ann`."""
        self.access.grant([_request(privilege, on, to, grant_option)], None if by is None else Caller(by))

    def revoke(
        self,
        privilege: str,
        on: SecuredObject,
        to: str,
        *,
        by: str | None = None,
        grant_option_only: bool = False,
        cascade: bool = False,
    ) -> list[str]:
        """Revoke a privilege; return the grantees of the revoked grants."""
        revoked = self.access.revoke(
            [_request(privilege, on, to)],
            None if by is None else Caller(by),
            grant_option_only=grant_option_only,
            cascade=cascade,
        )
        return [each.to.key for each in revoked]

    def may(self, user: str, privilege: str | None, on: SecuredObject, *groups: str) -> bool:
        """Return the decision for a user, some time after the last change."""
        self.clock.now += 1
        wanted = None if privilege is None else Privilege[privilege]
        return self.authorizer.decide(Caller(user, frozenset(groups)), [Access(wanted, on)])[0]


def _request(privilege: str, on: SecuredObject, to: str, grant_option: bool = False) -> GrantRequest:
    return GrantRequest(privilege=Privilege[privilege], on=on, to=grantee(to), grant_option=grant_option)


def grantee(key: str) -> Grantee:
    """Return a grantee by its text."""
    return grantee_from_key(key)


def opened_lake(store: SqlRepository, warehouse: Path) -> AccessLake:
    """Return a metastore in a migrated database."""
    clock = Clock()
    metastore = Metastore(store, f"file:{warehouse}", undrop_seconds=3600)
    metastore.databases.bootstrap()
    authorizer = BuiltinAuthorizer(store, admins=["root"], clock=clock)
    access = AccessAdministration(store, authorizer, admins=["root"], operator="operator", clock=clock)
    return AccessLake(store=store, metastore=metastore, authorizer=authorizer, access=access, clock=clock)


def _lake(database_url: str, warehouse: Path) -> Iterator[AccessLake]:
    store = open_migrated(database_url)
    found = opened_lake(store, warehouse)
    found.add_database("sales", owner="boss")
    yield found
    store.close()


def lake_on_sqlite(directory: Path) -> Iterator[AccessLake]:
    """Yield a metastore on SQLite with the database `sales`, which belongs to the user `boss`."""
    yield from _lake(f"sqlite:///{directory / 'metastore.db'}", directory / "warehouse")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[AccessLake]:
    """Yield a metastore on SQLite with the database `sales`, which belongs to the user `boss`."""
    yield from lake_on_sqlite(tmp_path)


@pytest.fixture
def each_lake(database_url: str, tmp_path: Path) -> Iterator[AccessLake]:
    """Yield the same on SQLite and on PostgreSQL, for tests of what the databases do."""
    yield from _lake(database_url, tmp_path / "warehouse")
