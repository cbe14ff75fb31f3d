"""`interbed optimizer history`: processes, the newest first."""

import click

from interbed.catalog.client.cli.group import CatalogChoice, json_flag, show_json
from interbed.optimizer.cli.common import db_option, looking, print_processes
from interbed.storage.base.clock import now_millis
from interbed.storage.base.terminal import print_line


def _days() -> int:
    from interbed.optimizer.scheduling.settings import SchedulerSettings

    return SchedulerSettings().history // 86_400_000


@click.command()
@click.argument("name", metavar="[DATABASE.TABLE]", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Processes at the most.")
@db_option
@json_flag
@click.pass_obj
def history(chosen: CatalogChoice, name: str | None, limit: int, db: str | None, as_json: bool) -> None:
    """What was done, for one table or all, the newest first: why, what it changed, and what it cost."""
    from interbed.optimizer.views.naming import known_name

    with looking(chosen, db, name) as (catalog, journal):
        found = journal.processes(name, limit=limit)
        if name is not None and not found:
            # Of a table that is gone there may be a history; of one that never was there is none.
            found = journal.processes(known_name(catalog, name), limit=limit)
    if as_json:
        show_json([process.to_json() for process in found])
    elif found:
        print_processes(found, now_millis(), with_table=name is None)
    else:
        print_line(f"no process is in the history, which keeps {_days()} days")
