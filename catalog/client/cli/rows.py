"""The commands that show the rows of a table and write files into it: `interbed table head | scan | import`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.group import (
    ROWS_SHOWN,
    CatalogChoice,
    chosen_form,
    done,
    json_flag,
    names,
    output_options,
    table_name,
)
from interbed.catalog.client.table_parts import as_format_table
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.terminal import markup_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from interbed.catalog.client.cli.forms.file_batch import BadLines

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
    """Show some rows of a table, in no particular order."""
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
    """Show the rows of a table, of a system table such as 'shop.orders$files', or of the Iceberg table
    at a location.
    """
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
    from interbed.catalog.client.cli.group import check_columns

    wanted = names(columns)
    with chosen.any_table(name, system=True) as table:
        if more.get("snapshot_id") is None:
            # An older snapshot may have other columns.
            check_columns(name, table.field_names, wanted)
        given = {key: value for key, value in more.items() if value is not None}
        # One more than is shown, to report that there are more.
        most = ROWS_SHOWN + 1 if form == "table" and limit is None else limit
        query = table.scan(columns=wanted or None, limit=most, **given)
        write_rows(query.to_arrow_batch_reader(), form, output, limited=limit is not None)


ROW_COMMANDS: tuple[click.Command, ...] = (head, scan)
"""The commands of `interbed table` that show rows."""


@click.command("import")
@table_name
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--mode",
    type=click.Choice(["append", "upsert", "overwrite"]),
    default="append",
    show_default=True,
    help="Add rows; replace those of equal primary key; or replace the partitions that occur, without a partition key "
    "the whole table. With a primary key an append is an upsert.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "json", "orc", "arrow"]),
    help="The files' format; by default what their names end with. JSON has an object a line.",
)
@click.option("--delimiter", metavar="CHARACTER", help="What parts the fields of CSV; ',' by default.")
@click.option("--skip-bad", is_flag=True, help="Leave out lines and rows that the table can't take.")
@click.option(
    "--rejects",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Leave them out and write each to a file, as JSON: its file, line, column, text, and why.",
)
@json_flag
@click.pass_obj
def load(
    chosen: CatalogChoice,
    name: str,
    files: Sequence[Path],
    mode: str,
    form: str | None,
    delimiter: str | None,
    skip_bad: bool,
    rejects: Path | None,
    as_json: bool,
) -> None:
    """Write the rows of files into a table, as one commit.

    Columns are matched by name; missing columns get their default, or null. Files are read in batches, so they may be
    larger than memory. A line that does not fit the table ends the import, and nothing is written, unless --skip-bad or
    --rejects leaves it out.
    """
    import pyarrow as pa

    from interbed.catalog.client.cli.forms.file_batch import BadLines
    from interbed.catalog.client.cli.forms.file_rows import FileRows, TableRows
    from interbed.catalog.client.cli.forms.row_formats import file_sink

    if delimiter is not None and len(delimiter) != 1:
        raise click.BadParameter("it is one character.", param_hint="--delimiter")
    opened = [FileRows.of(file, form, delimiter) for file in files]
    rows = 0
    with (
        chosen.table(name) as table,
        shown_rows(f"importing into {name}") as progress,
        nullcontext() if rejects is None else file_sink(rejects) as sink,
    ):
        schema = table.arrow_schema
        bad = BadLines(skip=skip_bad or rejects is not None, sink=sink)
        fitting = TableRows(table, name, bad)

        def batches() -> "Iterator[pa.RecordBatch]":
            nonlocal rows
            for each in opened:
                for found in each.batches(name, table.schema.fields, schema, bad):
                    batch = fitting.taken(found)
                    yield batch
                    rows += batch.num_rows
                    progress(rows)
            if mode == "overwrite" and bad.count and not rows:
                raise InvalidInputError(
                    f"No line of the files could be taken, so {name} was not overwritten; the first is {bad.first}."
                )

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        write = {"append": table.append, "upsert": table.upsert, "overwrite": table.overwrite}[mode]
        snapshot = write(reader)
    if as_format_table(table) is not None:
        where = "new files" if rows else "no new files"
    else:
        where = "no new snapshot" if snapshot is None else f"snapshot {snapshot}"
    done(
        f"imported {rows} {'row' if rows == 1 else 'rows'} into {name}: {where}{_left_out(bad, rejects)}",
        {"table": name, "rows": rows, "rejected": bad.count, "snapshot": snapshot},
        as_json,
    )


def _left_out(bad: "BadLines", rejects: Path | None) -> str:
    if not bad.count:
        return "; no line was rejected" if bad.skip else ""
    where = f"the first is {bad.first}" if rejects is None else f"they are in {rejects}"
    return f"; {bad.count} {'line was' if bad.count == 1 else 'lines were'} rejected, {where}"


@contextmanager
def shown_rows(what: str) -> "Iterator[Callable[[int], None]]":
    """Show the number of rows on standard error while the block runs; nothing without a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda rows: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed:,} rows"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(markup_of(what), total=None)
        yield lambda rows: progress.update(task, completed=rows)
