"""Errors about a warehouse, a database, a table or a column that is not there say what there is."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import DatabaseNotFoundError, TableNotFoundError
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.shown_text import did_you_mean
from interbed.storage.table.table import Table


def check_warehouse(catalog: Catalog) -> None:
    """Raise InvalidInputError when the directory of a file-system catalog does not exist."""
    if isinstance(catalog, FileSystemCatalog) and not catalog.file_io.exists(catalog.warehouse):
        raise InvalidInputError(
            f"The warehouse {catalog.warehouse} does not exist. `interbed catalog create-database NAME` makes it."
        )


@contextlib.contextmanager
def suggesting(catalog: Catalog, about: str | None) -> Iterator[None]:
    """Let errors about a missing table or database end with the name of one that is there."""
    try:
        yield
    except (TableNotFoundError, DatabaseNotFoundError) as error:
        raise type(error)(f"{error}{'' if about is None else _near(catalog, about)}") from error


def check_columns(table: str, known: Sequence[str], wanted: Iterable[str]) -> None:
    """Raise InvalidInputError naming the first column that the table does not have."""
    for name in wanted:
        if name not in known:
            raise InvalidInputError(
                f"The table '{table}' has no column '{name}'; it has {', '.join(known)}.{did_you_mean(name, known)}"
            )


def check_no_system_table(name: str, table: object) -> None:
    """Raise NotSupportedError for what has rows to look at, but is no table of its own."""
    if not isinstance(table, Table):
        raise NotSupportedError(
            f"'{name}' is a system table; it takes `interbed table head`, `scan` and `interbed sql`."
        )


def _near(catalog: Catalog, about: str) -> str:
    database, _, table = about.partition(".")
    with contextlib.suppress(InterbedError):
        databases = catalog.list_databases()
        if database not in databases:
            return did_you_mean(database, databases)
        tables = [f"{database}.{name}" for name in catalog.list_tables(database)]
        return did_you_mean(f"{database}.{table.partition('$')[0]}", tables) if table else ""
    return ""
