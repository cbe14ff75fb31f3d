"""The command line of tables: `interbed table -o warehouse=file:/tmp/lake levels shop.orders`."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from interbed.catalog.client.cli.define import DEFINITION_COMMANDS
from interbed.catalog.client.cli.describe import DESCRIPTION_COMMANDS, health, show_iceberg_snapshots
from interbed.catalog.client.cli.group import (
    ROWS_SHOWN,
    CatalogChoice,
    CatalogGroup,
    is_of_iceberg,
    json_flag,
    pairs,
    partition_options,
    partition_spec,
    show,
    show_json,
    table_name,
)
from interbed.catalog.client.cli.maintenance import MAINTENANCE_COMMANDS, scope_of, scope_options, shown_progress
from interbed.catalog.client.cli.rows import ROW_COMMANDS, load
from interbed.catalog.client.cli.version import VERSION_COMMANDS
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.terminal import print_line, print_lines


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
