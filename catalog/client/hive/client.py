"""A client of Hive metastores, interbed's and the Java ones: plain calls that every release since 2.3 answers.

It takes and returns the generated structures of interbed.thrift_idl.hive_metastore, as on the wire, and raises
interbed's errors. Safe for many threads: each call borrows a connection (connection.py).

If a connection breaks during a call, a call that may be repeated is repeated once. For any other call it is unknown
whether the server executed it, and CallStateUnknownError is raised.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from thrift.Thrift import TApplicationException, TException

from interbed.catalog.client.errors import (
    CatalogError,
    DatabaseExistsError,
    DatabaseNotEmptyError,
    DatabaseNotFoundError,
    LockGoneError,
    PartitionExistsError,
    TableExistsError,
    TableModifiedError,
    TableNotFoundError,
)
from interbed.catalog.client.hive.connection import (
    REFUSALS,
    ConnectionPool,
    MetastoreCalls,
    TransportSettings,
    current_user,
    refusal,
)
from interbed.catalog.client.hive.extended_calls import KeptDrops, ThriftGrants
from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.shown_text import parse_duration_millis
from interbed.thrift_idl.hive_metastore import ttypes

T = TypeVar("T")

PARTITION_BATCH = 500
"""Partitions in one request: their descriptors make requests and transactions of the server large."""

_ALL = -1

_LEASE_KEY = "hive.txn.timeout"
_DISCONNECT_KEY, _WAIT_KEY = "hive.metastore.lock.disconnect.timeout", "hive.metastore.lock.wait.timeout"


class HiveMetastoreClient:
    """Client of a metastore. `uri` is `thrift://host:port`; several separated by commas are tried in turn.

    Close it, or use it in a `with` block. CatalogUnavailableError, with the uri, when no server answers; CatalogError
    for other refusals of the server without an error class of their own.
    """

    def __init__(
        self,
        uri: str,
        *,
        timeout_seconds: float = 60.0,
        user: str | None = None,
        transport: TransportSettings | None = None,
        calls: MetastoreCalls | None = None,
    ) -> None:
        """`calls` is another way to the metastore than connections to the uri, which is then only for messages."""
        self.uri = uri
        self._pool: MetastoreCalls = calls or ConnectionPool(
            uri, timeout_seconds=timeout_seconds, user=user, transport=transport or TransportSettings()
        )
        # Hive 4.0 dropped get_table; the first call detects that.
        self._has_plain_get_table = True
        self._seconds_asked: dict[str, float | None] = {}
        self.kept_drops = KeptDrops(self._pool, uri)
        name = user if transport is None or transport.plain_user is None else transport.plain_user
        self.grants = ThriftGrants(self._pool, uri, current_user() if name is None else name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; running calls finish."""
        self._pool.close()

    # Databases.

    def create_database(self, database: Any) -> None:
        """Create a database from a Database structure. DatabaseExistsError."""
        try:
            self._pool.change(lambda client: client.create_database(database))
        except ttypes.AlreadyExistsException as error:
            raise DatabaseExistsError(f"Database {database.name} already exists in {self.uri}") from error
        except REFUSALS as error:
            raise self._refused(f"create database {database.name}", error) from error

    def get_database(self, name: str) -> Any:
        """Return the Database structure; raise DatabaseNotFoundError."""
        try:
            return self._pool.read(lambda client: client.get_database(name))
        except ttypes.NoSuchObjectException as error:
            raise self._database_not_found(name) from error
        except REFUSALS as error:
            raise self._refused(f"get database {name}", error) from error

    def get_all_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        try:
            return sorted(self._pool.read(lambda client: client.get_all_databases()))
        except REFUSALS as error:
            raise self._refused("list databases", error) from error

    def get_databases(self, pattern: str) -> list[str]:
        """Return the names that a pattern (`a*|b*`) selects, sorted."""
        try:
            return sorted(self._pool.read(lambda client: client.get_databases(pattern)))
        except REFUSALS as error:
            raise self._refused("list databases", error) from error

    def alter_database(self, name: str, database: Any) -> None:
        """Replace the parameters, owner and location of a database. DatabaseNotFoundError."""
        try:
            self._pool.change(lambda client: client.alter_database(name, database))
        except ttypes.NoSuchObjectException as error:
            raise self._database_not_found(name) from error
        except REFUSALS as error:
            raise self._refused(f"alter database {name}", error) from error

    def drop_database(self, name: str, *, delete_data: bool = True, cascade: bool = False) -> None:
        """Drop a database. DatabaseNotFoundError; DatabaseNotEmptyError unless `cascade`."""
        try:
            self._pool.change(lambda client: client.drop_database(name, delete_data, cascade))
        except ttypes.NoSuchObjectException as error:
            raise self._database_not_found(name) from error
        except ttypes.InvalidOperationException as error:
            raise DatabaseNotEmptyError(f"Database {name} in {self.uri} cannot be dropped: {error.message}") from error
        except REFUSALS as error:
            raise self._refused(f"drop database {name}", error) from error

    # Tables.

    def create_table(self, table: Any) -> None:
        """Create a table from a Table structure. TableExistsError; DatabaseNotFoundError."""
        name = f"{table.dbName}.{table.tableName}"
        try:
            self._pool.change(lambda client: client.create_table(table))
        except ttypes.AlreadyExistsException as error:
            raise TableExistsError(f"Table {name} already exists in {self.uri}") from error
        except ttypes.NoSuchObjectException as error:
            raise self._database_not_found(table.dbName) from error
        except ttypes.InvalidObjectException as error:
            # Java metastores answer with nothing but the name when the database is missing.
            if error.message == table.dbName or "does not exist" in (error.message or ""):
                raise self._database_not_found(table.dbName) from error
            raise self._refused(f"create table {name}", error) from error
        except REFUSALS as error:
            raise self._refused(f"create table {name}", error) from error

    def find_table(self, identifier: Identifier) -> Any:
        """Return the Table structure; raise TableNotFoundError, or DatabaseNotFoundError if even that is missing."""
        try:
            return self.get_table(identifier.database, identifier.table)
        except TableNotFoundError:
            self.get_database(identifier.database)
            raise

    def get_table(self, database: str, name: str) -> Any:
        """Return the Table structure; raise TableNotFoundError."""
        try:
            if self._has_plain_get_table:
                try:
                    return self._pool.read(lambda client: client.get_table(database, name))
                except TApplicationException as error:
                    if error.type != TApplicationException.UNKNOWN_METHOD:
                        raise
                    self._has_plain_get_table = False
            request = ttypes.GetTableRequest(dbName=database, tblName=name)
            return self._pool.read(lambda client: client.get_table_req(request)).table
        except ttypes.NoSuchObjectException as error:
            raise self._table_not_found(database, name) from error
        except REFUSALS as error:
            raise self._refused(f"get table {database}.{name}", error) from error

    def get_all_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted; empty if there is no such database."""
        try:
            return sorted(self._pool.read(lambda client: client.get_all_tables(database)))
        except REFUSALS as error:
            raise self._refused(f"list the tables of {database}", error) from error

    def get_tables(self, database: str, pattern: str = "*") -> list[str]:
        """Return the names of the tables of a database that a pattern (`a*|b*`) selects, sorted."""
        try:
            return sorted(self._pool.read(lambda client: client.get_tables(database, pattern)))
        except REFUSALS as error:
            raise self._refused(f"list the tables of {database}", error) from error

    def get_table_objects(self, database: str, names: Sequence[str]) -> list[Any]:
        """Return the Table structures of those of these names that exist. DatabaseNotFoundError."""
        request = ttypes.GetTablesRequest(dbName=database, tblNames=list(names))
        try:
            return list(self._pool.read(lambda client: client.get_table_objects_by_name_req(request)).tables)
        except ttypes.UnknownDBException as error:
            raise self._database_not_found(database) from error
        except REFUSALS as error:
            raise self._refused(f"get tables of {database}", error) from error

    def alter_table(
        self,
        database: str,
        name: str,
        table: Any,
        *,
        properties: Mapping[str, str] | None = None,
        expected_parameter: tuple[str, str] | None = None,
    ) -> None:
        """Replace a table, or rename it if the structure has another name. TableNotFoundError.

        `properties` is the environment context. With `expected_parameter` = (key, value) the table changes only if its
        parameter has that value, otherwise TableModifiedError. (Java metastores before 2.3.9 ignore it and always
        change.)
        """
        context = dict(properties or {})
        if expected_parameter is not None:
            context["expected_parameter_key"], context["expected_parameter_value"] = expected_parameter
        environment = ttypes.EnvironmentContext(properties=context)
        try:
            self._pool.change(
                lambda client: client.alter_table_with_environment_context(database, name, table, environment)
            )
        except ttypes.MetaException as error:
            if expected_parameter is not None and "The table has been modified" in (error.message or ""):
                raise TableModifiedError(f"{database}.{name}: {error.message}") from error
            raise self._refused(f"alter table {database}.{name}", error) from error
        except ttypes.InvalidOperationException as error:
            if (error.message or "").endswith(("table not found", "doesn't exist")):
                raise self._table_not_found(database, name) from error
            if "already exists" in (error.message or ""):
                raise TableExistsError(f"{database}.{name} cannot be renamed: {error.message}") from error
            refused = self._refused(f"alter table {database}.{name}", error)
            if "types incompatible" in (error.message or ""):
                raise CatalogError(f"{refused}. {_WAY_OUT_OF_TYPES}") from error
            raise refused from error
        except REFUSALS as error:
            raise self._refused(f"alter table {database}.{name}", error) from error

    def drop_table(
        self, database: str, name: str, *, delete_data: bool = True, properties: Mapping[str, str] | None = None
    ) -> None:
        """Drop a table, with its data if `delete_data` and it is a managed one. TableNotFoundError."""
        environment = ttypes.EnvironmentContext(properties=dict(properties or {}))
        try:
            self._pool.change(
                lambda client: client.drop_table_with_environment_context(database, name, delete_data, environment)
            )
        except ttypes.NoSuchObjectException as error:
            raise self._table_not_found(database, name) from error
        except REFUSALS as error:
            raise self._refused(f"drop table {database}.{name}", error) from error

    # Partitions.

    def add_partitions(self, database: str, name: str, partitions: Sequence[Any], *, if_not_exists: bool) -> None:
        """Add partitions from Partition structures. TableNotFoundError; PartitionExistsError unless `if_not_exists`."""
        for batch in _batches(partitions):
            self._add_partitions(
                ttypes.AddPartitionsRequest(
                    dbName=database, tblName=name, parts=batch, ifNotExists=if_not_exists, needResult=False
                )
            )

    def _add_partitions(self, request: Any) -> None:
        table = f"{request.dbName}.{request.tblName}"
        # Only a call that skips existing partitions is idempotent.
        call = self._pool.read if request.ifNotExists else self._pool.change
        try:
            call(lambda client: client.add_partitions_req(request))
        except ttypes.AlreadyExistsException as error:
            raise PartitionExistsError(f"{table} in {self.uri} has such a partition: {error.message}") from error
        except ttypes.InvalidObjectException as error:
            if "do not exist" in (error.message or ""):
                raise self._table_not_found(request.dbName, request.tblName) from error
            raise self._refused(f"add partitions to {table}", error) from error
        except REFUSALS as error:
            raise self._refused(f"add partitions to {table}", error) from error

    def get_partition_names(self, database: str, name: str) -> list[str]:
        """Return the names of all partitions, `dt=2026-01-31/h=1`, values escaped. TableNotFoundError."""
        try:
            return list(self._pool.read(lambda client: client.get_partition_names(database, name, _ALL)))
        except ttypes.NoSuchObjectException as error:
            raise self._table_not_found(database, name) from error
        except REFUSALS as error:
            raise self._refused(f"list the partitions of {database}.{name}", error) from error

    def get_partitions_by_names(self, database: str, name: str, names: Sequence[str]) -> list[Any]:
        """Return the Partition structures of those of these names that exist. TableNotFoundError."""
        return [each for batch in _batches(names) for each in self._get_partitions(database, name, batch)]

    def _get_partitions(self, database: str, name: str, names: list[str]) -> list[Any]:
        try:
            return list(self._pool.read(lambda client: client.get_partitions_by_names(database, name, names)))
        except ttypes.NoSuchObjectException as error:
            raise self._table_not_found(database, name) from error
        except REFUSALS as error:
            raise self._refused(f"get partitions of {database}.{name}", error) from error

    def alter_partitions(self, database: str, name: str, partitions: Sequence[Any]) -> None:
        """Replace partitions, identified by their values, by Partition structures.

        CatalogError if one does not exist.
        """
        for batch in _batches(partitions):
            self._alter_partitions(database, name, batch)

    def _alter_partitions(self, database: str, name: str, partitions: list[Any]) -> None:
        context = ttypes.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
        try:
            self._pool.read(
                lambda client: client.alter_partitions_with_environment_context(database, name, partitions, context)
            )
        except REFUSALS as error:
            raise self._refused(f"alter partitions of {database}.{name}", error) from error

    def drop_partition(self, database: str, name: str, values: Sequence[str], *, delete_data: bool = False) -> bool:
        """Drop the partition of these values; return False when there is none (any more)."""
        context = ttypes.EnvironmentContext(properties={})
        try:
            self._pool.read(
                lambda client: client.drop_partition_with_environment_context(
                    database, name, list(values), delete_data, context
                )
            )
        except ttypes.NoSuchObjectException:
            return False
        except REFUSALS as error:
            raise self._refused(f"drop a partition of {database}.{name}", error) from error
        return True

    # Locks.

    def lock(self, request: Any) -> Any:
        """Request a lock by a LockRequest structure; return the LockResponse, whose state may be waiting."""
        try:
            return self._pool.change(lambda client: client.lock(request))
        except REFUSALS as error:
            raise self._refused("lock", error) from error

    def check_lock(self, lock_id: int) -> Any:
        """Return the LockResponse of a requested lock; renews its lease. LockGoneError."""
        request = ttypes.CheckLockRequest(lockid=lock_id)
        try:
            return self._pool.read(lambda client: client.check_lock(request))
        except ttypes.NoSuchLockException as error:
            raise LockGoneError(f"lock {lock_id} in {self.uri}: {error.message}") from error
        except REFUSALS as error:
            raise self._refused(f"check lock {lock_id}", error) from error

    def unlock(self, lock_id: int) -> None:
        """Release a lock, or withdraw its request. An unknown lock is no error."""
        request = ttypes.UnlockRequest(lockid=lock_id)
        try:
            self._pool.read(lambda client: client.unlock(request))
        except ttypes.NoSuchLockException:
            return
        except REFUSALS as error:
            raise self._refused(f"unlock {lock_id}", error) from error

    def heartbeat(self, lock_id: int) -> None:
        """Renew the lease of a lock. LockGoneError."""
        request = ttypes.HeartbeatRequest(lockid=lock_id)
        try:
            self._pool.read(lambda client: client.heartbeat(request))
        except ttypes.NoSuchLockException as error:
            raise LockGoneError(f"lock {lock_id} in {self.uri}: {error.message}") from error
        except REFUSALS as error:
            raise self._refused(f"heartbeat of lock {lock_id}", error) from error

    def show_locks(self, database: str | None = None, table: str | None = None) -> list[Any]:
        """Return ShowLocksResponseElement structures of the locks held and waited for, the oldest first."""
        request = ttypes.ShowLocksRequest(dbname=database, tablename=table)
        try:
            locks = self._pool.read(lambda client: client.show_locks(request)).locks or []
        except REFUSALS as error:
            raise self._refused("show locks", error) from error
        return sorted(locks, key=lambda lock: (lock.lockid, lock.lockIdInternal or 0))

    def get_config_value(self, name: str, default: str) -> str:
        """Return a value of the metastore's configuration, or the default."""
        try:
            return str(self._pool.read(lambda client: client.get_config_value(name, default)))
        except REFUSALS as error:
            raise self._refused(f"get the configuration value {name}", error) from error

    def lock_lease_seconds(self) -> float | None:
        """Return the lease of a lock without heartbeats; None if the metastore has no such setting.

        Cached after the first call.
        """
        return self._seconds_of(_LEASE_KEY)

    def lock_disconnect_seconds(self) -> float:
        """Return how long the metastore keeps a lock whose connections have broken; 0: for its lease. Cached."""
        return self._seconds_of(_DISCONNECT_KEY) or 0.0

    def lock_wait_seconds(self) -> float:
        """Return how long the metastore waits in check_lock for a lock to be granted. Cached."""
        return self._seconds_of(_WAIT_KEY) or 0.0

    def _seconds_of(self, key: str) -> float | None:
        if key not in self._seconds_asked:
            self._seconds_asked[key] = _seconds(key, self.get_config_value(key, ""))
        return self._seconds_asked[key]

    def current_notification_id(self) -> int:
        """Return the id of the last event in the notification log, 0 before the first."""
        try:
            return int(self._pool.read(lambda client: client.get_current_notificationEventId()).eventId)
        except REFUSALS as error:
            raise self._refused("return the end of its notification log", error) from error

    def next_notifications(self, after: int, limit: int) -> list[Any]:
        """Return at most `limit` NotificationEvent structures that follow an event, in order.

        If the log was truncated, the first id is not `after + 1`.
        """
        request = ttypes.NotificationEventRequest(lastEvent=after, maxEvents=limit)
        try:
            return self._pool.read(lambda client: client.get_next_notification(request)).events or []
        except REFUSALS as error:
            raise self._refused("return the events of its notification log", error) from error

    def _database_not_found(self, name: str) -> DatabaseNotFoundError:
        return DatabaseNotFoundError(f"Database {name} does not exist in {self.uri}")

    def _table_not_found(self, database: str, name: str) -> TableNotFoundError:
        return TableNotFoundError(f"Table {database}.{name} does not exist in {self.uri}")

    def _refused(self, what: str, error: TException) -> CatalogError:
        return refusal(self.uri, what, error)


_WAY_OUT_OF_TYPES = (
    "Hive compares columns by their position. To insert, move, retype and nest columns, set "
    "hive.metastore.disallow.incompatible.col.type.changes to false in the hive-site.xml of the metastore."
)


def _batches(items: Sequence[T]) -> Iterator[list[T]]:
    for start in range(0, len(items), PARTITION_BATCH):
        yield list(items[start : start + PARTITION_BATCH])


def _seconds(key: str, text: str) -> float | None:
    """Return a time of Hive's configuration, in seconds if it has no unit; None for text that is no time."""
    try:
        return parse_duration_millis(key, f"{text}s" if text.strip().isdigit() else text) / 1000
    except InvalidOptionError:
        return None
