"""Everything that the server answers."""

from interbed.catalog.metastore.service import Metastore
from interbed.catalog.server.handler import EmptyHandler, ServiceHandler
from interbed.catalog.server.handler_catalogs import CatalogHandler
from interbed.catalog.server.handler_constraints import ConstraintHandler
from interbed.catalog.server.handler_databases import DatabaseHandler
from interbed.catalog.server.handler_events import EventHandler
from interbed.catalog.server.handler_functions import FunctionHandler
from interbed.catalog.server.handler_locks import LockHandler
from interbed.catalog.server.handler_partition_reads import PartitionReadHandler
from interbed.catalog.server.handler_partitions import PartitionWriteHandler
from interbed.catalog.server.handler_statistics import StatisticsHandler
from interbed.catalog.server.handler_tables import TableHandler


def all_handlers(metastore: Metastore) -> list[object]:
    """The handlers of all methods, each of which is defined by one of them."""
    return [
        ServiceHandler(metastore.config),
        EmptyHandler(),
        CatalogHandler(metastore),
        DatabaseHandler(metastore),
        TableHandler(metastore),
        ConstraintHandler(metastore),
        PartitionReadHandler(metastore),
        PartitionWriteHandler(metastore),
        StatisticsHandler(metastore),
        FunctionHandler(metastore),
        EventHandler(metastore),
        LockHandler(metastore),
    ]
