"""Entries of the history as commands and REST requests show them: times, JSON, and differences in a few words."""

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from interbed.catalog.server.service.history.entries import (
    ACCESS_KINDS,
    HistoryEntry,
    MetadataValue,
    masked_value,
    value_after,
    value_before,
)
from interbed.catalog.server.service.model import PARAMETER_DDL_TIME

_MILLIS_END = 253_402_300_800_000
"""The end of the year 9999."""


def moment_of(text: str) -> int:
    """Return the milliseconds since the epoch of ISO 8601 (UTC without an offset), or of seconds since the epoch.
    ValueError for another text, and for a time before 1970 or after 9999.
    """
    try:
        seconds = float(text)
    except ValueError:
        given = datetime.fromisoformat(text)
        seconds = (given if given.tzinfo is not None else given.replace(tzinfo=UTC)).timestamp()
    if not 0 <= seconds * 1000 < _MILLIS_END:
        raise ValueError(f"{text} is before 1970 or after 9999")
    return round(seconds * 1000)


def moment_text(millis: int) -> str:
    """Return the text of a time in milliseconds since the epoch."""
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entry_json(entry: HistoryEntry) -> dict[str, Any]:
    """Return the JSON of a change, with the entries before and after it."""
    before, after = value_before(entry), value_after(entry)
    return {
        "id": entry.id,
        "time": moment_text(entry.time_millis),
        "kind": str(entry.kind),
        "change": entry.change,
        "catalog": entry.catalog,
        "database": entry.database,
        "name": entry.name,
        "previous": None if entry.previous is None else ".".join(entry.previous[1:]),
        "object_id": entry.object_id,
        "principal": entry.origin.principal,
        "interface": entry.origin.interface,
        "operation": entry.origin.operation,
        "request_id": entry.origin.request_id,
        "before": None if before is None else value_json(before),
        "after": None if after is None else value_json(after),
        "constraints": [_plain(asdict(each)) for each in entry.body.constraints],
        "details": dict(entry.body.details),
    }


def value_json(value: MetadataValue) -> dict[str, Any]:
    """Return the JSON of an object, without its secrets and its absent fields."""
    found: dict[str, Any] = _plain(asdict(masked_value(value)))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items() if each not in (None, (), {})}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


FIELDS_MAX = 6


def changed_fields(entry: HistoryEntry) -> list[str]:
    """Return what a change has changed: parameters by their keys, the first ones, and the number of the others."""
    if entry.kind in ACCESS_KINDS:
        return [f"{key.replace('_', ' ')}: {value}" for key, value in entry.body.details.items() if value is not None]
    count = entry.body.details.get("partition_count")
    if count is not None:
        names = list(entry.body.details.get("partitions", ()))
        return [f"{count} partitions", *names[:FIELDS_MAX], *(["…"] if count > FIELDS_MAX else [])]
    if entry.body.constraints:
        return [f"constraint {each.name}" for each in entry.body.constraints[:FIELDS_MAX]]
    before, after = value_before(entry), value_after(entry)
    if before is None or after is None:
        return []
    found = list(_differences(before, after))
    if len(found) > FIELDS_MAX:
        return [*found[:FIELDS_MAX], f"and {len(found) - FIELDS_MAX} more"]
    return found


def _differences(before: Any, after: Any) -> list[str]:
    found = []
    for each in dataclasses.fields(after):
        old, new = getattr(before, each.name), getattr(after, each.name)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key) and key != PARAMETER_DDL_TIME)
            found.extend(keys)
        elif dataclasses.is_dataclass(old) and dataclasses.is_dataclass(new):
            found.extend(_differences(old, new))
        else:
            found.append(each.name)
    return found
