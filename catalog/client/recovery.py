"""Recovery in a catalog: dropped tables and databases that are kept for a time, and the report of a metastore's repair.

A file-system catalog keeps dropped objects itself. With `metastore` = `hive` or `rest` a server of interbed's does:
ServedDrops asks it by calls of the catalog's protocol.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from interbed.catalog.client.errors import CatalogError, TableNotFoundError
from interbed.catalog.client.identifier import (
    Identifier,
    check_database_name,
    check_table_name,
    parse_table_name,
)
from interbed.storage.base.errors import CorruptFileError, NotSupportedError, plain_errors


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedEntry:
    """A dropped table or database that is kept. `name` is None for a database; times are seconds since the epoch.

    `present_location` is the directory that was moved aside, empty if the files were left in their place. `database` is
    empty if the note about the drop cannot be read: such a directory is put back and purged by its id alone, and never
    expires. `with_database` is the id of the database that a table was dropped with.
    """

    id: str
    database: str
    name: str | None
    dropped_at: int
    expires_at: int | None
    present_location: str
    with_database: str | None = None
    is_view: bool = False

    @property
    def kind(self) -> str:
        """`table`, `view` or `database`; `unknown` without a readable note."""
        if not self.database:
            return "unknown"
        return "database" if self.name is None else "view" if self.is_view else "table"

    @property
    def qualified(self) -> str:
        """The name with its database, for messages."""
        return self.database or "?" if self.name is None else f"{self.database}.{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry as commands print it."""
        return {
            "id": self.id,
            "database": self.database or None,
            "name": self.name,
            "kind": self.kind,
            "dropped_at": self.dropped_at,
            "expires_at": self.expires_at,
            "present_location": self.present_location or None,
            "with_database": self.with_database,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any], *, source: str) -> "DroppedEntry":
        """Return the entry that a server lists; raise CorruptFileError naming `source`."""
        try:
            parent = value.get("with_database")
            return DroppedEntry(
                id=str(int(value["id"])),
                database=str(value["database"]),
                name=None if value["name"] is None else str(value["name"]),
                dropped_at=int(value["dropped_at"]),
                expires_at=int(value["expires_at"]),
                present_location=str(value.get("present_location") or ""),
                with_database=None if parent is None else str(parent),
                is_view=value.get("kind") == "view",
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(f"{source} lists a dropped object that is none: {error!r}") from error


class CatalogDrops(ABC):
    """The part of a catalog that has dropped objects; this base class has none."""

    name: str

    @property
    @abstractmethod
    def described(self) -> str:
        """The name of the catalog in messages."""
        ...

    def list_dropped(self, database: str | None = None) -> list[DroppedEntry]:
        """Return the dropped objects that can be put back, of one database or of all, the latest first.

        Raises NotSupportedError unless the catalog is on a server of interbed's or keeps its tables in a file system.
        """
        raise self._no_dropped("dropped")

    def undrop_table(
        self, identifier: str | Identifier, *, new_name: str | None = None, drop_id: str | None = None
    ) -> None:
        """Put the latest dropped table or view of a name back, or the one of an id, with its files, perhaps under a new
        name.

        Raises TableNotFoundError if none is kept, TableExistsError, DatabaseNotFoundError, and NotSupportedError as
        list_dropped.
        """
        raise self._no_dropped("undrop")

    def undrop_database(self, name: str, *, drop_id: str | None = None) -> None:
        """Put the latest dropped database of a name back, with the tables that were dropped with it.

        Raises TableNotFoundError if none is kept, DatabaseExistsError, and NotSupportedError as list_dropped.
        """
        raise self._no_dropped("undrop")

    def purge_dropped(self, name: str | None = None, *, drop_id: str | None = None, only_expired: bool = False) -> int:
        """Delete the files of a dropped object for good, or of all; return the number of objects that were deleted.

        `name` is `database.table` or that of a database. What cannot be deleted wholly is not counted, and logged.
        Raises TableNotFoundError, and NotSupportedError as list_dropped.
        """
        raise self._no_dropped("purge")

    def expire_dropped(self, limit: int) -> int:
        """Purge up to `limit` dropped objects that have expired; return the number of objects that were deleted.

        None in a catalog whose server does so itself. What cannot be deleted is logged, and tried again later.
        """
        return 0

    def _no_dropped(self, command: str) -> NotSupportedError:
        return NotSupportedError(
            f"The catalog '{self.name}' keeps no dropped tables itself: its server does, if it is `interbed server`, "
            f"where `interbed metastore {command}` does this."
        )


class DropCalls(Protocol):
    """Calls to a server about its dropped objects. All raise NotSupportedError for a server that keeps none."""

    def dropped(self, database: str | None) -> Sequence[Mapping[str, Any]]:
        """Return the dropped objects as JSON, the latest first."""
        ...

    def undrop(self, entry: DroppedEntry, new_name: str | None) -> None:
        """Put an object back; TableNotFoundError, TableExistsError, DatabaseExistsError, DatabaseNotFoundError."""
        ...

    def purge(self, entry: DroppedEntry) -> bool:
        """Delete an object for good; return whether all of it is deleted. TableNotFoundError."""
        ...


class ServedDrops(CatalogDrops):
    """The part of a catalog whose server keeps the dropped objects; `clock` returns seconds since the epoch."""

    clock: Callable[[], float] = staticmethod(time.time)

    @abstractmethod
    def _drop_calls(self) -> DropCalls:
        """Return the calls to the server; NotSupportedError if it keeps no dropped objects."""
        ...

    def list_dropped(self, database: str | None = None) -> list[DroppedEntry]:
        found = self._drop_calls().dropped(None if database is None else check_database_name(database))
        return [DroppedEntry.from_json(each, source=f"The server of {self.described}") for each in found]

    def undrop_table(
        self, identifier: str | Identifier, *, new_name: str | None = None, drop_id: str | None = None
    ) -> None:
        name = parse_table_name(identifier)
        renamed = None if new_name is None else check_table_name(new_name)
        self._drop_calls().undrop(self._found(name.database, name.table, drop_id), renamed)

    def undrop_database(self, name: str, *, drop_id: str | None = None) -> None:
        self._drop_calls().undrop(self._found(check_database_name(name), None, drop_id), None)

    def purge_dropped(self, name: str | None = None, *, drop_id: str | None = None, only_expired: bool = False) -> int:
        if name is not None:
            database, _, table = name.partition(".")
            chosen = [self._found(database, table or None, drop_id)]
            if chosen[0].with_database is not None:
                raise CatalogError(
                    f"'{name}' was dropped with its database: purge the database, or put the table back and drop it."
                )
        else:
            now = self.clock()
            chosen = [
                entry
                for entry in self.list_dropped()
                if entry.with_database is None
                and (not only_expired or (entry.expires_at is not None and entry.expires_at <= now))
            ]
        # The id of each drop is sent: a repeated call deletes nothing more.
        return sum([self._drop_calls().purge(entry) for entry in chosen])

    def _found(self, database: str, name: str | None, drop_id: str | None) -> DroppedEntry:
        for entry in self.list_dropped(database):
            # Names are in lower case on the server.
            if (entry.database, entry.name) == (database.lower(), name and name.lower()) and drop_id in (
                None,
                entry.id,
            ):
                return entry
        shown = database if name is None else f"{database}.{name}"
        raise TableNotFoundError(
            f"There is no dropped object '{shown}'{f' with the id {drop_id}' if drop_id else ''} in {self.described}; "
            "`interbed catalog dropped` lists them."
        )


class RepairKind(StrEnum):
    """The kind of an action."""

    CREATE_DATABASE = "create database"
    CREATE_TABLE = "create table"
    ALTER_TABLE = "alter table"
    ADD_PARTITIONS = "add partitions"
    DROP_TABLE = "drop table"
    UNFINISHED = "unfinished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairAction:
    """One action; `detail` has the differences, or the reason of a failure."""

    kind: RepairKind
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind:<15}  {self.name}  {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """All actions, in order; with `dry_run` they were not executed."""

    dry_run: bool
    tables: int
    """The number of tables that were checked."""
    actions: Sequence[RepairAction]

    @property
    def failures(self) -> list[RepairAction]:
        """The actions that failed."""
        return [a for a in self.actions if a.kind is RepairKind.FAILED]

    def to_json(self) -> dict[str, Any]:
        """Return the report as values of JSON's types."""
        return {
            "dry_run": self.dry_run,
            "tables": self.tables,
            "actions": [{"kind": str(a.kind), "name": a.name, "detail": a.detail} for a in self.actions],
        }

    def __str__(self) -> str:
        looked = f"looked at {self.tables} table{'' if self.tables == 1 else 's'}"
        if not self.actions:
            return f"{looked}; nothing to repair"
        return "\n".join([*map(str, self.actions), f"{looked}{'; nothing was changed' if self.dry_run else ''}"])
