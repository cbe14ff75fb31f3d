"""The commands that show the optimizer's state, and leave requests for it.

`interbed optimizer status`, `groups`, `workers` and `history` show the state that the scheduler left in its journal.
`pause`, `resume` and `now` leave requests in the journal, which the scheduler carries out. `why` and `plan` show the
work that is due for a table, the reasons, and the tasks of it.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.group import CatalogChoice, json_flag, show, show_json, table_name
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
from interbed.optimizer.flow.process import WorkKind
from interbed.storage.base.clock import now_millis
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.catalog.client.api import Catalog
    from interbed.optimizer.flow.tables import TableRequest
    from interbed.optimizer.journal.api import Journal
    from interbed.optimizer.views.explanation import DryProcess, KindExplained, TableExplanation
    from interbed.optimizer.views.status import OptimizerStatus, TableStatus
    from interbed.storage.upkeep.health import TableHealth


@click.command()
@click.argument("names", metavar="[DATABASE.TABLE]...", nargs=-1)
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Tables at most.")
@db_option
@json_flag
@click.pass_obj
def status(chosen: CatalogChoice, names: Sequence[str], limit: int, db: str | None, as_json: bool) -> None:
    """Show the scheduler, and the state, needs and running processes of tables; the worst first.

    interbed optimizer status -o warehouse=file:/tmp/lake
    """
    from interbed.optimizer.views.status import known_names, optimizer_status

    with opened_journal(chosen, db, names[0] if len(names) == 1 else None) as (catalog, journal):
        wanted = known_names(catalog, names) if names else None
        found = optimizer_status(journal, now_millis(), wanted)
    if as_json:
        show_json(found.to_json(limit))
        return
    print_facts([("scheduler", found.scheduler_state.text), ("workers", _workers(found)), ("tables", _tables(found))])
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


def _row(line: "TableStatus") -> list[Cell]:
    summary = line.state.summary
    failures = line.state.failures
    return [
        line.state.name,
        score_cell(None if summary is None else summary.score),
        "" if summary is None else f"{summary.read_amplification:.1f}",
        "" if summary is None else size_cell(summary.pending_bytes),
        line.needs,
        _doing(line),
        (str(failures), "red") if failures else "",
        line.reason,
    ]


def _doing(line: "TableStatus") -> Cell:
    if line.running is not None:
        return line.doing, "cyan"
    if line.state.unreadable is not None or line.state.failures:
        return line.doing, "red"
    return line.doing, "green" if line.doing == "in shape" else ""


@click.command()
@db_option
@json_flag
@click.pass_obj
def groups(chosen: CatalogChoice, db: str | None, as_json: bool) -> None:
    """Show the resource groups with their policies, workers and tables."""
    from interbed.optimizer.views.status import living_workers

    now = now_millis()
    with opened_journal(chosen, db) as (_, journal):
        found = journal.groups()
        alive = living_workers(journal, now)
        tables = Counter(state.group for state in journal.tables())
        running = Counter(process.group for process in journal.running())
    workers = Counter(worker.group for worker in alive)
    if as_json:
        show_json(
            [
                {
                    **group.to_json(),
                    "workers_alive": workers[group.name],
                    "tables": tables[group.name],
                    "running": running[group.name],
                }
                for group in found
            ]
        )
        return
    if not found:
        print_line("no scheduler has recorded its groups yet")
        return
    rows: list[list[Cell]] = [
        [
            group.name,
            group.policy.value,
            f"{group.window_millis // 1000} s",
            f"{workers[group.name]} ({group.workers} local)",
            str(group.threads),
            size_cell(group.memory),
            str(tables[group.name]),
            str(running[group.name]),
        ]
        for group in found
    ]
    print_table(("group", "policy", "window", "workers", "threads", "memory", "tables", "running"), rows)
    for name in sorted(set(tables) - {group.name for group in found}):
        print_line(
            f"{tables[name]} table(s) ask for the group '{name}', which does not exist: nothing is done for them"
        )


@click.command()
@db_option
@json_flag
@click.pass_obj
def workers(chosen: CatalogChoice, db: str | None, as_json: bool) -> None:
    """Show the workers: their places, since when they work, their threads and their memory."""
    from interbed.optimizer.views.status import living_workers

    now = now_millis()
    with opened_journal(chosen, db) as (_, journal):
        found = living_workers(journal, now)
    if as_json:
        shown = ("id", "group", "place", "threads", "memory", "since_millis")
        show_json([{name: worker.to_json()[name] for name in shown} for worker in found])
        return
    if not found:
        print_line("no workers")
        return
    rows: list[list[Cell]] = [
        [
            worker.id,
            worker.group,
            worker.place,
            str(worker.threads),
            size_cell(worker.memory),
            ago(worker.since_millis, now),
        ]
        for worker in found
    ]
    print_table(("worker", "group", "place", "threads", "memory", "since"), rows, right=("threads", "memory"))


def _days() -> int:
    from interbed.optimizer.scheduling.needs import SchedulerSettings

    return SchedulerSettings().history // 86_400_000


@click.command()
@click.argument("name", metavar="[DATABASE.TABLE]", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Processes at most.")
@db_option
@json_flag
@click.pass_obj
def history(chosen: CatalogChoice, name: str | None, limit: int, db: str | None, as_json: bool) -> None:
    """Show processes of the past, of one table or all, the newest first: reasons, results and costs."""
    from interbed.optimizer.views.status import known_name

    with opened_journal(chosen, db, name) as (catalog, journal):
        found = journal.processes(name, limit=limit)
        if name is not None and not found:
            # A dropped table may have a history. A table that never existed is an error.
            found = journal.processes(known_name(catalog, name), limit=limit)
    if as_json:
        show_json([process.to_json() for process in found])
    elif found:
        print_processes(found, now_millis(), with_table=name is None)
    else:
        print_line(f"no process is in the history, which keeps {_days()} days")


@click.command()
@table_name
@db_option
@json_flag
@click.pass_obj
def pause(chosen: CatalogChoice, name: str, db: str | None, as_json: bool) -> None:
    """Begin nothing more for a table until `resume`; its running process continues to its end."""
    from interbed.optimizer.flow.tables import RequestKind, TableRequest

    _ask(chosen, TableRequest(table=name, kind=RequestKind.PAUSE), db, as_json)


@click.command()
@table_name
@db_option
@json_flag
@click.pass_obj
def resume(chosen: CatalogChoice, name: str, db: str | None, as_json: bool) -> None:
    """Continue with a table that was paused."""
    from interbed.optimizer.flow.tables import RequestKind, TableRequest

    _ask(chosen, TableRequest(table=name, kind=RequestKind.RESUME), db, as_json)


@click.command()
@table_name
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in WorkKind]),
    default=WorkKind.FULL.value,
    show_default=True,
    help="The kind of work.",
)
@db_option
@json_flag
@click.pass_obj
def now(chosen: CatalogChoice, name: str, kind: str, db: str | None, as_json: bool) -> None:
    """Have one kind of work done next for a table, whether it is due or not; also for a paused table."""
    from interbed.optimizer.flow.tables import RequestKind, TableRequest

    _ask(chosen, TableRequest(table=name, kind=RequestKind.NOW, work=WorkKind(kind)), db, as_json)


def _ask(chosen: CatalogChoice, request: "TableRequest", db: str | None, as_json: bool) -> None:
    from interbed.optimizer.views.status import ask

    with opened_journal(chosen, db, request.table, asks=True) as (catalog, journal):
        show(ask(catalog, journal, request, now_millis()), as_json)


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
    from interbed.optimizer.scheduling.needs import SchedulerSettings
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
