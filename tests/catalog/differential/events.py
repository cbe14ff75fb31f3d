"""The notification log in values that can be compared: what 2.3 tells, with the objects in its messages."""

import json
from itertools import groupby, pairwise
from typing import Any

from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.TTransport import TMemoryBuffer

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential.sides import Answered, Outcome, Side

LATER_EVENTS = frozenset(
    {"ALTER_DATABASE", "UPDATE_TBL_COL_STAT_EVENT", "UPDATE_PART_COL_STAT_EVENT", "DELETE_TBL_COL_STAT_EVENT"}
    | {"DELETE_PART_COL_STAT_EVENT"}
)
"""Kinds of events that 2.3 does not know."""

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
"""What is compared of an object: Java tells it as it was given, interbed as it is stored."""

_NAMES = ("db", "table", "functionName", "partitions", "keyValues")


def since(side: Side, before: int, without: frozenset[str] = frozenset()) -> Outcome:
    """What the log tells after the event of this id, `without` some kinds of events."""
    outcome = side.raw("get_next_notification", (ttypes.NotificationEventRequest(lastEvent=before),))
    if not isinstance(outcome, Answered):
        return outcome
    events = outcome.value.events
    ids = [event.eventId for event in events]
    assert ids == list(range(before + 1, before + 1 + len(ids))), f"the ids of {side.name} have gaps: {ids}"
    told = [_told(event) for event in events if event.eventType not in LATER_EVENTS | without]
    # With a database everything in it is dropped, in any order.
    runs = (sorted(run, key=str) for _, run in groupby(told, key=lambda event: event["type"]))
    return Answered([event for run in runs for event in run])


def told_once(java: Outcome, ours: Outcome) -> Outcome:
    """What Java tells, without one event more than interbed's that is told twice in turn.

    Java does a call again whose transaction failed at its end (RetryingHMSHandler), which happens under load, and may
    have noted the event by then.
    """
    if not isinstance(java, Answered) or not isinstance(ours, Answered) or len(java.value) != len(ours.value) + 1:
        return java
    told = list(java.value)
    twice = [place for place, (one, other) in enumerate(pairwise(told)) if one == other]
    if len(twice) == 1:
        del told[twice[0]]
    return Answered(told)


def as_far_as(java: Outcome, ours: Outcome) -> Outcome:
    """What interbed tells, without what its messages hold more than Java's: those of later versions hold more."""
    if not isinstance(java, Answered) or not isinstance(ours, Answered) or len(java.value) != len(ours.value):
        return ours
    pairs = zip(java.value, ours.value, strict=True)
    return Answered([{name: value for name, value in mine.items() if name in theirs} for theirs, mine in pairs])


def _told(event: Any) -> dict[str, Any]:
    # Java spells names as the call did.
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
