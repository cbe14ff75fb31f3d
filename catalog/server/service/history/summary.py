"""Differences of an entry of the history in a few words: the names of the fields and parameters that have changed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from interbed.catalog.server.service.history.entries import ACCESS_KINDS, HistoryEntry
from interbed.catalog.server.service.history.states import value_after, value_before
from interbed.catalog.server.service.model import PARAMETER_DDL_TIME

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
