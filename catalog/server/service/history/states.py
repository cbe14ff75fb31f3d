"""States of objects at a time: the present state with the later changes undone. Pure functions.

Changes are undone from the present on, so that the beginning of the history is not needed.
"""

from collections.abc import Iterable, Mapping, Sequence

from interbed.catalog.server.service.events import EventType
from interbed.catalog.server.service.history.entries import HistoryEntry, HistoryKind
from interbed.catalog.server.service.model import Function, MetastoreCatalog, MetastoreDatabase, MetastoreTable

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
