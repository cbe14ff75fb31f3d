"""A run of the optimizer as people see it: a line that is renewed, on a terminal alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from interbed.catalog.client.cli.long_run import shown_line
from interbed.optimizer.errors import NotOnDutyError
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.service.duty import Duty


@contextmanager
def shown_duty(duty: Duty) -> Iterator[None]:
    """Shows how a run goes on standard error while the block runs; nothing where nobody looks."""
    with shown_line(lambda: _line(duty), thread_name="optimizer-progress"):
        yield


def _line(duty: Duty) -> str:
    try:
        return duty.ask(_told)
    except NotOnDutyError:
        return "standing by"


def _told(scheduler: Scheduler) -> str:
    tables, workers = scheduler.tables(), scheduler.workers()
    needing = sum(bool(table.needs) for table in tables)
    tasks = scheduler.tasks().values()
    waiting, running = sum(w for w, _ in tasks), sum(r for _, r in tasks)
    return (
        f"{len(tables):,} tables, {needing:,} in need · {len(scheduler.processes()):,} processes · "
        f"{running:,} tasks running, {waiting:,} waiting · {len(workers):,} workers"
    )
