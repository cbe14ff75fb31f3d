"""One run: continuous transactions, rounds of queries on the replicated tables, and samples of the cost.

PostgreSQL is loaded, its rows are ingested into the lake, and a Spark session is warmed up by all queries. Then the
terminals start; the 22 queries follow one another, round after round, until the time is over. At the end the terminals
stop, the tables catch up, and both engines must answer each query alike.
"""

import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
import psycopg
import pyarrow as pa

from tests.benchmarks.ch.answers import QueryAnswer, difference, postgres_answers
from tests.benchmarks.ch.children import ChildProcess, cpu_seconds
from tests.benchmarks.ch.lakes import START_SECONDS_MAX, InterbedLake, LakeTables, lake_of
from tests.benchmarks.ch.queries import QUERIES
from tests.benchmarks.ch.tpcc.consistency import violations
from tests.benchmarks.ch.tpcc.loader import load
from tests.benchmarks.ch.tpcc.schema import KEYS, DatabaseSize
from tests.benchmarks.ch.tpcc.terminals import Tally, TerminalPool
from tests.support.peers.process import PeerProcess
from tests.support.servers.postgres import postgres_server
from tests.support.spark.spark_process import clean_environment

POSTGRES = {
    "wal_level": "logical",
    "shared_buffers": "256MB",
    "work_mem": "64MB",
    "max_wal_size": "2GB",
    "timezone": "UTC",
}
QUERY_SECONDS_MAX = 600.0
LAG_EVERY = 5
"""Number of queries between two measurements of the lag of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of a run; `seconds` is the working time of the terminals, `rate` the number of transactions a second."""

    contender: str
    size: DatabaseSize
    seconds: float
    rate: float | None = 40.0
    terminals: int = 4
    seed: int = 1
    commit_seconds: float = 5.0
    sample_seconds: float = 3.0
    warm_ups: int = 2
    jvm_options: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRound:
    """One run of all queries: their start, in seconds of the run, and the time of each."""

    at_s: float
    seconds: tuple[float, ...]

    @property
    def total_s(self) -> float:
        """Total time of the queries."""
        return sum(self.seconds)


@dataclass(slots=True, kw_only=True)
class Record:
    """Observations of a run; times are in seconds of the run."""

    rounds: list[QueryRound] = field(default_factory=list)
    lags: list[tuple[float, float]] = field(default_factory=list)
    """Time of a sample, and the age of the newest order that the query saw, at most the time of the run so far."""
    cpu: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    """CPU seconds since the start, by consumer."""
    shapes: list[tuple[float, dict[str, dict[str, float]]]] = field(default_factory=list)
    """Runs, files and vectors by table."""
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    rows_loaded: int = 0
    catching_up_s: float = 0.0
    processes: dict[str, int] = field(default_factory=dict)
    """Number of the optimizer's ended processes, by kind and result."""
    empty_answers: int = 0
    """Number of queries whose final answer had no rows."""


class WrongAnswerError(Exception):
    """The tables differ from the database, or the database violates a condition of TPC-C."""


def run(settings: RunSettings, note: Callable[[str], None] = lambda text: None) -> Record:
    """Execute the run. Raises WrongAnswerError, and RuntimeError with the last errors of a process that failed."""
    record = Record()
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="interbed-bench-ch-", ignore_cleanup_errors=True)
        directory = Path(stack.enter_context(temporary))
        url = stack.enter_context(database())
        note("loading PostgreSQL")
        now = datetime.now(UTC).replace(tzinfo=None)
        record.rows_loaded = load(url, settings.size, seed=settings.seed, now=now)
        lake = lake_of(settings.contender, directory, commit_seconds=settings.commit_seconds, options=settings.options)
        note("bringing the rows in")
        ingestion = stack.enter_context(lake.ingest(url))
        ingestion.wait_for_commits(len(KEYS), START_SECONDS_MAX)
        reader = stack.enter_context(_reader(lake, directory, settings.jvm_options))
        optimizer = lake.optimizer()
        if optimizer is not None:
            stack.enter_context(optimizer)
        note("warming up")
        for _ in range(settings.warm_ups):
            _ask_all(reader, lambda: True)
        if settings.seconds:
            _work(settings, url, lake, reader, [ingestion, *([optimizer] if optimizer else [])], record, note)
        note("catching up")
        began = time.monotonic()
        lake.finish(ingestion, url)
        record.catching_up_s = time.monotonic() - began
        if optimizer is not None:
            optimizer.stop()
            ended = [line for line in optimizer.said() if line.get("event") == "process"]
            record.processes = Counter(f"{line.get('kind')} {line.get('state')}" for line in ended)
        note("comparing answers")
        _compare(url, reader, directory, record)
    return record


def _work(
    settings: RunSettings,
    url: str,
    lake: LakeTables,
    reader: PeerProcess,
    children: list[ChildProcess],
    record: Record,
    note: Callable[[str], None],
) -> None:
    """Execute the measured part of the run."""
    terminals = TerminalPool(url, settings.size, count=settings.terminals, seed=settings.seed, rate=settings.rate)
    began = time.monotonic()

    def now() -> float:
        return time.monotonic() - began

    def goes_on() -> bool:
        terminals.tally()
        for child in children:
            child.check()
        return now() < settings.seconds

    with _sampling(settings, url, lake, reader, children, record, now):
        terminals.start()
        while goes_on():
            note(f"{now():,.0f} of {settings.seconds:,.0f} s, {len(record.rounds)} rounds")
            at = now()
            # A run has at least one round, even on a slow machine.
            seconds = _ask_all(
                reader,
                goes_on if record.rounds else lambda: True,
                lambda lag: record.lags.append((now(), min(lag, now()))),
            )
            if len(seconds) == len(QUERIES):
                record.rounds.append(QueryRound(at_s=at, seconds=tuple(seconds)))
            if not lake.is_interbed:
                record.shapes.append((now(), {"all": reader.call("files")}))
        record.seconds = now()
        record.tally = terminals.stop()


def _ask_all(
    reader: PeerProcess, goes_on: Callable[[], bool], lagging: Callable[[float], None] | None = None
) -> list[float]:
    """Run the queries in turn while `goes_on`, and return their seconds."""
    seconds: list[float] = []
    for query in QUERIES:
        seconds.append(reader.call("query", number=query.number, into=None)["seconds"])
        if lagging is not None and query.number % LAG_EVERY == 1:
            lagging(reader.call("newest")["lag_s"])
        if not goes_on():
            break
    return seconds


@contextmanager
def _sampling(
    settings: RunSettings,
    url: str,
    lake: LakeTables,
    reader: PeerProcess,
    children: list[ChildProcess],
    record: Record,
    now: Callable[[], float],
) -> Iterator[None]:
    """Take samples while the block runs, including one at its beginning and one at its end."""
    with psycopg.connect(url, autocommit=True) as connection:
        # The server is the parent of the process that answers.
        server = psutil.Process(connection.info.backend_pid).ppid()
    pids = {"postgres": server, "queries": reader.pid, **{c.name: c.pid for c in children}}
    me = psutil.Process().pid

    def spent() -> dict[str, float]:
        found = {name: cpu_seconds(pid) for name, pid in pids.items()}
        found["terminals"] = cpu_seconds(me, alone=True)
        rewritten = [line["cpu_s"] for line in children[0].said() if line.get("event") == "maintenance"]
        if rewritten:
            # Iceberg's procedures run in the process of the ingestion.
            found["optimizer"] = sum(rewritten)
            found["ingestion"] -= found["optimizer"]
        return found

    before = spent()
    over = threading.Event()
    failures: list[BaseException] = []

    def sample() -> None:
        record.cpu.append((now(), {name: value - before.get(name, 0.0) for name, value in spent().items()}))
        if isinstance(lake, InterbedLake):
            record.shapes.append((now(), lake.shape()))

    def go_on() -> None:
        try:
            while not over.wait(settings.sample_seconds):
                sample()
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            failures.append(error)

    sample()
    thread = threading.Thread(target=go_on, name="samples", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60.0)
    if failures:
        raise failures[0]
    sample()


def _compare(url: str, reader: PeerProcess, directory: Path, record: Record) -> None:
    """Raise WrongAnswerError unless both engines answer all queries alike, and the conditions of TPC-C hold."""
    with psycopg.connect(url, autocommit=True) as connection:
        if broken := violations(connection):
            raise WrongAnswerError(f"The database breaks {broken}.")
    expected = postgres_answers(url)
    wrong = []
    for query in QUERIES:
        path = directory / f"answer-{query.number}.arrow"
        reader.call("query", number=query.number, into=str(path))
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
            columns = [column.to_pylist() for column in table.columns]
        found = QueryAnswer(tuple(table.column_names), list(zip(*columns, strict=True)))
        record.empty_answers += not found.rows
        if text := difference(query, expected[query.number], found):
            wrong.append(f"query {query.number}: {text}")
    if wrong:
        raise WrongAnswerError("; ".join(wrong))


@contextmanager
def database() -> Iterator[str]:
    """Run a PostgreSQL with an empty database, whose texts are sorted by their bytes, as in Spark."""
    with postgres_server(POSTGRES) as server:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE ch TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        yield f"{server.rpartition('/')[0]}/ch"


def _reader(lake: LakeTables, directory: Path, jvm_options: str) -> PeerProcess:
    own = {"spark.local.dir": str(directory / "scratch"), "spark.driver.extraJavaOptions": jvm_options}
    command = [sys.executable, "-m", "tests.benchmarks.ch.reader", json.dumps({**lake.reader_settings(), **own})]
    return PeerProcess([*command, lake.namespace], directory / "reader.err", QUERY_SECONDS_MAX, clean_environment())
