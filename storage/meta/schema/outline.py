"""What can be made out of a table's newest schema file, whether or not this version can read the table.

A file of a newer version, with types that are not known, or damaged in part still tells names, keys and options; what
it does not tell is left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta.paths import numbers_of

_PREFIX = "schema-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOutline:
    """A column by name; `type` as the file spells it."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOutline:
    """The newest schema of the table at `location`, as far as it is known; `id` is None where there is no file."""

    location: str
    id: int | None = None
    columns: tuple[ColumnOutline, ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


def read_outline(file_io: FileIO, location: str) -> SchemaOutline:
    """The outline of the table at a location; raises StorageAccessError only."""
    files = (s.name for s in file_io.list(f"{location}/schema") if not s.is_directory)
    ids = numbers_of(files, _PREFIX)
    if not ids:
        return SchemaOutline(location=location)
    newest = ids[-1]
    try:
        value = json.loads(file_io.read_bytes(f"{location}/schema/{_PREFIX}{newest}"))
    except (FileNotFoundError, ValueError):
        value = None
    told = value if isinstance(value, dict) else {}
    comment = told.get("comment")
    return SchemaOutline(
        location=location,
        id=newest,
        columns=tuple(_column(f) for f in _list(told.get("fields")) if isinstance(f, dict) and "name" in f),
        primary_keys=tuple(map(str, _list(told.get("primaryKeys")))),
        partition_keys=tuple(map(str, _list(told.get("partitionKeys")))),
        options=_options(told.get("options")),
        comment=None if comment is None else str(comment),
    )


def _column(told: Mapping[str, Any]) -> ColumnOutline:
    comment = told.get("description")
    return ColumnOutline(
        name=str(told["name"]), type=_type(told.get("type")), comment=None if comment is None else str(comment)
    )


def _type(told: object) -> str:
    """The type as SQL has it, whatever it is called."""
    if not isinstance(told, dict):
        return "?" if told is None else str(told)
    name, _, more = str(told.get("type", "?")).partition(" ")
    parts = [_type(told[key]) for key in ("key", "value", "element") if key in told]
    parts += [f"{f.get('name')} {_type(f.get('type'))}" for f in _list(told.get("fields")) if isinstance(f, dict)]
    return f"{name}<{', '.join(parts)}>{' ' if more else ''}{more}"


def _list(told: object) -> list[Any]:
    return told if isinstance(told, list) else []


def _options(told: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in told.items()} if isinstance(told, dict) else {}
