"""Registration of a metadata file over an existing table: its entry then names this file.

The swap is the only change. Before it the table is the old one, after it that of the file. The files of the old table
stay, as after a drop without purge.
"""

import logging

from interbed.catalog.server.rest.iceberg.commits import BACKOFF, check_not_published
from interbed.catalog.server.rest.iceberg.entries import LOCATION, TABLE, changed_entry, kind_of
from interbed.catalog.server.rest.iceberg.metadata.base import Document, InvalidMetadataError
from interbed.catalog.server.rest.iceberg.metadata.documents import completed
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.iceberg.store import TableStore, pointer_change
from interbed.catalog.server.rest.retries import retries_of
from interbed.catalog.server.service.errors import MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.tables.pointers import PointerMovedError, TableLockedError

logger = logging.getLogger(__name__)


def register_over(store: TableStore, name: IcebergName, location: str, user: str | None) -> None:
    """Register a metadata file, over the table of that name if there is one.

    RestError with status 409 for a name of another kind of table or of a view, 403 for a table that is only read here.
    InvalidMetadataError; PointerMovedError or TableLockedError after repeated conflicts: nothing was changed.
    """
    retries = retries_of(BACKOFF, f"the registration of {name}", logger)
    while True:
        try:
            entry = store.entry(name)
            if entry is None or kind_of(entry) != TABLE:
                store.register(name, location, user)
            else:
                _replace(store, name, entry, location, user)
        except (PointerMovedError, TableLockedError, NoSuchObjectError) as error:
            # The table may have been dropped since it was found.
            if not retries.pause(error):
                raise
        else:
            return


def _replace(store: TableStore, name: IcebergName, entry: MetastoreTable, location: str, user: str | None) -> None:
    document = store.registrable(name, location)
    known = entry.parameters[LOCATION]
    before = _document(store, known)
    check_not_published(name, before)

    def change(old: MetastoreTable) -> MetastoreTable:
        return changed_entry(old, before, document, location, known)

    store.metastore.pointers.swap([pointer_change(name, known, change)], user or "")


def _document(store: TableStore, location: str) -> Document:
    """Return the metadata of the replaced table; without its file, which may be why it is replaced, an empty one."""
    try:
        return completed(store.files.read(location).document())
    except (MetastoreError, InvalidMetadataError) as error:
        logger.warning("replacing a table whose metadata cannot be read: %s", error)
        return {"properties": {}, "snapshots": []}
