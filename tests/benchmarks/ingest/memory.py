"""Memory of `interbed ingest kafka` during an endless stream of changes: it must stay constant.

Changes of a table with a steady number of rows are produced at an even rate, most of them updates, while the command
runs; it commits COMMITS times. Its resident memory is sampled twice a second. The maximum of the last third of the time
is compared with that of the first third, in which libraries are loaded and caches filled. Then SIGTERM ends the run,
and a second run reads the rest: the table must have the rows of the source.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as View

from tests.benchmarks.ingest import interbed_job
from tests.benchmarks.ingest.interbed_job import IngestJob
from tests.benchmarks.ingest.orders import BLOCK_MESSAGES, MIXED, STEADY, KafkaTopic, OrdersTable
from tests.support.servers.kafka import running_kafka

Figures = dict[str, Any]

BASE_ROWS = 100_000
COMMITS = 60
"""Number of commits: an interval of ten seconds for ten minutes."""
RATE = 4_000
"""Messages a second."""
POINTS = 12
FLAT = 1.1
"""Maximal ratio of the last third to the first third."""
TIMEOUT_SECONDS = 600.0
_TICK_SECONDS = 0.5


def measure(console: Console, *, minutes: float = 1.0, rate: int = RATE) -> Figures:
    """Return the figures. Raises SystemExit if the table does not have the rows of the source in the end."""
    with (
        running_kafka() as kafka,
        tempfile.TemporaryDirectory(prefix="interbed-bench-ingest-") as temporary,
        console.status("ingesting without end") as status,
    ):
        return watch(
            kafka.bootstrap_servers,
            Path(temporary) / "lake",
            seconds=minutes * 60,
            rate=rate,
            note=lambda seconds, mb: status.update(f"ingesting without end: {seconds:,.0f} s, {mb:,.0f} MB"),
        )


def watch(
    servers: str,
    warehouse: Path,
    *,
    seconds: float,
    rate: int = RATE,
    base_rows: int = BASE_ROWS,
    note: Callable[[float, float], None] = lambda seconds, mb: None,
) -> Figures:
    """Produce and ingest for `seconds`. Raises SystemExit if the table finally lacks the rows of the source."""
    topic, orders = KafkaTopic(servers, f"steady-{warehouse.name}"), OrdersTable()
    # Twice as many changes as rows; of ten changes five are insertions and one is a deletion.
    for messages in orders.messages(base_rows * 5 // 2, MIXED):
        topic.put(messages)
    topic.flush()
    every = f"{seconds / COMMITS * 1000:.0f} ms"
    job = IngestJob(servers, topic.name, warehouse, "--commit-interval", every)
    try:
        sent = _produce(topic, orders, rate, seconds, job, note)
        report = job.stop()
    except BaseException:
        job.kill()
        raise
    memory = list(job.memory)
    rest = IngestJob(servers, topic.name, warehouse, "--until-end")
    rest.wait(TIMEOUT_SECONDS)
    if (found := interbed_job.checksum(warehouse)) != (expected := orders.checksum()):
        raise SystemExit(f"The table has {found}, the source {expected}.")
    first, last = (_most(memory, seconds * start, seconds * end) for start, end in ((0, 1 / 3), (2 / 3, 1)))
    return {
        "seconds": seconds,
        "messages": report["messages"],
        "commits": report["commits"],
        "cpu_s": job.cpu_s,
        "rows_per_cpu_s": report["messages"] / job.cpu_s,
        "messages_left": sent + base_rows * 5 // 2 - report["messages"],
        "first_third_mb": first,
        "last_third_mb": last,
        "growth": last / first,
        "points": _points(memory, seconds),
    }


def _produce(
    topic: KafkaTopic,
    orders: OrdersTable,
    rate: int,
    seconds: float,
    job: IngestJob,
    note: Callable[[float, float], None],
) -> int:
    """Send changes at an even rate, sample the job's memory meanwhile, and return the number of sent changes."""
    sent = 0
    while (now := job.seconds) < seconds:
        job.look()
        note(*job.memory[-1])
        due = int(now * rate) - sent
        for messages in orders.messages(min(due, BLOCK_MESSAGES), STEADY) if due else ():
            topic.put(messages)
            sent += len(messages)
        topic.flush()
        time.sleep(max(0.0, _TICK_SECONDS - (job.seconds - now)))
    return sent


def _most(memory: Sequence[tuple[float, float]], start: float, end: float) -> float:
    return max(mb for seconds, mb in memory if start <= seconds < end)


def _points(memory: Sequence[tuple[float, float]], seconds: float) -> list[dict[str, float]]:
    """Return the maximum of each of POINTS intervals, by the ends of the intervals."""
    edges = np.linspace(0, seconds, POINTS + 1).tolist()
    return [{"until_s": end, "mb": _most(memory, start, end)} for start, end in pairwise(edges)]


def show(found: Figures, console: Console) -> None:
    """Print the figures as a table, with bars."""
    title = (
        f"Memory of ingestion: {found['messages']:,} messages in {found['seconds']:,.0f} s, "
        f"{found['commits']} commits, {found['rows_per_cpu_s']:,.0f} rows a CPU second"
    )
    view = View(title=title, title_justify="left")
    for column in ("until s", "most MB", ""):
        view.add_column(column, justify="right" if column else "left")
    top = max(point["mb"] for point in found["points"])
    for point in found["points"]:
        view.add_row(f"{point['until_s']:,.0f}", f"{point['mb']:,.0f}", "▇" * round(20 * point["mb"] / top))
    console.print(view)
    console.print(
        f"Most in the first third {found['first_third_mb']:,.0f} MB, in the last {found['last_third_mb']:,.0f} MB: "
        f"×{found['growth']:.2f} (goal at most ×{FLAT})."
    )


def as_json(found: Figures) -> dict[str, Any]:
    """Return the figures for `--json`."""
    return dict(found)
