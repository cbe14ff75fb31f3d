"""Rows of partitions, and the values that they stand for."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from interbed.catalog.server.database.models.partitions import KEY_COLUMNS
from interbed.catalog.server.service.directories.locations import indexed_place
from interbed.catalog.server.service.filters.tree import kind_of_type, search_form
from interbed.catalog.server.service.model import MetastoreColumn, MetastorePartition, StorageDescriptor
from interbed.catalog.server.service.names import parsed_name
from interbed.catalog.server.service.warehouse import child

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode

_BELOW = "./"
"""Begins a stored location that is relative to the set's."""

STORED_COLUMNS = "name, storage_id, value_list, location, create_time, last_access_time, parameters"
"""What a read asks for, in the order that `partition_of` takes it."""

StoredFields = Sequence[Any]


class PartitionSequence(Sequence[MetastorePartition]):
    """Partitions that are made of their rows as they are asked for: a list of a million of them stays small."""

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
    """The partition of a row with STORED_COLUMNS in a set with this location."""
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
    """The columns of a partition's row."""
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
    """The columns that hold the search forms of a partition's values."""
    forms = [search_form(kind_of_type(key.type), value) for key, value in zip(keys, values, strict=True)]
    return {
        **{f"key_{number}": forms[number] if number < len(forms) else None for number in range(KEY_COLUMNS)},
        "more_keys": _encode(forms[KEY_COLUMNS:]) if len(forms) > KEY_COLUMNS else None,
    }


def name_values(name: str) -> tuple[str, ...]:
    """The values in a stored name, in the order of the keys."""
    return tuple(value for _, value in parsed_name(name))


def stored_location(root: str | None, name: str, location: str | None) -> str | None:
    """A location as it stands in a row."""
    if root is None or location is None:
        return location
    if location == child(root, name):
        return None
    inside = child(root, "")
    return _BELOW + location[len(inside) :] if location.startswith(inside) else location


def read_location(root: str | None, name: str, stored: str | None) -> str | None:
    """The location that a row stands for."""
    if root is None:
        return stored
    if stored is None:
        return child(root, name)
    return child(root, stored[len(_BELOW) :]) if stored.startswith(_BELOW) else stored


def is_elsewhere(stored: str | None) -> bool:
    """Whether a row's location is not below its set's."""
    return stored is not None and not stored.startswith(_BELOW)


def moved_text(location: str, old_prefix: str, new_prefix: str) -> str:
    """The location below the new prefix; itself if it was not the old one or below it."""
    old, new = old_prefix.rstrip("/"), new_prefix.rstrip("/")
    if location == old or location.startswith(old + "/"):
        return new + location[len(old) :]
    return location


def with_location(storage: StorageDescriptor, location: str | None) -> StorageDescriptor:
    """The storage at another place. As dataclasses.replace, but several times quicker."""
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
