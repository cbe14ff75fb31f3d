"""A table of a million partitions on the catalog server, on SQLite and on PostgreSQL.

    python -m tests.benchmarks.partitions [--partitions 1000000] [--json]

Times are wall milliseconds at the client, the best of some calls, Thrift and the local network included. The server's
peak memory is shown below each database; only the answer itself grows with its size.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.command import start_server, stop_server
from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.catalog.server.raw_client import raw_client
from tests.support.partitions import KEYS, days_and_regions, fill
from tests.support.servers.metastore import new_database, storage, table
from tests.support.servers.postgres import postgres_server

PARTITIONS = 1_000_000
NAMES_AT_ONCE = 30_000
ADDED = 10_000
GOAL_FILTER_MS = 50.0
"""Limit of the time of a filter that selects ten partitions."""

Figures = dict[str, dict[str, float]]


def measure(console: Console, partitions: int = PARTITIONS) -> dict[str, Figures]:
    """Return milliseconds and results by call, and the server's peak memory, for each database."""
    found: dict[str, Figures] = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interbed-bench-")))
        databases = {
            "SQLite": f"sqlite:///{directory / 'metastore.db'}",
            "PostgreSQL": new_database(stack.enter_context(postgres_server())),
        }
        for name, url in databases.items():
            with console.status(f"{partitions:,} partitions on {name}"):
                found[name] = _measure_on(url, directory / name, partitions)
    return found


def _measure_on(db: str, directory: Path, partitions: int) -> Figures:
    directory.mkdir()
    running = start_server(db, f"file:{directory / 'warehouse'}", log=directory / "server.log")
    try:
        port = int(running.uri.rpartition(":")[2])
        with raw_client(port) as client:
            client.create_table(table("default", "t", *((f"c{i}", "string") for i in range(20)), partition_keys=KEYS))
            store = SqlRepository(db)
            made = fill(store, "default", "t", partitions)
            store.close()
            figures = _calls(client, days_and_regions(partitions), made)
        memory = psutil.Process(running.process.pid).memory_info()
        peak = max(memory.rss, getattr(memory, "peak_wset", 0)) / 2**20
        high = _high_water_mb(running.process.pid)
        figures["peak memory MB"] = {"ms": max(peak, high), "result": made}
        return figures
    finally:
        stop_server(running)


def _calls(client: Client, values: tuple[list[str], list[str]], made: int) -> Figures:
    days, regions = values
    region, day = regions[len(regions) // 2], days[len(days) // 2]
    later = days[len(days) // 2 : len(days) // 2 + 10]
    one = f"hour = 5 and region = '{region}'"
    filters = {
        "filter: = of three keys": f"dt = '{day}' and {one}",
        "filter: ten days": f"dt >= '{later[0]}' and dt <= '{later[-1]}' and {one}",
        "filter: LIKE 'prefix%'": f"dt like '{day[:9]}%' and {one}",
        "filter: IN ten": f"(dt) in ({', '.join(repr(each) for each in later)}) and {one}",
        "filter: OR of ten": " or ".join(f"(dt = '{each}' and {one})" for each in later),
        "filter: LIKE '%middle%'": f"dt like '%{day[4:9]}%' and {one}",
    }
    found: Figures = {}

    def note(name: str, call: Callable[[], Any], times: int = 1) -> None:
        best, result = float("inf"), None
        for _ in range(times):
            started = time.perf_counter()
            result = call()
            best = min(best, (time.perf_counter() - started) * 1000)
        found[name] = {"ms": best, "result": result if isinstance(result, int) else len(result or ())}

    for name, text in filters.items():
        note(name, partial(client.get_partitions_by_filter, "default", "t", text, -1), 10)
    note(
        "count: ten days", lambda: client.get_num_partitions_by_filter("default", "t", filters["filter: ten days"]), 10
    )
    note("count: all", lambda: client.get_num_partitions_by_filter("default", "t", ""), 2)
    note("partial values", lambda: client.get_partitions_ps("default", "t", [day, "5"], -1), 10)
    note("first 1,000 names", lambda: client.get_partition_names("default", "t", 1000), 5)
    note(f"{NAMES_AT_ONCE:,} names", lambda: client.get_partition_names("default", "t", NAMES_AT_ONCE), 2)
    names = client.get_partition_names("default", "t", NAMES_AT_ONCE)[::6]
    note(f"{len(names):,} by names", lambda: client.get_partitions_by_names("default", "t", names), 2)
    note(f"all {made:,} names", lambda: client.get_partition_names("default", "t", -1))
    new = [
        ttypes.Partition(
            values=["new", str(n % 24), f"r{n}"], dbName="default", tableName="t", sd=storage(), parameters={}
        )
        for n in range(ADDED)
    ]
    note(f"add {ADDED:,}", lambda: client.add_partitions(new))
    changed = client.get_table("default", "t")
    changed.tableName = "renamed"
    note("rename the table", lambda: client.alter_table("default", "t", changed))
    note("drop the table", lambda: client.drop_table("default", "renamed", False))
    return found


def _high_water_mb(pid: int) -> float:
    """Return the peak memory of a process, if the system reports it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def show(found: dict[str, Figures], console: Console) -> None:
    """Print the figures as a table."""
    view = Table(title="Partitions: milliseconds at the client (results)", title_justify="left")
    view.add_column("call")
    for name in found:
        view.add_column(name, justify="right")
    view.add_column("goal", justify="right")
    calls: Sequence[str] = list(next(iter(found.values())))
    for call in calls:
        cells = [f"{figures[call]['ms']:,.1f} ({figures[call]['result']:,.0f})" for figures in found.values()]
        view.add_row(
            call, *cells, f"{GOAL_FILTER_MS:.0f}" if call.startswith("filter: ") and "middle" not in call else ""
        )
    console.print(view)


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 120)
    found = measure(console, arguments.partitions)
    show(found, console)
    if arguments.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
