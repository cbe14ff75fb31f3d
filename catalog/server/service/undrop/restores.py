"""Put the entry of a table back to its state at a time: its columns, its parameters, its location, the text of a view.

The name, the database, the number and the partitions stay. What the files of a table decide is not restored: columns of
Paimon's tables are those of their schema files. An Iceberg table gets its older metadata file only if this file and the
manifest list of its snapshot exist. Values that the history has without their secrets are those of the present entry.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec

from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.errors import DamagedFileError, InvalidOperationError, UnboundedFileError
from interbed.catalog.server.service.history.entries import HistoryEntry
from interbed.catalog.server.service.history.states import location_now
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.tables.pointers import read_unpacked
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
    masked = _MaskedValues()
    storage = _storage(present, wanted, location_now(entries, moment_millis, wanted.location), masked)
    if _is_of_paimon(present) or _is_of_paimon(wanted):
        if _is_of_paimon(present) != _is_of_paimon(wanted):
            raise InvalidOperationError(f"{shown} had another format then: its files do not have both")
        if _columns(wanted) != _columns(present):
            raise InvalidOperationError(
                f"{shown} had other columns then. Its schema files decide them: change them with ALTER TABLE, or roll "
                "the table back to a snapshot"
            )
    table = dataclasses.replace(
        present,
        table_type=wanted.table_type,
        owner=wanted.owner,
        retention=wanted.retention,
        storage=storage,
        parameters=masked.resolved(present.parameters, wanted.parameters),
        partition_keys=wanted.partition_keys,
        view_original_text=_text(present.view_original_text, wanted.view_original_text, f"the text of {shown}"),
        view_expanded_text=_text(present.view_expanded_text, wanted.view_expanded_text, f"the text of {shown}"),
        extra=wanted.extra,
    )
    return RestorePlan(table=table, kept=tuple(masked.kept), missing=tuple(masked.missing))


def check_files(present: MetastoreTable, table: MetastoreTable) -> None:
    """Raise InvalidOperationError if the files that the restored entry names do not exist."""
    location = table.location
    if location is not None and location != present.location and not files.directory_exists(location):
        raise InvalidOperationError(f"the directory {location} of that time does not exist any more")
    pointer = table.parameters.get(METADATA_LOCATION)
    if pointer is not None and pointer != present.parameters.get(METADATA_LOCATION):
        for manifest_list in _metadata(pointer).manifest_lists:
            if not _exists(manifest_list):
                raise InvalidOperationError(
                    f"the snapshot of {pointer} was expired: its manifest list {manifest_list} does not exist any more"
                )


class _Snapshot(msgspec.Struct, rename="kebab"):
    """The part of an Iceberg snapshot that is read."""

    snapshot_id: int | None = None
    manifest_list: str | None = None


class _RestoredMetadata(msgspec.Struct, rename="kebab"):
    """The part of an Iceberg metadata file that is read: decoding takes memory for it alone."""

    current_snapshot_id: int | None = None
    snapshots: list[_Snapshot] | None = None

    @property
    def manifest_lists(self) -> list[str]:
        """The manifest list of the current snapshot, if there is one."""
        return [
            each.manifest_list
            for each in self.snapshots or ()
            if each.snapshot_id == self.current_snapshot_id and each.manifest_list is not None
        ]


def _metadata(location: str) -> _RestoredMetadata:
    if not _exists(location):
        raise InvalidOperationError(f"the metadata file {location} of that time does not exist any more")
    try:
        return msgspec.json.decode(read_unpacked(location, f"cannot read {location}"), type=_RestoredMetadata)
    except (UnboundedFileError, DamagedFileError) as error:
        raise InvalidOperationError(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidOperationError(f"the metadata file {location} is not Iceberg's: {error}") from error


def _exists(location: str) -> bool:
    return files.with_files(location, lambda filesystem, path: filesystem.exists(path), f"cannot look for {location}")


class _MaskedValues:
    """The parameters that the history has without their secrets: those that stay as they are (`kept`), and those that
    the present entry does not have (`missing`).
    """

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.missing: list[str] = []

    def resolved(self, present: Mapping[str, str] | None, wanted: Mapping[str, str], what: str = "") -> dict[str, str]:
        """Return older parameters with their secrets; `what` is shown before a name."""
        now = present or {}
        found = {key: value for key, value in now.items() if key.lower() in _OF_FILES}
        for key, value in wanted.items():
            if key.lower() in _OF_FILES:
                continue
            if MASK not in value or value == now.get(key):
                found[key] = value
            elif key in now:
                self.kept.append(f"{what}{key}")
                found[key] = now[key]
            else:
                self.missing.append(f"{what}{key}")
        return found


def _storage(
    present: MetastoreTable, wanted: MetastoreTable, location: str | None, masked: _MaskedValues
) -> StorageDescriptor | None:
    """Return the older storage descriptor at a location, with the secrets of the present one."""
    storage, now = wanted.storage, present.storage
    if storage is None or now is None:
        return storage
    location = _text(now.location, location, f"the location of {present.database}.{present.name}")
    serde, serde_now = storage.serde, now.serde
    if serde is not None and serde.parameters:
        of_serde = masked.resolved(serde_now.parameters if serde_now else None, serde.parameters, "the SerDe's ")
        serde = dataclasses.replace(serde, parameters=of_serde)
    parameters = storage.parameters
    if parameters:
        parameters = masked.resolved(now.parameters, parameters, "the storage's ")
    return dataclasses.replace(storage, location=location, serde=serde, parameters=parameters)


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
