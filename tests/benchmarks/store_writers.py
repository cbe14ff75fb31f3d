"""Eight processes that commit to one table in an object store for minutes: commits a second, and no lost commit.

    python -m tests.benchmarks.store_writers [--minutes 5] [--writers 8] [--kind s3] [--latency-ms 0] [--json]

`--kind` may be repeated: `s3` is a file-system catalog without a lock over moto, `s3-lock` a Hive catalog with the
metastore's lock over moto, `hdfs` a file-system catalog without a lock over a MiniDFSCluster. Each commit upserts a row
of its writer and the rows that all writers share; another process compacts every few seconds. At the end the table must
have every row of a confirmed commit, and every snapshot id must have been returned to one writer only. `--latency-ms`
is the minimal time of a request to S3.
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
"""Time limit of the last commit of a writer, after its time is over."""
OPTIONS = {"bucket": "2", "write-only": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFigures:
    """Figures of one kind. `lost_races` counts failed attempts to create a snapshot. `given_up` counts failed commits,
    which had lost as many races as `commit.max-retries` allows by default.
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
        """Commits a second of all writers together."""
        return self.commits / self.seconds


@contextlib.contextmanager
def warehouse(kind: str, latency_seconds: float = 0.0) -> Iterator[dict[str, str]]:
    """Yield the options of a catalog of that kind, with its own servers."""
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
    """Set the credentials with which the metastore opens the store."""
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
    """Let the writers write for `seconds`, and check every update."""
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
            reports = [_report(writer, began + seconds + LATE_SECONDS_MAX - time.monotonic()) for writer in started]
        finally:
            for writer in started:
                writer.kill()
                writer.communicate(timeout=LATE_SECONDS_MAX)
        return _checked(kind, catalog.get_table(TABLE), reports)


def _keep_up(table: interbed.Table, writers: Sequence["subprocess.Popen[str]"], until: float) -> None:
    """Compact every few seconds while the writers are running."""
    while (left := until - time.monotonic()) > 0:
        # A writer that ends early has failed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            writers[0].wait(timeout=min(left, COMPACTION_SECONDS))
            break
        # There is no other compaction, but writers may win all races for a while.
        with contextlib.suppress(CommitError):
            table.compact()


def _report(writer: "subprocess.Popen[str]", seconds: float) -> dict[str, Any]:
    output, errors = writer.communicate(timeout=max(seconds, 1.0))
    if writer.returncode != 0:
        raise RuntimeError(f"A writer ended with {writer.returncode}:\n{errors[-4000:]}")
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    return report


def _checked(kind: str, table: interbed.Table, reports: Sequence[dict[str, Any]]) -> WriterFigures:
    wrong: list[str] = []
    ids = [snapshot_id for each in reports for snapshot_id in each["ids"]]
    if len(set(ids)) != len(ids):
        wrong.append("a snapshot id was returned to two writers")
    appended = {s.id for s in table.snapshots() if s.commit_kind.value == "APPEND"}
    if appended != set(ids):
        wrong.append(f"unconfirmed or missing snapshots: {sorted(appended ^ set(ids))[:10]}")
    column: Any = table.scan(columns=["id"]).to_arrow()["id"]
    found = sorted(column.to_pylist())
    expected = sorted(
        [*SHARED_KEYS, *(own_key(number, n) for number, each in enumerate(reports) for n in range(len(each["ids"])))]
    )
    if found != expected:
        lost, extra = set(expected) - set(found), set(found) - set(expected)
        wrong.append(f"{len(lost)} rows are lost, {len(extra)} are unconfirmed, {len(found)} exist")
    return WriterFigures(
        kind=kind,
        writers=len(reports),
        seconds=max(each["seconds"] for each in reports),
        commits=len(ids),
        lost_races=sum(each["attempts"] for each in reports) - len(ids),
        given_up=sum(each["given_up"] for each in reports),
        commits_each=tuple(len(each["ids"]) for each in reports),
        wrong=tuple(wrong),
    )


def work(options: dict[str, str], number: int, seconds: float) -> dict[str, Any]:
    """Commit for `seconds`, and return the results."""
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
    """Print the figures as a table."""
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
    """Measure, and print the figures."""
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
