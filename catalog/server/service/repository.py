"""Protocols between the rules and the database: the operations that the metastore needs from its repository.

A request is one unit of work: a function of a Transaction, run by `Store.read` or `Store.write`. A write is durable
when `write` returns. The function may run more than once (a database that is busy, or a serialization failure), so that
it must have no effect outside the transaction. Methods take and return the values of model.py; names are already in
lower case.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from interbed.catalog.server.service.column_statistics import Statistics
from interbed.catalog.server.service.events import ChangedName, NotificationEvent
from interbed.catalog.server.service.filters.tree import EVERYTHING, PartitionFilter
from interbed.catalog.server.service.history.entries import History
from interbed.catalog.server.service.idempotency import IdempotencyKeys
from interbed.catalog.server.service.lock_model import Locks
from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    DroppedObjects,
    Function,
    ListedTable,
    MetastoreCatalog,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    TableKind,
    TableMeta,
)
from interbed.catalog.server.service.schedule import Queries, RunStatistics

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow(Generic[T]):
    """A value together with the key of its row."""

    id: int
    value: T


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryMove:
    """A rename of a directory in progress, together with a table, or with the partition of a table whose new name is
    `partition_name`.
    """

    table_id: int
    partition_name: str | None
    old: str
    new: str


class Catalogs(Protocol):
    """Repository of catalogs by name."""

    def find(self, name: str, *, for_update: bool = False, for_child: bool = False) -> MetastoreCatalog | None:
        """Return the catalog. `for_update` locks it against changes until the end of the transaction, `for_child`
        against its drop.
        """
        ...

    def names(self) -> list[str]: ...
    def add(self, catalog: MetastoreCatalog) -> bool:
        """Store a new catalog; False if the name is taken."""
        ...

    def replace(self, catalog: MetastoreCatalog) -> None:
        """Store a new description and location."""
        ...

    def remove(self, name: str) -> None:
        """Remove an empty catalog."""
        ...


class Databases(Protocol):
    """Databases by catalog and name."""

    def find(
        self, catalog: str, name: str, *, for_update: bool = False, for_child: bool = False
    ) -> StoredRow[MetastoreDatabase] | None:
        """Return the database. `for_update` locks it against changes until the end of the transaction, `for_child`
        against its drop.
        """
        ...

    def names(self, catalog: str) -> list[str]: ...
    def add(self, database: MetastoreDatabase) -> int | None:
        """Store a new database and return its id; None if the name is taken."""
        ...

    def replace(self, database_id: int, database: MetastoreDatabase) -> None: ...
    def remove(self, database_id: int) -> None:
        """Remove an empty database."""
        ...


class Tables(Protocol):
    """Tables by catalog, database and name."""

    def find(
        self, catalog: str, database: str, name: str, *, for_update: bool = False
    ) -> StoredRow[MetastoreTable] | None: ...
    def lock(self, table_id: int) -> StoredRow[MetastoreTable] | None:
        """Return the table of a row, locked against changes until the end of the transaction."""
        ...

    def select(self, catalog: str, database: str, names: Sequence[str] | None = None) -> list[MetastoreTable]:
        """Return the tables of these names (of all names if None) that exist, ordered by name."""
        ...

    def names(self, catalog: str, database: str, table_type: str | None = None) -> list[str]: ...
    def names_of_kinds(
        self,
        catalog: str,
        database: str,
        kinds: Collection[TableKind],
        after: str = "",
        limit: int = ...,
        prefix: str = "",
    ) -> list[str]:
        """Return up to `limit` names of tables of these kinds that come after one and begin with a prefix, in order."""
        ...

    def page(self, catalog: str, database: str, after: str, limit: int, prefix: str) -> list[ListedTable]:
        """Return up to `limit` tables whose names come after one and begin with a prefix, in order."""
        ...

    def fill_kinds(self, limit: int) -> int: ...
    def numbered(self, catalog: str, number: int) -> list[tuple[str, str]]:
        """Return database and name of the tables that may have this number."""
        ...

    def metas(self, catalog: str) -> list[TableMeta]:
        """Return an entry for each table of the catalog, ordered by database and name."""
        ...

    def add(self, database_id: int, table: MetastoreTable) -> int | None:
        """Store a new table and return its id; None if the name is taken."""
        ...

    def replace(
        self, table_id: int, database_id: int | None, table: MetastoreTable, old: MetastoreTable | None = None
    ) -> bool:
        """Store the table, perhaps under another name or in another database (None: it stays in its own); False if that
        name is taken. The transaction can only be ended then. `old` is the table as the transaction has read it for the
        change, which saves reading its names, and writing what is the same.
        """
        ...

    def follow_columns(self, table_id: int, names: Mapping[str, str]) -> None:
        """Have the grants on columns of the table follow their columns, which have these new names by their old ones;
        grants on columns without a new name are removed.
        """
        ...

    def remove(self, table_id: int) -> None:
        """Remove the table and its partitions."""
        ...


class PartitionStore(Protocol):
    """Partitions of a table by their name, `key=value/key=value` with special characters escaped."""

    def find(self, table_id: int, name: str, *, for_update: bool = False) -> StoredRow[MetastorePartition] | None: ...
    def select(
        self,
        table_id: int,
        names: Collection[str] | None = None,
        limit: int | None = None,
        *,
        where: PartitionFilter = EVERYTHING,
    ) -> Sequence[MetastorePartition]:
        """Return the partitions of these names (all if None) that exist and that a filter selects, ordered by name.
        Each iteration builds the values again.
        """
        ...

    def names(self, table_id: int, limit: int | None = None, *, where: PartitionFilter = EVERYTHING) -> list[str]: ...
    def names_after(self, table_id: int, last: str, limit: int) -> list[str]:
        """Return up to `limit` names that come after this one, in order, for paging through all of them."""
        ...

    def present(self, table_id: int, names: Collection[str]) -> set[str]:
        """Return those of the names that partitions have."""
        ...

    def ids(self, table_id: int, names: Collection[str]) -> dict[str, int]:
        """Return the row ids of the partitions of these names that exist."""
        ...

    def count(self, table_id: int, where: PartitionFilter = EVERYTHING) -> int: ...
    def add(self, table_id: int, partitions: Iterable[tuple[str, MetastorePartition]]) -> list[str]:
        """Store new partitions; returns the names that were taken, whose partitions are not stored."""
        ...

    def replace(self, partition_id: int, name: str, partition: MetastorePartition) -> bool:
        """Store the partition, perhaps under another name; False if that name is taken."""
        ...

    def replace_all(self, table_id: int, changed: Sequence[tuple[int, str, MetastorePartition]]) -> None:
        """Store partitions of one table, each by its row id, with its name, which no other partition has."""
        ...

    def remove(self, table_id: int, names: Collection[str]) -> int: ...
    def replace_columns(self, table_id: int, columns: Sequence[MetastoreColumn]) -> None:
        """Store these columns in every partition's storage."""
        ...

    def retype_keys(self, table_id: int, keys: Sequence[MetastoreColumn]) -> None:
        """Recompute the search forms of every partition's values for these keys."""
        ...

    def shared(self, table_id: int, places: Sequence[tuple[str, str]]) -> set[str]:
        """Return those of the places (a name and a location each) whose location partitions of other names share."""
        ...

    def locations_outside(self, table_id: int, location: str) -> list[str]:
        """Return the locations of the partitions that do not lie below the given one."""
        ...

    def move_location(self, table_id: int, old_prefix: str, new_prefix: str) -> None:
        """Replace the beginning of every partition's location, after the table's directory was renamed."""
        ...

    def mark(self, table_id: int, name: str, event_type: int) -> None:
        """Record that an event happened to the partition of this name, whether it exists or not."""
        ...

    def is_marked(self, table_id: int, name: str, event_type: int) -> bool: ...
    def purge(self, limit: int = ...) -> int:
        """Remove up to `limit` partitions of tables that were dropped; 0 when none is left."""
        ...


class Functions(Protocol):
    """User-defined functions by catalog, database and name."""

    def find(
        self, catalog: str, database: str, name: str, *, for_update: bool = False
    ) -> StoredRow[Function] | None: ...
    def select(self, catalog: str, database: str | None = None) -> list[Function]: ...
    def add(self, database_id: int, function: Function) -> int | None: ...
    def replace(self, function_id: int, database_id: int, function: Function) -> bool: ...
    def remove(self, function_id: int) -> None: ...


class Events(Protocol):
    """The notification log. Ids are dense and become visible in order."""

    def append(self, *events: NotificationEvent) -> int:
        """Store events under the next ids and return the last one.

        Blocks other writers of events until the end of the transaction, so it is the last step of a unit of work.
        """
        ...

    def current(self) -> int:
        """Return the id of the last event, 0 before the first: the generation of all metadata."""
        ...

    def after(
        self,
        last: int,
        limit: int | None = None,
        *,
        catalog: str | None = None,
        database: str | None = None,
        tables: Collection[str] = (),
        types: Collection[str] = (),
        skipped_types: Collection[str] = (),
        bytes_max: int | None = None,
    ) -> list[NotificationEvent]:
        """Return the events with larger ids, in order, at most `bytes_max` as they are stored, but at least one. A
        catalog, a database, some tables or types restrict them, if given.
        """
        ...

    def count(
        self,
        last: int,
        *,
        up_to: int | None = None,
        catalog: str | None = None,
        database: str | None = None,
        tables: Collection[str] = (),
    ) -> int:
        """Return the number of events that `after` would give, with ids of at most `up_to`."""
        ...

    def touched(self, last: int, limit: int = 1000) -> list[ChangedName]:
        """Return the names that the events with larger ids changed, in order, for at most `limit` events.

        Old events expire: if the first id is not `last + 1`, some are missing, and everything may have changed.
        """
        ...

    def expire(self, before: int) -> int:
        """Remove the events that are older than a time, in seconds since the epoch, and return their number."""
        ...


class Constraints(Protocol):
    """Informational constraints. They are removed with their table, foreign keys with either of their tables."""

    def of_table(self, table_id: int) -> list[StoredRow[Constraint]]: ...
    def referring_to(self, table_id: int) -> list[StoredRow[Constraint]]:
        """Return the foreign keys of any table that refer to this one."""
        ...

    def select(
        self,
        kind: ConstraintKind | None = None,
        *,
        catalog: str,
        database: str | None = None,
        table: str | None = None,
        parent_database: str | None = None,
        parent_table: str | None = None,
    ) -> list[Constraint]:
        """Return the constraints of a kind on tables of these names, oldest first."""
        ...

    def add(self, table_id: int, parent_table_id: int | None, constraint: Constraint) -> bool:
        """Store a new constraint; False if the table already has one of that name."""
        ...

    def replace(self, constraint_id: int, constraint: Constraint) -> None: ...
    def remove(self, constraint_id: int) -> None: ...


class DirectoryMoves(Protocol):
    """Directory moves in progress, so that moves that a crash interrupted can be settled (see moves.py)."""

    def announce(self, table_id: int, partition_name: str | None, old: str, new: str) -> int: ...
    def find(self, move_id: int) -> DirectoryMove | None: ...
    def finish(self, move_id: int) -> bool:
        """Remove a move; False if it was removed before."""
        ...

    def pending(self) -> list[int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasePlaces:
    """The locations of a database, or of a catalog, and the directories that the server made for it."""

    what: str
    locations: tuple[str, ...]
    made: tuple[str, ...] = ()


class LocationIndex(Protocol):
    """Locations of objects by the texts of places (directories/locations.py)."""

    def conflict(self, texts: Collection[str], above: Collection[str], *, table_id: int | None = None) -> str | None:
        """Describe an object registered at or below one of the places, or a table or partition at one of the places
        `above`; None if there is none. `table_id` is a table that is ignored, with its partitions.
        """
        ...

    def holders(self, texts: Collection[str], above: Collection[str], limit: int) -> list[tuple[str, str, str | None]]:
        """Return the databases and tables registered at or below one of the places, and those at one of the places
        `above`, as (catalog, database, table): all, or more than `limit` of them. The table is None for a database.
        """
        ...

    def databases(self, outside: str | None = None) -> list[DatabasePlaces]:
        """Return all catalogs, and the databases that are not below the place `outside` or have a second location."""
        ...

    def link(self, table_id: int, partition_name: str, text: str | None) -> None:
        """Store the target of a table's (no name) or partition's location that contains links; None if it has none."""
        ...


class Properties(Protocol):
    """Single values of the whole metastore."""

    def get(self, name: str) -> str | None: ...
    def keep(self, name: str, value: str) -> str:
        """Store the value unless there is one, and return what is stored."""
        ...


class TablePolicies(Protocol):
    """Row filters and column masks, as a change of their table reads them; the package `access` has their types."""

    def of_table(self, on: Any, /) -> Sequence[Any]:
        """Return the policies of a table."""
        ...


class Transaction(Protocol):
    """One unit of work: all reads and writes in it see one state."""

    @property
    def catalogs(self) -> Catalogs: ...
    @property
    def databases(self) -> Databases: ...
    @property
    def tables(self) -> Tables: ...
    @property
    def partitions(self) -> PartitionStore: ...
    @property
    def functions(self) -> Functions: ...
    @property
    def locks(self) -> Locks: ...
    @property
    def events(self) -> Events: ...
    @property
    def history(self) -> History: ...
    @property
    def constraints(self) -> Constraints: ...
    @property
    def moves(self) -> DirectoryMoves: ...
    @property
    def places(self) -> LocationIndex: ...
    @property
    def dropped(self) -> DroppedObjects: ...
    @property
    def idempotency(self) -> IdempotencyKeys: ...
    @property
    def properties(self) -> Properties: ...
    @property
    def statistics(self) -> Statistics: ...
    @property
    def queries(self) -> Queries: ...
    @property
    def run_statistics(self) -> RunStatistics: ...
    @property
    def policies(self) -> TablePolicies: ...


class Repository(Protocol):
    """Database of the metastore's objects."""

    @property
    def files(self) -> Sequence[str]:
        """Paths of the local files of the database, which nothing else may touch."""
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run the function on one consistent state."""
        ...

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run the function serialized with other writers and make its changes durable; an exception rolls back."""
        ...

    def close(self) -> None: ...
