"""The metastore: all services over one store and one warehouse."""

import time
from collections.abc import Callable, Sequence

from interbed.catalog.server.service.catalogs import CatalogService
from interbed.catalog.server.service.constraints import ConstraintService
from interbed.catalog.server.service.databases import DatabaseService, FunctionService
from interbed.catalog.server.service.directories.deletions import Deletions
from interbed.catalog.server.service.directories.guard import DATABASES, WAREHOUSE, DeletionGuard
from interbed.catalog.server.service.directories.locations import LocationRules, parsed
from interbed.catalog.server.service.locks import COMPONENTS_MAX, LEASE_SECONDS, LockService
from interbed.catalog.server.service.notifications import NotificationService
from interbed.catalog.server.service.partitions.changes import PartitionService
from interbed.catalog.server.service.queries import RuntimeStatisticsService, ScheduledQueryService
from interbed.catalog.server.service.settings import ConfigValues
from interbed.catalog.server.service.statistics import StatisticsService
from interbed.catalog.server.service.store import Store
from interbed.catalog.server.service.tables.tables import TableService
from interbed.catalog.server.service.trash import Trash
from interbed.catalog.server.service.warehouse import Warehouse


class Metastore:
    """What a catalog server answers from. Safe for many threads: all state is in the store."""

    def __init__(
        self,
        store: Store,
        warehouse: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        disconnect_seconds: float = 0.0,
        lock_components_max: int = COMPONENTS_MAX,
        clock: Callable[[], float] = time.time,
        config: ConfigValues | None = None,
        trash: Trash | None = None,
        partitions_max: int | None = None,
        keeps_transactional: bool = False,
        rules: LocationRules | None = None,
        deletion_roots: Sequence[str] = (WAREHOUSE, DATABASES),
        protected: Sequence[str] = (),
    ) -> None:
        """`protected` are local files and directories that the server needs, beside the files of its database."""
        self.config = config if config is not None else ConfigValues()
        self.trash = trash
        self.warehouse = Warehouse(warehouse, trash, rules=rules)
        kept = [*store.files, *protected]
        if trash is not None and (place := parsed(trash.root)).is_local:
            kept.append(place.path)
        self.guard = DeletionGuard(self.warehouse.root, deletion_roots, kept)
        deletions = Deletions(store, self.warehouse, self.guard)
        self.catalogs = CatalogService(store, self.warehouse, deletions, clock=clock)
        self.databases = DatabaseService(store, self.warehouse, deletions, clock=clock)
        self.tables = TableService(
            store, self.warehouse, deletions, clock=clock, keeps_transactional=keeps_transactional
        )
        self.partitions = PartitionService(store, self.warehouse, deletions, clock=clock, request_max=partitions_max)
        self.statistics = StatisticsService(store, clock=clock)
        self.queries = ScheduledQueryService(store, clock=clock)
        self.run_statistics = RuntimeStatisticsService(store, clock=clock)
        self.functions = FunctionService(store, clock=clock)
        self.constraints = ConstraintService(store, clock=clock)
        self.notifications = NotificationService(store, clock=clock)
        self.locks = LockService(
            store,
            lease_seconds=lease_seconds,
            disconnect_seconds=disconnect_seconds,
            components_max=lock_components_max,
            clock=clock,
        )
