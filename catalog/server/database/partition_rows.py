"""Rows of partitions: the values that they hold, and filters on their keys as conditions in SQL.

A condition is text with bound parameters, made from the tree of service/filters/tree.py. Long lists are one parameter
each, and disjunctions and conjunctions are written as balanced trees: databases limit both parameters and depth.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from interbed.catalog.server.database.models.metastore import KEY_COLUMNS
from interbed.catalog.server.service.directories.locations import indexed_place
from interbed.catalog.server.service.filters.tree import (
    ANY_CHARACTER,
    ANY_TEXT,
    AllOf,
    EmptyText,
    KeyComparison,
    LikePattern,
    MissingValue,
    NameMatch,
    OneOf,
    PartitionFilter,
    kind_of_type,
    search_form,
)
from interbed.catalog.server.service.model import MetastoreColumn, MetastorePartition, StorageDescriptor
from interbed.catalog.server.service.names import DEFAULT_PARTITION_NAME, parsed_name
from interbed.catalog.server.service.warehouse import child

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode

_BELOW = "./"
"""Prefix of a stored location that is relative to the set's."""

STORED_COLUMNS = "name, storage_id, value_list, location, create_time, last_access_time, parameters"
"""The columns that a read selects, in the order that `partition_of` takes them."""

StoredFields = Sequence[Any]

_BOUNDS = ("<", "<=", ">", ">=")
_GLOB_SPECIAL = str.maketrans({char: f"[{char}]" for char in "*?["})
_LIKE_SPECIAL = str.maketrans({char: f"\\{char}" for char in "%_\\"})


class PartitionSequence(Sequence[MetastorePartition]):
    """Partitions that are built from their rows on access: a list of a million of them stays small."""

    __slots__ = ("_make", "_rows")

    def __init__(self, rows: Sequence[StoredFields], make: Callable[[StoredFields], MetastorePartition]) -> None:
        self._rows = rows
        self._make = make

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[MetastorePartition]:
        return map(self._make, self._rows)

    @overload
    def __getitem__(self, index: int) -> MetastorePartition: ...
    @overload
    def __getitem__(self, index: slice) -> "PartitionSequence": ...
    def __getitem__(self, index: int | slice) -> "MetastorePartition | PartitionSequence":
        if isinstance(index, slice):
            return PartitionSequence(self._rows[index], self._make)
        return self._make(self._rows[index])


def partition_of(
    fields: StoredFields, root: str | None, storages: Mapping[int, StorageDescriptor]
) -> MetastorePartition:
    """Return the partition of a row with STORED_COLUMNS in a set with this location."""
    name, storage_id, value_list, location, create_time, last_access_time, parameters = fields
    storage = None
    if storage_id is not None:
        storage = with_location(storages[storage_id], read_location(root, name, location))
    return MetastorePartition(
        values=tuple(json.loads(value_list)) if value_list is not None else name_values(name),
        create_time=create_time,
        last_access_time=last_access_time,
        storage=storage,
        parameters=json.loads(parameters) if parameters is not None else {},
    )


def row_of(
    set_id: int,
    keys: Sequence[MetastoreColumn],
    root: str | None,
    name: str,
    partition: MetastorePartition,
    storage_id: int | None,
) -> dict[str, Any]:
    """Return the columns of a partition's row."""
    location = partition.storage.location if partition.storage is not None else None
    stored = stored_location(root, name, location)
    return {
        "set_id": set_id,
        "storage_id": storage_id,
        "name": name,
        **key_forms(keys, partition.values),
        "value_list": None if name_values(name) == partition.values else _encode(list(partition.values)),
        "location": stored,
        "place": indexed_place(stored) if is_elsewhere(stored) else None,
        "create_time": partition.create_time,
        "last_access_time": partition.last_access_time,
        "parameters": _encode(dict(partition.parameters)) if partition.parameters else None,
    }


def key_forms(keys: Sequence[MetastoreColumn], values: Sequence[str]) -> dict[str, Any]:
    """Return the columns that hold the search forms of a partition's values."""
    forms = [search_form(kind_of_type(key.type), value) for key, value in zip(keys, values, strict=True)]
    return {
        **{f"key_{number}": forms[number] if number < len(forms) else None for number in range(KEY_COLUMNS)},
        "more_keys": _encode(forms[KEY_COLUMNS:]) if len(forms) > KEY_COLUMNS else None,
    }


def name_values(name: str) -> tuple[str, ...]:
    """Return the values in a stored name, in the order of the keys."""
    return tuple(value for _, value in parsed_name(name))


def stored_location(root: str | None, name: str, location: str | None) -> str | None:
    """Return a location as it is stored in a row."""
    if root is None or location is None:
        return location
    if location == child(root, name):
        return None
    inside = child(root, "")
    return _BELOW + location[len(inside) :] if location.startswith(inside) else location


def read_location(root: str | None, name: str, stored: str | None) -> str | None:
    """Return the location of a row."""
    if root is None:
        return stored
    if stored is None:
        return child(root, name)
    return child(root, stored[len(_BELOW) :]) if stored.startswith(_BELOW) else stored


def is_elsewhere(stored: str | None) -> bool:
    """Return whether a row's location is not below its set's."""
    return stored is not None and not stored.startswith(_BELOW)


def moved_text(location: str, old_prefix: str, new_prefix: str) -> str:
    """Return the location below the new prefix; itself if it was not the old one or below it."""
    old, new = old_prefix.rstrip("/"), new_prefix.rstrip("/")
    if location == old or location.startswith(old + "/"):
        return new + location[len(old) :]
    return location


def with_location(storage: StorageDescriptor, location: str | None) -> StorageDescriptor:
    """Return the storage at another location. As dataclasses.replace, but several times faster."""
    return StorageDescriptor(
        columns=storage.columns,
        location=location,
        input_format=storage.input_format,
        output_format=storage.output_format,
        compressed=storage.compressed,
        bucket_count=storage.bucket_count,
        serde=storage.serde,
        bucket_columns=storage.bucket_columns,
        sort_columns=storage.sort_columns,
        parameters=storage.parameters,
        skew=storage.skew,
        stored_as_sub_directories=storage.stored_as_sub_directories,
        has_columns=storage.has_columns,
    )


class FilterSql:
    """The SQL of a filter: `condition` is on the columns of `partitions`, `parameters` are its bound values."""

    def __init__(self, where: PartitionFilter, dialect: str) -> None:
        self._postgresql = dialect == "postgresql"
        self.parameters: dict[str, Any] = {}
        self.condition = self._condition(where)

    def _condition(self, part: PartitionFilter) -> str:
        if isinstance(part, KeyComparison):
            return self._compared(part)
        if isinstance(part, OneOf):
            return self._one_of(self._column(part.position), sorted(part.operands), part.negated)
        if isinstance(part, LikePattern):
            return self._like(self._column(part.position), part.pattern, part.negated)
        if isinstance(part, NameMatch):
            return self._like("name", part.pattern, negated=False)
        if isinstance(part, MissingValue):
            return f"{self._column(part.position)} {'>' if part.negated else '='} ''"
        if isinstance(part, EmptyText):
            return self._empty_text(part)
        if isinstance(part, AllOf):
            return self._all_of(part)
        conditions = [self._condition(each) for each in part.parts]
        return _joined("OR", conditions) if conditions else "1 = 0"

    def _empty_text(self, part: EmptyText) -> str:
        column = self._column(part.position)
        # A value that differs from that in the partition's name is in the list.
        if self._postgresql:
            given = f"CAST(value_list AS json) ->> {part.position}"
        else:
            given = f"json_extract(value_list, '$[{part.position}]')"
        is_default = f"{column} {{}} {self._bound(DEFAULT_PARTITION_NAME)}"
        if part.negated:
            return f"({is_default.format('<>')} OR value_list IS NULL OR {given} <> '')"
        return f"({is_default.format('=')} AND {given} = '')"

    def _all_of(self, part: AllOf) -> str:
        """Return the conjunction, in which each key has one lower and one upper bound, the form that an index can
        search.
        """
        ranges: dict[int, list[KeyComparison]] = {}
        conditions: list[str] = []
        for each in _flat(part):
            if isinstance(each, KeyComparison) and each.operator in _BOUNDS:
                ranges.setdefault(each.position, []).append(each)
            else:
                conditions.append(self._condition(each))
        for position, bounds in ranges.items():
            lower = [each for each in bounds if each.operator in (">", ">=")]
            upper = [each for each in bounds if each.operator in ("<", "<=")]
            tightest = []
            if lower:
                tightest.append(max(lower, key=lambda each: (each.operand, each.operator == ">")))
            if upper:
                tightest.append(min(upper, key=lambda each: (each.operand, each.operator == "<=")))
            conditions.append(self._range(self._column(position), tightest))
        return _joined("AND", conditions) if conditions else "1 = 1"

    def _range(self, column: str, bounds: Sequence[KeyComparison]) -> str:
        conditions = [f"{column} {each.operator} {self._bound(each.operand)}" for each in bounds]
        if all(each.operator in ("<", "<=") for each in bounds):
            # The empty text means no value, and sorts before all values.
            conditions.append(f"{column} > ''")
        return _joined("AND", conditions)

    def _column(self, position: int) -> str:
        if position < KEY_COLUMNS:
            return f"key_{position}"
        element = position - KEY_COLUMNS
        if self._postgresql:
            return f'(CAST(more_keys AS json) ->> {element}) COLLATE "C"'
        return f"json_extract(more_keys, '$[{element}]')"

    def _bound(self, value: Any) -> str:
        name = f"filter_{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"

    def _compared(self, part: KeyComparison) -> str:
        column = self._column(part.position)
        if part.operator in _BOUNDS:
            return self._range(column, [part])
        condition = f"{column} {part.operator} {self._bound(part.operand)}"
        return condition if part.operator == "=" else self._with_value(column, condition)

    def _with_value(self, column: str, condition: str) -> str:
        # Not as a bound: an index should be searched by a bound that selects.
        return f"({condition} AND {column} <> '')"

    def _one_of(self, column: str, operands: Sequence[str], negated: bool) -> str:
        if self._postgresql:
            bound = self._bound(list(operands))
            return self._with_value(column, f"{column} <> ALL ({bound})") if negated else f"{column} = ANY ({bound})"
        within = f"IN (SELECT value FROM json_each({self._bound(json.dumps(list(operands)))}))"
        return self._with_value(column, f"{column} NOT {within}") if negated else f"{column} {within}"

    def _like(self, column: str, pattern: Sequence[str], negated: bool) -> str:
        prefix = pattern[0][1:] if pattern and pattern[0].startswith("\\") else ""
        if len(pattern) == bool(prefix):
            condition = f"{column} {'<>' if negated else '='} {self._bound(prefix)}"
            return self._with_value(column, condition) if negated else condition
        matches = f"{column} {'NOT ' if negated else ''}{self._matching(pattern)}"
        if negated or not prefix:
            return self._with_value(column, matches)
        bounds = [f"{column} >= {self._bound(prefix)}"]
        end = text_after(prefix)
        if end is not None:
            bounds.append(f"{column} < {self._bound(end)}")
        # For a plain prefix the bounds suffice, and an index can search them.
        if tuple(pattern[1:]) != (ANY_TEXT,) or end is None:
            bounds.append(matches)
        return _joined("AND", bounds)

    def _matching(self, pattern: Sequence[str]) -> str:
        if self._postgresql:
            text = "".join(part if part in (ANY_TEXT, ANY_CHARACTER) else _like_literal(part[1:]) for part in pattern)
            return f"LIKE {self._bound(text)} ESCAPE '\\'"
        # SQLite's LIKE ignores the case of letters, GLOB does not.
        wildcards = {ANY_TEXT: "*", ANY_CHARACTER: "?"}
        text = "".join(wildcards.get(part) or part[1:].translate(_GLOB_SPECIAL) for part in pattern)
        return f"GLOB {self._bound(text)}"


def _flat(part: AllOf) -> Iterator[PartitionFilter]:
    for each in part.parts:
        if isinstance(each, AllOf):
            yield from _flat(each)
        else:
            yield each


def text_after(prefix: str) -> str | None:
    """Return the first text, by code points, after all that begin with the prefix; None if there is none."""
    stripped = prefix.rstrip("\U0010ffff")
    if not stripped:
        return None
    code = ord(stripped[-1]) + 1
    # Surrogates are no characters.
    return stripped[:-1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)


def _like_literal(text: str) -> str:
    return text.translate(_LIKE_SPECIAL)


def _joined(operator: str, conditions: Sequence[str]) -> str:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_joined(operator, conditions[:middle])} {operator} {_joined(operator, conditions[middle:])})"
