"""Iceberg tables in a metastore: the entry names the newest metadata file, and a commit replaces that name.

Commits hold the table's lock, as Iceberg's own clients do, and change the entry only if it still names the metadata
that they started from. Source: Iceberg's HiveTableOperations; the parameters are its own.
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as Metadata
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from interbed.catalog.client.errors import LockError, TableModifiedError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.commit_lock import LockSettings
from interbed.catalog.client.identifier import Identifier
from interbed.iceberg.commit.home import metadata_bytes, metadata_suffix, metadata_to_delete
from interbed.iceberg.read.files import static_table, store_options
from interbed.iceberg.table import IcebergTable, load_iceberg_table, store_properties
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.io.resolve import file_io_for

_LOCATION = "metadata_location"
_PREVIOUS = "previous_metadata_location"


def registered_table(
    client: HiveMetastoreClient,
    identifier: Identifier,
    entry: Any,
    lock: LockSettings,
    options: Mapping[str, str],
    directory: str | None = None,
) -> IcebergTable:
    """Return the table of a metastore's entry; `options` are those of the catalog. With a `directory` files elsewhere
    are refused.

    Raises as load_iceberg_table does, and InvalidOptionError if the entry names no metadata.
    """
    home = MetastoreHome(client, identifier, lock, store_properties(options))
    location = home.location_in(entry)
    found = load_iceberg_table(location, store_properties(options), name=str(identifier), directory=directory)
    found.home = home
    return found


class MetastoreHome:
    """Implementation of TableHome; `properties` are pyiceberg's for the file system."""

    def __init__(
        self,
        client: HiveMetastoreClient,
        identifier: Identifier,
        lock: LockSettings,
        properties: Mapping[str, str],
    ) -> None:
        self._client = client
        self._identifier = identifier
        self._lock = lock
        self._properties = dict(properties)

    def load(self) -> Metadata:
        return static_table(self.location_in(self._entry()), self._properties)

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        for requirement in requirements:
            requirement.validate(base.metadata)
        made = update_table_metadata(base.metadata, updates, metadata_location=base.metadata_location)
        folder, _, name = base.metadata_location.rpartition("/")
        number = name.partition("-")[0]
        version = int(number) + 1 if number.isdecimal() else 0
        path = f"{folder}/{version:05d}-{uuid.uuid4()}{metadata_suffix(made)}"
        file_io, place = file_io_for(path, store_options(self._properties))
        file_io.overwrite(place, metadata_bytes(made, path))
        try:
            with self._lock.hold(self._client, self._identifier) as held:
                entry = self._entry()
                if self.location_in(entry) != base.metadata_location:
                    raise CommitFailedException(f"{self._identifier} has other metadata now")
                if held is not None:
                    held.ensure_held()
                entry.parameters = {**entry.parameters, **_parameters(entry.parameters, base, made, path)}
                self._client.alter_table(
                    self._identifier.database,
                    self._identifier.table,
                    entry,
                    properties={"DO_NOT_UPDATE_STATS": "true"},
                    expected_parameter=(_LOCATION, base.metadata_location),
                )
        except (CommitFailedException, LockError, TableModifiedError) as error:
            file_io.delete_quietly([place])
            raise CommitFailedException(str(error)) from error
        for old in metadata_to_delete(base.metadata, made):
            old_io, old_place = file_io_for(old, store_options(self._properties))
            old_io.delete_quietly([old_place])

    def _entry(self) -> Any:
        return self._client.get_table(self._identifier.database, self._identifier.table)

    def location_in(self, entry: Any) -> str:
        """Return the metadata file that an entry of the table names; InvalidOptionError if it names none."""
        location = (entry.parameters or {}).get(_LOCATION)
        if not location:
            raise InvalidOptionError(
                f"The metastore's entry of the Iceberg table '{self._identifier}' has no '{_LOCATION}'."
            )
        return str(location)


def _parameters(known: Mapping[str, str], base: Metadata, made: TableMetadata, path: str) -> dict[str, str]:
    """Return the changed parameters of an entry; figures of the newest snapshot only if Iceberg's clients keep them."""
    changed = {_LOCATION: path, _PREVIOUS: base.metadata_location}
    snapshot = made.current_snapshot()
    if snapshot is not None:
        summary = {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
        figures = {
            "current-snapshot-id": str(snapshot.snapshot_id),
            "current-snapshot-timestamp-ms": str(snapshot.timestamp_ms),
            "current-snapshot-summary": json.dumps(summary),
            "snapshot-count": str(len(made.snapshots)),
            "numRows": summary.get("total-records", ""),
            "numFiles": summary.get("total-data-files", ""),
            "totalSize": summary.get("total-files-size", ""),
        }
        changed.update({name: text for name, text in figures.items() if name in known and text})
    return changed
