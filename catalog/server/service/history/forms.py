"""Times and entries of the history as commands and REST requests have them: texts and JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from interbed.catalog.server.service.history.changes import masked_value
from interbed.catalog.server.service.history.entries import HistoryEntry
from interbed.catalog.server.service.history.states import MetadataValue, value_after, value_before

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
