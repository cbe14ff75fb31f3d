"""Removal of the parts of a table's metadata: what snapshots still need is not removed.

Iceberg's own server leaves this to its clients. Without the schema or the partition spec of a file no client can read
the table.
"""

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus

from interbed.catalog.server.rest.iceberg.metadata.parts import OutdatedSnapshotError
from interbed.catalog.server.rest.iceberg.metadata.schemas import Document
from interbed.catalog.server.rest.iceberg.metadata.updates import RemovePartitionSpecs, RemoveSchemas, Update
from interbed.catalog.server.rest.iceberg.names import bad_request
from interbed.catalog.server.rest.iceberg.store import TableStore
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.service.errors import MetastoreError, UnboundedFileError, is_of_a_store
from interbed.catalog.server.service.tables.pointers import read_bounded
from interbed.storage.base.errors import InterbedError, InvalidInputError


def check_removed(store: TableStore, made: Document, updates: Sequence[Update]) -> None:
    """Raise OutdatedSnapshotError if a snapshot that stays needs a schema or a partition spec that was removed.

    Partition specs are looked up in the manifest lists of the snapshots. RestError with status 400 for a list that does
    not exist or cannot be decoded: then nothing is removed.
    """
    schemas = {number for each in updates if isinstance(each, RemoveSchemas) for number in each.schema_ids}
    for snapshot in made["snapshots"]:
        if snapshot.get("schema-id") in schemas:
            raise _needed("schema", snapshot["schema-id"], snapshot["snapshot-id"])
    specs = {number for each in updates if isinstance(each, RemovePartitionSpecs) for number in each.spec_ids}
    if specs:
        from interbed.iceberg.rest_scan.planner import specs_in_use

        try:
            in_use = specs_in_use(made["snapshots"], partial(read_file, store))
        except (InterbedError, RestError) as error:
            if is_of_a_store(error):
                raise
            raise bad_request(
                f"Cannot remove partition specs {sorted(specs)}: whether files need them is unknown. {error}"
            ) from error
        for number in sorted(specs & in_use.keys()):
            raise _needed("partition spec", number, in_use[number])


def read_file(store: TableStore, location: str) -> bytes:
    """Return the content of a file that a client has named.

    RestError with status 404 if there is none, InvalidInputError for one without bounds, MetastoreError.
    """
    place = store.metastore.pointers.checked(location)
    try:
        return read_bounded(place, f"cannot read {location}")
    except UnboundedFileError as error:
        raise InvalidInputError(str(error)) from error
    except MetastoreError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        # As in Iceberg's own server: a client may commit a snapshot whose files it never wrote.
        raise RestError(HTTPStatus.NOT_FOUND, "NotFoundException", str(error)) from error


def _needed(what: str, number: int, snapshot_id: int) -> OutdatedSnapshotError:
    return OutdatedSnapshotError(f"Cannot remove {what} {number}: the snapshot {snapshot_id} needs it")
