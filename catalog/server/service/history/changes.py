"""Entries of the history made of notification events: without secrets, partitions counted, each change once.

Parameters whose names are those of secrets, and passwords in locations and other texts, are masked. Events about the
data (INSERT) and about statistics of partitions make no entries. Statistics of a table make one where they change its
parameters.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from interbed.catalog.server.service.events import EventBody, EventType, NotificationEvent
from interbed.catalog.server.service.history.entries import HistoryKind, MetadataValue
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

H = TypeVar("H", MetastoreCatalog, MetastoreDatabase)

PARTITION_NAMES_MAX = 20
"""Names of partitions that an entry has at most."""

_PARTITIONS = {EventType.ADD_PARTITION, EventType.ALTER_PARTITION, EventType.DROP_PARTITION}
_IGNORED = {EventType.INSERT, EventType.UPDATE_PARTITION_COLUMN_STAT, EventType.DELETE_PARTITION_COLUMN_STAT}
_TABLE_STATISTICS = {EventType.UPDATE_TABLE_COLUMN_STAT, EventType.DELETE_TABLE_COLUMN_STAT}

_ACCESS = {"CREATE_ROLE", "DROP_ROLE", "GRANT_ROLE", "REVOKE_ROLE", "GRANT", "REVOKE", "SET_POLICY", "DROP_POLICY"}
"""Changes of roles, grants and policies (access/records.py); a policy is in the history as a grant."""

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
