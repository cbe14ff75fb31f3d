"""The command that executes SQL on DuckDB: `interbed sql "SELECT … FROM shop.orders"`, and changes of rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.group import CatalogChoice, chosen_form, done, output_options, with_catalog
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from interbed.catalog.client.cli.forms.duckdb_sources import CatalogTables

_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE_INTO")


@click.command()
@click.argument("query")
@output_options
@click.pass_context
def sql(context: click.Context, query: str, form: str | None, as_json: bool, output: Path | None) -> None:
    """Query tables in SQL, by DuckDB: interbed sql "SELECT sum(amount) FROM shop.orders"

    Tables are named DATABASE.TABLE, system tables shop."orders$files". Only the columns that the query needs are read.
    SHOW TABLES, SHOW DATABASES and DESCRIBE show the catalog. INSERT, UPDATE, DELETE and MERGE change rows of one
    table, as one commit. Needs the extra interbed[duckdb].
    """
    form = chosen_form(form, output, as_json)
    duckdb = imported_duckdb("`interbed sql`")
    from interbed.catalog.client.cli.forms.duckdb_sources import CatalogTables

    with context.ensure_object(CatalogChoice).catalog() as catalog, duckdb.connect() as connection:
        tables = CatalogTables(catalog, connection)
        with naming_errors(duckdb.Error, tables.failures):
            kind = _kind(duckdb, query)
            if kind not in _CHANGES:
                _show(tables, query, form, output)
            elif output is None:
                _change(tables, query, as_json=as_json)
            else:
                raise click.UsageError("--output takes the rows of a SELECT; a statement that changes rows has none.")


def _show(tables: "CatalogTables", query: str, form: str, output: Path | None) -> None:
    from interbed.catalog.client.cli.forms.duckdb_sources import shown_catalog
    from interbed.catalog.client.cli.forms.row_formats import write_rows
    from interbed.storage.base.incoming import duckdb_rows

    answer = shown_catalog(tables.catalog, tables.parsed(query))
    if answer is not None:
        write_rows(answer.to_reader(), form, output, limited=True)
        return
    tables.define(query)
    relation = tables.connection.sql(query)
    if relation is None:
        raise InvalidInputError("The query has no rows to show; write SELECT ….")
    write_rows(duckdb_rows(relation, finite=False), form, output, limited=False)


def _change(tables: "CatalogTables", query: str, *, as_json: bool) -> None:
    from interbed.catalog.client.cli.forms.duckdb_sources import SourceFiles
    from interbed.catalog.client.cli.sql_changes import execute_statement
    from interbed.catalog.client.cli.sql_statements import parse_statement

    changed = execute_statement(tables, parse_statement(query, SourceFiles(tables).prepare))
    done(str(changed), changed.to_json(), as_json)


def _kind(duckdb: Any, query: str) -> str:
    """Return the kind of a statement by DuckDB's name; raise NotSupportedError for unsupported ones."""
    from interbed.catalog.client.cli.sql_statements import unsupported_statement

    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise InvalidInputError(f"The statement is no SQL: {error}.") from error
    if len(statements) != 1:
        raise InvalidInputError(f"`interbed sql` takes one statement, not {len(statements)} statements.")
    kind = str(statements[0].type).rpartition(".")[2]
    if kind not in ("SELECT", *_CHANGES):
        raise unsupported_statement(query.split(maxsplit=1)[0].upper())
    return kind


def imported_duckdb(what: str) -> Any:
    """Import DuckDB, and the parser of statements. Raises NotSupportedError naming what needs them."""
    try:
        import duckdb
        import sqlglot  # noqa: F401
    except ImportError as error:
        raise NotSupportedError(
            f"{what} needs {error.name}, which is not installed: pip install 'interbed[duckdb]'."
        ) from error
    return duckdb


@contextmanager
def naming_errors(kind: type[Exception], failures: list[InterbedError]) -> Iterator[None]:
    """Raise interbed's errors for those of DuckDB, which hides errors of reading a table in a traceback."""
    try:
        yield
    except InterbedError:
        raise
    except Exception as error:
        if failures:
            raise failures[0] from error
        if isinstance(error, kind) or (isinstance(error, OSError) and error.errno is None):
            # Errors of DuckDB come as OSError where its rows are read as Arrow data.
            raise InvalidInputError(_in_words(str(error))) from error
        raise


_OF_VALUES = ("Out of Range Error: ", "Conversion Error: ", "Invalid Input Error: ")
"""Kinds of DuckDB's errors about values that a statement computes, as its texts begin."""


def _in_words(text: str) -> str:
    """Return the text of an error of DuckDB, with the way out where values do not fit their type."""
    for kind in _OF_VALUES:
        if not text.startswith(kind):
            continue
        reason, line, rest = text.removeprefix(kind).rstrip().partition("\n")
        words = f"The statement can't be computed: {reason.rstrip('.!')}."
        if reason.startswith("Overflow"):
            words += (
                " Let it compute with a wider type: CAST(… AS BIGINT), CAST(… AS DECIMAL(38, 0)) or CAST(… AS DOUBLE)."
            )
        elif kind == "Conversion Error: ":
            words += " TRY_CAST(… AS …) has NULL for such values."
        return f"{words}{line}{rest}"
    return text


with_catalog(sql)
