"""Small commits for a long time, with compaction in the background: sorted runs, memory and scan time stay constant.

    python -m tests.benchmarks.soak [--minutes 2] [--keys 200000] [--rows 1000] [--option key=value …] [--json]

One process upserts random keys by a stream writer, commit after commit. It scans the table at intervals and checks the
rows. Snapshots older than the newest KEPT_SNAPSHOTS expire, as by a maintenance job. The curve has one point for each
interval. `--option` adds table options, for instance changelog-producer=lookup.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from rich.console import Console
from rich.table import Table as View

import interbed
from interbed.storage.lsm.levels import Levels
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.table import Table
from tests.benchmarks.data import rows_for

POINTS = 20
KEPT_SNAPSHOTS = 20
STEADY_GROWTH = 1.5
"""Maximal ratio of the last quarter to the second one; the first fills caches."""
SCHEMA = pa.schema([f.with_nullable(f.name != "id") for f in rows_for(np.arange(1), 0).schema])


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPoint:
    """State after a number of commits. Sizes in MB, times in seconds; `runs` is the maximum of any bucket."""

    seconds: float
    commits: int
    runs: int
    live_files: int
    files_on_disk: int
    disk_mb: float
    rss_mb: float
    scan_s: float
    commit_s: float


def soak(
    table: Table,
    *,
    keys: int,
    rows: int,
    commits: int | None = None,
    seconds: float = 0.0,
    points: int = POINTS,
    note: Callable[[SoakPoint], None] = lambda point: None,
) -> list[SoakPoint]:
    """Run for `commits` commits or `seconds` seconds, and record points. Raises AssertionError for wrong rows."""
    random = np.random.default_rng(11)
    table.upsert(rows_for(random.permutation(keys), 0).cast(SCHEMA))
    amounts = table.scan(columns=["id", "amount"]).to_arrow().sort_by("id")["amount"].to_numpy().copy()
    found: list[SoakPoint] = []
    builder = table.new_stream_write_builder()
    started = last = time.monotonic()
    number = since = 0
    with builder.new_write() as write, builder.new_commit() as commit:
        while number < commits if commits is not None else time.monotonic() - started < seconds:
            batch = rows_for(random.choice(keys, rows, replace=False), number + 1).cast(SCHEMA)
            write.write_arrow(batch)
            commit.commit(write.prepare_commit(number), number)
            amounts[np.asarray(batch["id"])] = np.asarray(batch["amount"])
            number, since = number + 1, since + 1
            if number % KEPT_SNAPSHOTS == 0:
                table.maintenance.expire_snapshots(retain_max=KEPT_SNAPSHOTS, retain_min=1, older_than=datetime.now())
            now = time.monotonic()
            due = number * points // commits > len(found) if commits else now - last > seconds / points
            if due:
                found.append(_point(table, amounts, now - started, number, (now - last) / since))
                note(found[-1])
                last, since = time.monotonic(), 0
    return found


def _point(table: Table, amounts: "np.ndarray[Any, Any]", seconds: float, commits: int, commit_s: float) -> SoakPoint:
    begun = time.monotonic()
    rows = table.scan(columns=["id", "amount"]).to_arrow()
    scan_s = time.monotonic() - begun
    # If reads skip level 0, its rows appear after their compaction; reads of other tables see every commit.
    if not table.options.scans_skip_level_0:
        order = np.argsort(np.asarray(rows["id"]))
        assert np.array_equal(np.asarray(rows["amount"])[order], amounts), f"wrong rows after {commits} commits"
    assert rows.num_rows == len(amounts)
    restored = restore_buckets(table.store)
    files = [restored.files(place) for place in restored.buckets()]
    on_disk = [p.stat().st_size for p in Path(table.location).rglob("*") if p.is_file()]
    return SoakPoint(
        seconds=seconds,
        commits=commits,
        runs=max(len(Levels.of(f, table.options.num_levels).runs) for f in files),
        live_files=sum(map(len, files)),
        files_on_disk=len(on_disk),
        disk_mb=sum(on_disk) / 2**20,
        rss_mb=psutil.Process().memory_info().rss / 2**20,
        scan_s=scan_s,
        commit_s=commit_s,
    )


def growth(points: Sequence[SoakPoint], figure: str) -> float:
    """Return the median of the last quarter over that of the second."""
    quarter = max(1, len(points) // 4)
    values = [getattr(p, figure) for p in points]
    return float(np.median(values[-quarter:]) / max(np.median(values[quarter : 2 * quarter]), 1e-9))


def new_table(warehouse: Path, **options: str) -> Table:
    """Create the table: two buckets, and a writer that waits rather than let runs accumulate."""
    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("b", ignore_if_exists=True)
    return catalog.create_table("b.t", SCHEMA, primary_keys=["id"], options={"bucket": "2", **options})


def measure(
    console: Console, *, minutes: float = 2.0, keys: int = 200_000, rows: int = 1_000, options: Sequence[str] = ()
) -> list[SoakPoint]:
    """Run the soak, and return its curve."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as directory, console.status("soaking") as status:
        table = new_table(Path(directory), **dict(o.split("=", 1) for o in options))
        return soak(
            table,
            keys=keys,
            rows=rows,
            seconds=minutes * 60,
            note=lambda p: status.update(f"soaking: {p.commits:,} commits, {p.runs} runs, {p.rss_mb:,.0f} MB"),
        )


def show(found: Sequence[SoakPoint], console: Console) -> None:
    """Print the curve as a table, with bars for the figures that should stay constant."""
    view = View(title="Soak: small commits with compaction in the background", title_justify="left")
    for column in ("seconds", "commits", "runs", "live files", "disk MB", "ms a commit", "RSS MB", "scan ms", ""):
        view.add_column(column, justify="right" if column else "left")
    slowest = max((p.scan_s for p in found), default=1.0)
    for p in found:
        cells = [f"{p.seconds:,.0f}", f"{p.commits:,}", str(p.runs), str(p.live_files), f"{p.disk_mb:,.0f}"]
        cells += [f"{p.commit_s * 1000:,.0f}", f"{p.rss_mb:,.0f}", f"{p.scan_s * 1000:,.0f}"]
        view.add_row(*cells, "▇" * round(20 * p.scan_s / slowest))
    console.print(view)
    if len(found) >= 4:
        figures = ("runs", "rss_mb", "scan_s", "live_files", "commit_s")
        ratios = ", ".join(f"{f} ×{growth(found, f):.2f}" for f in figures)
        console.print(f"last quarter over the second (goal at most ×{STEADY_GROWTH}): {ratios}")


def as_json(found: Sequence[SoakPoint]) -> list[dict[str, Any]]:
    """Return the curve as JSON objects."""
    return [asdict(p) for p in found]


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 120)
    found = measure(
        console, minutes=arguments.minutes, keys=arguments.keys, rows=arguments.rows, options=arguments.option
    )
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


if __name__ == "__main__":
    main()
