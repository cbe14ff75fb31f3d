"""`interbed optimizer why` and `plan`: the work that is due for a table, the reasons, and the tasks of it."""

from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.group import CatalogChoice, json_flag, show_json, table_name
from interbed.optimizer.cli.common import (
    Cell,
    ago,
    ahead,
    db_option,
    opened_journal,
    print_facts,
    print_processes,
    print_table,
    score_cell,
    size_cell,
)
from interbed.storage.base.clock import now_millis
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.catalog.client.api import Catalog
    from interbed.optimizer.journal.api import Journal
    from interbed.optimizer.views.explanation import DryProcess, KindExplained, TableExplanation
    from interbed.storage.upkeep.health import TableHealth

_TASKS_SHOWN = 20


@click.command()
@table_name
@db_option
@json_flag
@click.pass_obj
def why(chosen: CatalogChoice, name: str, db: str | None, as_json: bool) -> None:
    """Show what a table needs and why: its health, its options, each kind of work, and its last processes.

    The table is measured now, from its metadata; nothing is changed.
    """
    with opened_journal(chosen, db, name) as (catalog, journal):
        found = _explained(catalog, journal, name)
    if as_json:
        show_json(found.to_json())
        return
    now = now_millis()
    health = found.found.health
    print_facts(
        [
            ("table", name),
            ("score", score_cell(health.score)),
            *(("", str(reason)) for reason in health.reasons),
            ("figures", _figures(health)),
            ("asked for", _optimizing_text(found)),
            ("next", _next(found)),
            *(("but", (obstacle, "yellow")) for obstacle in found.obstacles),
        ]
    )
    rows = [_kind(kind, now) for kind in found.kinds]
    print_table(("kind", "verdict", "by", "last", "next check"), rows)
    if found.processes:
        print_line("what was done last")
        print_processes(found.processes, now, with_table=False)


@click.command()
@table_name
@click.option("--kind", type=click.Choice(["minor", "major", "full"]), help="Plan this kind, whether it is due or not.")
@db_option
@json_flag
@click.pass_obj
def plan(chosen: CatalogChoice, name: str, kind: str | None, db: str | None, as_json: bool) -> None:
    """Show the processes and tasks that would begin for a table now; nothing is changed.

    Without --kind these are the processes that are due, the next one first.
    """
    from interbed.optimizer.flow.process import WorkKind
    from interbed.optimizer.scheduling.needs import need_asked_for
    from interbed.optimizer.views.explanation import dry_run

    with opened_journal(chosen, db, name) as (catalog, journal):
        needs = _explained(catalog, journal, name).needs
        if kind is not None:
            needs = [need_asked_for(needs, WorkKind(kind), now_millis())]
        found = dry_run(catalog, name, needs)
    if as_json:
        show_json([process.to_json() for process in found])
        return
    if not found:
        print_line("nothing is due; `interbed optimizer why` says what becomes due when")
    for process in found:
        _show_process(process)


def _explained(catalog: "Catalog", journal: "Journal", name: str) -> "TableExplanation":
    from interbed.optimizer.scheduling.settings import SchedulerSettings
    from interbed.optimizer.views.explanation import explain_table
    from interbed.optimizer.views.status import known_name
    from interbed.optimizer.work.lake_tables import LakeTables

    wanted = known_name(catalog, name)
    return explain_table(journal, LakeTables(catalog), wanted, SchedulerSettings(), now_millis())


def _figures(health: "TableHealth") -> str:
    if health.snapshot_id is None:
        return "no snapshot"
    return (
        f"snapshot {health.snapshot_id}; {health.files} file(s) of {size_cell(health.bytes) or '0 B'} in "
        f"{health.buckets} bucket(s); a read merges {health.read_amplification:.1f}; "
        f"{size_cell(health.pending_bytes) or '0 B'} pending"
    )


def _optimizing_text(found: "TableExplanation") -> str:
    prefix = "self-optimizing."
    options = found.found.options
    given = sorted(f"{key.removeprefix(prefix)} = {options[key]}" for key in options if key.startswith(prefix))
    optimizing = found.found.optimizing
    return f"group {optimizing.group}, quota {optimizing.quota:g}; {', '.join(given) or 'all by default'}"


def _next(found: "TableExplanation") -> Cell:
    if found.line is not None and found.line.running is not None:
        return found.line.doing, "cyan"
    if not found.needs:
        return "nothing is due", "green"
    need = found.needs[0]
    return f"{need.kind.value}: {need.reason}", "yellow"


def _kind(kind: "KindExplained", now: int) -> list[Cell]:
    verdict: Cell = (kind.verdict, "yellow" if kind.need is not None else "")
    by = kind.trigger if kind.need is None else kind.need.reason
    return [kind.kind.value, verdict, by, ago(kind.last_millis, now), ahead(kind.next_millis, now)]


def _show_process(process: "DryProcess") -> None:
    need = process.need
    options = "".join(f", {key} = {value}" for key, value in need.options.items())
    if not need.kind.is_compaction:
        print_line(f"{need.kind.value}: {need.reason}; one task, which finds by itself what there is to do")
        return
    if not process.tasks:
        print_line(f"{need.kind.value}: {need.reason}; there is nothing to do")
        return
    print_line(
        f"{need.kind.value}: {need.reason}{options}; {len(process.tasks)} task(s) read {size_cell(process.bytes)}"
    )
    shown = process.tasks[:_TASKS_SHOWN]
    rows = [(task.kind, task.place, str(task.files), size_cell(task.bytes)) for task in shown]
    print_table(("task", "place", "files", "bytes"), rows, right=("files", "bytes"))
    if len(process.tasks) > len(shown):
        print_line(f"{len(shown)} of {len(process.tasks)} tasks are shown; --json has all")
