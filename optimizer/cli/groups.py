"""`interbed optimizer groups` and `workers`: who works for which tables, as the scheduler last knew it."""

from collections import Counter

import click

from interbed.catalog.client.cli.group import CatalogChoice, json_flag, show_json
from interbed.optimizer.cli.common import Cell, ago, db_option, looking, print_table, size_cell
from interbed.storage.base.clock import now_millis
from interbed.storage.base.terminal import print_line


@click.command()
@db_option
@json_flag
@click.pass_obj
def groups(chosen: CatalogChoice, db: str | None, as_json: bool) -> None:
    """The resource groups with their policies, workers and tables."""
    from interbed.optimizer.views.status import living_workers

    now = now_millis()
    with looking(chosen, db) as (_, journal):
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
        print_line("no scheduler has told its groups yet")
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
        print_line(f"{tables[name]} table(s) ask for the group '{name}', which there is not: nothing is done for them")


@click.command()
@db_option
@json_flag
@click.pass_obj
def workers(chosen: CatalogChoice, db: str | None, as_json: bool) -> None:
    """The workers: where they are, since when, how many tasks they run at a time, and in how much memory."""
    from interbed.optimizer.views.status import living_workers

    now = now_millis()
    with looking(chosen, db) as (_, journal):
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
