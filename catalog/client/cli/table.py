"""The command line of tables: `interbed table -o warehouse=file:/tmp/lake levels shop.orders`.

First the commands that show the rows of a table and write files into it (`head`, `scan`, `import`), then the group with
the commands of all modules.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.define import DEFINITION_COMMANDS
from interbed.catalog.client.cli.describe import DESCRIPTION_COMMANDS, health, show_iceberg_snapshots
from interbed.catalog.client.cli.group import (
    ROWS_SHOWN,
    CatalogChoice,
    CatalogGroup,
    chosen_form,
    done,
    is_of_iceberg,
    json_flag,
    names,
    output_options,
    pairs,
    partition_options,
    partition_spec,
    show,
    show_json,
    table_name,
)
from interbed.catalog.client.cli.maintenance import MAINTENANCE_COMMANDS, scope_of, scope_options, shown_progress
from interbed.catalog.client.cli.version import VERSION_COMMANDS
from interbed.catalog.client.table_parts import as_format_table
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.terminal import markup_of, print_line, print_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from interbed.catalog.client.cli.forms.row_formats import BadLines


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

    from interbed.catalog.client.cli.forms.file_rows import FileRows, TableRows
    from interbed.catalog.client.cli.forms.row_formats import BadLines, file_sink

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


@click.group(cls=CatalogGroup)
def table() -> None:
    """Create, read, write, change and maintain tables.

    interbed table -o warehouse=file:/tmp/lake head shop.orders
    """


@table.command()
@table_name
@click.option("--bucket", type=int, help="This bucket only.")
@partition_options
@click.option("--all", "all_buckets", is_flag=True, help="Draw every bucket, not only those with the most sorted runs.")
@click.option("--summary", is_flag=True, help="Only a table of levels.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw to this .svg, .png or .pdf file.")
@json_flag
@click.pass_obj
def levels(
    chosen: CatalogChoice,
    name: str,
    bucket: int | None,
    partition: Sequence[str],
    all_buckets: bool,
    summary: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show the LSM tree of every bucket: its files by level and key range, and its sorted runs against the triggers."""
    from rich.console import Console

    if plot is not None:
        from interbed.storage.views.figure import require_drawing

        require_drawing(plot)
    with chosen.table(name) as opened:
        found = opened.levels(partitions=partition_spec(partition), bucket=bucket)
    if plot is not None:
        found.plot(plot)
    if as_json or summary or not found.trees:
        show(found, as_json)
        return
    # A pipe has no width.
    width = None if Console().is_terminal else 120
    Console(width=width, highlight=False).print(found.drawing(all_buckets=all_buckets))


@table.command()
@table_name
@json_flag
@click.option("--filter", "text", help="A condition such as \"dt = '2026-01-01'\".")
@click.option("--analyze", is_flag=True, help="Read the rows, and say what was decoded for them.")
@click.pass_obj
def explain(chosen: CatalogChoice, name: str, as_json: bool, text: str | None, analyze: bool) -> None:
    """Explain what a scan would read, and what was pruned; for an Iceberg table, also which deletes apply."""
    with chosen.any_table(name) as opened:
        if is_of_iceberg(opened):
            if analyze:
                raise NotSupportedError(f"'{name}' is a table of Iceberg's; `explain --analyze` does not know those.")
            show(opened.explain(filter=text), as_json)
            return
        show(opened.explain(filter=text, analyze=analyze), as_json)


@table.command()
@table_name
@json_flag
@click.pass_obj
def snapshots(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """List all snapshots, oldest first."""
    with chosen.any_table(name) as opened:
        if is_of_iceberg(opened):
            show_iceberg_snapshots(opened, as_json)
            return
        found = opened.snapshots()
    if as_json:
        show_json([json.loads(s.to_json()) for s in found])
        return
    for s in found:
        when = datetime.fromtimestamp(s.time_millis / 1000, UTC).isoformat(timespec="seconds")
        print_line(
            f"{s.id:>6}  {s.commit_kind:<9}  {when}  {s.delta_record_count:+d} of {s.total_record_count} records"
        )


@table.command()
@table_name
@scope_options
@json_flag
@click.pass_obj
def compact(
    chosen: CatalogChoice,
    /,
    name: str,
    dry_run: bool,
    as_json: bool,
    **scope_given: Any,
) -> None:
    """Merge the sorted runs of every bucket into one."""
    from interbed.catalog.client.table_compaction import compact_opened

    scope = scope_of(**scope_given)
    with chosen.any_table(name) as opened, shown_progress(1) as progress:
        outcome = compact_opened(opened, name, scope, dry_run=dry_run, progress=progress)
    if outcome.plans is not None:
        if as_json:
            show_json([plan.to_json() for plan in outcome.plans])
        else:
            print_lines(map(str, outcome.plans), empty="nothing to compact")
    elif outcome.result is not None:
        show(outcome.result, as_json)


@table.command()
@table_name
@click.option("--from", "from_snapshot", type=int, help="The first snapshot; by default the oldest there is.")
@click.option("--to", "to_snapshot", type=int, help="The last snapshot; by default the newest.")
@click.option("--column", "columns", multiple=True, help="This column only; repeatable.")
@click.option("--filter", "text", help="A condition such as \"dt = '2026-01-01'\".")
@click.option("--limit", type=click.IntRange(min=0), help=f"Rows at the most; {ROWS_SHOWN} unless it is JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, an object a line.")
@click.pass_obj
def changes(
    chosen: CatalogChoice,
    name: str,
    from_snapshot: int | None,
    to_snapshot: int | None,
    columns: Sequence[str],
    text: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show the changes of snapshots: rows with their kind, +I, -U, +U or -D."""
    from interbed.catalog.client.cli.forms.row_formats import print_changes

    with chosen.table(name) as opened:
        query = opened.changes(from_snapshot, to_snapshot, columns=columns or None, filter=text)
        print_changes(query.to_arrow_batch_reader(), limit, as_json=as_json)


@table.command()
@table_name
@click.option("--buckets", type=int, help="The number of buckets; by default that of the option `bucket`.")
@partition_options
@json_flag
@click.pass_obj
def rescale(chosen: CatalogChoice, name: str, buckets: int | None, partition: Sequence[str], as_json: bool) -> None:
    """Spread the rows over another number of buckets: of the table, or of some partitions."""
    with chosen.table(name) as opened:
        show(opened.maintenance.rescale(buckets, partition_spec(partition)), as_json)


@table.command()
@table_name
@click.argument("key", nargs=-1, required=True, metavar="COLUMN=VALUE...")
@click.pass_obj
def get(chosen: CatalogChoice, name: str, key: Sequence[str]) -> None:
    """Show the row of a primary key, as JSON; exits with 1 when there is none."""
    from interbed.catalog.client.cli.forms.row_formats import json_line
    from interbed.catalog.client.cli.group import check_columns
    from interbed.storage.base.errors import InvalidInputError
    from interbed.storage.base.row.values import parse_literal

    with chosen.table(name) as opened:
        fields = opened.schema.by_name
        given = pairs(key, form="COLUMN=VALUE", hint="key")
        check_columns(name, list(fields), given)
        values = {}
        for column, text in given.items():
            try:
                values[column] = parse_literal(text, fields[column].type)
            except InvalidInputError as error:
                raise InvalidInputError(f"The key column '{column}' of {name}: {error}.") from error
        row = opened.get(values)
    if row is None:
        raise click.ClickException(f"{name} has no row {', '.join(key)}.")
    click.echo(json_line(row))


for _command in (
    *DESCRIPTION_COMMANDS,
    *ROW_COMMANDS,
    *DEFINITION_COMMANDS,
    load,
    *VERSION_COMMANDS,
    health,
    *MAINTENANCE_COMMANDS,
):
    table.add_command(_command)
