"""The command that writes files into a table: `interbed table import shop.orders orders.parquet`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interbed.catalog.cli.common import done, json_flag, table_name
from interbed.catalog.cli.group import CatalogChoice
from interbed.catalog.printing import markup_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


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
@json_flag
@click.pass_obj
def load(
    chosen: CatalogChoice,
    name: str,
    files: Sequence[Path],
    mode: str,
    form: str | None,
    delimiter: str | None,
    as_json: bool,
) -> None:
    """Write the rows of files into a table, as one commit.

    Columns are matched by name; those that the files lack get their default, or null. Files are read in batches, so
    that they may be larger than memory.
    """
    import pyarrow as pa

    from interbed.catalog.cli.forms.file_rows import FileRows

    if delimiter is not None and len(delimiter) != 1:
        raise click.BadParameter("it is one character.", param_hint="--delimiter")
    opened = [FileRows.of(file, form, delimiter) for file in files]
    rows = 0
    with chosen.table(name) as table, shown_rows(f"importing into {name}") as progress:
        schema = table.arrow_schema

        def batches() -> "Iterator[pa.RecordBatch]":
            nonlocal rows
            for each in opened:
                for batch in each.batches(name, table.schema.fields, schema):
                    yield completed(batch, schema, name, rows)
                    rows += batch.num_rows
                    progress(rows)

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        write = {"append": table.append, "upsert": table.upsert, "overwrite": table.overwrite}[mode]
        snapshot = write(reader)
    where = "no new snapshot" if snapshot is None else f"snapshot {snapshot}"
    done(
        f"imported {rows} {'row' if rows == 1 else 'rows'} into {name}: {where}",
        {"table": name, "rows": rows, "snapshot": snapshot},
        as_json,
    )


def completed(batch: "pa.RecordBatch", schema: "pa.Schema", table: str, first_row: int) -> "pa.RecordBatch":
    """The batch with all columns of a table, in its order and types; those that it lacks are null.

    Raises SchemaMismatchError naming the column, row and value that do not fit.
    """
    import pyarrow as pa

    from interbed.storage.base.types.arrow import cast_to_schema

    # The table checks nulls itself, and says better what is wrong.
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    found = cast_to_schema(batch, nullable, what=f"the table '{table}'", first_row=first_row)
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=nullable)


@contextmanager
def shown_rows(what: str) -> "Iterator[Callable[[int], None]]":
    """Counts rows on standard error while the block runs; nothing where nobody looks."""
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
