"""History of metadata: a record of each change of a catalog, database, table, view, function or constraint.

A record has the time, the origin and the entries before and after the change, without secrets. It is written in the
transaction of the change. A table is followed by its number, which renames and drops do not change; other objects are
followed by their names. Changes of partitions are recorded with their number and the first of their names.

States of objects at a time are the present state with the later changes undone. Changes are undone from the present on,
so that the beginning of the history is not needed. These functions are pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.catalog.server.service.events import EventBody, EventType, NotificationEvent
from interbed.catalog.server.service.model import Function, MetastoreCatalog, MetastoreDatabase, MetastoreTable


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


MetadataValue = MetastoreCatalog | MetastoreDatabase | MetastoreTable | Function

ObjectKey = tuple[HistoryKind, str, str, str]
"""Kind, catalog, database and name of an object; the parts that it does not have are empty."""


def value_after(entry: HistoryEntry) -> MetadataValue | None:
    """Return the object after a change of it; None if it was dropped."""
    body = entry.body
    if entry.change.startswith("DROP_"):
        return None
    return body.function or body.table or body.database or body.catalog


def value_before(entry: HistoryEntry) -> MetadataValue | None:
    """Return the object before a change of it; None if it was created."""
    body = entry.body
    if entry.change.startswith("CREATE_"):
        return None
    if entry.change.startswith("DROP_"):
        return body.function or body.table or body.database or body.catalog
    return body.table_before or body.database_before or body.catalog_before


def changes_value(entry: HistoryEntry) -> bool:
    """Return whether a change is one of the object's entry, and not of its partitions or constraints."""
    return value_after(entry) is not None or value_before(entry) is not None


def state_at(
    entries: Sequence[HistoryEntry], moment_millis: int, present: MetadataValue | None
) -> MetadataValue | None:
    """Return one object at a time, from its entries, oldest first, and its present state; None if there was none."""
    for entry in entries:
        if entry.time_millis > moment_millis and changes_value(entry):
            return value_before(entry)
    return present


def deciding(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Return the entries after a time, oldest first, that decide the state of one object then and its present place:
    those up to the first change of its entry, its renames, and the last one.
    """
    found: list[HistoryEntry] = []
    is_changed, last = False, None
    for entry in entries:
        if not is_changed or entry.previous is not None:
            found.append(entry)
        is_changed = is_changed or changes_value(entry)
        last = entry
    return found if last is None or found[-1] is last else [*found, last]


def states_at(
    entries: Iterable[HistoryEntry], moment_millis: int, present: Mapping[ObjectKey, MetadataValue]
) -> dict[ObjectKey, MetadataValue]:
    """Return the objects at a time, from all entries, oldest first, and all present objects."""
    found = dict(present)
    for entry in reversed([each for each in entries if each.time_millis > moment_millis]):
        if not changes_value(entry):
            continue
        after, before = value_after(entry), value_before(entry)
        if after is not None:
            found.pop(key_of(after), None)
        if before is not None:
            found[key_of(before)] = before
    return found


def key_of(value: MetadataValue) -> ObjectKey:
    """Return the key of an object."""
    match value:
        case MetastoreCatalog():
            return (HistoryKind.CATALOG, value.name, "", "")
        case MetastoreDatabase():
            return (HistoryKind.DATABASE, value.catalog, value.name, "")
        case MetastoreTable():
            return (HistoryKind.TABLE, value.catalog, value.database, value.name)
        case Function():
            return (HistoryKind.FUNCTION, value.catalog, value.database, value.name)


def location_now(entries: Sequence[HistoryEntry], moment_millis: int, location: str | None) -> str | None:
    """Return where the directory of a table is by now, that was at a location at a time: renames have moved it."""
    for entry in entries:
        before, after = entry.body.table_before, entry.body.table
        is_rename = entry.previous is not None and entry.change == EventType.ALTER_TABLE
        if entry.time_millis > moment_millis and is_rename and before is not None and after is not None:
            location = after.location if before.location == location else location
    return location
