"""The REST interfaces of a server, mounted on its HTTP port."""

from collections.abc import Sequence

from starlette.routing import Mount

from interbed.catalog.server.rest.endpoint import RestEndpoint
from interbed.catalog.server.rest.iceberg.routes import interface as iceberg_interface
from interbed.catalog.server.rest.interface import RestInterface
from interbed.catalog.server.rest.paimon.interface import paimon_interface
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.serving import SharedEdge


def interfaces(metastore: Metastore, edge: SharedEdge) -> Sequence[RestInterface]:
    """Return the interfaces that a server offers."""
    return (iceberg_interface(metastore), paimon_interface(metastore, edge.dispatcher))


def mounts(metastore: Metastore, edge: SharedEdge) -> list[Mount]:
    """Return the interfaces as routes of the HTTP port's application."""
    return [Mount(each.path, app=RestEndpoint(each, edge)) for each in interfaces(metastore, edge)]
