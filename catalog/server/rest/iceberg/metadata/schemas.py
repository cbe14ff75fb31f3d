"""JSON objects of metadata, the error of invalid ones, and schemas: their columns by id, fresh ids, and what a version
of the format allows.

A primitive type is text (`decimal(9, 2)`); a struct, list or map is an object whose parts have ids. Source: Iceberg's
table specification, Appendix C, "Schemas".

Default values of columns are in the JSON that Iceberg's library reads. A value of another form makes the schema, and
with it the whole table, unreadable for clients of the library. Only columns of primitive types have defaults. Source:
Iceberg's table specification, Appendix D, "JSON single-value serialization".
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, time
from typing import Any

Document = dict[str, Any]
"""A JSON object."""


class InvalidMetadataError(Exception):
    """The metadata or their change are invalid: nothing was changed."""


DEFAULTS = ("initial-default", "write-default")

_INTEGERS = {"int": 31, "long": 63}
_FRACTIONS = ("float", "double")
_BYTES = re.compile(r"(?:[0-9a-fA-F]{2})*")
_DECIMAL_TYPE = re.compile(r"decimal\(\s*\d+\s*,\s*(\d{1,9})\s*\)")
_DECIMAL = re.compile(r"[+-]?\d+(?:\.(\d+))?")
_FIXED_TYPE = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TIMESTAMP = re.compile(r"([^T]+)T([^T+Z]+?)(\+00:00)?")
_TIME = re.compile(r"(\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?")


def check_defaults(name: str, field: Document) -> None:
    """Raise InvalidMetadataError if a default of a column is not a value of the column's type."""
    for key in DEFAULTS:
        value = field.get(key)
        if value is not None and not _is_value(value, field["type"]):
            kind = field["type"]
            shown = kind.get("type") if isinstance(kind, dict) else kind
            raise InvalidMetadataError(f"Cannot parse default as a {shown} value: the {key} of {name} is {value!r}")


def _is_value(value: Any, kind: Any) -> bool:
    if not isinstance(kind, str):
        return False
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _INTEGERS:
        limit = 1 << _INTEGERS[kind]
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if kind in _FRACTIONS:
        return isinstance(value, float)
    return isinstance(value, str) and _is_text_of(value, kind)


def _is_text_of(text: str, kind: str) -> bool:
    """Return whether a text is a value of a type whose values are texts in JSON."""
    decimal, fixed = _DECIMAL_TYPE.fullmatch(kind), _FIXED_TYPE.fullmatch(kind)
    if decimal is not None:
        number = _DECIMAL.fullmatch(text)
        return number is not None and len(number[1] or "") == int(decimal[1])
    if fixed is not None:
        return len(text) == 2 * int(fixed[1]) and _BYTES.fullmatch(text) is not None
    match kind:
        case "string":
            return True
        case "binary":
            return _BYTES.fullmatch(text) is not None
        case "uuid":
            return _UUID.fullmatch(text) is not None
        case "date":
            return _is_date(text)
        case "time":
            return _is_time(text)
        case "timestamp" | "timestamp_ns":
            return _is_timestamp(text, is_utc=False)
        case "timestamptz" | "timestamptz_ns":
            return _is_timestamp(text, is_utc=True)
    return False


def _is_timestamp(text: str, *, is_utc: bool) -> bool:
    found = _TIMESTAMP.fullmatch(text)
    return found is not None and (found[3] is not None) == is_utc and _is_date(found[1]) and _is_time(found[2])


def _is_date(text: str) -> bool:
    try:
        return len(text) == len("2000-01-01") and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    try:
        return found is not None and time.fromisoformat(found[1]) is not None
    except ValueError:
        return False


_PRIMITIVE = re.compile(
    r"boolean|int|long|float|double|date|time|timestamp|timestamptz|timestamp_ns|timestamptz_ns|string|uuid|binary"
    r"|unknown|variant|decimal\(\s*(?:[12]?\d|3[0-8])\s*,\s*\d+\s*\)|fixed\[\s*\d+\s*\]|geometry(\(.*\))?|geography(\(.*\))?"
)

_SINCE_3 = re.compile(r"timestamp_ns|timestamptz_ns|unknown|variant|geometry.*|geography.*")
"""Types that version 3 of the format has added."""

_DEFAULTS_SINCE = 3
_NO_IDENTIFIERS = ("float", "double")
_ID_MAX = 2**31 - 1

LEVELS_MAX = 100
"""Depth of nested types."""


def columns(schema: Document) -> Iterator[tuple[str, Document]]:
    """Yield every field of a schema with its full name, `address.street`; parts of lists and maps as fields, too.

    InvalidMetadataError for a malformed schema.
    """
    yield from _fields_of(schema, "", 0)


def _fields_of(struct: Document, prefix: str, level: int) -> Iterator[tuple[str, Document]]:
    if level > LEVELS_MAX:
        raise InvalidMetadataError(f"The schema has types of more than {LEVELS_MAX} levels")
    fields = struct.get("fields")
    if not isinstance(fields, list):
        raise InvalidMetadataError("A struct of the schema has no list of fields")
    for field in fields:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise InvalidMetadataError("A field of the schema has no name or no type")
        if not is_id(field.get("id")):
            raise InvalidMetadataError(f"The field '{field['name']}' of the schema has no id")
        if not isinstance(field.get("required"), bool):
            raise InvalidMetadataError(f"The field '{field['name']}' of the schema has no 'required'")
        if not isinstance(field.get("doc"), str | None):
            raise InvalidMetadataError(f"The 'doc' of the field '{field['name']}' of the schema is no text")
        name = f"{prefix}{field['name']}"
        yield name, field
        yield from _inner(field["type"], name, level + 1)


def _inner(kind: Any, name: str, level: int) -> Iterator[tuple[str, Document]]:
    if isinstance(kind, str):
        if _PRIMITIVE.fullmatch(kind) is None:
            raise InvalidMetadataError(f"The column '{name}' has the unknown type '{kind}'")
        return
    match kind.get("type") if isinstance(kind, dict) else None:
        case "struct":
            yield from _fields_of(kind, f"{name}.", level)
        case "list":
            yield from _part(kind, "element", name, level)
        case "map":
            yield from _part(kind, "key", name, level)
            yield from _part(kind, "value", name, level)
        case _:
            raise InvalidMetadataError(f"The column '{name}' has an unknown type")


def _part(kind: Document, part: str, name: str, level: int) -> Iterator[tuple[str, Document]]:
    if level > LEVELS_MAX:
        raise InvalidMetadataError(f"The schema has types of more than {LEVELS_MAX} levels")
    if not is_id(kind.get(f"{part}-id")) or part not in kind:
        raise InvalidMetadataError(f"The type of the column '{name}' has no id or no type of its {part}")
    if part != "key" and not isinstance(kind.get(f"{part}-required"), bool):
        raise InvalidMetadataError(f"The type of the column '{name}' has no '{part}-required'")
    full = f"{name}.{part}"
    yield full, {"id": kind[f"{part}-id"], "name": part, "type": kind[part]}
    yield from _inner(kind[part], full, level + 1)


def is_id(value: object) -> bool:
    """Return whether a value is an id: an integer of 32 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and -_ID_MAX <= value <= _ID_MAX


def check_schema(schema: Document, version: int) -> None:
    """Raise InvalidMetadataError for a malformed schema, or one that needs a newer version of the format."""
    ids: dict[int, str] = {}
    problems = []
    names: set[str] = set()
    for name, field in columns(schema):
        known = ids.setdefault(field["id"], name)
        if known != name:
            raise InvalidMetadataError(
                f"Multiple entries with same key: {field['id']}={known} and {field['id']}={name}"
            )
        if name in names:
            raise InvalidMetadataError(f"Invalid schema: multiple fields for name {name}: {field['id']}")
        names.add(name)
        check_defaults(name, field)
        kind = field["type"]
        if kind == "unknown" and field.get("required"):
            raise InvalidMetadataError(f"Cannot create required field with unknown type: {name}")
        if isinstance(kind, str) and version < _DEFAULTS_SINCE and _SINCE_3.fullmatch(kind):
            problems.append(f"Invalid type for {name}: {kind} is not supported until v3")
        if version < _DEFAULTS_SINCE and field.get(DEFAULTS[0]) is not None:
            problems.append(
                f"Invalid initial default for {name}: non-null default ({field[DEFAULTS[0]]}) is not supported until v3"
            )
    _check_identifiers(schema, ids)
    if problems:
        raise InvalidMetadataError(f"Invalid schema for v{version}:\n- " + "\n- ".join(problems))


def _check_identifiers(schema: Document, ids: dict[int, str]) -> None:
    numbers = schema.get("identifier-field-ids") or ()
    if not isinstance(numbers, list | tuple) or not all(is_id(number) for number in numbers):
        raise InvalidMetadataError("The identifier-field-ids of the schema are no list of ids")
    allowed = set(_allowed_identifiers(schema))
    for number in numbers:
        if number not in ids:
            raise InvalidMetadataError(f"Cannot add identifier field {number}: it is no column of the schema")
        if number not in allowed:
            raise InvalidMetadataError(
                f"Cannot add field {ids[number]} as an identifier field: it must be a required field of a primitive "
                "type other than float and double, and the structs around it must be required fields"
            )


def _allowed_identifiers(struct: Document) -> Iterator[int]:
    for field in struct["fields"]:
        kind = field["type"]
        if not field["required"]:
            continue
        if isinstance(kind, str):
            if kind not in _NO_IDENTIFIERS:
                yield field["id"]
        elif kind["type"] == "struct":
            yield from _allowed_identifiers(kind)


def types_by_id(schema: Document) -> dict[int, Any]:
    """Return the types of all fields."""
    return {field["id"]: field["type"] for _, field in columns(schema)}


def names_by_id(schema: Document) -> dict[int, str]:
    """Return the full names of all fields."""
    return {field["id"]: name for name, field in columns(schema)}


def highest_id(schema: Document) -> int:
    """Return the highest id of a field, 0 for a schema without fields."""
    return max((field["id"] for _, field in columns(schema)), default=0)


def same_schema(left: Document, right: Document) -> bool:
    """Return whether two schemas differ in their ids alone."""
    return _comparable(left) == _comparable(right)


def _comparable(schema: Document) -> tuple[Any, list[int]]:
    return without_nulls(schema.get("fields")), sorted(schema.get("identifier-field-ids") or ())


def without_nulls(value: Any) -> Any:
    """Return a JSON value without the fields that are null: Iceberg's library takes null for no value of a field."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def with_fresh_ids(schema: Document, next_id: Callable[[], int]) -> tuple[Document, dict[int, int]]:
    """Return the schema as that of a new table, with new ids, and the new id of each old one.

    The fields of a struct get their ids before the fields in them, as Iceberg assigns them.
    """
    changed: dict[int, int] = {}

    def fresh(old: int) -> int:
        changed[old] = next_id()
        return changed[old]

    fields = _fresh_fields(schema["fields"], fresh)
    made = {"type": "struct", "schema-id": 0, "fields": fields}
    identifiers = schema.get("identifier-field-ids")
    if identifiers:
        made["identifier-field-ids"] = sorted(changed[number] for number in identifiers)
    return made, changed


def _fresh_fields(fields: list[Document], fresh: Callable[[int], int]) -> list[Document]:
    numbers = [fresh(field["id"]) for field in fields]
    return [
        {**field, "id": number, "type": _fresh_type(field["type"], fresh)}
        for field, number in zip(fields, numbers, strict=True)
    ]


def _fresh_type(kind: Any, fresh: Callable[[int], int]) -> Any:
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "struct":
            return {**kind, "fields": _fresh_fields(kind["fields"], fresh)}
        case "list":
            number = fresh(kind["element-id"])
            return {**kind, "element-id": number, "element": _fresh_type(kind["element"], fresh)}
        case _:
            numbers = {"key-id": fresh(kind["key-id"]), "value-id": fresh(kind["value-id"])}
            inner = {part: _fresh_type(kind[part], fresh) for part in ("key", "value")}
            return {**kind, **numbers, **inner}
