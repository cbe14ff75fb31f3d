"""Changes in Kafka become a table: `interbed ingest kafka` against Structured Streaming with MERGE INTO Iceberg.

Both read the same topic to its end, with the same number of commits, and their tables must have the rows of the source.
Seconds of interbed are those of its whole process. Seconds of Spark are those of the stream alone, in a session that
has run a small stream before. interbed compacts its table during the ingestion; Iceberg's table is not compacted after
the MERGEs.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as View

from tests.benchmarks.command import ROOT
from tests.benchmarks.ingest import interbed_job
from tests.benchmarks.ingest.interbed_job import IngestJob
from tests.benchmarks.ingest.orders import MIXED, KafkaTopic, OrdersTable, TableChecksum
from tests.support.servers.kafka import running_kafka

Figures = dict[str, float]

OURS, SPARK = "interbed", "spark + iceberg"
ROWS = 1_000_000
COMMITS = 10
TURNS = 2
WARM_UP_MESSAGES = 20_000
RATIO_GOAL = 5.0
"""Minimal ratio to Spark of rows in a CPU second."""
ROWS_GOAL = 60_000
"""Minimal number of rows in a CPU second."""
TIMEOUT_SECONDS = 3_600.0


def measure(console: Console, rows: int = ROWS, *, with_spark: bool = True) -> dict[str, Figures]:
    """Return the figures by engine, of ours the better of some turns. Raises SystemExit when a table has wrong rows."""
    found: dict[str, Figures] = {}
    with running_kafka() as kafka, tempfile.TemporaryDirectory(prefix="interbed-bench-ingest-") as temporary:
        servers, directory, orders = kafka.bootstrap_servers, Path(temporary), OrdersTable()
        with console.status(f"putting {rows:,} changes into Kafka"):
            size = _fill(KafkaTopic(servers, "orders"), orders, rows) / rows
            _fill(KafkaTopic(servers, "warm"), OrdersTable(8), WARM_UP_MESSAGES)
        for turn in range(TURNS):
            with console.status(f"ingestion: {OURS}"):
                figures = _interbed(servers, directory / f"lake-{turn}", rows, orders.checksum())
            if not turn or figures["cpu_s"] < found[OURS]["cpu_s"]:
                found[OURS] = figures
        if with_spark:
            with console.status(f"ingestion: {SPARK}"):
                found[SPARK] = _spark(servers, directory / "spark", rows, orders.checksum())
    for figures in found.values():
        figures |= {"rows": rows, "message_bytes": round(size)}
        figures |= {"rows_per_s": rows / figures["wall_s"], "rows_per_cpu_s": rows / figures["cpu_s"]}
    return found


def _fill(topic: KafkaTopic, orders: OrdersTable, count: int) -> int:
    for messages in orders.messages(count, MIXED):
        topic.put(messages)
    topic.flush()
    return topic.bytes


def _interbed(servers: str, warehouse: Path, rows: int, expected: TableChecksum) -> Figures:
    # The interval is so long that only the number of rows triggers commits, as with Spark's micro-batches.
    often = ["--commit-rows", str(-(-rows // COMMITS)), "--commit-interval", "1 h"]
    job = IngestJob(servers, "orders", warehouse, "--until-end", *often)
    report = job.wait(TIMEOUT_SECONDS)
    _compare(OURS, interbed_job.checksum(warehouse), expected)
    return {"cpu_s": job.cpu_s, "wall_s": job.wall_s, "commits": report["commits"], "peak_mb": job.peak_mb}


def _spark(servers: str, warehouse: Path, rows: int, expected: TableChecksum) -> Figures:
    warehouse.mkdir()
    command = [sys.executable, "-m", "tests.benchmarks.ingest.spark_job", servers, "orders", "warm", str(warehouse)]
    command.append(str(-(-rows // COMMITS)))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise SystemExit(f"{SPARK}: {done.stderr[-4000:]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    _compare(SPARK, TableChecksum(**figures.pop("checksum")), expected)
    found: Figures = figures
    return found


def _compare(engine: str, found: TableChecksum, expected: TableChecksum) -> None:
    if found != expected:
        raise SystemExit(f"{engine}: the table has {asdict(found)}, the source {asdict(expected)}.")


def show(found: Mapping[str, Figures], console: Console) -> None:
    """Print the figures as a table, and the goals."""
    ours = found[OURS]
    title = f"Kafka to a table: {ours['rows']:,} messages of debezium-json, {ours['message_bytes']:,} bytes each"
    view = View(title=title, title_justify="left")
    columns = ("", "CPU s", "wall s", "rows a CPU s", "µs CPU a row", "rows a s", "commits", "peak MB", "ratio")
    for column in columns:
        view.add_column(column, justify="right" if column else "left")
    for engine, figures in found.items():
        cells = [f"{figures['cpu_s']:.2f}", f"{figures['wall_s']:.2f}", f"{figures['rows_per_cpu_s']:,.0f}"]
        cells += [f"{1e6 / figures['rows_per_cpu_s']:.1f}", f"{figures['rows_per_s']:,.0f}"]
        cells += [f"{figures['commits']:,}", f"{figures['peak_mb']:,.0f}"]
        view.add_row(engine, *cells, "" if figures is ours else f"{figures['cpu_s'] / ours['cpu_s']:.1f}")
    console.print(view)
    console.print(f"Goals: {ROWS_GOAL:,} rows a CPU second, and {RATIO_GOAL:g} times as many as {SPARK}.")


def as_json(found: Mapping[str, Figures]) -> dict[str, Any]:
    """Return the figures for `--json`."""
    return dict(found)
