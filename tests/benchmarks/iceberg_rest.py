"""The same load on Iceberg's own REST server in Java and on the catalog server, in one run.

    python -m tests.benchmarks.iceberg_rest [--seconds 3] [--turns 2] [--tables 1000] [--clients 1 8 64] [--workers 2]
        [--only load] [--server "interbed, SQLite"] [--no-peer] [--pages 100000] [--json]

The peer is the server of Iceberg's compatibility kit with its JDBC catalog on a SQLite file. Rates are requests a
second of 1, 8 and 64 clients, which keep their connections; up to 8 clients are processes of their own, more are
threads of 8 processes. The goal is the ratio of the servers' CPU time for a request, which depends least on other load.
The servers alternate for each operation, and the best turn counts. `commit` changes a table of each client, `race` one
table of all clients. `--pages` lists that many tables of interbed's servers by pages of 1000; their rows are copied
within the database.
"""

import argparse
import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
from rich.console import Console
from rich.table import Table
from sqlalchemy import inspect

from interbed.catalog.server.database.engine import open_engine
from interbed.catalog.server.process.command import start_server, stop_server
from tests.benchmarks.origin import origin
from tests.support.servers.http_servers import rest_catalog_process
from tests.support.servers.metastore import new_database
from tests.support.servers.postgres import postgres_server

JAVA, SQLITE, POSTGRESQL = "Java, JDBC on SQLite", "interbed, SQLite", "interbed, PostgreSQL"
OPERATIONS = ("load", "exists", "list", "create", "commit", "race")
CLIENTS = (1, 8, 64)
PROCESSES_MAX = 8
PAGE_SIZE = 1000
GOAL_RATIO = 3.0
"""CPU time of the peer for a request, over that of interbed's on SQLite."""
GOAL_P99_MS = 5.0
"""Of `load` with 8 clients."""
GOAL_RACE_RATE = 50
"""Commits a second of 8 clients to one table."""
GOAL_PAGES_SECONDS = 1.0
"""For 100,000 tables by pages."""

WAIT_SECONDS = 180
WARM_UP_SECONDS = 2.0
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "at", "required": False, "type": "timestamptz"},
    ],
}


# -- the client, a process of its own ----------------------------------------------------------------------------------


class RestLoad:
    """Requests of one client, on one connection."""

    def __init__(self, address: str, number: int, tables: int, own: str = "t") -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=WAIT_SECONDS)
        self._root = f"{parts.path}/v1"
        self._number = number
        self._tables = tables
        self._own = own
        self._turn = 0
        config = self.ask("GET", f"{self._root}/config")
        prefix = {**config.get("defaults", {}), **config.get("overrides", {})}.get("prefix")
        if prefix:
            self._root += f"/{prefix}"

    def reconnect(self) -> None:
        """Open a connection with the next request: the peer closes those that are idle for half a minute."""
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None, *, conflicts: bool = False) -> Any:
        """Return the JSON of a response, None for a conflict if those are allowed; RuntimeError for an error."""
        content = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        said = response.read()
        if conflicts and response.status == HTTPStatus.CONFLICT:
            return None
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {said[:300]!r}")
        return json.loads(said) if said else {}

    def prepare(self) -> None:
        """Create a namespace with the tables that are listed and loaded."""
        self.ask("POST", f"{self._root}/namespaces", {"namespace": ["load"], "properties": {}})
        for number in range(self._tables):
            self._create("load", f"t{number:06}")
        self.ask("POST", f"{self._root}/namespaces", {"namespace": ["race"], "properties": {}})
        self._create("race", "t")

    def own_namespace(self) -> None:
        """Create the namespace of the tables that the clients of this process create and commit to."""
        self.ask("POST", f"{self._root}/namespaces", {"namespace": [f"own{self._number}"], "properties": {}})

    def own_table(self) -> None:
        """Create the table that this client commits to."""
        self._create(f"own{self._number}", self._own)

    def operation(self, name: str) -> Callable[[], object]:
        """Return the function of one request."""
        return {
            "load": lambda: self.ask("GET", self._next_table()),
            "exists": lambda: self.ask("HEAD", self._next_table()),
            "list": lambda: self.ask("GET", f"{self._root}/namespaces/load/tables"),
            "create": lambda: self._create(f"own{self._number}", uuid.uuid4().hex),
            "commit": lambda: self._commit(f"own{self._number}", self._own),
            "race": lambda: self._commit("race", "t"),
        }[name]

    def _next_table(self) -> str:
        self._turn += 1
        return f"{self._root}/namespaces/load/tables/t{(self._turn * 7 + self._number) % self._tables:06}"

    def _create(self, namespace: str, name: str) -> Any:
        return self.ask("POST", f"{self._root}/namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA})

    def _commit(self, namespace: str, table: str) -> Any:
        self._turn += 1
        change = {"action": "set-properties", "updates": {f"turn{self._number}": str(self._turn)}}
        path = f"{self._root}/namespaces/{namespace}/tables/{table}"
        while True:
            found = self.ask("POST", path, {"requirements": [], "updates": [change]}, conflicts=namespace == "race")
            if found is not None:
                return found

    def pages(self, namespace: str) -> int:
        """Return the number of the tables of a namespace, listed by pages."""
        count = 0
        token: str | None = ""
        while token is not None:
            path = f"{self._root}/namespaces/{namespace}/tables?pageSize={PAGE_SIZE}&pageToken={token}"
            page = self.ask("GET", path)
            count += len(page["identifiers"])
            token = page.get("next-page-token")
        return count


def run_client(address: str, number: int, tables: int) -> None:
    """Answer commands on standard input: `operation seconds clients`, each with a line of figures."""
    first = RestLoad(address, number, tables)
    if number < 0:
        first.prepare()
        print("ready", flush=True)
        return
    first.own_namespace()
    first.own_table()
    loads = [first]
    print("ready", flush=True)
    for line in sys.stdin:
        name, seconds, clients = line.split()
        while len(loads) < int(clients):
            loads.append(RestLoad(address, number, tables, f"t{len(loads)}"))
            loads[-1].own_table()
        chosen = loads[: int(clients)]
        until = time.perf_counter() + float(seconds)
        if len(chosen) == 1:
            times = timed(first, name, until)
        else:
            with ThreadPoolExecutor(len(chosen)) as pool:
                found = [pool.submit(timed, load, name, until) for load in chosen]
                times = [each for some in found for each in some.result()]
        print(json.dumps(times), flush=True)


def timed(load: RestLoad, name: str, until: float) -> list[float]:
    """Send requests until a time; return the seconds of each."""
    load.reconnect()
    ask = load.operation(name)
    times: list[float] = []
    while (began := time.perf_counter()) < until:
        ask()
        times.append(time.perf_counter() - began)
    return times


# -- the comparison ----------------------------------------------------------------------------------------------------


class ClientProcess:
    """A client, started before the measurement."""

    def __init__(self, address: str, number: int, tables: int) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.iceberg_rest", "--client", address, str(number), str(tables)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        """Return its next line. SystemExit if it has failed."""
        assert self._process.stdout is not None
        timer = threading.Timer(WAIT_SECONDS, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline().strip()
        finally:
            timer.cancel()
        if not line:
            raise SystemExit("a client of the benchmark has failed; see above")
        return line

    def start(self, operation: str, seconds: float, clients: int) -> None:
        """Let it send requests for a time, as this number of clients."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{operation} {seconds} {clients}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Kill it, and wait for its end."""
        self._process.kill()
        self._process.communicate(timeout=WAIT_SECONDS)


@dataclass(slots=True, kw_only=True)
class MeasuredServer:
    """Server under load, with its processes and its best figures by operation and number of clients."""

    name: str
    address: str
    processes: list[psutil.Process]
    clients: list[ClientProcess]
    figures: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes so far, with those of children that have ended."""
        total = 0.0
        for process in self.processes:
            for each in [process, *process.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = each.cpu_times()
                    total += times.user + times.system + times.children_user + times.children_system
        return total

    def measure(self, operation: str, clients: int, seconds: float) -> dict[str, float]:
        """Return the figures of one turn, and keep them if its requests took less CPU time."""
        before = self.cpu_seconds()
        chosen = self.clients[:clients]
        for client in chosen:
            client.start(operation, seconds, clients // len(chosen))
        times = sorted(each for client in chosen for each in json.loads(client.line()))
        cpu = self.cpu_seconds() - before
        if not times:
            raise SystemExit(f"{self.name} has answered no request in {seconds} s: give more --seconds")
        found = {
            "rate": len(times) / seconds,
            "cpu_ms": cpu * 1000 / len(times),
            "p99_ms": times[int(len(times) * 0.99)] * 1000,
        }
        self._keep((operation, clients), found)
        return found

    def measure_pages(self, pages: int) -> None:
        """Measure one list by pages of the namespace `race`: a rate of whole lists, CPU time and seconds of each."""
        load = RestLoad(self.address, 0, 1)
        before, began = self.cpu_seconds(), time.perf_counter()
        count = load.pages("race")
        seconds = time.perf_counter() - began
        assert count == pages, f"{count} tables are listed, not {pages}"
        cpu = self.cpu_seconds() - before
        found = {"rate": 1 / seconds, "cpu_ms": cpu * 1000, "p99_ms": seconds * 1000}
        self._keep((f"{pages} by pages", 1), found)

    def _keep(self, key: tuple[str, int], found: dict[str, float]) -> None:
        best = self.figures.get(key)
        if best is None or found["cpu_ms"] < best["cpu_ms"]:
            self.figures[key] = found


@contextmanager
def running(
    name: str, directory: Path, postgres_url: str | None, workers: int
) -> Iterator[tuple[str, list[psutil.Process], str]]:
    """Run a server; yield the address of its Iceberg catalog, its processes, and the url of its database."""
    if name == JAVA:
        environment = {"CATALOG_URI": f"jdbc:sqlite:{directory}/java.db"}
        with rest_catalog_process(directory / "java", environment) as (uri, process):
            yield uri, [psutil.Process(process.pid)], f"sqlite:///{directory}/java.db"
        return
    databases = []
    if name == POSTGRESQL:
        assert postgres_url is not None
        db = new_database(postgres_url)
        databases = [database_process(db)]
    else:
        db = f"sqlite:///{directory}/own.db"
    further = ["--workers", str(workers)] if workers > 1 else []
    log = directory / f"{name[-6:]}.log"
    server = start_server(db, f"file:{directory}/{name[-6:]}", "--http-port", "0", *further, log=log)
    try:
        yield f"{server.http}/iceberg", [psutil.Process(server.process.pid), *databases], db
    finally:
        stop_server(server)


def database_process(db: str) -> psutil.Process:
    """Return the process of a PostgreSQL server, whose children serve its connections."""
    with psycopg.connect(db) as connection:
        found = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert found is not None
        parent = psutil.Process(found[0]).parent()
    assert parent is not None
    return parent


def compared(
    servers: Sequence[str],
    operations: Sequence[str],
    *,
    seconds: float,
    turns: int,
    tables: int,
    counts: Sequence[int],
    workers: int,
    pages: int,
    console: Console,
) -> list[MeasuredServer]:
    """Return the servers with their figures."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        postgres_url = stack.enter_context(postgres_server()) if POSTGRESQL in servers else None
        measured = []
        for server in servers:
            address, processes, db = stack.enter_context(running(server, Path(name), postgres_url, workers))
            first = ClientProcess(address, -1, tables)
            first.line()
            first.close()
            if pages:
                copy_tables(db, pages, is_peer=server == JAVA)
            clients = [ClientProcess(address, number, tables) for number in range(min(max(counts), PROCESSES_MAX))]
            for client in clients:
                stack.callback(client.close)
                client.line()
            measured.append(MeasuredServer(name=server, address=address, processes=processes, clients=clients))
        for operation in operations:
            for each in measured:
                # Java compiles what is called often.
                each.measure(operation, min(max(counts), PROCESSES_MAX), WARM_UP_SECONDS)
                each.figures.pop((operation, min(max(counts), PROCESSES_MAX)))
            for _ in range(turns):
                for count in counts:
                    for each in measured:
                        with console.status(f"{operation}: {count} clients, {each.name}"):
                            found = each.measure(operation, count, seconds)
                        console.log(f"{operation}: {count} clients, {each.name}: {shown_figures(found)}")
        if pages:
            for _ in range(turns):
                for each in measured:
                    with console.status(f"{pages} tables by pages, {each.name}"):
                        each.measure_pages(pages)
        return measured


def copy_tables(db: str, count: int, *, is_peer: bool) -> None:
    """Fill the namespace `race` with copies of the row of its table, which is faster than by requests."""
    engine = open_engine(db)
    is_sqlite = engine.dialect.name == "sqlite"
    numbers = (
        f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count - 1}) "
        if is_sqlite
        else f"WITH numbers AS (SELECT generate_series(1, {count - 1}) AS n) "
    )
    table = "iceberg_tables" if is_peer else "tables"
    name = "table_name" if is_peer else "name"
    namespace = (
        "table_namespace = 'race'" if is_peer else "database_id = (SELECT id FROM databases WHERE name = 'race')"
    )
    columns = [each["name"] for each in inspect(engine).get_columns(table) if each["name"] not in ("id", name)]
    number = "printf('%06d', n)" if is_sqlite else "lpad(n::text, 6, '0')"
    chosen = ", ".join(columns)
    with engine.execution_options(interbed_write=True).begin() as connection:
        connection.exec_driver_sql(
            f"INSERT INTO {table} ({name}, {chosen}) {numbers}"
            f"SELECT 'c' || {number}, {chosen} FROM {table}, numbers WHERE {namespace} AND {name} = 't'"
        )
    engine.dispose()


def shown_figures(found: Mapping[str, float]) -> str:
    """Return figures as a text."""
    return f"{found['rate']:.0f}/s  {found['cpu_ms']:.2f} ms  p99 {found['p99_ms']:.1f}"


def shown(measured: Sequence[MeasuredServer]) -> Table:
    """Return the figures as a table: rate, CPU milliseconds and 99th percentile, and the ratio of CPU times to those of
    the first server.
    """
    table = Table("operation", "clients", *(each.name for each in measured), "CPU ratio")
    peer = measured[0].figures
    for key in peer:
        found = [each.figures[key] for each in measured]
        cells = [shown_figures(one) for one in found]
        ratios = [shown_ratio(peer[key]["cpu_ms"], one["cpu_ms"]) for one in found[1:]]
        table.add_row(key[0], str(key[1]), *cells, ", ".join(ratios))
    return table


def shown_ratio(peer_ms: float, own_ms: float) -> str:
    """Return the ratio of two CPU times as a text. The system counts them in ticks of 10 ms, so that those of few
    requests may be 0: then there is no ratio.
    """
    return f"{peer_ms / own_ms:.1f}x" if own_ms > 0 else "too short"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison of servers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--only", choices=OPERATIONS, action="append")
    parser.add_argument("--server", choices=(SQLITE, POSTGRESQL), action="append")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="1 to 8, or multiples of 8")
    parser.add_argument("--workers", type=int, default=1, help="worker processes of interbed's servers")
    parser.add_argument("--pages", type=int, default=0, metavar="TABLES")
    parser.add_argument("--no-peer", action="store_true", help="compare with the first of interbed's servers")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--client", nargs=3, metavar=("ADDRESS", "NUMBER", "TABLES"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.client:
        run_client(given.client[0], int(given.client[1]), int(given.client[2]))
        return
    console = Console(stderr=True)
    measured = compared(
        [*(() if given.no_peer else (JAVA,)), *(given.server or (SQLITE, POSTGRESQL))],
        given.only or OPERATIONS,
        seconds=given.seconds,
        turns=given.turns,
        tables=given.tables,
        counts=given.clients,
        workers=given.workers,
        pages=given.pages,
        console=console,
    )
    if given.json:
        figures = {
            each.name: {f"{name} {count}": values for (name, count), values in each.figures.items()}
            for each in measured
        }
        print(
            json.dumps({**origin(["-m", "tests.benchmarks.iceberg_rest", *sys.argv[1:]]), "figures": figures}, indent=2)
        )
        return
    Console().print(shown(measured))


if __name__ == "__main__":
    main()
