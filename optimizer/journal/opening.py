"""The journal of a catalog: where it is, and how those open it who do not schedule.

A scheduler makes its journal (`SqlJournal.open`). Who only looks makes nothing: where there is no journal yet, there is
nothing to see.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from interbed.catalog.client.options import CatalogOptions, MetastoreKind
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import DatabaseError, open_engine
from interbed.optimizer.errors import JournalError
from interbed.optimizer.journal.api import Journal
from interbed.optimizer.journal.memory import MemoryJournal
from interbed.optimizer.journal.place import default_url
from interbed.optimizer.journal.sql import SqlJournal

_FIRST_REVISION = "0007"
"""The revision of the metastore's database that brought the journal's tables."""


class PlacedCatalog(Protocol):
    """What says where a catalog is."""

    options: CatalogOptions

    @property
    def warehouse(self) -> str:
        """The root directory of databases."""
        ...


def journal_url(catalog: PlacedCatalog, given: str | None = None) -> str:
    """The database of a catalog's journal: the one given, or its option `optimizer.db`, or a file of the user's own."""
    return given or catalog.options.optimizer_db or default_url(catalog_key(catalog))


def catalog_key(catalog: PlacedCatalog) -> str:
    """What tells a catalog from others whatever name it is configured by: its metastore's address, or its warehouse."""
    options = catalog.options
    return options.uri if options.metastore is MetastoreKind.HIVE and options.uri else catalog.warehouse


@contextmanager
def journal_to_read(url: str) -> Iterator[Journal]:
    """The journal at a url while the block runs; an empty one where there is none. Raises JournalError."""
    if not _is_there(url):
        yield MemoryJournal()
        return
    with journal_to_ask(url) as journal:
        yield journal


@contextmanager
def journal_to_ask(url: str) -> Iterator[Journal]:
    """The journal at a url while the block runs, made when there is none. Raises JournalError."""
    journal = SqlJournal.open(url)
    try:
        yield journal
    finally:
        journal.close()


def _is_there(url: str) -> bool:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
            # To connect would make the file.
            return False
        engine = open_engine(url)
        try:
            revision = schema.current_revision(engine)
        finally:
            engine.dispose()
    except ArgumentError as error:
        raise JournalError(f"The optimizer's journal has no database at '{url}': {error}.") from error
    except (DatabaseError, SQLAlchemyError) as error:
        raise JournalError(f"The optimizer's journal can't be reached: {error}.") from error
    return revision is not None and revision >= _FIRST_REVISION
