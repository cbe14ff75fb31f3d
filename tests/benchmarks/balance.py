"""Balance of compactions between two workers: buckets whose sizes fall off as 1/n, in bucket order and longest first.

    python -m tests.benchmarks.balance [--rows 2000000] [--json]

The table has 32 partitions of one bucket each; the largest comes last, as the newest day often does, and the others in
random order. `threads` is Table.compact with two threads. `processes` are the same compactions as tasks for two
processes, one by one or in the bundles of upkeep/compact_tasks.py. The makespan is the wall time from the first start
to the last end. It is compared with half of the summed seconds of all compactions of the same run. At 1.00 both workers
were busy all the time. Other load on the machine slows all compactions, but hardly changes the balance.
"""

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as View

import interbed
from interbed.storage.base.prefetch import longest_first
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.lsm.compact.rewriter import run_compaction
from interbed.storage.meta.file_store import FileStore
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.upkeep import compact_table
from interbed.storage.upkeep.compact_tasks import CompactionTask, balanced_tasks, plan_tasks, run_task
from interbed.storage.write.commit_message import CommitMessage
from tests.benchmarks.command import Figures, in_process, run_alone
from tests.benchmarks.data import rows_for

MODULE = "tests.benchmarks.balance"
BUCKETS = 32
WORKERS = 2
RUNS = 3
GOAL = 1.1
"""Maximal makespan over half of the sum, longest first."""
HELD = ("threads: longest first", "processes: longest first", "processes: in bundles")
STAGES = ("threads: in bucket order", "threads: longest first", "processes: in bucket order", *HELD[1:])
OPTIONS = {"bucket": "1", "write-only": "true"}
DEADLINE_SECONDS = 300


def measure(console: Console, rows: int = 2_000_000) -> dict[str, Figures]:
    """Return the figures by stage."""
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as directory:
        lake = Path(directory) / "lake"
        with console.status(f"balance: making {rows:,} rows in {BUCKETS} buckets"):
            make(lake, rows)
        for name in STAGES:
            copy = Path(directory) / "copy"
            with console.status(f"balance: {name}"):
                shutil.copytree(lake, copy)
                kind, _, order = name.partition(": ")
                found[name] = in_process(MODULE, kind, copy / "b.db" / "t", order, timeout=DEADLINE_SECONDS)
                shutil.rmtree(copy)
    return found


def make(warehouse: Path, rows: int) -> None:
    """Create b.t: RUNS sorted runs in each bucket; the n-th largest bucket has 1/n of the rows of the largest."""
    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("b")
    places = np.append(np.random.default_rng(RUNS).permutation(np.arange(2, BUCKETS + 1)), 1)
    shares = 1 / places
    counts = np.maximum(1, shares / shares.sum() * rows / RUNS).astype(np.int64)
    parts = np.repeat(np.arange(BUCKETS), counts)
    table: Table | None = None
    for run in range(RUNS):
        batch = rows_for(np.random.default_rng(run).permutation(len(parts)), run)
        batch = batch.append_column("p", pa.array(parts[np.asarray(batch["id"])]))
        if table is None:
            table = catalog.create_table(
                "b.t", batch.schema, partition_keys=["p"], primary_keys=["p", "id"], options=OPTIONS
            )
        table.upsert(batch)


def show(found: Mapping[str, Figures], console: Console) -> None:
    """Print the figures as a table."""
    title = f"balance: {BUCKETS} buckets, {WORKERS} workers; wall seconds, and the makespan by half of the sum"
    view = View(title=title, title_justify="left")
    for column in ("stage", "makespan", "half of the sum", "ratio", "goal"):
        view.add_column(column, justify="left" if column == "stage" else "right")
    for name, figures in found.items():
        cells = [f"{figures['makespan_s']:.2f}", f"{figures['half_s']:.2f}", f"{_ratio(figures):.2f}"]
        view.add_row(name, *cells, f"{GOAL:.1f}" if name in HELD else "")
    console.print(view)


def as_json(found: Mapping[str, Figures]) -> Any:
    """Return the figures for `--json`, with the ratios."""
    return {name: {**figures, "ratio": _ratio(figures)} for name, figures in found.items()}


def _ratio(figures: Figures) -> float:
    return figures["makespan_s"] / figures["half_s"]


# -- stages ------------------------------------------------------------------------------------------------------------


def _figures(spans: Sequence[tuple[float, float]]) -> Figures:
    """Return the figures for the starts and ends of all compactions."""
    return {
        "makespan_s": max(end for _, end in spans) - min(start for start, _ in spans),
        "half_s": sum(end - start for start, end in spans) / WORKERS,
    }


def by_threads(location: str, order: str) -> Figures:
    """Run Table.compact with WORKERS threads, with timed compactions and optionally in another order."""
    spans: list[tuple[float, float]] = []

    def timed(*arguments: Any) -> Any:
        start = time.monotonic()
        try:
            return run_compaction(*arguments)
        finally:
            spans.append((start, time.monotonic()))

    def in_order(costs: Sequence[float]) -> list[int]:
        return longest_first(costs) if order == "longest first" else list(range(len(costs)))

    with patch.multiple(compact_table, run_compaction=timed, longest_first=in_order, COMPACTION_THREADS=WORKERS):
        Table("b.t", _opened(location)).compact()
    return _figures(spans)


_store: FileStore
"""Table of a worker process."""


def _opened(location: str) -> FileStore:
    return open_store(location, dynamic_options={"write-only": "false"})


def _begin(location: str, together: Any) -> None:
    """Open the table in a worker, and wait until the other workers have done so."""
    global _store
    _store = _opened(location)
    together.wait(DEADLINE_SECONDS)


def _work(bundle: Sequence[bytes]) -> list[tuple[float, float, list[bytes]]]:
    found = []
    for content in bundle:
        start = time.monotonic()
        messages = run_task(_store, CompactionTask.from_bytes(content), "bench")
        found.append((start, time.monotonic(), [message.to_bytes() for message in messages]))
    return found


def by_processes(location: str, order: str) -> Figures:
    """Run the same compactions as tasks in WORKERS processes, and commit them."""
    store = _opened(location)
    tasks = plan_tasks(store)
    bundles: list[tuple[CompactionTask, ...]] = [(task,) for task in tasks]
    if order == "longest first":
        bundles = [bundles[place] for place in longest_first([task.cost for task in tasks])]
    elif order == "in bundles":
        bundles = balanced_tasks(tasks, workers=WORKERS)
    context = multiprocessing.get_context("spawn")
    with context.Pool(WORKERS, _begin, (location, context.Barrier(WORKERS))) as pool:
        given = [[task.to_bytes() for task in bundle] for bundle in bundles]
        done = [each for found in pool.imap(_work, given) for each in found]
    messages = [CommitMessage.from_bytes(content) for *_, contents in done for content in contents]
    FileStoreCommit(store, "bench", new_user=True).commit(messages)
    return _figures([(start, end) for start, end, _ in done])


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    if "--stage" not in sys.argv:
        run_alone(__doc__, measure, show, as_json, default=2_000_000)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", choices=("threads", "processes"))
    parser.add_argument("location")
    parser.add_argument("order")
    arguments = parser.parse_args()
    stage = by_threads if arguments.stage == "threads" else by_processes
    print(json.dumps(stage(arguments.location, arguments.order)))


if __name__ == "__main__":
    main()
