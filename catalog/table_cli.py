"""The command line of tables: `interbed table -o warehouse=file:/tmp/lake levels DATABASE.TABLE`, and so on."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import click
from rich.console import Console

from interbed.catalog.factory import CatalogFactory
from interbed.storage.explain import Explanation
from interbed.storage.levels_view import TableLevels
from interbed.storage.table import Table


@click.group()
@click.option("--option", "-o", "options", multiple=True, metavar="KEY=VALUE", help="A catalog option; repeatable.")
@click.pass_context
def table(context: click.Context, options: Sequence[str]) -> None:
    """Look at tables and look after them: interbed table -o warehouse=file:/tmp/lake levels shop.orders"""
    context.obj = _pairs(options, "KEY=VALUE", "--option")


_name = click.argument("name", metavar="DATABASE.TABLE")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@table.command()
@_name
@_json
@click.pass_obj
def levels(options: dict[str, str], name: str, as_json: bool) -> None:
    """The LSM tree of every bucket."""
    _show(_open(options, name).levels(), as_json)


@table.command()
@_name
@_json
@click.option("--filter", "text", help="A condition such as \"dt = '2026-01-01'\".")
@click.pass_obj
def explain(options: dict[str, str], name: str, as_json: bool, text: str | None) -> None:
    """What a scan would read, and what was pruned."""
    _show(_open(options, name).explain(filter=text), as_json)


@table.command()
@_name
@_json
@click.pass_obj
def snapshots(options: dict[str, str], name: str, as_json: bool) -> None:
    """All snapshots, oldest first."""
    found = _open(options, name).snapshots()
    if as_json:
        click.echo(json.dumps([json.loads(s.to_json()) for s in found], indent=2))
        return
    for s in found:
        when = datetime.fromtimestamp(s.time_millis / 1000, UTC).isoformat(timespec="seconds")
        click.echo(
            f"{s.id:>6}  {s.commit_kind:<9}  {when}  {s.delta_record_count:+d} of {s.total_record_count} records"
        )


@table.command()
@_name
@_json
@click.option("--bucket", type=int, help="This bucket only.")
@click.option("--partition", "-p", multiple=True, metavar="COLUMN=VALUE", help="Partitions with this value only.")
@click.option("--minor", is_flag=True, help="Do only what the universal strategy finds due.")
@click.option("--dry-run", is_flag=True, help="Say what would be merged, why, and what it would cost.")
@click.pass_obj
def compact(
    options: dict[str, str],
    name: str,
    as_json: bool,
    bucket: int | None,
    partition: Sequence[str],
    minor: bool,
    dry_run: bool,
) -> None:
    """Merge the sorted runs of every bucket into one."""
    wanted: dict[str, object] = dict(_pairs(partition, "COLUMN=VALUE", "--partition"))
    opened = _open(options, name)
    if dry_run:
        plans = opened.plan_compaction(full=not minor, partition=wanted or None, bucket=bucket)
        if as_json:
            click.echo(json.dumps([plan.to_json() for plan in plans], indent=2))
        else:
            click.echo("\n".join(map(str, plans)) or "nothing to compact")
        return
    console = Console(stderr=True)
    with console.status(f"compacting {name}"):
        result = opened.compact(full=not minor, partition=wanted or None, bucket=bucket)
    click.echo(json.dumps(result.to_json(), indent=2) if as_json else str(result))


def _pairs(given: Sequence[str], form: str, hint: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    wrong = [text for text, (key, equals, _) in zip(given, pairs, strict=True) if not (key and equals)]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not {form}.", param_hint=hint)
    return {key: value for key, _, value in pairs}


def _open(options: dict[str, str], name: str) -> Table:
    return CatalogFactory.create(options).get_table(name)


def _show(view: Explanation | TableLevels, as_json: bool) -> None:
    click.echo(json.dumps(view.to_json(), indent=2) if as_json else str(view))
