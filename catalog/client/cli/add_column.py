"""The command that adds a column and computes its values: interbed table add-column."""

from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.group import CatalogChoice, check_no_system_table, done, json_flag, table_name
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.catalog.client.cli.forms.duckdb_sources import CatalogTables
    from interbed.storage.table.table import Table


@click.command("add-column")
@table_name
@click.argument("column", metavar="COLUMN")
@click.argument("column_type", metavar="TYPE")
@click.option(
    "--compute", metavar="EXPRESSION", help="The values, in DuckDB's SQL over the columns of the row: 'price * pieces'."
)
@click.option("--comment", metavar="TEXT", help="What the column is for.")
@json_flag
@click.pass_obj
def add_column(
    chosen: CatalogChoice,
    name: str,
    column: str,
    column_type: str,
    compute: str | None,
    comment: str | None,
    as_json: bool,
) -> None:
    """Add a column, which is null in the rows of the table, or has values that --compute computes.

    --compute takes a table with data-evolution.enabled, of which it writes the new column alone, in bounded memory and
    as one commit. The column is added before: it is null if the command ends in between. Then compute it by
    `interbed sql "UPDATE …"`, or drop it.

    interbed table add-column shop.parts total 'DECIMAL(12, 2)' --compute 'price * pieces'
    """
    from dataclasses import replace

    from interbed.catalog.client.cli.forms.column_text import parse_column
    from interbed.storage.meta.schema.change import AddColumn

    quoted = column.replace('"', '""')
    field = replace(parse_column(f'"{quoted}" {column_type}'), description=comment)
    change = AddColumn(field.name, field.type, field.description)
    with chosen.catalog(name) as catalog:
        table = catalog.get_table(name)
        check_no_system_table(name, table)
        if compute is None:
            catalog.alter_table(name, [change])
            found = {"table": name, "column": field.name, "updated": 0, "snapshot": None}
            done(f"{name} has the column {field.name}, which is null", found, as_json)
            return
        from interbed.storage.upkeep.column_update import check_updatable

        check_updatable(table.store, name)
        from interbed.catalog.client.cli.sql import imported_duckdb, naming_errors

        duckdb = imported_duckdb("--compute")
        from interbed.catalog.client.cli.forms.duckdb_sources import CatalogTables
        from interbed.catalog.client.cli.sql_changes import execute_statement
        from interbed.catalog.client.cli.sql_statements import ChangedTable, UpdateStatement

        with duckdb.connect() as connection:
            tables = CatalogTables(catalog, connection)
            with naming_errors(duckdb.Error, tables.failures):
                _check_expression(tables, table, name, compute)
                catalog.alter_table(name, [change])
                target = ChangedTable(name=name, alias=name.rpartition(".")[2])
                update = UpdateStatement(target=target, values={field.name: compute}, condition=None)
                try:
                    changed = execute_statement(tables, update)
                except BaseException:
                    print_line(
                        f"The column '{field.name}' of {name} was added, and is null: its values were not computed. "
                        f'Compute them by `interbed sql "UPDATE {name} SET {field.name} = …"`, or remove it by '
                        f"`interbed table alter {name} --drop-column {field.name}`.",
                        err=True,
                    )
                    raise
    result = {"table": name, "column": field.name, "updated": changed.updated, "snapshot": changed.snapshot}
    where = "no new snapshot" if changed.snapshot is None else f"snapshot {changed.snapshot}"
    done(f"{name} has the column {field.name}, computed for {changed.updated} row(s): {where}", result, as_json)


def _check_expression(tables: "CatalogTables", table: "Table", name: str, expression: str) -> None:
    """Raise InvalidInputError or NotSupportedError for an expression that has no value for each row alone."""
    import pyarrow as pa

    from interbed.catalog.client.cli.forms.duckdb_sources import quoted
    from interbed.catalog.client.cli.sql_statements import value_kind

    match value_kind(expression):
        case "subquery":
            raise NotSupportedError(
                "--compute takes an expression over the columns of the row, and no subquery. Add the column without "
                '--compute, and compute it by `interbed sql "UPDATE …"`.'
            )
        case "window":
            raise NotSupportedError("--compute takes an expression over one row, and no window function.")
    rows = table.arrow_schema.append(pa.field("_ROW_ID", pa.int64())).empty_table()
    tables.connection.register("interbed_rows", rows)
    alias = quoted(name.rpartition(".")[2])
    found = tables.connection.sql(f"SELECT ({expression}) FROM interbed_rows AS {alias}").fetchall()
    if found:
        raise InvalidInputError("--compute takes an expression over one row, and no aggregate function.")
