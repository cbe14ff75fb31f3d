"""Put the entry of a table back to its state at a time: its columns, its parameters, its location, the text of a view.

The name, the database, the number and the partitions stay. What the files of a table decide is not restored: columns of
Paimon's tables are those of their schema files. An Iceberg table gets its older metadata file only if this file and the
manifest list of its snapshot exist. Values that the history has without their secrets are those of the present entry.
"""

import dataclasses
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.errors import InvalidOperationError
from interbed.catalog.server.service.history.entries import HistoryEntry
from interbed.catalog.server.service.history.states import location_now
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable, StorageDescriptor
from interbed.storage.base.shown_text import MASK, without_credentials

METADATA_LOCATION = "metadata_location"

_PAIMON_FORMATS = "org.apache.paimon."
_OF_FILES = frozenset(
    ("interbed.current-snapshot-id", "numrows", "totalsize", "rawdatasize", "numfiles", "column_stats_accurate")
)
"""Parameters in lower case that describe the files of a table as they are, and not what a client has asked for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """The entry that a table gets. `kept` names the values that stay as they are, `missing` parameters with secrets
    that the present entry does not have and that are left out.
    """

    table: MetastoreTable
    kept: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def plan_restore(
    present: MetastoreTable, wanted: MetastoreTable, entries: Sequence[HistoryEntry], moment_millis: int
) -> RestorePlan:
    """Return the plan to put a table back to an older state. InvalidOperationError names what prevents it."""
    shown = f"{present.database}.{present.name}"
    if [(key.name, key.type) for key in wanted.partition_keys] != [
        (key.name, key.type) for key in present.partition_keys
    ]:
        raise InvalidOperationError(f"{shown} had other partition keys then: they cannot be restored")
    if wanted.is_view != present.is_view:
        raise InvalidOperationError(f"{shown} was a {wanted.table_type} then and is a {present.table_type}")
    kept: list[str] = []
    missing: list[str] = []
    storage = _storage(present, wanted, entries, moment_millis)
    if _is_of_paimon(present) or _is_of_paimon(wanted):
        if _is_of_paimon(present) != _is_of_paimon(wanted):
            raise InvalidOperationError(f"{shown} had another format then: its files do not have both")
        if _columns(wanted) != _columns(present):
            raise InvalidOperationError(
                f"{shown} had other columns then. Its schema files decide them: change them with ALTER TABLE, or roll "
                "the table back to a snapshot"
            )
    parameters = _parameters(present.parameters, wanted.parameters, kept, missing)
    table = dataclasses.replace(
        present,
        table_type=wanted.table_type,
        owner=wanted.owner,
        retention=wanted.retention,
        storage=storage,
        parameters=parameters,
        partition_keys=wanted.partition_keys,
        view_original_text=_text(present.view_original_text, wanted.view_original_text, f"the text of {shown}"),
        view_expanded_text=_text(present.view_expanded_text, wanted.view_expanded_text, f"the text of {shown}"),
        extra=wanted.extra,
    )
    return RestorePlan(table=table, kept=tuple(kept), missing=tuple(missing))


def check_files(present: MetastoreTable, table: MetastoreTable) -> None:
    """Raise InvalidOperationError if the files that the restored entry names do not exist."""
    location = table.location
    if location is not None and location != present.location and not files.directory_exists(location):
        raise InvalidOperationError(f"the directory {location} of that time does not exist any more")
    pointer = table.parameters.get(METADATA_LOCATION)
    if pointer is not None and pointer != present.parameters.get(METADATA_LOCATION):
        metadata = _metadata(pointer)
        for manifest_list in _manifest_lists(metadata):
            if not _exists(manifest_list):
                raise InvalidOperationError(
                    f"the snapshot of {pointer} was expired: its manifest list {manifest_list} does not exist any more"
                )


def _metadata(location: str) -> dict[str, Any]:
    if not _exists(location):
        raise InvalidOperationError(f"the metadata file {location} of that time does not exist any more")
    text = files.read_bounded(location, f"cannot read {location}")
    try:
        found = json.loads(gzip.decompress(text) if location.endswith((".gz.metadata.json", ".gz")) else text)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidOperationError(f"the metadata file {location} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise InvalidOperationError(f"the metadata file {location} is not Iceberg's")
    return found


def _exists(location: str) -> bool:
    return files.with_files(location, lambda filesystem, path: filesystem.exists(path), f"cannot look for {location}")


def _manifest_lists(metadata: Mapping[str, Any]) -> list[str]:
    current = metadata.get("current-snapshot-id")
    return [
        str(snapshot["manifest-list"])
        for snapshot in metadata.get("snapshots") or ()
        if snapshot.get("snapshot-id") == current and "manifest-list" in snapshot
    ]


def _storage(
    present: MetastoreTable, wanted: MetastoreTable, entries: Sequence[HistoryEntry], moment_millis: int
) -> StorageDescriptor | None:
    storage, now = wanted.storage, present.storage
    if storage is None or now is None:
        return storage
    location = location_now(entries, moment_millis, storage.location)
    location = _text(now.location, location, f"the location of {present.database}.{present.name}")
    serde, serde_now = storage.serde, now.serde
    if serde is not None and serde.parameters:
        of_serde = _parameters((serde_now.parameters if serde_now else None) or {}, serde.parameters, [], [])
        serde = dataclasses.replace(serde, parameters=of_serde)
    parameters = storage.parameters
    if parameters:
        parameters = _parameters(now.parameters or {}, parameters, [], [])
    return dataclasses.replace(storage, location=location, serde=serde, parameters=parameters)


def _parameters(
    present: Mapping[str, str], wanted: Mapping[str, str], kept: list[str], missing: list[str]
) -> dict[str, str]:
    found = {key: value for key, value in present.items() if key.lower() in _OF_FILES}
    for key, value in wanted.items():
        if key.lower() in _OF_FILES:
            continue
        if MASK not in value or value == present.get(key):
            found[key] = value
        elif key in present:
            kept.append(key)
            found[key] = present[key]
        else:
            missing.append(key)
    return found


def _text(present: str | None, wanted: str | None, what: str) -> str | None:
    """Return a text of an older entry. InvalidOperationError if it had a secret and the present one is another."""
    if wanted is None or MASK not in wanted:
        return wanted
    if present is not None and without_credentials(present) == wanted:
        return present
    raise InvalidOperationError(f"{what} had a secret then, which the history does not have: change it with ALTER")


def _is_of_paimon(table: MetastoreTable) -> bool:
    return ((table.storage or StorageDescriptor()).input_format or "").startswith(_PAIMON_FORMATS)


def _columns(table: MetastoreTable) -> tuple[MetastoreColumn, ...]:
    return (table.storage or StorageDescriptor()).columns
