"""Readable parts of a table's newest schema file, even if this version can't read the table.

A file of a newer version, with unknown types, or with damaged parts still has names, keys and options; missing parts
are left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interbed.storage.io.api import FileIO
from interbed.storage.meta.paths import numbers_of

_PREFIX = "schema-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOutline:
    """Name and type of a column; `type` as the file spells it."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOutline:
    """Newest schema of the table at `location`, as far as it is known; `id` is None where there is no file."""

    location: str
    id: int | None = None
    columns: tuple[ColumnOutline, ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


def read_outline(file_io: FileIO, location: str) -> SchemaOutline:
    """Return the outline of the table at a location; raises StorageAccessError only."""
    files = (s.name for s in file_io.list(f"{location}/schema") if not s.is_directory)
    ids = numbers_of(files, _PREFIX)
    if not ids:
        return SchemaOutline(location=location)
    newest = ids[-1]
    try:
        value = json.loads(file_io.read_bytes(f"{location}/schema/{_PREFIX}{newest}"))
    except (FileNotFoundError, ValueError):
        value = None
    members = value if isinstance(value, dict) else {}
    comment = members.get("comment")
    return SchemaOutline(
        location=location,
        id=newest,
        columns=tuple(_column(f) for f in _list(members.get("fields")) if isinstance(f, dict) and "name" in f),
        primary_keys=tuple(map(str, _list(members.get("primaryKeys")))),
        partition_keys=tuple(map(str, _list(members.get("partitionKeys")))),
        options=_options(members.get("options")),
        comment=None if comment is None else str(comment),
    )


def _column(value: Mapping[str, Any]) -> ColumnOutline:
    comment = value.get("description")
    return ColumnOutline(
        name=str(value["name"]), type=_type(value.get("type")), comment=None if comment is None else str(comment)
    )


def _type(value: object) -> str:
    """Return the type in SQL, even if it is unknown."""
    if not isinstance(value, dict):
        return "?" if value is None else str(value)
    name, _, more = str(value.get("type", "?")).partition(" ")
    parts = [_type(value[key]) for key in ("key", "value", "element") if key in value]
    parts += [f"{f.get('name')} {_type(f.get('type'))}" for f in _list(value.get("fields")) if isinstance(f, dict)]
    return f"{name}<{', '.join(parts)}>{' ' if more else ''}{more}"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _options(value: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}
