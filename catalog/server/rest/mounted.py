"""The REST interfaces of a server, mounted on its HTTP port, and the checks of what their routes need.

Paimon's interface is the Hive catalog over the metastore of the process, and file-system catalogs over directories of
tables. Iceberg's interface reads tables in Paimon's format by it. That loads Arrow, which takes longer than the rest of
a server's start. So each interface is loaded by its first request, on a thread of its own.

What a route needs is checked before its handler runs: it may also read or change files beside the services. The
privilege is that of the route on the object that its path names. USAGE means that the caller sees the object. An object
that the caller does not see is missing while the handler runs: the interface answers as for a missing one. The services
ask again for what the handler does, and for objects that the body of a request names.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from interbed.catalog.server.credentials.issued import TableCredentials
from interbed.catalog.server.credentials.s3_requests import TableSigning
from interbed.catalog.server.http.application import HttpAnswers
from interbed.catalog.server.rest.endpoint import RestEndpoint
from interbed.catalog.server.rest.iceberg.entries import OwnTables
from interbed.catalog.server.rest.iceberg.names import NamespaceMapping, levels_of
from interbed.catalog.server.rest.iceberg.routes import interface as iceberg_interface
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestInterface,
    RestRequest,
    RestResponse,
    RestRoute,
)
from interbed.catalog.server.rest.own_interface import own_interface
from interbed.catalog.server.rest.rows.routes import RowRoutes
from interbed.catalog.server.rest.rows.streams import RowStreams
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.guard import WRITE, AccessGuard, AnyOf, Requirement
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Privilege,
    SecuredObject,
    catalog_object,
    column_object,
    database_object,
    function_object,
    table_object,
)
from interbed.catalog.server.service.access.policies import PolicyAdministration
from interbed.catalog.server.service.access.secured import hidden_objects
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.serving import SharedEdge
from interbed.storage.base.errors import is_installed

if TYPE_CHECKING:
    from interbed.catalog.server.rest.paimon.access import CatalogAccess


BRANCH = "$"
"""What is between the name of a table and that of its branch or system table, in Paimon's names."""

DatabaseOf = Callable[[RestRequest], str | None]

ASKED_INSIDE: Mapping[str, AnyOf] = {
    # The updates of a commit decide which privilege it needs, and whether it creates the table.
    "iceberg.updateTable": (),
    # Their bodies name the objects.
    "iceberg.renameTable": (),
    "iceberg.renameView": (),
    "iceberg.commitTransaction": (),
    "paimon.renameTable": (),
    "paimon.renameView": (),
    # An overwrite needs others than an append.
    "paimon.commitTable": WRITE,
    "paimon.dropPartitions": (Privilege.DELETE, Privilege.ALTER),
    "paimon.createPartitions": (Privilege.INSERT, Privilege.ALTER),
    "paimon.markDonePartitions": (*WRITE, Privilege.ALTER),
    # The administration of roles, grants and policies decides by admin options, grant options and owners.
    "interbed.createRole": (),
    "interbed.dropRole": (),
    "interbed.addMember": (),
    "interbed.removeMember": (),
    "interbed.grant": (),
    "interbed.revoke": (),
    "interbed.setPolicy": (),
    "interbed.dropPolicy": (),
}
"""Operations whose handlers and services ask for more, or for something else, than the privilege of their route; the
privileges are those that are asked for before.
"""

OF_COLUMNS = frozenset(
    (
        "iceberg.loadTable",
        "iceberg.tableExists",
        "iceberg.loadView",
        "iceberg.viewExists",
        "iceberg.loadCredentials",
        "iceberg.signRequest",
        "iceberg.reportMetrics",
        "iceberg.planTableScan",
        "iceberg.fetchPlanningResult",
        "iceberg.cancelPlanning",
        "iceberg.fetchScanTasks",
        "paimon.getTable",
        "paimon.getView",
        "paimon.authTableQuery",
        "paimon.getTableToken",
        "paimon.getTableSnapshot",
        "paimon.listSnapshots",
        "paimon.getVersionSnapshot",
        "paimon.listTags",
        "paimon.getTag",
        "paimon.listBranches",
        "interbed.readRows",
        "console.table",
        "console.versions",
    )
)
"""Operations for which SELECT on any column of the table is enough: those that a reader of some columns needs. Those
that would show other columns refuse that by themselves.
"""


def privileges_of(interface: str, route: RestRoute) -> AnyOf:
    """Return the privileges of which a route needs one on the object of its path; none if this must only be seen."""
    special = ASKED_INSIDE.get(f"{interface}.{route.operation}")
    if special is not None:
        return special
    privilege = route.needs.privilege
    return () if privilege is Privilege.USAGE else (privilege,)


def guarded(access: AccessGuard, interface: RestInterface, database_of: DatabaseOf) -> RestInterface:
    """Return the interface with routes that ask for what they need. `database_of` returns the name of the database that
    a request names, None for a name that no database has.
    """
    if not access.is_on:
        return interface
    return replace(interface, routes=[_guarded(access, interface.name, each, database_of) for each in interface.routes])


def _guarded(access: AccessGuard, interface: str, route: RestRoute, database_of: DatabaseOf) -> RestRoute:
    any_of = privileges_of(interface, route)
    of_columns = f"{interface}.{route.operation}" in OF_COLUMNS

    @wraps(route.handler)
    def answer(request: RestRequest) -> RestResponse:
        on = object_of(route, request, database_of)
        if on is not None and of_columns:
            on = column_object(on, None)
        unseen = access.admit([] if on is None else [Requirement(any_of, on)])
        if not unseen:
            return route.handler(request)
        token = hidden_objects.set(hidden_objects.get() | unseen)
        try:
            return route.handler(request)
        finally:
            hidden_objects.reset(token)

    return replace(route, handler=answer)


def guarded_iceberg(metastore: Metastore, interface: RestInterface, mapping: NamespaceMapping) -> RestInterface:
    """Return Iceberg's interface with routes that ask for what they need."""
    return guarded(
        metastore.access, interface, lambda request: mapping.database(levels_of(request.parts["namespace"])) or None
    )


def guarded_own(metastore: Metastore, interface: RestInterface) -> RestInterface:
    """Return the interface of this server's own with routes that ask for what they need."""
    return guarded(metastore.access, interface, lambda request: normalized(request.parts["database"]))


def guarded_paimon(metastore: Metastore, interface: RestInterface, warehouses: Collection[str] = ()) -> RestInterface:
    """Return Paimon's interface with routes that ask for what they need. A warehouse without a metastore is a catalog
    of its name: privileges on it hold for everything in it.
    """
    access = metastore.access
    if not access.is_on:
        return interface
    routes = [_with_warehouses(access, each, warehouses) for each in interface.routes]
    asking = guarded(access, interface, lambda request: normalized(request.parts["database"]))
    both = zip(interface.routes, routes, asking.routes, strict=True)
    return replace(interface, routes=[_chosen(plain, other, own, warehouses) for plain, other, own in both])


def _chosen(plain: RestRoute, of_warehouses: RestRoute, of_metastore: RestRoute, names: Collection[str]) -> RestRoute:
    @wraps(plain.handler)
    def answer(request: RestRequest) -> RestResponse:
        is_warehouse = normalized(request.parts.get("prefix", "")) in names
        return (of_warehouses if is_warehouse else of_metastore).handler(request)

    return replace(plain, handler=answer)


def _with_warehouses(access: AccessGuard, route: RestRoute, names: Collection[str]) -> RestRoute:
    any_of = (Privilege.SELECT,) if not route.is_change else (route.needs.privilege,)

    @wraps(route.handler)
    def answer(request: RestRequest) -> RestResponse:
        name = normalized(request.parts["prefix"])
        if access.admit([Requirement(any_of, catalog_object(name))]):
            raise RestError(HTTPStatus.NOT_FOUND, "", f"There is no catalog {name!r}.")
        return route.handler(request)

    return replace(route, handler=answer)


def object_of(route: RestRoute, request: RestRequest, database_of: DatabaseOf) -> SecuredObject | None:
    """Return the object that the path of a request names; None for one whose database cannot exist."""
    parts = request.parts
    if "prefix" not in parts:
        return SERVER
    catalog = normalized(parts["prefix"])
    if not {"namespace", "database"} & set(parts):
        return catalog_object(catalog)
    database = database_of(request)
    if database is None:
        return None
    if route.needs.kind is ObjectKind.FUNCTION:
        return function_object(catalog, database, normalized(parts["function"]))
    name = parts.get("table") or parts.get("view")
    if name is not None and BRANCH in name and "database" in parts:
        # A branch and a system table of Paimon (`t$branch_b`) are what their table is.
        name = name.partition(BRANCH)[0]
    if name is None or route.needs.kind not in (ObjectKind.TABLE, ObjectKind.VIEW):
        return database_object(catalog, database)
    return table_object(catalog, database, normalized(name))


logger = logging.getLogger(__name__)

PATHS: Mapping[str, str] = {"iceberg": "/iceberg", "paimon": "/paimon", "interbed": "/interbed"}
"""Paths of the interfaces by their names in the setting `rest_interfaces`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """Settings of the interfaces: the names of those that are served, whether Iceberg's has the tables in Paimon's
    format, where metadata for them are made (None: in the directories of the tables), the names of the databases of
    Iceberg's namespaces, the directories of tables without a metastore that Paimon's serves, by their names, the
    credentials of stores that both issue, the signatures that Iceberg's makes, and the streams of rows of this server's
    own.
    """

    names: Collection[str] = tuple(PATHS)
    own_tables: bool = True
    metadata_root: str | None = None
    warehouses: Mapping[str, str] = field(default_factory=dict)
    namespaces: NamespaceMapping = field(default_factory=NamespaceMapping)
    credentials: TableCredentials | None = None
    signing: TableSigning | None = None
    administration: AccessAdministration | None = None
    policies: PolicyAdministration | None = None
    rows: RowStreams | None = None


class LazyEndpoint:
    """The ASGI application of an interface that is loaded by the first request."""

    def __init__(self, load: Callable[[], RestInterface], answers: HttpAnswers) -> None:
        self._load = load
        self._answers = answers
        self._endpoint: RestEndpoint | None = None
        self._guard = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if self._endpoint is None:
            async with self._guard:
                if self._endpoint is None:
                    self._endpoint = RestEndpoint(await asyncio.to_thread(self._load), self._answers)
        await self._endpoint(scope, receive, send)


def interfaces(
    metastore: Metastore, edge: SharedEdge, settings: RestSettings
) -> Mapping[str, Callable[[], RestInterface]]:
    """Return the interfaces that a server may offer, each as a function that loads it, by their names."""

    def iceberg() -> RestInterface:
        own = _own_tables(metastore, edge, settings)
        found = iceberg_interface(metastore, own, settings.namespaces, settings.credentials, settings.signing)
        return guarded_iceberg(metastore, found, settings.namespaces)

    def paimon() -> RestInterface:
        from interbed.catalog.server.rest.paimon.access import CatalogAccess
        from interbed.catalog.server.rest.paimon.interface import paimon_interface

        access = CatalogAccess(metastore, edge.dispatcher, settings.warehouses)
        found = paimon_interface(access, metastore.functions, settings.credentials)
        return guarded_paimon(metastore, found, settings.warehouses)

    @cache
    def catalogs() -> "CatalogAccess":
        from interbed.catalog.server.rest.paimon.access import CatalogAccess

        return CatalogAccess(metastore, edge.dispatcher)

    def own() -> RestInterface:
        rows = RowRoutes(metastore, catalogs, settings.rows if settings.rows is not None else RowStreams())
        return guarded_own(metastore, own_interface(metastore, settings.administration, settings.policies, rows))

    return {"iceberg": iceberg, "paimon": paimon, "interbed": own}


def _own_tables(metastore: Metastore, edge: SharedEdge, settings: RestSettings) -> OwnTables | None:
    if not settings.own_tables:
        return None
    if not is_installed("pyiceberg"):
        logger.info("Iceberg's REST catalog lists no tables in Paimon's format: pip install 'interbed[iceberg]'")
        return None
    from interbed.catalog.server.rest.paimon.access import CatalogAccess
    from interbed.catalog.server.rest.paimon.interface import PaimonAsIceberg

    return PaimonAsIceberg(CatalogAccess(metastore, edge.dispatcher), settings.metadata_root)


def mounts(metastore: Metastore, answers: HttpAnswers, settings: RestSettings) -> list[Mount]:
    """Return the interfaces that are served as routes of the HTTP port's application."""
    loaders = interfaces(metastore, answers.edge, settings)
    return [Mount(PATHS[name], app=LazyEndpoint(loaders[name], answers)) for name in settings.names]
