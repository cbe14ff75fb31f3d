"""Where the journal of a catalog is, and how processes that do not schedule open it.

Without `--db` or `optimizer.db` it is a SQLite file in the user's own state:

    $XDG_STATE_HOME/interbed/optimizer/warehouse-tmp-lake-1f0c2b3a4d5e.db     (~/.local/state without the variable)

The name is made of the catalog's key: a readable part, and a hash so that each key has its own.

A scheduler creates its journal (`SqlJournal.open`). Readers create nothing: a missing journal is an empty one.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from interbed.catalog.client.options import CatalogOptions, MetastoreKind
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import DatabaseError, open_engine
from interbed.optimizer.errors import JournalError
from interbed.optimizer.journal.api import Journal
from interbed.optimizer.journal.memory import MemoryJournal
from interbed.optimizer.journal.sql import SqlJournal

READABLE_MAX = 40
"""Characters of the key in the name: its end tells most."""


def default_url(catalog_key: str) -> str:
    """The url of the journal of a catalog, the same for the same key. The directories are made, for the user alone.

    Raises JournalError when they can't be.
    """
    digest = hashlib.sha256(catalog_key.encode(errors="surrogatepass")).hexdigest()[:12]
    # What logs in somewhere is not for file names.
    public = re.sub(r"//[^/@]*@", "//", catalog_key)
    readable = re.sub(r"[^a-z0-9]+", "-", public.lower()).strip("-")[-READABLE_MAX:].strip("-")
    try:
        directory = _state_home() / "interbed" / "optimizer"
        for each in [*reversed(directory.parents), directory]:
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise JournalError(
            f"There is no place for the optimizer's journal of {public}: {error}. Name a database for it."
        ) from error
    return URL.create("sqlite", database=str(directory / f"{readable}-{digest}.db")).render_as_string()


def _state_home() -> Path:
    # A path that is not absolute is to be passed over, says the specification of these directories.
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".local" / "state"


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
