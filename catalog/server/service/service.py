"""The metastore: all services over one repository and one warehouse, catalogs, and configuration values for clients.

Catalogs are spaces of databases, each with a root directory of its own.
"""

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.guard import OPEN_ACCESS, AccessGuard
from interbed.catalog.server.service.access.objects import SERVER, Privilege, catalog_object, database_object
from interbed.catalog.server.service.access.places import TablePlaceRules, check_not_of_others
from interbed.catalog.server.service.access.policies import PolicyReads, PolicyRules
from interbed.catalog.server.service.access.secured import (
    HidingRepository,
    SecuredService,
    filtered,
    needs,
    secured,
    the_catalog,
    the_server,
)
from interbed.catalog.server.service.constraints import ConstraintService
from interbed.catalog.server.service.databases import DatabaseService, FunctionService
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.directories.guard import DATABASES, WAREHOUSE, DeletionClaim, DeletionGuard
from interbed.catalog.server.service.directories.locations import LocationRules, made_places, parsed
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    ConfigValueError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
)
from interbed.catalog.server.service.hiveserver2 import (
    RuntimeStatisticsService,
    ScheduledQueryService,
    TokenStoreRepository,
    TokenStoreService,
)
from interbed.catalog.server.service.idempotency import IdempotencyService
from interbed.catalog.server.service.locks import COMPONENTS_MAX, LEASE_SECONDS, LockService
from interbed.catalog.server.service.model import DEFAULT_CATALOG, DEFAULT_DATABASE, MetastoreCatalog, MetastoreDatabase
from interbed.catalog.server.service.names import DEFAULT_PARTITION_NAME, is_valid_name, normalized, shortened
from interbed.catalog.server.service.notifications import NotificationService
from interbed.catalog.server.service.partitions.changes import PartitionService
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.statistics import StatisticsService
from interbed.catalog.server.service.tables.pages import TablePages
from interbed.catalog.server.service.tables.pointers import PointerService
from interbed.catalog.server.service.tables.tables import TableService
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


class CatalogService(SecuredService):
    """The calls about catalogs."""

    def __init__(
        self,
        store: Repository,
        warehouse: Warehouse,
        deletions: GuardedDeletions,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._warehouse = warehouse
        self._deletions = deletions
        self._clock = clock

    @filtered("catalogs that the caller sees")
    def names(self) -> list[str]:
        """Return the names of all catalogs, in order."""
        found = self._store.read(lambda transaction: transaction.catalogs.names())
        return self._access.visible(found, catalog_object, SERVER)

    @secured(needs(None, the_catalog))
    def get(self, name: str | None) -> MetastoreCatalog:
        """Return the catalog; NoSuchObjectError if there is none of that name."""
        found = self._store.read(lambda transaction: transaction.catalogs.find(normalized(name)))
        if found is None:
            raise catalog_not_found(name)
        return found

    @secured(needs(Privilege.CREATE, the_server), needs(Privilege.LOCATION, the_server))
    def create(self, catalog: MetastoreCatalog) -> None:
        """Create a catalog, its directory, and the database `default` in it. Its location is kept as it was given.

        InvalidObjectError for a bad name or without a location, AlreadyExistsError, MetastoreError if the directory
        cannot be made.
        """
        if not is_valid_name(catalog.name):
            raise InvalidObjectError(f"{shortened(catalog.name)} is not a valid catalog name")
        if not catalog.location:
            raise InvalidObjectError("You must specify a path for the catalog")
        now = int(self._clock())
        complete = dataclasses.replace(catalog, location=catalog.location, create_time=catalog.create_time or now)
        place = self._warehouse.qualified(catalog.location)
        chosen = None
        if self._access.is_on:
            own = [database_object(complete.name, DEFAULT_DATABASE)]
            chosen = check_not_of_others(self._access, self._store, self._deletions.guard, place, own)
        home = MetastoreDatabase(
            catalog=complete.name,
            name=DEFAULT_DATABASE,
            description=f"Default database for catalog {complete.name}",
            location=place,
            create_time=now,
        )
        if self._store.read(lambda transaction: transaction.catalogs.find(complete.name)) is not None:
            raise AlreadyExistsError(f"Catalog {complete.name} already exists")
        try:
            made = files.make_directory(place)
        except MetastoreError as error:
            raise MetastoreError(
                f"Unable to create catalog path {place}, failed to create catalog {complete.name}: {error}"
            ) from error

        owning = dataclasses.replace(home, made=made_places([place] if made else []))

        def work(transaction: Transaction) -> None:
            if not transaction.catalogs.add(complete):
                raise AlreadyExistsError(f"Catalog {complete.name} already exists")
            transaction.databases.add(owning)
            transaction.events.append(events.create_catalog(complete), events.create_database(home))
            if chosen is not None:
                chosen.check_again(transaction)

        try:
            self._store.write(work)
        except OutcomeUnknownError:
            raise
        except MetastoreError:
            if made:
                files.remove_empty_directory(place)
            raise

    @secured(needs(Privilege.ALTER, the_catalog))
    def alter(self, name: str | None, changed: MetastoreCatalog) -> None:
        """Store a new description and location where they are given; databases stay where they are.

        NoSuchObjectError, InvalidOperationError for another name.
        """
        key = normalized(name)
        if changed.name and changed.name != key:
            raise InvalidOperationError(f"Catalog {key} cannot be renamed to {shortened(changed.name)}")
        rights = self._access.rights(catalog_object(key))

        def work(transaction: Transaction) -> None:
            old = transaction.catalogs.find(key, for_update=True)
            if old is None:
                raise catalog_not_found(name)
            if changed.location and changed.location != old.location:
                self._warehouse.qualified(changed.location)
                rights.require(Privilege.LOCATION)
            new = dataclasses.replace(
                old,
                description=changed.description or old.description,
                location=changed.location or old.location,
                parameters=changed.parameters or old.parameters,
            )
            transaction.catalogs.replace(new)
            transaction.events.append(events.alter_catalog(old, new))

        self._store.write(work)

    @secured(needs(Privilege.DROP, the_catalog))
    def drop(self, name: str | None, *, if_exists: bool = False) -> None:
        """Drop a catalog that holds nothing but an empty database `default`. The directories of both are deleted if
        they are empty.

        NoSuchObjectError unless `if_exists`, InvalidOperationError if the catalog is not empty, MetastoreError for the
        default catalog.
        """
        key = normalized(name)
        if key == DEFAULT_CATALOG:
            raise MetastoreError(f"Can not drop {DEFAULT_CATALOG} catalog")

        def work(transaction: Transaction) -> tuple[list[str], tuple[str, ...]]:
            catalog = transaction.catalogs.find(key, for_update=True)
            if catalog is None:
                if if_exists:
                    return [], ()
                raise catalog_not_found(name)
            written = []
            databases = transaction.databases.names(key)
            if databases not in ([], [DEFAULT_DATABASE]):
                raise InvalidOperationError(
                    f"There are non-default databases in the catalog {key} so it cannot be dropped."
                )
            home = transaction.databases.find(key, DEFAULT_DATABASE, for_update=True)
            if home is not None:
                if transaction.tables.names(key, DEFAULT_DATABASE) or transaction.functions.select(key):
                    raise InvalidOperationError(f"There are still objects in the default database for catalog {key}")
                transaction.databases.remove(home.id)
                written.append(events.drop_database(home.value))
            transaction.catalogs.remove(key)
            transaction.events.append(*written, events.drop_catalog(catalog))
            places = [catalog.location, home.value.location if home is not None else None]
            made = home.value.made if home is not None else ()
            return list(dict.fromkeys(each for each in places if each)), made

        left, made = self._store.write(work)
        for place in left:
            self._deletions.remove_empty(place, DeletionClaim(made=made, is_home=True))


def catalog_not_found(name: str | None) -> NoSuchObjectError:
    """Return the error for a missing catalog, with Hive's text."""
    return NoSuchObjectError(f"No catalog {shortened(name)}")


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
        self.table_pages = TablePages(store)
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
            self.table_pages,
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
