"""The commands that show the rows of a table: `interbed table head | scan`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from interbed.catalog.client.cli.common import names, table_name
from interbed.catalog.client.cli.group import CatalogChoice
from interbed.catalog.client.cli.row_options import ROWS_SHOWN, chosen_form, output_options

_columns = click.option("--columns", multiple=True, metavar="NAMES", help="These columns, with commas between them.")


@click.command()
@table_name
@click.option("-n", "rows", type=click.IntRange(min=0), default=10, show_default=True, help="How many rows.")
@_columns
@output_options
@click.pass_obj
def head(
    chosen: CatalogChoice,
    name: str,
    rows: int,
    columns: Sequence[str],
    form: str | None,
    as_json: bool,
    output: Path | None,
) -> None:
    """Some rows of a table; which ones is not said."""
    _write(chosen, name, columns, form=chosen_form(form, output, as_json), output=output, limit=rows)


@click.command()
@table_name
@click.option("--filter", "text", metavar="CONDITION", help="Rows for which it is true: \"amount > 5 and name = 'x'\".")
@_columns
@click.option(
    "--limit", type=click.IntRange(min=0), help=f"Rows at the most; {ROWS_SHOWN} by default for --format table."
)
@click.option("--snapshot", type=int, metavar="ID", help="The table as it was in this snapshot.")
@output_options
@click.pass_obj
def scan(
    chosen: CatalogChoice,
    name: str,
    text: str | None,
    columns: Sequence[str],
    limit: int | None,
    snapshot: int | None,
    form: str | None,
    as_json: bool,
    output: Path | None,
) -> None:
    """The rows of a table, of a system table such as 'shop.orders$files', or of the Iceberg table at a location."""
    more = {"filter": text, "snapshot_id": snapshot}
    form = chosen_form(form, output, as_json)
    _write(chosen, name, columns, form=form, output=output, limit=limit, **more)


def _write(
    chosen: CatalogChoice,
    name: str,
    columns: Sequence[str],
    *,
    form: str,
    output: Path | None,
    limit: int | None,
    **more: Any,
) -> None:
    from interbed.catalog.client.cli.forms.row_formats import write_rows
    from interbed.catalog.client.cli.near_names import check_columns

    wanted = names(columns)
    with chosen.any_table(name, system=True) as table:
        if more.get("snapshot_id") is None:
            # An older snapshot may have other columns.
            check_columns(name, table.field_names, wanted)
        given = {key: value for key, value in more.items() if value is not None}
        # One more than is shown, to say that there are more.
        most = ROWS_SHOWN + 1 if form == "table" and limit is None else limit
        query = table.scan(columns=wanted or None, limit=most, **given)
        write_rows(query.to_arrow_batch_reader(), form, output, limited=limit is not None)


ROW_COMMANDS: tuple[click.Command, ...] = (head, scan)
"""What `interbed table` has to look at rows with."""
