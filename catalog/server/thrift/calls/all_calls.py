"""Everything that the server answers."""

from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.calls.catalogs import CatalogHandler
from interbed.catalog.server.thrift.calls.constraints import ConstraintHandler
from interbed.catalog.server.thrift.calls.databases import DatabaseHandler
from interbed.catalog.server.thrift.calls.events import EventHandler
from interbed.catalog.server.thrift.calls.functions import FunctionHandler
from interbed.catalog.server.thrift.calls.lock_clients import LockClients
from interbed.catalog.server.thrift.calls.locks import LockHandler
from interbed.catalog.server.thrift.calls.partition_reads import PartitionReadHandler
from interbed.catalog.server.thrift.calls.partitions import PartitionWriteHandler
from interbed.catalog.server.thrift.calls.queries import QueryHandler
from interbed.catalog.server.thrift.calls.service import EmptyHandler, ServiceHandler
from interbed.catalog.server.thrift.calls.statistics import StatisticsHandler
from interbed.catalog.server.thrift.calls.tables import TableHandler


def all_handlers(metastore: Metastore, lock_clients: LockClients | None = None) -> list[object]:
    """The handlers of all methods, each of which is defined by one of them. Without `lock_clients` nobody is kept
    waiting for a lock.
    """
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
        QueryHandler(metastore),
        FunctionHandler(metastore),
        EventHandler(metastore),
        LockHandler(metastore, lock_clients if lock_clients is not None else LockClients(metastore.locks)),
    ]
