"""The command that queries tables in SQL, on DuckDB: `interbed sql "SELECT … FROM shop.orders"`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from interbed.catalog.cli.group import CatalogChoice, with_catalog
from interbed.catalog.cli.row_options import chosen_form, output_options
from interbed.storage.base.errors import InvalidInputError, NotSupportedError


@click.command()
@click.argument("query")
@output_options
@click.pass_context
def sql(context: click.Context, query: str, form: str | None, as_json: bool, output: Path | None) -> None:
    """Query tables in SQL, by DuckDB: interbed sql "SELECT sum(amount) FROM shop.orders"

    Tables are named DATABASE.TABLE, system tables shop."orders$files". Of each only the columns that the query needs
    are read. Needs the extra interbed[duckdb].
    """
    form = chosen_form(form, output, as_json)
    try:
        import duckdb
    except ImportError as error:
        raise NotSupportedError(
            "`interbed sql` needs DuckDB, which is not installed: pip install 'interbed[duckdb]'."
        ) from error
    import pyarrow as pa

    from interbed.catalog.cli.forms.duckdb_tables import CatalogTables
    from interbed.catalog.cli.forms.row_formats import write_rows

    with (
        context.ensure_object(CatalogChoice).catalog() as catalog,
        duckdb.connect() as connection,
        _naming_errors(duckdb.Error),
    ):
        CatalogTables(catalog, connection).define(query)
        relation = connection.sql(query)
        if relation is None:
            raise InvalidInputError("The query has no rows to show; write SELECT ….")
        write_rows(pa.RecordBatchReader.from_stream(relation), form, output, limited=False)


@contextmanager
def _naming_errors(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind as error:
        raise InvalidInputError(str(error)) from error


with_catalog(sql)
