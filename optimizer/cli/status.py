"""`interbed optimizer status`: who schedules, and how the tables stand."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.group import CatalogChoice, json_flag, show_json
from interbed.optimizer.cli.common import (
    Cell,
    db_option,
    looking,
    print_facts,
    print_table,
    score_cell,
    size_cell,
)
from interbed.storage.base.clock import now_millis
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.optimizer.views.status import OptimizerStatus, TableLine


@click.command()
@click.argument("names", metavar="[DATABASE.TABLE]...", nargs=-1)
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Tables at the most.")
@db_option
@json_flag
@click.pass_obj
def status(chosen: CatalogChoice, names: Sequence[str], limit: int, db: str | None, as_json: bool) -> None:
    """Who schedules, how the tables stand, what they need and what runs for them; the worst first.

    interbed optimizer status -o warehouse=file:/tmp/lake
    """
    from interbed.optimizer.views.naming import known_names
    from interbed.optimizer.views.status import optimizer_status

    with looking(chosen, db, names[0] if len(names) == 1 else None) as (catalog, journal):
        wanted = known_names(catalog, names) if names else None
        found = optimizer_status(journal, now_millis(), wanted)
    if as_json:
        show_json(found.to_json(limit))
        return
    print_facts([("scheduler", found.scheduled_by.text), ("workers", _workers(found)), ("tables", _tables(found))])
    shown = found.tables[:limit]
    if shown:
        print_table(
            ("table", "score", "reads", "pending", "needs", "doing", "failures", "why"),
            [_row(line) for line in shown],
            right=("score", "reads", "pending", "failures"),
        )
    for name in sorted(set(wanted or ()) - {line.state.name for line in found.tables}):
        print_line(f"{name}: no scheduler has seen it yet")
    if len(found.tables) > limit:
        print_line(f"the worst {limit} of {len(found.tables)} tables are shown; --limit shows more")


def _workers(found: "OptimizerStatus") -> str:
    return f"{found.workers}, {found.slots} task(s) at a time"


def _tables(found: "OptimizerStatus") -> str:
    score = "" if found.score is None else f"; score {found.score:.1f} on average"
    counts = f"{found.running} running, {found.waiting} waiting, {found.failing} failing"
    return f"{len(found.tables)}{score}; {counts}; {size_cell(found.pending_bytes) or '0 B'} pending"


def _row(line: "TableLine") -> list[Cell]:
    standing = line.state.standing
    failures = line.state.failures
    return [
        line.state.name,
        score_cell(None if standing is None else standing.score),
        "" if standing is None else f"{standing.read_amplification:.1f}",
        "" if standing is None else size_cell(standing.pending_bytes),
        line.needs,
        _doing(line),
        (str(failures), "red") if failures else "",
        line.reason,
    ]


def _doing(line: "TableLine") -> Cell:
    if line.running is not None:
        return line.doing, "cyan"
    if line.state.unreadable is not None or line.state.failures:
        return line.doing, "red"
    return line.doing, "green" if line.doing == "in shape" else ""
