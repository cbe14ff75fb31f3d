"""A metastore in this process that decides by its grants, with its management interface."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from interbed.catalog.server.rest.interface import RestInterface, RestRequest, RestRoute, RouteTable
from interbed.catalog.server.rest.mounted import guarded_own
from interbed.catalog.server.rest.own_interface import own_interface
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.policies import PolicyAdministration
from interbed.catalog.server.service.model import MetastoreDatabase
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import present_caller
from tests.catalog.server.access.guarded import json_answer, session_of, table
from tests.support.databases import open_migrated


@dataclass
class ManagedAccess:
    """The management interface of a metastore with the table `sales.orders` of `olga`; `root` is an administrator."""

    metastore: Metastore
    administration: AccessAdministration
    interface: RestInterface

    def routed(self, method: str, address: str, body: Any = None, user: str | None = "root") -> tuple[RestRoute, Any]:
        """Return the route and the request of an address below `/interbed/v1/access`."""
        path, _, query = address.partition("?")
        found = RouteTable(self.interface.routes).find(method, f"v1/access/{path}")
        assert found is not None, path
        route, parts = found
        request = RestRequest(
            parts=parts,
            query=dict(parse_qsl(query)),
            headers={},
            body=b"" if body is None else json.dumps(body).encode(),
            session=session_of(user, *GROUPS.get(user or "", ())),
        )
        return route, request

    def send(self, method: str, address: str, body: Any = None, *, by: str | None = "root") -> tuple[int, Any]:
        """Return status and body of the answer to a principal's request."""
        route, request = self.routed(method, address, body, by)
        return json_answer(self.interface, route, request)


GROUPS = {"gus": ("etl",)}
"""Groups of the callers."""


@contextmanager
def managed_access(root: Path) -> Iterator[ManagedAccess]:
    """Yield the management interface of a new metastore."""
    store = open_migrated(f"sqlite:///{root / 'metastore.db'}")
    authorizer = BuiltinAuthorizer(store, admins=["root"])
    metastore = Metastore(store, f"file:{root / 'warehouse'}", access=AccessGuard(authorizer, present_caller))
    metastore.databases.bootstrap()
    metastore.databases.create(MetastoreDatabase(name="sales", owner_name="boss", owner_type=1))
    metastore.tables.create(table("orders", owner="olga"))
    administration = AccessAdministration(store, authorizer, admins=["root"])
    interface = guarded_own(
        metastore, own_interface(metastore, administration, PolicyAdministration(store, authorizer))
    )
    try:
        yield ManagedAccess(metastore, administration, interface)
    finally:
        store.close()
