"""A run of the optimizer as people see it: a line that is renewed, on a terminal alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from interbed.optimizer.errors import NotOnDutyError
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.service.duty import Duty

REFRESH_PER_SECOND = 2


@contextmanager
def shown_duty(duty: Duty) -> Iterator[None]:
    """Shows how a run goes on standard error while the block runs; nothing where nobody looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    done = threading.Event()
    with Live(_line(duty), console=console, auto_refresh=False, transient=True) as live:

        def renew() -> None:
            while not done.wait(1 / REFRESH_PER_SECOND):
                live.update(_line(duty), refresh=True)

        thread = threading.Thread(target=renew, name="optimizer-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _line(duty: Duty) -> Text:
    try:
        return Text(duty.ask(_told))
    except NotOnDutyError:
        return Text("standing by")


def _told(scheduler: Scheduler) -> str:
    tables, workers = scheduler.tables(), scheduler.workers()
    needing = sum(bool(table.needs) for table in tables)
    tasks = scheduler.tasks().values()
    waiting, running = sum(w for w, _ in tasks), sum(r for _, r in tasks)
    return (
        f"{len(tables):,} tables, {needing:,} in need · {len(scheduler.processes()):,} processes · "
        f"{running:,} tasks running, {waiting:,} waiting · {len(workers):,} workers"
    )
