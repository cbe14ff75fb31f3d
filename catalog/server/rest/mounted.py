"""The REST interfaces of a server, mounted on its HTTP port."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.routing import Mount

from interbed.catalog.server.rest.endpoint import RestEndpoint
from interbed.catalog.server.rest.iceberg.own_tables import OwnTables
from interbed.catalog.server.rest.iceberg.routes import interface as iceberg_interface
from interbed.catalog.server.rest.interface import RestInterface
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.iceberg_form import PaimonAsIceberg
from interbed.catalog.server.rest.paimon.interface import paimon_interface
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.serving import SharedEdge
from interbed.storage.base.errors import is_installed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """Settings of the interfaces: whether Iceberg's has the tables in Paimon's format, and where metadata for it are
    made, None for the directories of the tables.
    """

    own_tables: bool = True
    metadata_root: str | None = None


def interfaces(metastore: Metastore, edge: SharedEdge, settings: RestSettings) -> Sequence[RestInterface]:
    """Return the interfaces that a server offers."""
    access = CatalogAccess(metastore, edge.dispatcher)
    return (iceberg_interface(metastore, _own_tables(access, settings)), paimon_interface(access, metastore.functions))


def _own_tables(access: CatalogAccess, settings: RestSettings) -> OwnTables | None:
    if not settings.own_tables:
        return None
    if not is_installed("pyiceberg"):
        logger.info("Iceberg's REST catalog lists no tables in Paimon's format: pip install 'interbed[iceberg]'")
        return None
    return PaimonAsIceberg(access, settings.metadata_root)


def mounts(metastore: Metastore, edge: SharedEdge, settings: RestSettings) -> list[Mount]:
    """Return the interfaces as routes of the HTTP port's application."""
    return [Mount(each.path, app=RestEndpoint(each, edge)) for each in interfaces(metastore, edge, settings)]
