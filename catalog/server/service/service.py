"""The metastore: all services over one repository and one warehouse, and the configuration values for clients."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

from interbed.catalog.server.service.access.guard import OPEN_ACCESS, AccessGuard
from interbed.catalog.server.service.access.places import TablePlaceRules
from interbed.catalog.server.service.access.policies import PolicyReads, PolicyRules
from interbed.catalog.server.service.access.secured import HidingRepository, SecuredService
from interbed.catalog.server.service.catalogs import CatalogService
from interbed.catalog.server.service.constraints import ConstraintService
from interbed.catalog.server.service.databases import DatabaseService, FunctionService
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.directories.guard import DATABASES, WAREHOUSE, DeletionGuard
from interbed.catalog.server.service.directories.locations import LocationRules, parsed
from interbed.catalog.server.service.errors import ConfigValueError, MetastoreError
from interbed.catalog.server.service.idempotency import IdempotencyService
from interbed.catalog.server.service.locks import COMPONENTS_MAX, LEASE_SECONDS, LockService
from interbed.catalog.server.service.names import DEFAULT_PARTITION_NAME, shortened
from interbed.catalog.server.service.notifications import NotificationService
from interbed.catalog.server.service.partitions.changes import PartitionService
from interbed.catalog.server.service.queries import RuntimeStatisticsService, ScheduledQueryService
from interbed.catalog.server.service.repository import Repository
from interbed.catalog.server.service.statistics import StatisticsService
from interbed.catalog.server.service.tables.pointers import PointerService
from interbed.catalog.server.service.tables.tables import TableService
from interbed.catalog.server.service.token_store import TokenStoreRepository, TokenStoreService
from interbed.catalog.server.service.undrop.drops import SoftDrops, Trash, aside_root
from interbed.catalog.server.service.undrop.histories import HistoryService
from interbed.catalog.server.service.undrop.undrops import UndropService
from interbed.catalog.server.service.warehouse import Warehouse

_READABLE_PREFIXES = ("hive", "hdfs", "mapred", "metastore")

_EXPRESSION_PROXY = "org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore"

_VALUES: Mapping[str, str] = {
    "hive.exec.default.partition.name": DEFAULT_PARTITION_NAME,
    "metastore.partition.default.name": DEFAULT_PARTITION_NAME,
    "hive.metastore.try.direct.sql": "true",
    "metastore.try.direct.sql": "true",
    "hive.metastore.integral.jdo.pushdown": "true",
    "metastore.integral.jdo.pushdown": "true",
    "hive.metastore.client.socket.timeout": "600s",
    "metastore.client.socket.timeout": "600s",
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
    "metastore.disallow.incompatible.col.type.changes": "false",
    "hive.metastore.try.direct.sql.ddl": "true",
    "metastore.try.direct.sql.ddl": "true",
    "hive.metastore.client.capability.check": "true",
    "metastore.client.capability.check": "true",
    # Hive asks before it inserts into partitions that it finds during the query: any name may be a partition's.
    "hive.metastore.partition.name.whitelist.pattern": "",
    "metastore.partition.name.whitelist.pattern": "",
    # Set by MSCK REPAIR TABLE.
    "hive.metastore.expression.proxy": _EXPRESSION_PROXY,
    "metastore.expression.proxy": _EXPRESSION_PROXY,
}

_WITHOUT_EFFECT = (
    "try.direct.sql",
    "try.direct.sql.ddl",
    "integral.jdo.pushdown",
    "client.socket.timeout",
    "client.capability.check",
    "expression.proxy",
)
"""Keys that a session may set to any value, because they concern Java's server, or the client itself."""


class ConfigValues:
    """The configuration as clients see it: the values above, and those in effect."""

    def __init__(self, effective: Mapping[str, str] | None = None) -> None:
        self._values = {**_VALUES, **(effective or {})}

    def value(self, name: str | None, default: str | None) -> str:
        """Return the value of a key, or the default. ConfigValueError for keys that may hold secrets."""
        if name is None:
            return default or ""
        if not name.startswith(_READABLE_PREFIXES):
            raise ConfigValueError(f"For security reasons, the config key {shortened(name)} cannot be accessed")
        # An empty value counts as absent.
        return self._values.get(name) or default or ""

    def of_session(self, name: str | None) -> str:
        """Return the value of one of the keys that a session may set; MetastoreError for any other."""
        if name is None or name not in _VALUES:
            raise MetastoreError(f"Invalid configuration key {shortened(name)}")
        return self._values[name]

    def check_settable(self, name: str | None, value: str | None) -> None:
        """Raise MetastoreError for a key that a session may not set, or a value that would have no effect."""
        own = self.of_session(name)
        plain = (name or "").removeprefix("hive.").removeprefix("metastore.")
        if plain not in _WITHOUT_EFFECT and (value or "").lower() != own.lower():
            raise MetastoreError(
                f"{name} is '{own}' on this server and can't be changed for a session to '{shortened(value)}'"
            )


class Metastore:
    """The services that a catalog server answers from. Safe for many threads: all state is in the store."""

    def __init__(
        self,
        store: Repository,
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
        undrop_seconds: float = 0.0,
        user: Callable[[], str | None] = lambda: None,
        access: AccessGuard = OPEN_ACCESS,
        trusted: Collection[str] = (),
    ) -> None:
        """Make the services. `protected` are local files and directories that the server needs, besides the files of
        its database. Drops are soft for `undrop_seconds`, unless these are 0. `user` returns the name of the client of
        the present call. `access` decides what callers may do. `trusted` are the principals whose engines apply
        row filters and column masks.
        """
        self.access = access
        if access.is_on:
            store = HidingRepository(store, access)
        self.config = config if config is not None else ConfigValues()
        self.trash = trash
        self.warehouse = Warehouse(warehouse, trash, rules=rules)
        kept = [*store.files, *protected]
        if trash is not None and (place := parsed(trash.root)).is_local:
            kept.append(place.path)
        if (place := parsed(aside_root(self.warehouse.root))).is_local:
            kept.append(place.path)
        self.guard = DeletionGuard(self.warehouse.root, deletion_roots, kept)
        deletions = GuardedDeletions(store, self.warehouse, self.guard)
        soft_drops = None
        if undrop_seconds:
            soft_drops = SoftDrops(
                store, self.warehouse, deletions, keep_seconds=undrop_seconds, clock=clock, user=user
            )
        self.dropped = UndropService(store, self.warehouse, deletions, clock=clock)
        self.catalogs = CatalogService(store, self.warehouse, deletions, clock=clock)
        self.databases = DatabaseService(store, self.warehouse, deletions, clock=clock, soft_drops=soft_drops)
        self.tables = TableService(
            store,
            self.warehouse,
            deletions,
            clock=clock,
            keeps_transactional=keeps_transactional,
            soft_drops=soft_drops,
        )
        self.partitions = PartitionService(store, self.warehouse, deletions, clock=clock, request_max=partitions_max)
        # Repositories have policies and the token store beside what the services need of them.
        self.policies = PolicyRules(cast("PolicyReads", store), access, trusted)
        self.statistics = StatisticsService(store, clock=clock, hidden=self.policies.hidden_statistics)
        self.queries = ScheduledQueryService(store, clock=clock)
        self.run_statistics = RuntimeStatisticsService(store, clock=clock)
        self.token_store = TokenStoreService(cast("TokenStoreRepository", store))
        self.functions = FunctionService(store, clock=clock)
        self.constraints = ConstraintService(store, clock=clock)
        self.notifications = NotificationService(
            store, clock=clock, is_bound=lambda table: self.policies.is_limited(table)
        )
        self.idempotency = IdempotencyService(store, clock=clock)
        self.locks = LockService(
            store,
            lease_seconds=lease_seconds,
            disconnect_seconds=disconnect_seconds,
            components_max=lock_components_max,
            clock=clock,
        )
        self.pointers = PointerService(store, self.warehouse, deletions, self.locks, clock=clock)
        places = TablePlaceRules(store, self.warehouse, self.guard)
        self.history = HistoryService(store, self.pointers, self.guard, places)
        for service in self.services:
            service.secure(access)

    @property
    def services(self) -> Sequence[SecuredService]:
        """All services whose methods clients reach. Keys of requests have the name of the caller in them."""
        return (
            self.dropped,
            self.catalogs,
            self.databases,
            self.tables,
            self.partitions,
            self.statistics,
            self.queries,
            self.run_statistics,
            self.token_store,
            self.functions,
            self.constraints,
            self.notifications,
            self.locks,
            self.pointers,
            self.history,
        )
