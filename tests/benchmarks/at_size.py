"""A catalog with many tables and partitions, and 64 clients: Hive's metastore 4.0.1 in Java and the catalog server.

    python -m tests.benchmarks.at_size [--partitions 20000] [--json]

The Java metastore has its embedded Derby, the catalog server SQLite and PostgreSQL. All are filled by the same calls: a
table with this number of partitions, and a tenth as many tables. Above MOST_BY_CALLS partitions, calls create only the
partitions of one day and SEED_TABLES tables in the Java metastore; SQL in its database creates the others, which would
take hours by calls. Times are wall milliseconds at the client, the best of some calls; rates are calls a second of 64
client processes. A ratio above 1 means that the catalog server is better by this factor.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from interbed.catalog.server.process.command import start_server, stop_server
from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.benchmarks import metastore_client as load
from tests.benchmarks.metastore import ClientProcess, fill
from tests.support.partitions import KEYS, days_and_regions
from tests.support.servers.java_metastore import metastore_client, run_sql, running_java_metastore
from tests.support.servers.java_metastore_rows import multiplied
from tests.support.servers.metastore import new_database, storage, table
from tests.support.servers.postgres import postgres_server

PARTITIONS = 20_000
AT_ONCE = 100
"""Partitions of one request; with a thousand, the Java metastore loses its connection to Derby."""
ADDED = 10_000
MOST_BY_CALLS = 50_000
SEED_TABLES = 1_000
FILL_SECONDS_MAX = 7_200
CLIENTS = 64
SECONDS = 4.0
DATABASE = "many"
JAVA = "Java 4.0.1"
GOAL_RATIO = 3.0
GOALS_MS = {"filter of 100": 50.0, f"add {ADDED:,} partitions": 2_000.0}
"""Limits of the time of a call, independent of the peer."""

Figures = dict[str, float]


def measure(console: Console, partitions: int = PARTITIONS) -> dict[str, Figures]:
    """Return milliseconds by call, and rates, of each server."""
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        for name, server in _servers(Path(temporary)).items():
            figures: Figures = {}
            if name == JAVA and partitions > MOST_BY_CALLS:
                with console.status(f"{name}: {partitions:,} partitions, {partitions // 10:,} tables"):
                    figures = _prepared(Path(temporary) / "java", partitions)
            began = time.perf_counter()
            with server() as uri:
                figures["start"] = (time.perf_counter() - began) * 1000
                with metastore_client(uri, timeout_seconds=1800) as client:
                    if len(figures) == 1:
                        with console.status(f"{name}: {partitions:,} partitions, {partitions // 10:,} tables"):
                            figures |= _filled(client, *days_and_regions(partitions), tables=partitions // 10)
                    with console.status(f"{name}: calls"):
                        figures |= _calls(client, partitions)
                with console.status(f"{name}: {CLIENTS} clients"):
                    figures |= _rates(uri)
            found[name] = figures
            # A run may take an hour; print the figures so far in case that the rest fails.
            console.log(f"{name}:", {call: round(value, 2) for call, value in figures.items()})
    return found


def _prepared(home: Path, partitions: int) -> Figures:
    """Fill the Java metastore with all its tables and partitions. Return the figures of the calls for the first."""
    days, regions = days_and_regions(partitions)
    home.mkdir()
    with (
        running_java_metastore("4.0.1", directory=home) as running,
        metastore_client(running.uri, timeout_seconds=1800) as client,
    ):
        figures = _filled(client, days[:1], regions, tables=SEED_TABLES)
    statements = multiplied(tables=partitions // 10, seeds=SEED_TABLES, days=days)
    run_sql(home / "derby", statements, timeout_seconds=FILL_SECONDS_MAX)
    return figures


def _servers(directory: Path) -> dict[str, Callable[[], Any]]:
    @contextmanager
    def java() -> Iterator[str]:
        with running_java_metastore("4.0.1", directory=directory / "java") as running:
            yield running.uri

    @contextmanager
    def ours(place: Path, db: str) -> Iterator[str]:
        place.mkdir()
        running = start_server(db, f"file:{place / 'warehouse'}", log=place / "server.log")
        try:
            with metastore_client(running.uri) as client:
                client.get_all_databases()
            yield running.uri
        finally:
            stop_server(running)

    @contextmanager
    def on_postgresql() -> Iterator[str]:
        with postgres_server() as url, ours(directory / "postgresql", new_database(url)) as uri:
            yield uri

    sqlite = partial(ours, directory / "sqlite", f"sqlite:///{directory / 'metastore.db'}")
    return {JAVA: java, "SQLite": sqlite, "PostgreSQL": on_postgresql}


def _filled(client: Client, days: Sequence[str], regions: Sequence[str], *, tables: int) -> Figures:
    client.create_database(ttypes.Database(name=DATABASE, parameters={}))
    columns = [(f"c{i}", "string") for i in range(20)]
    client.create_table(table(DATABASE, "t", *columns, partition_keys=KEYS))
    values = [[day, str(hour), region] for day in days for region in regions for hour in range(24)]
    began = time.perf_counter()
    _add(client, _partitions(values))
    by_partition = (time.perf_counter() - began) / len(values)
    began = time.perf_counter()
    for number in range(tables):
        client.create_table(load.table(DATABASE, f"t_{number:08}"))
    return {
        "fill, a partition": by_partition * 1000,
        "fill, a table": (time.perf_counter() - began) / max(tables, 1) * 1000,
    }


def _add(client: Client, partitions: list[ttypes.Partition]) -> int:
    return sum(client.add_partitions(partitions[n : n + AT_ONCE]) for n in range(0, len(partitions), AT_ONCE))


def _partitions(values: list[list[str]]) -> list[ttypes.Partition]:
    return [
        ttypes.Partition(values=each, dbName=DATABASE, tableName="t", sd=storage(("id", "int")), parameters={})
        for each in values
    ]


def _calls(client: Client, partitions: int) -> Figures:
    days, regions = days_and_regions(partitions)
    # One hour of each of ten days in ten regions.
    of_regions = f"region >= '{regions[0]}' and region <= '{regions[9]}'"
    of_100 = f"dt >= '{days[0]}' and dt <= '{days[9]}' and {of_regions} and hour = 5"
    names = client.get_partition_names(DATABASE, "t", 10_000)[::100]
    new = _partitions([["new", str(n % 24), f"r{n}"] for n in range(ADDED)])
    calls: dict[str, tuple[Callable[[], Any], int, int | None]] = {
        "filter of 100": (lambda: client.get_partitions_by_filter(DATABASE, "t", of_100, -1), 5, 100),
        "1,000 names of partitions": (lambda: client.get_partition_names(DATABASE, "t", 1_000), 5, 1_000),
        "100 partitions by names": (lambda: client.get_partitions_by_names(DATABASE, "t", names), 5, 100),
        "names of all tables": (lambda: client.get_all_tables(DATABASE), 5, partitions // 10 + 1),
        "tables by pattern": (lambda: client.get_tables(DATABASE, "t_000001*"), 5, None),
        f"add {ADDED:,} partitions": (lambda: _add(client, new), 1, ADDED),
    }
    found: Figures = {}
    for name, (call, times, expected) in calls.items():
        best = float("inf")
        for _ in range(times):
            began = time.perf_counter()
            result = call()
            best = min(best, (time.perf_counter() - began) * 1000)
        count = result if isinstance(result, int) else len(result)
        if expected not in (None, count):
            raise SystemExit(f"{name}: {count} instead of {expected}")
        found[name] = best
    return found


def _rates(uri: str) -> Figures:
    fill(uri)
    clients = [ClientProcess(uri, number) for number in range(CLIENTS)]
    try:
        for client in clients:
            client.wait_until_ready()
        found: Figures = {}
        for seconds in (SECONDS, SECONDS):
            # The first turn is a warm-up.
            at = time.monotonic() + 0.5
            for client in clients:
                client.start("get_table_req", at, seconds)
            found[f"get_table_req, {CLIENTS} clients, a second"] = sum(
                figures["calls"] / figures["seconds"] for figures in [client.figures() for client in clients]
            )
        return found
    finally:
        for client in clients:
            client.close()


def show(found: dict[str, Figures], console: Console) -> None:
    """Print the figures as a table."""
    view = Table(title="At size: milliseconds (rates: calls a second); ratios to Java", title_justify="left")
    view.add_column("call")
    ours = [name for name in found if name != JAVA]
    for name in (JAVA, *ours, *(f"{name} / Java" for name in ours), "goal"):
        view.add_column(name, justify="right")
    for call, java in found[JAVA].items():
        cells = [f"{found[name][call]:,.2f}" for name in ours]
        ratios = [_better(call, java, found[name][call]) for name in ours]
        goal = f"{GOALS_MS[call]:,.0f} ms, {GOAL_RATIO:.0f}x" if call in GOALS_MS else f"{GOAL_RATIO:.0f}x"
        view.add_row(call, f"{java:,.2f}", *cells, *(f"{r:.1f}x" for r in ratios), goal)
    console.print(view)


def _better(call: str, java: float, ours: float) -> float:
    return ours / java if call.endswith("a second") else java / ours


def as_json(found: dict[str, Figures]) -> Any:
    """Return the figures for `--json`: by call, then by server."""
    return {call: {name: figures[call] for name, figures in found.items()} for call in found.get(JAVA, {})}


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 160)
    found = measure(console, arguments.partitions)
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


if __name__ == "__main__":
    main()
