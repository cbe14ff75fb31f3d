"""A metastore in this process that decides what callers may do, with a table of one owner in a database of another."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interbed.catalog.server.auth.principals import Mechanism, Principal
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.rest.interface import RestError, RestInterface, RestRequest, RestResponse, RestRoute
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import (
    Privilege,
    SecuredObject,
    column_object,
    database_object,
    table_object,
)
from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    Function,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import ClientSession, current_session, present_caller
from tests.support.databases import prepare
from tests.support.grants import GrantsInMemory, administrator, owned_in

STORAGE = StorageDescriptor(
    columns=(MetastoreColumn(name="id", type="bigint"), MetastoreColumn(name="name", type="string")),
    serde=SerDe(library="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
)
KEYS = (MetastoreColumn(name="dt", type="string"),)

SALES = database_object("hive", "sales")
ORDERS = table_object("hive", "sales", "orders")

NOBODY, READER, WRITER, OWNER, ADMIN = CALLERS = ("nobody", "reader", "writer", "owner", "admin")
CLERK = "clerk"
"""A reader of one column of each table that `reader` may read."""


def session_of(name: str | None, *groups: str) -> ClientSession:
    """Return the session of a principal; None for a client without one."""
    principal = None if name is None else Principal(name=name, mechanism=Mechanism.TOKEN, groups=frozenset(groups))
    return ClientSession(peer="192.0.2.1:1234", user=name, principal=principal)


@contextmanager
def served(name: str | None, *groups: str) -> Iterator[None]:
    """Make the calls within the block for a principal."""
    token = current_session.set(session_of(name, *groups))
    try:
        yield
    finally:
        current_session.reset(token)


def handled(interface: RestInterface, route: RestRoute, request: RestRequest) -> RestResponse | RestError:
    """Return the response of a route to a request of its session's principal, or the refusal. Raises an internal error
    of the handler.
    """
    token = current_session.set(request.session)
    try:
        return route.handler(request)
    except Exception as error:
        refusal = error if isinstance(error, RestError) else interface.translated(error)
        if refusal is None:
            raise
        return refusal
    finally:
        current_session.reset(token)


def json_answer(interface: RestInterface, route: RestRoute, request: RestRequest) -> tuple[int, Any]:
    """Return status and JSON of the answer of a route, which may be a refusal."""
    answer = handled(interface, route, request)
    if isinstance(answer, RestError):
        return int(answer.status), interface.error_body(answer)
    return int(answer.status), json.loads(answer.body) if answer.body else None


@dataclass
class GuardedMetastore:
    """A metastore, its grants, and the database below them."""

    metastore: Metastore
    grants: GrantsInMemory
    store: SqlRepository
    root: Path = field(default_factory=Path)

    def grant(self, principal: str, on: SecuredObject, *privileges: Privilege) -> None:
        """Grant privileges on an object."""
        self.grants.grant(principal, on, *privileges)


def table(name: str, database: str = "sales", **fields: object) -> MetastoreTable:
    """Return a table as a client sends it."""
    return MetastoreTable(database=database, name=name, storage=STORAGE, **fields)  # type: ignore[arg-type]


def _fill(metastore: Metastore) -> None:
    metastore.databases.bootstrap()
    for database, name, owner in (("sales", "orders", OWNER), ("hr", "pay", "boss")):
        metastore.databases.create(MetastoreDatabase(name=database, owner_name=owner, owner_type=1))
        metastore.tables.create(table(name, database, owner=owner, partition_keys=KEYS))
        partition = MetastorePartition(values=("2026-01-01",), storage=STORAGE)
        metastore.partitions.add(("hive", database, name), [partition])
    metastore.functions.create(Function(database="sales", name="totals", class_name="x", owner_name=OWNER))
    key = Constraint(database="sales", table="orders", kind=ConstraintKind.PRIMARY_KEY, columns=("id",), name="pk")
    metastore.constraints.add([key])


@contextmanager
def guarded_metastore(root: Path, undrop_seconds: float = 0.0, *, filled: bool = True) -> Iterator[GuardedMetastore]:
    """Yield a metastore with the databases `sales` and `hr` and, partitioned, the tables `sales.orders` and `hr.pay`.

    `owner` owns `sales` and `orders`; `hr` and `pay` are of `boss`. `reader` may read `orders` and `writer` also write
    it. Without `filled` they are in the directory already.
    """
    prepare(f"sqlite:///{root / 'metastore.db'}")
    store = SqlRepository(f"sqlite:///{root / 'metastore.db'}")
    if filled:
        schema.upgrade(store.engine)
    grants = GrantsInMemory(owned_in(store))
    metastore = Metastore(
        store,
        f"file:{root / 'warehouse'}",
        undrop_seconds=undrop_seconds,
        user=lambda: getattr(current_session.get(), "user", None),
        access=AccessGuard(grants, present_caller),
    )
    if filled:
        _fill(metastore)
    grants.grant(READER, ORDERS, Privilege.SELECT)
    grants.grant(CLERK, column_object(ORDERS, "id"), Privilege.SELECT)
    grants.grant(WRITER, ORDERS, Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE)
    administrator(grants, ADMIN)
    try:
        yield GuardedMetastore(metastore, grants, store, root)
    finally:
        store.close()
