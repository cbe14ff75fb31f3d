"""Metrics of a run for Prometheus (tables by state, workers, results of processes), and progress on a terminal."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from interbed.catalog.client.cli.long_run import shown_line
from interbed.optimizer.flow.process import NotOnDutyError, Process, ProcessState
from interbed.optimizer.flow.tables import TableState, Worker
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.service.service import Leadership
from interbed.storage.base.shown_text import escaped

SCORES = ((20, "0-20"), (40, "21-40"), (60, "41-60"), (80, "61-80"), (100, "81-100"))
"""Ranges of scores, by their upper bounds; 100 is a table in perfect shape."""


@dataclass(slots=True)
class _ProcessTotals:
    """Sums over the processes that have ended since this operating-system process began."""

    processes: dict[tuple[str, str, str], int] = field(default_factory=lambda: defaultdict(int))
    seconds: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    bytes_in: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    bytes_out: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    failures: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class OptimizerMetrics:
    """Collector of Prometheus; call `ended` for each process that has ended."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._guard = threading.Lock()
        self._ended = _ProcessTotals()

    def ended(self, process: Process) -> None:
        """Count a process that has ended."""
        with self._guard:
            ended = self._ended
            ended.processes[process.group, process.kind.value, process.state.value] += 1
            ended.seconds[process.group, process.table] += process.seconds
            ended.bytes_in[process.group] += process.figures.bytes_in
            ended.bytes_out[process.group] += process.figures.bytes_out
            if process.state is ProcessState.FAILED:
                ended.failures[process.group] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics at this time."""

        def ask(scheduler: Scheduler) -> tuple[list[TableState], list[Worker], dict[str, tuple[int, int]]]:
            return scheduler.tables(), scheduler.workers(), scheduler.tasks()

        try:
            tables, workers, tasks = self._leadership.ask(ask)
            schedules = True
        except NotOnDutyError:
            tables, workers, tasks, schedules = [], [], {}, False
        yield GaugeMetricFamily(
            "interbed_optimizer_schedules", "1 while this process schedules, 0 while it is a standby.", value=schedules
        )
        yield from _of_tables(tables)
        yield from _of_workers(workers, tasks)
        with self._guard:
            found = list(self._of_ended())
        yield from found

    def _of_ended(self) -> Iterator[Metric]:
        ended = self._ended
        processes = CounterMetricFamily(
            "interbed_optimizer_processes", "Processes that have ended.", labels=["group", "kind", "state"]
        )
        for (group, kind, state), count in sorted(ended.processes.items()):
            processes.add_metric([escaped(group), kind, state], count)
        yield processes
        seconds = CounterMetricFamily(
            "interbed_optimizer_work_seconds", "Time of workers that processes took.", labels=["group", "table"]
        )
        for (group, table), value in sorted(ended.seconds.items()):
            seconds.add_metric([escaped(group), escaped(table)], value)
        yield seconds
        for name, text, values in (
            ("interbed_optimizer_read_bytes", "Bytes of files that were compacted.", ended.bytes_in),
            ("interbed_optimizer_written_bytes", "Bytes of files that took their place.", ended.bytes_out),
            ("interbed_optimizer_failures", "Processes that have failed.", ended.failures),
        ):
            counter = CounterMetricFamily(name, text, labels=["group"])
            for group, number in sorted(values.items()):
                counter.add_metric([escaped(group)], number)
            yield counter


def _of_tables(tables: list[TableState]) -> Iterator[Metric]:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    pending: dict[str, int] = defaultdict(int)
    needing: dict[str, int] = defaultdict(int)
    for table in tables:
        counts[table.group, _range_of(table)] += 1
        needing[table.group] += bool(table.needs)
        pending[table.group] += 0 if table.summary is None else table.summary.pending_bytes
    by_score = GaugeMetricFamily(
        "interbed_optimizer_tables", "Tables, by their score: 100 is perfect shape.", labels=["group", "score"]
    )
    for (group, score), count in sorted(counts.items()):
        by_score.add_metric([escaped(group), score], count)
    yield by_score
    for name, text, values in (
        ("interbed_optimizer_tables_needing", "Tables that need something.", needing),
        ("interbed_optimizer_pending_bytes", "Bytes of files that are to be compacted.", pending),
    ):
        gauge = GaugeMetricFamily(name, text, labels=["group"])
        for group, number in sorted(values.items()):
            gauge.add_metric([escaped(group)], number)
        yield gauge


def _of_workers(workers: list[Worker], tasks: dict[str, tuple[int, int]]) -> Iterator[Metric]:
    counts: dict[str, int] = defaultdict(int)
    for worker in workers:
        counts[worker.group] += 1
    there = GaugeMetricFamily("interbed_optimizer_workers", "Workers that are registered.", labels=["group"])
    for group, count in sorted(counts.items()):
        there.add_metric([escaped(group)], count)
    yield there
    gauge = GaugeMetricFamily(
        "interbed_optimizer_tasks", "Tasks of processes: waiting for a worker, running.", labels=["group", "state"]
    )
    for group, (waiting, running) in sorted(tasks.items()):
        gauge.add_metric([escaped(group), "waiting"], waiting)
        gauge.add_metric([escaped(group), "running"], running)
    yield gauge


def _range_of(table: TableState) -> str:
    if table.unreadable is not None or table.summary is None:
        return "unknown"
    score = table.summary.score
    return next(name for most, name in SCORES if score <= most)


@contextmanager
def shown_progress(leadership: Leadership) -> Iterator[None]:
    """Show the progress of a run on standard error while the block runs, if it is a terminal."""
    with shown_line(lambda: _line(leadership), thread_name="optimizer-progress"):
        yield


def _line(leadership: Leadership) -> str:
    try:
        return leadership.ask(_progress_text)
    except NotOnDutyError:
        return "standing by"


def _progress_text(scheduler: Scheduler) -> str:
    tables, workers = scheduler.tables(), scheduler.workers()
    needing = sum(bool(table.needs) for table in tables)
    tasks = scheduler.tasks().values()
    waiting, running = sum(w for w, _ in tasks), sum(r for _, r in tasks)
    return (
        f"{len(tables):,} tables, {needing:,} in need · {len(scheduler.processes()):,} processes · "
        f"{running:,} tasks running, {waiting:,} waiting · {len(workers):,} workers"
    )
