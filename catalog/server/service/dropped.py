"""Dropped objects: a table, view or database that was dropped, with what is needed to put it back.

The states, in the order of their life: ANNOUNCED (a drop is about to move the directory; the object is still
registered), DROPPED, RESTORING (it is being put back; its directory may be at the target already) and PURGING (its
directory is being deleted). Every change of state is one transaction. A process that works on an entry holds its row
in the transaction that moves the directory.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from interbed.catalog.server.service.model import Function, MetastoreDatabase, MetastoreTable


class DroppedKind(StrEnum):
    """The kind of a dropped object."""

    TABLE = "table"
    VIEW = "view"
    DATABASE = "database"


class DroppedState(StrEnum):
    """The state of an entry."""

    ANNOUNCED = "announced"
    DROPPED = "dropped"
    RESTORING = "restoring"
    PURGING = "purging"


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedObject:
    """An entry. `name` is None for a database; `parent_id` is the entry of the database that a table was dropped with.

    `location` is the original location. `aside` is where the directory was moved; None if it was not moved, because
    the metastore does not own it. Times are seconds since the epoch.
    """

    id: int = 0
    parent_id: int | None = None
    catalog: str
    database: str
    name: str | None = None
    kind: DroppedKind
    state: DroppedState = DroppedState.DROPPED
    dropped_at: int
    expires_at: int
    dropped_by: str | None = None
    location: str | None = None
    aside: str | None = None
    target: str | None = None
    value: MetastoreTable | MetastoreDatabase | None = None

    @property
    def qualified(self) -> str:
        """The full name as commands take it."""
        own = self.database if self.name is None else f"{self.database}.{self.name}"
        return own if self.catalog == "hive" else f"{self.catalog}.{own}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry as commands print it."""
        return {
            "id": self.id,
            "catalog": self.catalog,
            "database": self.database,
            "name": self.name,
            "kind": str(self.kind),
            "state": str(self.state),
            "dropped_at": self.dropped_at,
            "expires_at": self.expires_at,
            "dropped_by": self.dropped_by,
            "location": self.location,
            "present_location": self.aside,
            "with_database": self.parent_id,
        }


class DroppedObjects(Protocol):
    """Repository of dropped objects by id. An id is never used again."""

    def add(self, entry: DroppedObject) -> int:
        """Store an entry without its value and return its id."""
        ...

    def find(self, entry_id: int) -> DroppedObject | None: ...
    def lock(self, entry_id: int) -> DroppedObject | None:
        """Return the entry, locked against changes until the end of the transaction."""
        ...

    def select(
        self, catalog: str | None = None, database: str | None = None, name: str | None = None
    ) -> list[DroppedObject]:
        """Return the entries of these names (of all if None), the latest drop first."""
        ...

    def children(self, entry_id: int) -> list[DroppedObject]:
        """Return the entries of the tables that were dropped with a database, by name, locked as by `lock`."""
        ...

    def in_states(self, states: Collection[DroppedState]) -> list[int]:
        """Return the ids of the entries in one of these states, oldest first."""
        ...

    def expired(self, now: int, limit: int) -> list[int]:
        """Return the ids of up to `limit` entries that have expired or whose purge has begun."""
        ...

    def keep_table(self, entry_id: int, table_id: int, table: MetastoreTable) -> None:
        """Complete the entry of a table that is removed right after: take over its partitions, statistics,
        constraints, links and grants. The entry is DROPPED then.
        """
        ...

    def keep_database(self, entry_id: int, database: MetastoreDatabase, functions: Sequence[Function]) -> None:
        """Complete the entry of a database that is removed right after. The entry is DROPPED then."""
        ...

    def adopt(self, entry_id: int, parent_id: int) -> None:
        """Store the entry of the database that a table is dropped with."""
        ...

    def attach(self, entry_id: int, table_id: int) -> None:
        """Give a table that was put back its partitions, statistics, constraints, links and grants. Foreign keys
        whose other table no longer exists are left out, and grants to roles that no longer exist.
        """
        ...

    def attach_database(self, entry_id: int, database_id: int) -> None:
        """Give a database that was put back with its functions the grants on it and on them."""
        ...

    def functions(self, entry_id: int) -> list[Function]:
        """Return the functions of a dropped database."""
        ...

    def change(self, entry_id: int, state: DroppedState, target: str | None = None) -> None:
        """Store another state and target."""
        ...

    def remove(self, entry_id: int) -> None:
        """Remove the entry. Partitions that it still has are removed by the next purges of partitions."""
        ...
