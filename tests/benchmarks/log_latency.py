"""Latency from a commit, or from a write, until a reader of the table's log has the rows.

    python -m tests.benchmarks.log_latency [--commits 200] [--json]

There is a real Kafka broker, a writer that commits 100 rows at a time to a table with 4 buckets, and a reader in
another process that decodes the rows of each snapshot. All times are of this machine's clock: the time of a commit is
when its snapshot file was created, its arrival is when its rows are an Arrow table. The reader catches up between two
commits. A second measurement uses an eventual log and starts at the call of `write_arrow`; every tenth write is
followed by a commit.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.benchmarks.command import run_alone
from tests.support.servers.kafka import running_kafka

COMMITS = 200
WARM_UP = 10
ROWS = 100
WRITES_IN_COMMIT = 10
POLL_SECONDS = 5.0
ROOT = Path(__file__).resolve().parents[2]

Figures = dict[str, float]


def measure(console: Console, commits: int = COMMITS) -> Figures:
    """Return milliseconds from commit to reader: `p50`, `p99` and `max`; and `commit`, the time of a commit with its
    log.

    `written_…` are the same from write to reader, for an eventual log.
    """
    with (
        tempfile.TemporaryDirectory(prefix="interbed-bench-") as directory,
        running_kafka() as kafka,
        console.status(f"{commits} commits and a reader of their log"),
    ):
        found = _measured(Path(directory) / "transactional", kafka.bootstrap_servers, commits)
        written = _written(Path(directory) / "eventual", kafka.bootstrap_servers, commits)
        return {**found, **{f"written_{name}": value for name, value in written.items()}}


def show(found: Figures, console: Console) -> None:
    """Print the figures as a line."""
    console.print(
        f"from a commit to a reader of the log: p50 {found['p50']:.0f} ms, p99 {found['p99']:.0f} ms, at most "
        f"{found['max']:.0f} ms; a commit of {ROWS} rows with its log takes {found['commit']:.0f} ms"
    )
    console.print(
        f"from a write to a reader of an eventual log: p50 {found['written_p50']:.1f} ms, p99 "
        f"{found['written_p99']:.1f} ms, at most {found['written_max']:.1f} ms"
    )


def as_json(found: Figures) -> Any:
    """Return the figures for `--json`."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=COMMITS, option="--commits")


def _table(warehouse: Path, name: str, servers: str, **options: str) -> Any:
    import pyarrow as pa

    import interbed

    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("b")
    of_log = {"bucket": "4", "log.system": "kafka", "kafka.bootstrap.servers": servers}
    columns: list[Any] = [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]
    schema = pa.schema([*columns, pa.field("amount", pa.float64())])
    return catalog.create_table(f"b.{name}", schema, primary_keys=["id"], options={**of_log, **options})


def _rows(number: int) -> Any:
    """Return the rows of a commit or a write."""
    import pyarrow as pa

    return pa.table(
        {
            "id": list(range(number * ROWS, (number + 1) * ROWS)),
            "name": [f"name {i}" for i in range(ROWS)],
            "amount": [i / 7 for i in range(ROWS)],
        }
    )


def _reader_of(table: Any, rows: int) -> "subprocess.Popen[str]":
    """Start the process that reads `rows` rows of the table's log."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.log_latency", "read", table.location, str(rows)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def _measured(warehouse: Path, servers: str, commits: int) -> Figures:
    from interbed.storage.log.publisher import forget_writers

    table = _table(warehouse, "committed", servers)
    total = commits + WARM_UP
    latencies, durations = [], []
    with _reader_of(table, total * ROWS) as reader:
        assert reader.stdout is not None
        for number in range(total):
            rows = _rows(number)
            begun = time.perf_counter()
            table.upsert(rows)
            durations.append(time.perf_counter() - begun)
            arrived = json.loads(reader.stdout.readline())
            made = os.stat(table.store.paths.snapshot(arrived["snapshot"])).st_mtime
            latencies.append((arrived["time"] - made) * 1000)
    forget_writers()
    return {**_spread(latencies[WARM_UP:]), "commit": statistics.median(durations[WARM_UP:]) * 1000}


def _written(warehouse: Path, servers: str, writes: int) -> Figures:
    from interbed.storage.commit.file_store_commit import FileStoreCommit
    from interbed.storage.log.kafka_eventual import forget_senders

    table = _table(warehouse, "written", servers, **{"log.consistency": "eventual"})
    total = writes + WARM_UP
    latencies = []
    with _reader_of(table, total * ROWS) as reader, table.new_write("bench") as write:
        assert reader.stdout is not None
        commit = FileStoreCommit(table.store, "bench")
        for number in range(total):
            rows = _rows(number)
            begun, seen = time.time(), 0
            write.write_arrow(rows)
            while seen < ROWS:
                arrived = json.loads(reader.stdout.readline())
                seen += arrived["rows"]
            latencies.append((arrived["time"] - begun) * 1000)
            if number % WRITES_IN_COMMIT == WRITES_IN_COMMIT - 1:
                commit.commit(write.prepare_commit(), identifier=number)
    forget_senders()
    return _spread(latencies[WARM_UP:])


def _spread(values: list[float]) -> Figures:
    measured = sorted(values)
    return {
        "p50": statistics.median(measured),
        "p99": measured[math.ceil(len(measured) * 0.99) - 1],
        "max": measured[-1],
    }


def _read(location: str, rows: int) -> None:
    """Read until all rows have arrived, and print a line for each snapshot; this is the reader's process."""
    from interbed.storage.table.table import load_table

    seen = 0
    for changes in load_table(location).stream(log=True, poll_seconds=POLL_SECONDS):
        rows_here = changes.to_arrow().num_rows
        seen += rows_here
        line = {"snapshot": changes.snapshot_id, "rows": rows_here, "time": time.time()}
        print(json.dumps(line), flush=True)
        if seen >= rows:
            return


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        _read(sys.argv[2], int(sys.argv[3]))
    else:
        main()
