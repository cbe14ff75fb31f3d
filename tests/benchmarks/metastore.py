"""The same load on Hive's metastore in Java and on the catalog server, on SQLite and on PostgreSQL, in one run.

    python -m tests.benchmarks.metastore [--seconds 3] [--turns 2] [--only get_table] [--json] [-- SERVER ARGUMENTS]

Rates are calls a second of 1 and of 8 client processes on the same machine; a ratio is interbed's rate over that of the
Java metastore 2.3.10 with embedded Derby. The servers alternate for each operation, so that a slow minute of the
machine does not affect only one of them, and the best turn counts. A rate is followed by the CPU milliseconds per call
of the server's processes (with PostgreSQL also those of the database), which depend least on other load. Arguments
after `--` go to the catalog server.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from interbed.catalog.server.process.command import RunningServer, start_server, stop_server
from interbed.thrift_idl.hive_metastore import ttypes
from tests.benchmarks import metastore_client as load
from tests.support.servers.java_metastore import metastore_client, running_java_metastore
from tests.support.servers.metastore import new_database
from tests.support.servers.postgres import postgres_server

JAVA, SQLITE, POSTGRESQL = "Java 2.3.10", "SQLite", "PostgreSQL"
OPERATIONS = ("get_table", "get_all_tables", "create_table", "alter_table", "lock + unlock")
CLIENTS = (1, 8)
STARTS = 3
WARM_UP_SECONDS = 4.0
WAIT_SECONDS = 180
SAMPLES_SECONDS = 0.5

GOALS: dict[tuple[str, str, int], float] = {
    (SQLITE, "get_table", 1): 3,
    (SQLITE, "get_table", 8): 5,
    **{(SQLITE, "get_all_tables", n): 1.5 for n in CLIENTS},
    **{(SQLITE, "create_table", n): 10 for n in CLIENTS},
    **{(SQLITE, "alter_table", n): 2 for n in CLIENTS},
    **{(SQLITE, "lock + unlock", n): 10 for n in CLIENTS},
    **{(POSTGRESQL, "get_table", n): 3 for n in CLIENTS},
    **{(POSTGRESQL, "create_table", n): 3 for n in CLIENTS},
}
"""Minimal ratios for a release."""

GOAL_START_SECONDS = 1.0
GOAL_MEMORY_MB = 200.0


@dataclass(slots=True, kw_only=True)
class MeasuredServer:
    """Server under load: its processes, its clients, and its measurements."""

    name: str
    processes: list[psutil.Process]
    """Process of the server, followed by that of its database if that is a server too."""
    clients: list["ClientProcess"]
    rates: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    start_seconds: float = 0.0
    peak_rss_mb: float = 0.0
    peak_pss_mb: float = 0.0

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes so far, including ended ones."""
        total = 0.0
        for process in _tree(self.processes):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def look_at_memory(self) -> None:
        """Sample the memory of the server's processes, without a database server."""
        rss = pss = 0
        # Java's children are commands like chmod; before their exec they report the memory of Java a second time.
        for process in self.processes[:1] if self.name == JAVA else _tree(self.processes[:1]):
            try:
                found = process.memory_full_info()
            except psutil.Error:
                continue
            rss += found.rss
            pss += found.pss
        self.peak_rss_mb = max(self.peak_rss_mb, rss / 2**20)
        self.peak_pss_mb = max(self.peak_pss_mb, pss / 2**20)


class ClientProcess:
    """Client of one server, started before the measurement."""

    def __init__(self, uri: str, number: int) -> None:
        host, _, port = uri.removeprefix("thrift://").partition(":")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.metastore_client", host, port, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        """Wait until it has connected."""
        assert self._line() == "ready"

    def start(self, operation: str, at: float, seconds: float) -> None:
        """Let it call from time `at` on, for `seconds`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{operation} {at} {seconds}\n")
        self.process.stdin.flush()

    def figures(self) -> dict[str, float]:
        """Return the figures of its calls."""
        found: dict[str, float] = json.loads(self._line())
        return found

    def _line(self) -> str:
        assert self.process.stdout is not None
        # A killed client closes its output, so no wait outlasts the timer.
        timer = threading.Timer(WAIT_SECONDS, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline().strip()
        finally:
            timer.cancel()
        if not line:
            raise SystemExit("a client of the benchmark has failed; see above")
        return line

    def close(self) -> None:
        """Kill the client, and wait for its end."""
        self.process.kill()
        self.process.communicate(timeout=WAIT_SECONDS)


def _tree(roots: Sequence[psutil.Process]) -> Iterator[psutil.Process]:
    for root in roots:
        yield root
        yield from root.children(recursive=True)


def fill(uri: str) -> None:
    """Create the objects that the load reads and changes."""
    with metastore_client(uri) as client:
        for database in (load.DATABASE, load.MADE):
            client.create_database(ttypes.Database(name=database, parameters={}))
        for number in range(load.TABLES):
            client.create_table(load.table(load.DATABASE, load.table_name(number)))
        for number in range(max(CLIENTS)):
            client.create_table(load.table(load.MADE, load.own_name(number)))


def run_clients(peer: MeasuredServer, operation: str, clients: int, seconds: float) -> dict[str, float]:
    """Return calls a second, and CPU milliseconds per call of the server and of the clients."""
    chosen = peer.clients[:clients]
    at = time.monotonic() + 0.1
    cpu = peer.cpu_seconds()
    for client in chosen:
        client.start(operation, at, seconds)
    done = threading.Event()
    sampler = threading.Thread(target=_sample, args=(peer, done))
    sampler.start()
    try:
        found = [client.figures() for client in chosen]
    finally:
        done.set()
        sampler.join()
    calls = sum(figures["calls"] for figures in found)
    return {
        "rate": sum(figures["calls"] / figures["seconds"] for figures in found),
        "server_cpu_ms": (peer.cpu_seconds() - cpu) / calls * 1000,
        "client_cpu_ms": sum(figures["cpu_s"] for figures in found) / calls * 1000,
    }


def _sample(peer: MeasuredServer, done: threading.Event) -> None:
    while not done.wait(SAMPLES_SECONDS):
        peer.look_at_memory()
    peer.look_at_memory()


def measure(
    console: Console,
    *,
    seconds: float = 3.0,
    turns: int = 2,
    operations: Sequence[str] = OPERATIONS,
    arguments: Sequence[str] = (),
) -> list[MeasuredServer]:
    """Put the load on all servers, and return them with their figures, the Java metastore first."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interbed-bench-")))
        with console.status("starting the servers"):
            peers = [
                stack.enter_context(_java(directory / "java")),
                stack.enter_context(_sqlite(directory / "sqlite", arguments)),
                stack.enter_context(_postgresql(directory / "postgresql", arguments)),
            ]
        for turn in range(turns):
            for operation in operations:
                for peer in peers if turn == 0 else []:
                    # Warm-up: Java compiles hot methods, and caches fill.
                    with console.status(f"warming up: {operation}, {peer.name}"):
                        run_clients(peer, operation, max(CLIENTS), WARM_UP_SECONDS)
                for clients in CLIENTS:
                    for peer in peers:
                        with console.status(f"turn {turn + 1}: {operation}, {clients} clients, {peer.name}"):
                            found = run_clients(peer, operation, clients, seconds)
                        best = peer.rates.get((operation, clients))
                        if best is None or best["rate"] < found["rate"]:
                            peer.rates[operation, clients] = found
        return peers


@contextmanager
def _java(directory: Path) -> Iterator[MeasuredServer]:
    # No options for Java: it runs as in production, with all of its compilers.
    directory.mkdir()
    began = time.perf_counter()
    with running_java_metastore("2.3.10", directory=directory) as running:
        start = time.perf_counter() - began
        process = psutil.Process(running.process.pid)
        with _peer(JAVA, [process], running.uri) as peer:
            peer.start_seconds = start
            yield peer


@contextmanager
def _sqlite(directory: Path, arguments: Sequence[str]) -> Iterator[MeasuredServer]:
    directory.mkdir()
    with _interbed(SQLITE, f"sqlite:///{directory / 'metastore.db'}", directory, arguments, []) as peer:
        yield peer


@contextmanager
def _postgresql(directory: Path, arguments: Sequence[str]) -> Iterator[MeasuredServer]:
    directory.mkdir()
    before = set(psutil.Process().children())
    with postgres_server() as url:
        databases = [p for p in psutil.Process().children() if p not in before and p.name().startswith("postgres")]
        with _interbed(POSTGRESQL, new_database(url), directory, arguments, databases) as peer:
            yield peer


@contextmanager
def _interbed(
    name: str, db: str, directory: Path, arguments: Sequence[str], databases: list[psutil.Process]
) -> Iterator[MeasuredServer]:
    seconds = []
    # The first start also creates the tables.
    for _ in range(STARTS):
        running, start = _started(db, directory, arguments)
        seconds.append(start)
        stop_server(running)
    running, start = _started(db, directory, arguments)
    try:
        with _peer(name, [psutil.Process(running.process.pid), *databases], running.uri) as peer:
            peer.start_seconds = min(*seconds, start)
            yield peer
    finally:
        stop_server(running)


def _started(db: str, directory: Path, arguments: Sequence[str]) -> tuple[RunningServer, float]:
    """Return a server, and the seconds until it had answered a call."""
    began = time.perf_counter()
    running = start_server(db, f"file:{directory / 'warehouse'}", *arguments, log=directory / "server.log")
    with metastore_client(running.uri) as client:
        client.get_all_databases()
    return running, time.perf_counter() - began


@contextmanager
def _peer(name: str, processes: list[psutil.Process], uri: str) -> Iterator[MeasuredServer]:
    fill(uri)
    clients: list[ClientProcess] = []
    try:
        clients.extend(ClientProcess(uri, number) for number in range(max(CLIENTS)))
        for client in clients:
            client.wait_until_ready()
        yield MeasuredServer(name=name, processes=processes, clients=clients)
    finally:
        for client in clients:
            client.close()


def show(peers: Sequence[MeasuredServer], console: Console) -> None:
    """Print the figures as two tables."""
    java, *ours = peers
    view = Table(
        title="Metastore: calls a second (server's CPU ms a call); ratios to Java (goal)", title_justify="left"
    )
    view.add_column("operation")
    view.add_column("clients", justify="right")
    for peer in peers:
        view.add_column(peer.name, justify="right")
    for peer in ours:
        view.add_column(f"{peer.name} / Java", justify="right")
    view.add_column("client's CPU ms", justify="right")
    for operation, clients in java.rates:
        figures = [peer.rates[operation, clients] for peer in peers]
        cells = [f"{f['rate']:,.0f} ({f['server_cpu_ms']:.2f})" for f in figures]
        ratios = [
            _against(f["rate"] / figures[0]["rate"], GOALS.get((peer.name, operation, clients)))
            for peer, f in zip(ours, figures[1:], strict=True)
        ]
        view.add_row(operation, str(clients), *cells, *ratios, f"{figures[-1]['client_cpu_ms']:.3f}")
    console.print(view)
    sizes = Table(title="Metastore: start to the first answer, and the most memory under load", title_justify="left")
    for name in ("server", "start s", "RSS MB", "PSS MB"):
        sizes.add_column(name, justify="left" if name == "server" else "right")
    for peer in peers:
        goals = peer is not java
        sizes.add_row(
            peer.name,
            f"{peer.start_seconds:.2f}" + (f" (goal < {GOAL_START_SECONDS:.0f})" if goals else ""),
            f"{peer.peak_rss_mb:.0f}" + (f" (goal < {GOAL_MEMORY_MB:.0f})" if goals else ""),
            f"{peer.peak_pss_mb:.0f}",
        )
    console.print(sizes)


def _against(ratio: float, goal: float | None) -> str:
    if goal is None:
        return f"{ratio:.1f}"
    style = "green" if ratio >= goal else "red"
    return f"[{style}]{ratio:.1f}[/] (goal {goal:g})"


def as_json(peers: Sequence[MeasuredServer]) -> dict[str, Any]:
    """Return the figures as plain values."""
    return {
        peer.name: {
            "rates": {f"{operation}, {clients}": found for (operation, clients), found in peer.rates.items()},
            "start_s": peer.start_seconds,
            "rss_mb": peer.peak_rss_mb,
            "pss_mb": peer.peak_pss_mb,
        }
        for peer in peers
    }


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", action="append", choices=OPERATIONS, help="an operation; may be repeated")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("arguments", nargs="*", help="arguments of the catalog server, after --")
    given = parser.parse_args()
    console = Console(stderr=given.json, width=None if sys.stdout.isatty() else 160)
    operations = given.only or OPERATIONS
    peers = measure(console, seconds=given.seconds, turns=given.turns, operations=operations, arguments=given.arguments)
    show(peers, console)
    if given.json:
        print(json.dumps(as_json(peers), indent=2))


if __name__ == "__main__":
    main()
