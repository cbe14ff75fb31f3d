"""The REST interfaces of a server, mounted on its HTTP port.

Paimon's interface is the Hive catalog over the metastore of the process, and file-system catalogs over directories of
tables. Iceberg's interface reads tables in Paimon's format by it. That loads Arrow, which takes longer than the rest of
a server's start. So each interface is loaded by its first request, on a thread of its own.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from interbed.catalog.server.credentials.request_signing import TableSigning
from interbed.catalog.server.credentials.table_credentials import TableCredentials
from interbed.catalog.server.http.application import HttpAnswers
from interbed.catalog.server.rest.endpoint import RestEndpoint
from interbed.catalog.server.rest.guarding import guarded_iceberg, guarded_own, guarded_paimon
from interbed.catalog.server.rest.iceberg.names import NamespaceMapping
from interbed.catalog.server.rest.iceberg.own_tables import OwnTables
from interbed.catalog.server.rest.iceberg.routes import interface as iceberg_interface
from interbed.catalog.server.rest.interface import RestInterface
from interbed.catalog.server.rest.own_interface import own_interface
from interbed.catalog.server.rest.rows.routes import RowRoutes
from interbed.catalog.server.rest.rows.streams import RowStreams
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.policy_administration import PolicyAdministration
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.serving import SharedEdge
from interbed.storage.base.errors import is_installed

if TYPE_CHECKING:
    from interbed.catalog.server.rest.paimon.access import CatalogAccess

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
    from interbed.catalog.server.rest.paimon.iceberg_form import PaimonAsIceberg

    return PaimonAsIceberg(CatalogAccess(metastore, edge.dispatcher), settings.metadata_root)


def mounts(metastore: Metastore, answers: HttpAnswers, settings: RestSettings) -> list[Mount]:
    """Return the interfaces that are served as routes of the HTTP port's application."""
    loaders = interfaces(metastore, answers.edge, settings)
    return [Mount(PATHS[name], app=LazyEndpoint(loaders[name], answers)) for name in settings.names]
