"""Eight processes that commit to one table in a store for minutes: how many commits a second, and that none is lost.

    python -m tests.benchmarks.store_writers [--minutes 5] [--writers 8] [--kind s3] [--latency-ms 0] [--json]

`--kind` may come several times: `s3` is a file-system catalog without a lock over moto, `s3-lock` a Hive catalog with
the metastore's lock over moto, `hdfs` a file-system catalog without a lock over a MiniDFSCluster. Each commit upserts a
row of its writer's own and the rows that all writers share; a process beside them compacts every few seconds. At the
end every row that a writer was told of is there, and every snapshot id was told to one writer. `--latency-ms` is what a
request to S3 takes at least.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as View

import interbed
from interbed.storage.base.errors import CommitError, CommitFailedError
from interbed.testing import metastore
from tests.catalog.writer_process import SCHEMA, SHARED_KEYS, TABLE, own_key, rows
from tests.support.servers.hdfs import running_hdfs
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import StoreProxy

KINDS = ("s3", "s3-lock", "hdfs")
ROOT = Path(__file__).resolve().parents[2]
COMPACTION_SECONDS = 10.0
LATE_SECONDS_MAX = 180.0
"""How long a writer may take for its last commit, after its time is over."""
OPTIONS = {"bucket": "2", "write-only": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFigures:
    """What came of one kind; `lost_races` is how often a writer tried to create a snapshot in vain, `given_up` how many
    commits failed, because they had lost as many races as `commit.max-retries` allows by default.
    """

    kind: str
    writers: int
    seconds: float
    commits: int
    lost_races: int
    given_up: int
    commits_each: tuple[int, ...]
    wrong: tuple[str, ...]

    @property
    def commits_a_second(self) -> float:
        """Of all writers together."""
        return self.commits / self.seconds


@contextlib.contextmanager
def warehouse(kind: str, latency_seconds: float = 0.0) -> Iterator[dict[str, str]]:
    """The options of a catalog of that kind, with servers of its own."""
    with contextlib.ExitStack() as running:
        if kind == "hdfs":
            hdfs = running.enter_context(running_hdfs())
            yield {"warehouse": f"{hdfs.uri}/{uuid.uuid4()}/lake"}
            return
        store = running.enter_context(running_s3("lake"))
        if latency_seconds:
            store = running.enter_context(StoreProxy.before(store, latency_seconds=latency_seconds)).options
        options = {"warehouse": "s3a://lake/warehouse", **store}
        if kind == "s3-lock":
            running.enter_context(_environment(store))
            uri = running.enter_context(metastore())
            options |= {"metastore": "hive", "uri": uri, "lock.enabled": "true", "lock-check-max-sleep": "200 ms"}
        yield options


@contextlib.contextmanager
def _environment(store: dict[str, str]) -> Iterator[None]:
    """What the metastore opens the store with."""
    values = {
        "AWS_ENDPOINT_URL": store["s3.endpoint"],
        "AWS_ACCESS_KEY_ID": store["s3.access-key"],
        "AWS_SECRET_ACCESS_KEY": store["s3.secret-key"],
        "AWS_REGION": store["s3.region"],
    }
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run(kind: str, options: dict[str, str], *, seconds: float, writers: int) -> WriterFigures:
    """Let the writers write for so long, and check every update."""
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("shop")
        catalog.create_table(TABLE, SCHEMA, primary_keys=["id"], options=OPTIONS)
        started: list[subprocess.Popen[str]] = []
        began = time.monotonic()
        try:
            for number in range(writers):
                arguments = ["--work", json.dumps(options), str(number), str(seconds)]
                started.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "tests.benchmarks.store_writers", *arguments],
                        cwd=ROOT,
                        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                    )
                )
            _keep_up(catalog.get_table(TABLE), started, began + seconds)
            told = [_told(writer, began + seconds + LATE_SECONDS_MAX - time.monotonic()) for writer in started]
        finally:
            for writer in started:
                writer.kill()
                writer.communicate(timeout=LATE_SECONDS_MAX)
        return _checked(kind, catalog.get_table(TABLE), told)


def _keep_up(table: interbed.Table, writers: Sequence["subprocess.Popen[str]"], until: float) -> None:
    """Compact every few seconds while the writers are at work."""
    while (left := until - time.monotonic()) > 0:
        # A writer that ends early has something to say.
        with contextlib.suppress(subprocess.TimeoutExpired):
            writers[0].wait(timeout=min(left, COMPACTION_SECONDS))
            break
        # Another compaction there is none, but writers may win all races for a while.
        with contextlib.suppress(CommitError):
            table.compact()


def _told(writer: "subprocess.Popen[str]", seconds: float) -> dict[str, Any]:
    output, errors = writer.communicate(timeout=max(seconds, 1.0))
    if writer.returncode != 0:
        raise RuntimeError(f"A writer ended with {writer.returncode}:\n{errors[-4000:]}")
    told: dict[str, Any] = json.loads(output.splitlines()[-1])
    return told


def _checked(kind: str, table: interbed.Table, told: Sequence[dict[str, Any]]) -> WriterFigures:
    wrong: list[str] = []
    ids = [snapshot_id for each in told for snapshot_id in each["ids"]]
    if len(set(ids)) != len(ids):
        wrong.append("a snapshot was told to two writers")
    appended = {s.id for s in table.snapshots() if s.commit_kind.value == "APPEND"}
    if appended != set(ids):
        wrong.append(f"snapshots that nobody was told of, or that are gone: {sorted(appended ^ set(ids))[:10]}")
    column: Any = table.scan(columns=["id"]).to_arrow()["id"]
    found = sorted(column.to_pylist())
    expected = sorted(
        [*SHARED_KEYS, *(own_key(number, n) for number, each in enumerate(told) for n in range(len(each["ids"])))]
    )
    if found != expected:
        lost, extra = set(expected) - set(found), set(found) - set(expected)
        wrong.append(f"{len(lost)} rows are lost, {len(extra)} nobody was told of, {len(found)} are there")
    return WriterFigures(
        kind=kind,
        writers=len(told),
        seconds=max(each["seconds"] for each in told),
        commits=len(ids),
        lost_races=sum(each["attempts"] for each in told) - len(ids),
        given_up=sum(each["given_up"] for each in told),
        commits_each=tuple(len(each["ids"]) for each in told),
        wrong=tuple(wrong),
    )


def work(options: dict[str, str], number: int, seconds: float) -> dict[str, Any]:
    """Commit for so long; what came of it."""
    ids: list[int] = []
    attempts = given_up = 0
    with interbed.CatalogFactory.create(options) as catalog:
        table = catalog.get_table(TABLE)
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            user = str(uuid.uuid4())
            with table.new_write(user, batch=True) as write:
                write.write_arrow(rows(number, len(ids)))
                messages = write.prepare_commit()
            commit = table.new_commit(user)
            try:
                ids += commit.commit(messages)
            except CommitFailedError:
                given_up += 1
            attempts += commit.attempts
        return {"ids": ids, "attempts": attempts, "given_up": given_up, "seconds": time.monotonic() - began}


def show(found: Sequence[WriterFigures], console: Console) -> None:
    """The figures as a table."""
    view = View(title="Writers of one table in a store", title_justify="left")
    for column in (
        "store",
        "writers",
        "seconds",
        "commits",
        "commits a second",
        "lost races a commit",
        "given up",
        "wrong",
    ):
        view.add_column(column, justify="right" if column not in ("store", "wrong") else "left")
    for each in found:
        view.add_row(
            each.kind,
            str(each.writers),
            f"{each.seconds:.0f}",
            f"{each.commits:,}",
            f"{each.commits_a_second:.1f}",
            f"{each.lost_races / max(1, each.commits):.2f}",
            f"{each.given_up:,}",
            "; ".join(each.wrong) or "nothing",
        )
    console.print(view)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(json.loads(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: list[WriterFigures] = []
    for kind in arguments.kind or KINDS:
        with warehouse(kind, arguments.latency_ms / 1000) as options:
            found.append(run(kind, options, seconds=arguments.minutes * 60, writers=arguments.writers))
    if arguments.json:
        print(json.dumps([{**asdict(each), "commits_a_second": each.commits_a_second} for each in found], indent=2))
    else:
        show(found, Console())
    if any(each.wrong for each in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
