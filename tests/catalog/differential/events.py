"""Comparable events of the notification log: those of Hive 2.3, with the objects in their messages."""

import json
from itertools import groupby, pairwise
from typing import Any

from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.TTransport import TMemoryBuffer

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential.servers import CallAnswer, ComparedServer, Outcome

LATER_EVENTS = frozenset(
    {"ALTER_DATABASE", "UPDATE_TBL_COL_STAT_EVENT", "UPDATE_PART_COL_STAT_EVENT", "DELETE_TBL_COL_STAT_EVENT"}
    | {"DELETE_PART_COL_STAT_EVENT"}
)
"""Types of events that Hive 2.3 does not have."""

OF_FUNCTIONS = frozenset({"CREATE_FUNCTION", "DROP_FUNCTION"})

_OBJECTS = {
    "tableObjJson": ttypes.Table,
    "tableObjBeforeJson": ttypes.Table,
    "tableObjAfterJson": ttypes.Table,
    "functionObjJson": ttypes.Function,
    "partitionObjBeforeJson": ttypes.Partition,
    "partitionObjAfterJson": ttypes.Partition,
    "partitionListJson": ttypes.Partition,
}
_PARTS = ("dbName", "tableName", "functionName", "className", "values", "viewOriginalText")
"""Compared fields of an object. Java logs an object as the client sent it, interbed as it is stored."""

_NAMES = ("db", "table", "functionName", "partitions", "keyValues")


def since(server: ComparedServer, before: int, without: frozenset[str] = frozenset()) -> Outcome:
    """Return the events after the one with this id, `without` some types of events."""
    outcome = server.raw("get_next_notification", (ttypes.NotificationEventRequest(lastEvent=before),))
    if not isinstance(outcome, CallAnswer):
        return outcome
    events = outcome.value.events
    ids = [event.eventId for event in events]
    assert ids == list(range(before + 1, before + 1 + len(ids))), f"the ids of {server.name} have gaps: {ids}"
    comparable = [_comparable(event) for event in events if event.eventType not in LATER_EVENTS | without]
    # A database is dropped with everything in it, in any order.
    runs = (sorted(run, key=str) for _, run in groupby(comparable, key=lambda event: event["type"]))
    return CallAnswer([event for run in runs for event in run])


def without_repeated_event(java: Outcome, ours: Outcome) -> Outcome:
    """Return Java's events without a repeated one, if there is one event more than interbed's.

    Java repeats a call whose transaction failed at its end (RetryingHMSHandler). This happens under load, when the
    event may be logged already.
    """
    if not isinstance(java, CallAnswer) or not isinstance(ours, CallAnswer) or len(java.value) != len(ours.value) + 1:
        return java
    comparable = list(java.value)
    twice = [place for place, (one, other) in enumerate(pairwise(comparable)) if one == other]
    if len(twice) == 1:
        del comparable[twice[0]]
    return CallAnswer(comparable)


def limited_to_common_fields(java: Outcome, ours: Outcome) -> Outcome:
    """Return interbed's events without message fields that Java's lack: messages of later versions have more fields."""
    if not isinstance(java, CallAnswer) or not isinstance(ours, CallAnswer) or len(java.value) != len(ours.value):
        return ours
    pairs = zip(java.value, ours.value, strict=True)
    return CallAnswer([{name: value for name, value in mine.items() if name in theirs} for theirs, mine in pairs])


def _comparable(event: Any) -> dict[str, Any]:
    # Java logs names in the spelling of the call.
    fields = json.loads(event.message)
    return {
        "type": event.eventType,
        "database": (event.dbName or "").lower(),
        "table": (event.tableName or "").lower(),
        **{name: _lower(value) for name, value in fields.items() if name in _NAMES},
        **{name: _objects(kind, fields[name]) for name, kind in _OBJECTS.items() if name in fields},
    }


def _objects(kind: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_objects(kind, each) for each in value]
    found = kind()
    found.read(TJSONProtocol(TMemoryBuffer(value.encode())))
    return {part: _lower(getattr(found, part)) for part in _PARTS if getattr(found, part, None) is not None}


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value
