"""History of metadata: a record of each change of a catalog, database, table, view, function or constraint.

A record has the time, the origin and the entries before and after the change, without secrets. It is written in the
transaction of the change. A table is followed by its number, which renames and drops do not change; other objects are
followed by their names. Changes of partitions are recorded with their number and the first of their names.

States of objects at a time are the present state with the later changes undone. Changes are undone from the present on,
so that the beginning of the history is not needed.

Entries are made of notification events, each change once. Parameters whose names are those of secrets, and passwords in
locations and other texts, are masked. Events about the data (INSERT) and about statistics of partitions make no
entries. Statistics of a table make one where they change its parameters. These functions are pure.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from interbed.catalog.server.service.events import EventBody, EventType, NotificationEvent
from interbed.catalog.server.service.model import (
    Function,
    MetastoreCatalog,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.server.service.names import partition_name
from interbed.storage.base.shown_text import is_secret, masked, may_have_secrets, without_credentials


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


H = TypeVar("H", MetastoreCatalog, MetastoreDatabase)

PARTITION_NAMES_MAX = 20
"""Names of partitions that an entry has at most."""

_PARTITIONS = {EventType.ADD_PARTITION, EventType.ALTER_PARTITION, EventType.DROP_PARTITION}
_IGNORED = {EventType.INSERT, EventType.UPDATE_PARTITION_COLUMN_STAT, EventType.DELETE_PARTITION_COLUMN_STAT}
_TABLE_STATISTICS = {EventType.UPDATE_TABLE_COLUMN_STAT, EventType.DELETE_TABLE_COLUMN_STAT}

_ACCESS = {"CREATE_ROLE", "DROP_ROLE", "GRANT_ROLE", "REVOKE_ROLE", "GRANT", "REVOKE", "SET_POLICY", "DROP_POLICY"}
"""Changes of roles, grants and policies (access/granting.py); a policy is in the history as a grant."""

_MASKED_FIELDS = ("table", "table_before", "catalog", "catalog_before", "database", "database_before", "function")

_is_secret = lru_cache(maxsize=10_000)(is_secret)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange:
    """A change to be stored, with the body that the history has of its event."""

    kind: HistoryKind
    event: NotificationEvent
    body: EventBody

    @property
    def is_whole(self) -> bool:
        """Whether its body is the body of the event."""
        return self.body is self.event.body

    @property
    def object_id(self) -> int | None:
        """The number of a table."""
        table = self.event.body.table
        number: int | None = self.event.body.details.get("object_id") if table is None else table.number
        return number


def changes_of(changes: Sequence[NotificationEvent]) -> Iterator[RecordedChange]:
    """Yield the entries of the events of one transaction, in order."""
    for key, group in itertools.groupby(changes, key=_group):
        if key is None:
            for event in group:
                if event.type not in _IGNORED and (change := _recorded(event)) is not None:
                    yield change
        else:
            yield _of_partitions(list(group))


def _group(event: NotificationEvent) -> tuple[object, ...] | None:
    """Return what the events of one entry have in common; None for an event with an entry of its own."""
    if event.type not in _PARTITIONS:
        return None
    return (event.type, event.catalog, event.database, event.table)


def _recorded(event: NotificationEvent) -> RecordedChange | None:
    body = event.body
    if event.type in _ACCESS:
        kind = HistoryKind.ROLE if event.type.endswith("ROLE") else HistoryKind.GRANT
        return RecordedChange(kind=kind, event=event, body=body)
    table = body.table
    if event.type in _TABLE_STATISTICS:
        if table is None or body.table_before is None or table.parameters == body.table_before.parameters:
            return None
        body = EventBody(table=table, table_before=body.table_before)
    kind = HistoryKind.DATABASE
    if body.catalog is not None:
        kind = HistoryKind.CATALOG
    elif body.function is not None:
        kind = HistoryKind.FUNCTION
    elif event.table is not None:
        kind = HistoryKind.TABLE
    return RecordedChange(kind=kind, event=event, body=_without_secrets(body))


def _of_partitions(changes: Sequence[NotificationEvent]) -> RecordedChange:
    first = changes[0]
    table = first.body.table
    keys = () if table is None else table.partition_keys
    found = [partition for event in changes for partition in event.body.partitions]
    names = [_partition_name(keys, partition) for partition in found[:PARTITION_NAMES_MAX]]
    return RecordedChange(
        kind=HistoryKind.TABLE,
        event=first,
        body=EventBody(details={"partition_count": len(found), "partitions": names}),
    )


def _partition_name(keys: Sequence[Any], partition: MetastorePartition) -> str:
    if len(keys) != len(partition.values):
        return "/".join(partition.values)
    return partition_name(keys, partition.values)


# -- secrets -----------------------------------------------------------------------------------------------------------


def _without_secrets(body: EventBody) -> EventBody:
    """Return the body with its secrets masked; the same one if it has none."""
    changed: dict[str, Any] = {}
    for name in _MASKED_FIELDS:
        value = getattr(body, name)
        if value is not None:
            plain = masked_value(value)
            if plain is not value:
                changed[name] = plain
    return dataclasses.replace(body, **changed) if changed else body


def masked_value(value: MetadataValue) -> MetadataValue:
    """Return an object with its secrets masked; the same one if it has none."""
    match value:
        case MetastoreTable():
            return _masked_table(value)
        case Function():
            return _masked_function(value)
        case MetastoreDatabase():
            return _masked_home(value)
        case _:
            return _masked_home(value)


def _masked_table(table: MetastoreTable) -> MetastoreTable:
    storage = table.storage
    plain = None if storage is None else _masked_storage(storage)
    parameters = _masked_parameters(table.parameters)
    original, expanded = _masked_text(table.view_original_text), _masked_text(table.view_expanded_text)
    # Most tables have no secrets, and this is a part of each change.
    if (
        plain is storage
        and parameters is table.parameters
        and original is table.view_original_text
        and expanded is table.view_expanded_text
    ):
        return table
    return dataclasses.replace(
        table, parameters=parameters, storage=plain, view_original_text=original, view_expanded_text=expanded
    )


def _masked_storage(storage: StorageDescriptor) -> StorageDescriptor:
    serde, location = storage.serde, _masked_location(storage.location)
    plain = serde if serde is None or not serde.parameters else _masked_serde(serde)
    parameters = _masked_parameters(storage.parameters) if storage.parameters else storage.parameters
    if plain is serde and location == storage.location and parameters is storage.parameters:
        return storage
    return dataclasses.replace(storage, location=location, parameters=parameters, serde=plain)


def _masked_serde(serde: SerDe) -> SerDe:
    parameters = serde.parameters and _masked_parameters(serde.parameters)
    return serde if parameters is serde.parameters else dataclasses.replace(serde, parameters=parameters)


def _masked_home(home: H) -> H:
    changed: dict[str, Any] = {
        "location": _masked_text(home.location),
        "parameters": _masked_parameters(home.parameters),
        "description": _masked_text(home.description),
    }
    if isinstance(home, MetastoreDatabase):
        changed["managed_location"] = _masked_text(home.managed_location)
    return _replaced(home, **changed)


def _masked_function(function: Function) -> Function:
    resources = tuple((kind, uri and without_credentials(uri)) for kind, uri in function.resources)
    return function if resources == function.resources else dataclasses.replace(function, resources=resources)


def _masked_parameters(parameters: Mapping[str, str]) -> Mapping[str, str]:
    for key, value in parameters.items():
        if _is_secret(key) or may_have_secrets(value):
            break
    else:
        return parameters
    plain = {key: masked(key, value) for key, value in parameters.items()}
    return parameters if plain == parameters else plain


def _masked_text(text: str | None) -> str | None:
    if text is None or not may_have_secrets(text):
        return text
    plain = without_credentials(text)
    return text if plain == text else plain


_masked_location = lru_cache(maxsize=1024)(_masked_text)
"""Locations are short, and each change of a table has that of before again."""


def _replaced(value: H, **fields: Any) -> H:
    """Return the value with other fields; the same one if all are the same objects."""
    changed: dict[str, Any] = {name: new for name, new in fields.items() if new is not getattr(value, name)}
    return dataclasses.replace(value, **changed) if changed else value
