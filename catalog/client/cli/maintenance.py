"""The commands of compaction and maintenance: compact, manifests, missing files, tags that are due, simulations.

    interbed compact -o warehouse=file:/tmp/lake shop
    interbed table -o warehouse=file:/tmp/lake compact-manifests shop.orders
    interbed simulate compaction --commits 500 --option compaction.size-ratio=10

Progress is shown on stderr, on a terminal only. Exit codes of `compact`: 0 when all tables are compacted or nothing was
due, 1 when a table failed, 2 for wrong usage.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from interbed.catalog.client.cli.group import (
    CatalogChoice,
    json_flag,
    pairs,
    partition_options,
    partition_spec,
    show,
    show_json,
    table_name,
    with_catalog,
)
from interbed.storage.base.terminal import SuggestingGroup, markup_of, print_line, print_lines, print_text

if TYPE_CHECKING:
    from interbed.catalog.client.table_compaction import CompactionScope
    from interbed.catalog.client.table_compaction import Progress as OnProgress
    from interbed.storage.scan.partition_filter import Partitions
    from interbed.storage.views.simulate.simulation import Simulation


_Command = TypeVar("_Command", bound=Callable[..., Any])


def scope_options(command: _Command) -> _Command:
    """Add the options for the scope of a compaction, which `scope_of` takes, and `dry_run`."""
    command = click.option("--dry-run", is_flag=True, help="Say what would be merged, why, and what it would cost.")(
        command
    )
    command = click.option(
        "--major", is_flag=True, help="Of Iceberg's tables: what is due, and files with many deleted rows."
    )(command)
    command = click.option("--minor/--full", default=False, help="Do only what is due; or all, the default.")(command)
    command = click.option(
        "--partition-idle-time", metavar="TIME", help="Only partitions that got nothing new for so long, such as '1 d'."
    )(command)
    command = click.option(
        "--table-option", "table_options", multiple=True, metavar="KEY=VALUE", help="A table option; repeatable."
    )(command)
    command = click.option("--order-by", metavar="COLUMNS", help="What to sort by: names with commas between them.")(
        command
    )
    command = click.option(
        "--order-strategy",
        type=click.Choice(["none", "order", "zorder", "hilbert"]),
        help="Sort all rows of an append table without buckets.",
    )(command)
    command = click.option("--where", metavar="FILTER", help="Partitions for which the filter is true.")(command)
    command = partition_options(command)
    return click.option("--bucket", type=int, help="This bucket only.")(command)


def scope_of(
    *,
    bucket: int | None,
    partition: Sequence[str],
    partition_idle_time: str | None,
    table_options: Sequence[str],
    minor: bool,
    major: bool = False,
    where: str | None = None,
    order_strategy: str | None = None,
    order_by: str | None = None,
) -> "CompactionScope":
    """Return the scope of the options of `scope_options`; raise BadParameter and InvalidOptionError."""
    from interbed.catalog.client.table_compaction import CompactionScope
    from interbed.storage.base.shown_text import parse_duration_millis

    idle = None
    if partition_idle_time is not None:
        idle = timedelta(milliseconds=parse_duration_millis("--partition-idle-time", partition_idle_time))
    return CompactionScope(
        full=not (minor or major),
        major=major,
        partitions=_partitions(partition, where),
        bucket=bucket,
        partition_idle_time=idle,
        order_strategy=order_strategy,
        order_by=order_by,
        table_options=pairs(table_options, hint="--table-option"),
    )


def _partitions(partition: Sequence[str], where: str | None) -> "Partitions | None":
    spec = partition_spec(partition)
    if where is not None and spec is not None:
        raise click.BadParameter(
            "partitions are chosen by --partition or by --where, not by both", param_hint="--where"
        )
    return spec if where is None else where


@contextmanager
def shown_progress(tables: int) -> "Iterator[OnProgress | None]":
    """Draw the progress, table by table; yield None without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("buckets"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("compacting", total=None)
        seen: dict[str, None] = {}

        def show(name: str, done: int, total: int) -> None:
            seen[name] = None
            place = f"compacting {name}" + (f" ({len(seen)} of {tables})" if tables > 1 else "")
            progress.update(task, description=markup_of(place), completed=done, total=total)

        yield show


@click.command()
@click.argument("names", metavar="[DATABASE|DATABASE.TABLE]...", nargs=-1)
@click.option("--including-databases", default=".*", help="Without names: databases that match this expression.")
@click.option("--including-tables", default=".*", help="Of databases: tables whose DATABASE.TABLE matches.")
@click.option("--excluding-tables", help="Of databases: no tables whose DATABASE.TABLE matches this.")
@scope_options
@json_flag
@click.pass_context
def compact(
    context: click.Context,
    /,
    names: Sequence[str],
    including_databases: str,
    including_tables: str,
    excluding_tables: str | None,
    dry_run: bool,
    as_json: bool,
    **scope_given: Any,
) -> None:
    """Compact tables, the tables of databases, or those of the whole catalog.

    interbed compact -o warehouse=file:/tmp/lake shop --excluding-tables 'shop\\.tmp_.*'

    The expressions are regular expressions and match whole names. A table that fails does not stop the others; the exit
    code is 1 then.
    """
    from interbed.catalog.client.table_compaction import TablePatterns, compact_tables, tables_meant

    chosen = context.ensure_object(CatalogChoice)
    scope = scope_of(**scope_given)
    restricted = any(x is not None for x in (scope.bucket, scope.partitions, scope.order_by))
    if restricted and not (names and all("." in name for name in names)):
        raise click.UsageError(
            "--bucket, --partition, --where and --order-by go with tables; name them as DATABASE.TABLE."
        )
    patterns = TablePatterns(
        including_databases=including_databases, including_tables=including_tables, excluding_tables=excluding_tables
    )
    with chosen.catalog(names[0] if len(names) == 1 else None) as catalog:
        tables = tables_meant(catalog, names, patterns)
        with shown_progress(len(tables)) as progress:
            report = compact_tables(catalog, tables, scope, dry_run=dry_run, progress=progress)
    show(report, as_json)
    if report.failures:
        context.exit(1)


with_catalog(compact)


def _print_snapshot(snapshot_id: int | None, as_json: bool, without: str, done: str) -> None:
    """Print the snapshot of a change, or `without` if none was made."""
    if as_json:
        show_json({"snapshot": snapshot_id})
    else:
        print_line(without if snapshot_id is None else f"{done} snapshot {snapshot_id}")


@click.command("create-automatic-tags")
@table_name
@json_flag
@click.pass_obj
def create_automatic_tags(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Make the tags that 'tag.automatic-creation' defines, as commits do."""
    with chosen.table(name) as opened:
        made = opened.versions.create_automatic_tags()
    if as_json:
        show_json(made)
    else:
        print_line(f"made {', '.join(made)}" if made else "no tag is due")


@click.command("compact-manifests")
@table_name
@json_flag
@click.pass_obj
def compact_manifests(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Merge the manifests of a table as far as possible."""
    with chosen.any_table(name) as opened:
        _print_snapshot(opened.compact_manifests(), as_json, "nothing to merge", "merged in")


@click.command("remove-unexisting-files")
@table_name
@click.option("--dry-run", is_flag=True, help="Only print what would be taken out of the table.")
@json_flag
@click.pass_obj
def remove_unexisting_files(chosen: CatalogChoice, name: str, dry_run: bool, as_json: bool) -> None:
    """Remove missing data files from the table; their rows are lost."""
    with chosen.table(name) as opened:
        gone = opened.maintenance.remove_unexisting_files(dry_run=dry_run)
    if as_json:
        show_json(gone)
    else:
        print_lines(gone, empty="all files are there")


@click.command("mark-partition-done")
@table_name
@click.argument("partitions", metavar="COLUMN=VALUE[,COLUMN=VALUE]", nargs=-1, required=True)
@click.pass_obj
def mark_partition_done(chosen: CatalogChoice, name: str, partitions: tuple[str, ...]) -> None:
    """Mark partitions as complete, by the actions of 'partition.mark-done-action'."""
    specs = [dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair) for text in partitions]
    with chosen.catalog(name) as catalog:
        done = catalog.mark_partitions_done(name, specs)
    for spec in done:
        print_line("marked " + "/".join(f"{key}={value}" for key, value in spec.items()))


@click.command("clear-consumers")
@table_name
@click.option("--including", default=".*", show_default=True, help="A regular expression for whole ids.")
@click.option("--excluding", help="Another one for ids that stay.")
@json_flag
@click.pass_obj
def clear_consumers(chosen: CatalogChoice, name: str, including: str, excluding: str | None, as_json: bool) -> None:
    """Delete the consumers of a table."""
    with chosen.table(name) as opened:
        gone = opened.versions.clear_consumers(including, excluding)
    if as_json:
        show_json(gone)
    else:
        print_line(f"forgot {', '.join(gone)}" if gone else "no such consumer")


@click.command("publish-log")
@table_name
@json_flag
@click.pass_obj
def publish_log(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Publish the snapshots that are not in the table's log yet, as commits do."""
    with chosen.table(name) as opened:
        _print_snapshot(opened.maintenance.publish_log(), as_json, "no snapshot to publish", "published up to")


@click.command("publish-iceberg")
@table_name
@json_flag
@click.pass_obj
def publish_iceberg(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Publish the newest snapshot as an Iceberg table, as commits do with 'metadata.iceberg.storage'.

    Reports how many rows readers of Iceberg see: of a table with a primary key, those of compacted files.
    """
    with chosen.table(name) as opened:
        published = opened.maintenance.publish_iceberg()
        from interbed.iceberg.publish.entries import published_coverage

        found = published_coverage(opened.store)
    if published is None or found is None:
        _print_snapshot(None, as_json, "no snapshot to publish", "published")
    elif as_json:
        show_json({"snapshot": published, "rows": found.rows, "rows_shown": found.rows_shown})
    elif found.is_whole:
        print_line(f"published snapshot {published}; readers of Iceberg see all {found.rows} rows")
    else:
        print_line(
            f"published snapshot {published}; readers of Iceberg see {found.rows_shown} of {found.rows} rows, in "
            f"{found.files_shown} of {found.files} files: {found.way_out}"
        )


@click.command("fsck")
@table_name
@click.option("--repair", is_flag=True, help="Mend what can be mended without guessing.")
@json_flag
@click.pass_context
def fsck(context: click.Context, name: str, repair: bool, as_json: bool) -> None:
    """Report the problems of a table: missing files, unfinished changes. The exit code is 1 when problems remain."""
    with context.obj.table(name) as opened:
        result = opened.fsck(repair=repair)
    show(result, as_json)
    if not result.is_sound:
        context.exit(1)


@click.command("purge")
@table_name
@click.confirmation_option(prompt="This deletes all rows, versions, tags and branches of the table. Go on?")
@click.pass_obj
def purge(chosen: CatalogChoice, name: str) -> None:
    """Delete all files of a table but its schema; there must be no concurrent writers."""
    with chosen.table(name) as opened:
        opened.maintenance.purge_files()
    print_line(f"{name} is empty")


MAINTENANCE_COMMANDS: tuple[click.Command, ...] = (
    create_automatic_tags,
    compact_manifests,
    remove_unexisting_files,
    mark_partition_done,
    clear_consumers,
    publish_log,
    publish_iceberg,
    fsck,
    purge,
)
"""The commands of `interbed table` for maintenance."""


@click.group(name="simulate", cls=SuggestingGroup)
def simulate_group() -> None:
    """Try out options without a table."""


@simulate_group.command()
@click.option("--commits", default=200, show_default=True, help="Number of commits.")
@click.option("--rows", default=10_000, show_default=True, help="Rows of a commit.")
@click.option("--row-bytes", default=100, show_default=True, help="Bytes of a row in a file.")
@click.option("--update-ratio", default=0.5, show_default=True, help="Part of the rows that update existing keys.")
@click.option("--delete-ratio", default=0.0, show_default=True, help="Part of the rows that delete existing keys.")
@click.option(
    "--keys",
    type=click.Choice(["uniform", "zipf", "latest"]),
    default="uniform",
    show_default=True,
    help="Which keys are updated and deleted: all alike, by Zipf's law, or the latest by Zipf's law.",
)
@click.option("--zipf-exponent", default=0.99, show_default=True, help="Exponent of Zipf's law.")
@click.option(
    "--inserts",
    type=click.Choice(["random", "ascending"]),
    default="random",
    show_default=True,
    help="Where new keys lie: anywhere, or after all others.",
)
@click.option("--interval", default="1 min", show_default=True, help="Time between two commits.")
@click.option("--compact-every", default=1, show_default=True, help="Commits between two turns of the compaction.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same rows.")
@click.option("--option", "-o", "options", multiple=True, metavar="KEY=VALUE", help="A table option; repeatable.")
@click.option("--vary", metavar="KEY=VALUE,VALUE…", help="Compare values of a table option.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw to this .svg, .png or .pdf file.")
@json_flag
def compaction(
    commits: int,
    rows: int,
    row_bytes: int,
    update_ratio: float,
    delete_ratio: float,
    keys: str,
    zipf_exponent: float,
    inserts: str,
    interval: str,
    compact_every: int,
    seed: int,
    options: Sequence[str],
    vary: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Write, read and space amplification of one bucket over a series of commits.

    Table options decide: num-sorted-run.compaction-trigger, compaction.size-ratio, target-file-size and so on. With
    --vary several values of one option go through the same commits.
    """
    from interbed.storage.base.shown_text import parse_duration_millis
    from interbed.storage.views.figure import require_drawing
    from interbed.storage.views.simulate.simulation import plot_simulations
    from interbed.storage.views.simulate.simulator import simulate
    from interbed.storage.views.simulate.workload import InsertOrder, KeyDistribution, Workload

    workload = Workload(
        commits=commits,
        rows=rows,
        row_bytes=row_bytes,
        update_ratio=update_ratio,
        delete_ratio=delete_ratio,
        distribution=KeyDistribution(keys),
        zipf_exponent=zipf_exponent,
        insert_order=InsertOrder(inserts),
        interval_millis=parse_duration_millis("--interval", interval),
        seed=seed,
    )
    if plot is not None:
        # Checked before the simulation runs.
        require_drawing(plot)
    table_options = pairs(options)
    simulations = [
        simulate(workload, table_options | varied, compact_every=compact_every, label=label)
        for label, varied in _variants(vary)
    ]
    if plot is not None:
        plot_simulations(simulations, plot)
    _show(simulations, as_json, compare=vary is not None)


def _variants(vary: str | None) -> list[tuple[str, dict[str, str]]]:
    if vary is None:
        return [("", {})]
    [(key, values)] = pairs([vary], form="KEY=VALUE,VALUE", hint="--vary").items()
    return [(f"{key}={value}", {key: value}) for value in dict.fromkeys(v.strip() for v in values.split(","))]


def _show(simulations: "Sequence[Simulation]", as_json: bool, *, compare: bool) -> None:
    from interbed.storage.views.simulate.simulation import compared

    if not compare:
        show(simulations[0], as_json)
    elif as_json:
        show_json([s.to_json() for s in simulations])
    else:
        print_text(compared(simulations))
