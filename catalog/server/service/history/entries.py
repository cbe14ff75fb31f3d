"""History of metadata: a record of each change of a catalog, database, table, view, function or constraint.

A record has the time, the origin and the entries before and after the change, without secrets. It is written in the
transaction of the change. A table is followed by its number, which renames and drops do not change; other objects are
followed by their names. Changes of partitions are recorded with their number and the first of their names.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.catalog.server.service.events import EventBody, NotificationEvent


class HistoryKind(StrEnum):
    """The kind of a changed object. A view is a table. A grant has the names of the object that it is on."""

    CATALOG = "catalog"
    DATABASE = "database"
    TABLE = "table"
    FUNCTION = "function"
    GRANT = "grant"
    ROLE = "role"


ACCESS_KINDS = (HistoryKind.GRANT, HistoryKind.ROLE)
"""The kinds of changes of access, which are not for all readers of a table's history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOrigin:
    """The client of a change: its name, which is not authenticated, the interface and the operation as in the audit
    log, and the id of the request.
    """

    principal: str | None = None
    interface: str = "command"
    operation: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPolicy:
    """Properties of the history that a repository writes. `origin` returns that of the present change; None writes no
    history. `clock` returns seconds.
    """

    origin: Callable[[], ChangeOrigin] | None = ChangeOrigin
    clock: Callable[[], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A change. `time_millis` is since the epoch; `change` is the type of its event, without secrets in its `body`.

    `database` and `name` are those after the change. `object_id` is the number of a table.
    """

    id: int = 0
    time_millis: int = 0
    kind: HistoryKind
    change: str
    catalog: str | None
    database: str | None = None
    name: str | None = None
    object_id: int | None = None
    origin: ChangeOrigin = field(default_factory=ChangeOrigin)
    body: EventBody = field(default_factory=EventBody)

    @property
    def previous(self) -> tuple[str, str, str] | None:
        """The former name of a renamed table as (catalog, database, table)."""
        before, after = self.body.table_before, self.body.table
        if before is None or after is None:
            return None
        old, new = ((each.catalog, each.database, each.name) for each in (before, after))
        return None if old == new else old

    @property
    def qualified(self) -> str:
        """The full name as commands take it."""
        return ".".join(part for part in (self.database, self.name) if part) or self.catalog or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """Selection of entries: of objects by their number, or of a name at the time of the change; only those of a kind,
    before an entry and after a time, if given. Changes of access are apart from all others: only `of_access` has them.
    """

    kind: HistoryKind | None = None
    catalog: str | None = None
    database: str | None = None
    name: str | None = None
    object_ids: Sequence[int] = ()
    before_id: int | None = None
    after_millis: int | None = None
    limit: int | None = None
    of_access: bool = False


class History(Protocol):
    """Repository of changes, in the order in which they were made."""

    def record(self, *changes: NotificationEvent) -> None:
        """Store changes. `Events.append` calls it with its events."""
        ...

    def select(self, query: HistoryQuery) -> list[HistoryEntry]:
        """Return the entries of a selection, oldest first; with a limit the latest ones.

        A selection with numbers has the entries of these tables, and those of the names that have no number.
        """
        ...

    def iterate(self, query: HistoryQuery) -> Iterator[HistoryEntry]:
        """Yield the entries of a selection without a limit, oldest first, with few of them in memory."""
        ...

    def table_ids(self, catalog: str, database: str, name: str) -> list[int]:
        """Return the numbers of the tables that ever had a name, the latest last."""
        ...

    def since_millis(self) -> int:
        """Return the time from which all changes are kept."""
        ...

    def expire(self, before_millis: int, entries_max: int, limit: int = ...) -> int:
        """Remove up to `limit` entries that are older than a time, or more than the maximum; return their number."""
        ...
