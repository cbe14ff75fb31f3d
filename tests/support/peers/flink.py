"""Flink 1.20 with Paimon's connector 1.3.1 as an independent reader and writer: a JVM for the whole test session.

`Flink` starts tests/interop/java_flink/FlinkPeer.java: a cluster and the gateway of Flink's SQL client in one process.
Statements have the form of the SQL client; rows come as JSON (`tests.support.peers.json`).
"""

import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.peers.cache import INTEROP, built_once, fingerprint, java_sources, run
from tests.support.peers.java import JVM_OPTIONS, PeerRows
from tests.support.peers.json import parse_type
from tests.support.peers.process import JvmPeer, PeerProcess
from tests.support.waits import at_most

STATEMENT_SECONDS_MAX = at_most(240)
JOB_SECONDS_MAX = at_most(300)

_DIRECTORY = INTEROP / "java_flink"

_SETTINGS = {
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "rest.bind-port": "0",
    "parallelism.default": "1",
    "taskmanager.memory.managed.size": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.memory.network.min": "64m",
    "table.local-time-zone": "UTC",
}
"""Settings of the cluster; sessions start with them."""

_numbers = itertools.count(1)


def _classpath() -> str:
    pom = _DIRECTORY / "pom.xml"
    sources = java_sources(_DIRECTORY)

    def fetch(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    jars = built_once(f"flink-1.20-{fingerprint(pom)}", fetch)

    def compile_peer(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", *sources)
        services = directory / "META-INF" / "services"
        services.mkdir(parents=True)
        (services / "org.apache.flink.table.factories.Factory").write_text("ChangesConnector\n")

    classes = built_once(f"flink-peer-{fingerprint(pom, Path(__file__), *sources)}", compile_peer)
    # The jars of Paimon, Hive and Hadoop share classes. Flink's `lib` folder is also loaded in the order of names.
    return ":".join([str(classes), *(str(jar) for jar in sorted(jars.glob("*.jar")))])


class Flink(JvmPeer):
    """The JVM, optionally with more connector jars; close it (or leave its `with` block) to end it."""

    def __init__(self, jars: Sequence[Path] = ()) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-flink-", ignore_cleanup_errors=True)
        path = Path(self._directory.name)
        settings = {**_SETTINGS, "io.tmp.dirs": str(path), "table.resources.download-dir": str(path / "resources")}
        self._process = PeerProcess(
            [
                "java",
                *JVM_OPTIONS,
                "-Xmx1g",
                f"-Djava.io.tmpdir={path}",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                *("-cp", ":".join([_classpath(), *map(str, jars)]), "FlinkPeer", json.dumps(settings)),
            ],
            path / "flink.log",
            JOB_SECONDS_MAX + 60,
        )

    def call(self, command: str, **fields: Any) -> Any:
        """Send a command and return its answer. Raises PeerError when Flink refuses it."""
        return self._process.call(command, **fields)

    @contextmanager
    def session(self, settings: Mapping[str, str] | None = None) -> Iterator["FlinkSession"]:
        """Open a session of the SQL client with its own catalogs and settings."""
        name = f"session-{next(_numbers)}"
        self.call("open_session", session=name, settings=dict(settings or {}))
        try:
            yield FlinkSession(self, name)
        finally:
            self.call("close_session", session=name)


@dataclass(frozen=True, slots=True)
class FlinkSession:
    """Session of the SQL client; statements have no closing `;`."""

    flink: Flink
    name: str

    def sql(self, statement: str) -> PeerRows:
        """Run a bounded statement and return its rows with their kinds. Raises PeerError when Flink refuses it."""
        answer = self.flink.call("sql", session=self.name, sql=statement, seconds=STATEMENT_SECONDS_MAX)
        return _peer_rows(answer)

    def values(self, statement: str) -> list[list[Any]]:
        """Return the rows of a statement, sorted."""
        return sorted(self.sql(statement).rows, key=repr)

    def run(self, script: str) -> None:
        """Run statements that are separated by `;` at the ends of lines."""
        for statement in statements(script):
            self.sql(statement)

    def submit(self, statement: str) -> "FlinkJob":
        """Start an INSERT as a job, without waiting for its end."""
        answer = self.flink.call("sql", session=self.name, sql=statement, seconds=STATEMENT_SECONDS_MAX)
        return FlinkJob(self.flink, answer["rows"][0][1][0])

    @contextmanager
    def query(self, statement: str) -> Iterator["FlinkQuery"]:
        """Run a query whose rows are fetched as they arrive; its job is cancelled afterwards."""
        result = f"result-{next(_numbers)}"
        self.flink.call("open", session=self.name, sql=statement, result=result)
        try:
            yield FlinkQuery(self.flink, result)
        finally:
            self.flink.call("close", result=result)

    def changes(
        self,
        name: str,
        columns: str,
        changes: Sequence[tuple[str, Sequence[Any]]],
        directory: Path,
        *,
        kinds: str = "insert",
        rows_per_checkpoint: int | None = None,
    ) -> None:
        """Create a temporary table whose rows are these changes (kind, values as JSON); `columns` is as in CREATE
        TABLE.

        `kinds` names the kinds that occur: insert, upsert (+I, +U, -D by a primary key), all. `rows_per_checkpoint`
        limits a streaming job to the pace of its commits.
        """
        path = directory / f"{name.rsplit('.', 1)[-1]}.json"
        path.write_text("".join(json.dumps([kind, list(row)]) + "\n" for kind, row in changes))
        options = {"connector": "changes", "path": str(path), "kinds": kinds}
        if rows_per_checkpoint is not None:
            options["rows-per-checkpoint"] = str(rows_per_checkpoint)
        given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        self.sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({given})")


@dataclass(frozen=True, slots=True)
class FlinkJob:
    """Job that runs in the cluster."""

    flink: Flink
    id: str

    def running(self) -> bool:
        """Return whether the job has neither finished, failed nor been cancelled."""
        status: str = self.flink.call("job_status", job=self.id, seconds=STATEMENT_SECONDS_MAX)
        return status not in ("FINISHED", "FAILED", "CANCELED")

    def wait(self) -> None:
        """Wait for the end of the job. Raises PeerError with the reason when it failed."""
        self.flink.call("await_job", job=self.id, seconds=JOB_SECONDS_MAX)

    def cancel(self) -> None:
        """Cancel the job in the cluster."""
        self.flink.call("cancel_job", job=self.id, seconds=STATEMENT_SECONDS_MAX)


@dataclass(frozen=True, slots=True)
class FlinkQuery:
    """Rows of an unbounded query."""

    flink: Flink
    result: str

    def fetch(self, count: int) -> list[tuple[str, list[Any]]]:
        """Return the next rows with their kinds: `count` or more, or fewer when no more rows arrive in time."""
        answer = self.flink.call("fetch", result=self.result, rows=count, seconds=STATEMENT_SECONDS_MAX)
        return [(kind, row) for kind, row in answer["rows"]]


def statements(script: str) -> list[str]:
    """Return the statements of a script, each ended by `;` at the end of a line."""
    parts = f"{script.strip()}\n".split(";\n")
    return [part.strip() for part in parts if part.strip()]


def _peer_rows(answer: Mapping[str, Any]) -> PeerRows:
    fields = answer.get("fields", [])
    return PeerRows(
        names=tuple(field["name"] for field in fields),
        types=tuple(parse_type(field["type"]) for field in fields),
        rows=[row for _, row in answer["rows"]],
        kinds=[kind for kind, _ in answer["rows"]],
    )
