"""The command line of a table's health: `interbed table -o warehouse=file:/tmp/lake health shop.orders`.

Colours are for terminals only.
"""

from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.common import json_flag, show_json, table_name
from interbed.catalog.client.cli.group import CatalogChoice
from interbed.storage.base.shown_text import escaped

if TYPE_CHECKING:
    from rich.console import RenderableType

    from interbed.storage.upkeep.bucket_health import BucketHealth
    from interbed.storage.upkeep.health import TableHealth

BUCKETS_SHOWN = 5
"""How many of the buckets that need a compaction are shown, those with the most to read first."""

_GOOD, _FAIR = 90, 60


@click.command()
@table_name
@click.option("--all", "all_buckets", is_flag=True, help="Show every bucket that needs a compaction.")
@json_flag
@click.pass_obj
def health(chosen: CatalogChoice, name: str, all_buckets: bool, as_json: bool) -> None:
    """How much upkeep a table needs: a score of at most 100, what takes points from it, and the figures behind it.

    Only metadata are read. What they say is in docs/compaction.md.
    """
    with chosen.table(name) as opened:
        found = opened.health()
    if as_json:
        show_json({"table": name, **found.to_json()})
        return
    from rich.console import Console

    # A pipe has no width of its own.
    console = Console(width=None if Console().is_terminal else 120, highlight=False)
    for part in _parts(name, found, all_buckets=all_buckets):
        console.print(part)


def _parts(name: str, found: "TableHealth", *, all_buckets: bool) -> "list[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    snapshot = "no snapshot" if found.snapshot_id is None else f"snapshot {found.snapshot_id}"
    colour = "green" if found.score >= _GOOD else "yellow" if found.score >= _FAIR else "red"
    head = Text.assemble(f"{escaped(name)}, {snapshot}: ", (f"{found.score} of 100", f"bold {colour}"))
    reasons = Table.grid(padding=(0, 2, 0, 0))
    for reason in found.reasons:
        reasons.add_row(Text(f"  -{reason.points}", colour), reason.name, Text(escaped(reason.text)))
    figures = Table.grid(padding=(0, 2, 0, 0))
    for what, text in _figures(found):
        figures.add_row(Text(f"  {what}", "dim"), Text(escaped(text)))
    parts: list[RenderableType] = [head, *([reasons] if found.reasons else []), figures]
    due = sorted((b for b in found.by_bucket if b.pending_bytes), key=_worst_first)
    shown = due if all_buckets else due[:BUCKETS_SHOWN]
    if shown:
        parts.append(_buckets(shown))
    if len(due) > len(shown):
        parts.append(Text(f"  {len(due) - len(shown)} more buckets to compact; --all shows them", "dim"))
    return parts


def _worst_first(bucket: "BucketHealth") -> tuple[float, str, int]:
    """Those first whose reads would be spared the most."""
    return -bucket.bytes * (bucket.read_amplification - 1), bucket.partition_name, bucket.bucket


def _figures(found: "TableHealth") -> list[tuple[str, str]]:
    from interbed.storage.base.clock import now_millis
    from interbed.storage.base.shown_text import age_text, size_text

    def ago(millis: int | None) -> str:
        return "never" if millis is None else f"{age_text(now_millis() - millis)} ago"

    trees = f", {found.level0_files} of level 0, at most {found.runs_max} sorted runs in a bucket"
    analysed = "never"
    if found.statistics_snapshot_id is not None:
        analysed = f"snapshot {found.statistics_snapshot_id}, {found.rows_since_statistics:,} rows came or went since"
    return [
        ("content", f"{found.rows:,} rows, {size_text(found.bytes)}, last commit {ago(found.newest_millis)}"),
        ("places", f"{found.partitions} partition(s), {found.buckets} bucket(s)"),
        ("files", f"{found.files}, {found.small_files} small{trees if found.has_primary_key else ''}"),
        ("read amplification", f"{found.read_amplification:.2f}"),
        ("deleted", f"{found.delete_rows:,} rows ({found.delete_ratio:.1%}), {found.vector_files} files with vectors"),
        ("to compact", f"{size_text(found.pending_bytes)}, last full compaction {ago(found.last_full_millis)}"),
        ("snapshots", f"{found.snapshots}, {found.snapshots_due} to expire, {found.manifests} manifests"),
        ("analysed", analysed),
    ]


def _buckets(buckets: "list[BucketHealth]") -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    from interbed.storage.base.shown_text import size_text

    shown = Table(title="buckets to compact", title_justify="left")
    for heading in ("partition", "bucket", "runs", "files", "small", "amplification", "deleted", "to compact"):
        shown.add_column(heading, justify="left" if heading == "partition" else "right")
    for b in buckets:
        figures = (b.bucket, b.runs, b.files, b.small_files, f"{b.read_amplification:.2f}", f"{b.delete_ratio:.1%}")
        shown.add_row(Text(escaped(b.partition_name)), *map(str, figures), size_text(b.pending_bytes))
    return shown
