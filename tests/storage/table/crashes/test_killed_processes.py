"""Processes that work on one table and are repeatedly killed by SIGKILL.

Acknowledged changes persist, removed rows do not reappear, every tag and branch has its rows, and no table needs manual
repair. Each process writes keys of its own, so the rows of a key follow from the messages of one process. An operation
that was not acknowledged took effect completely or not at all. Operations that concern all keys (compactions, expiry,
tags, branches, columns) are made by every process. After each round of processes, the table is read and compared, and
orphan files are removed. Now and then a process that runs alone goes back to an older version, or forward to a branch.
"""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

import interbed
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import remove_orphan_files
from tests.storage.table.crashes.fork_server import SCHEMA, SPACE
from tests.support.shares import each_run
from tests.support.tally import Tally

ROOT = Path(__file__).resolve().parents[4]
LATER = 4_102_444_800
Rows = dict[int, int]
KINDS = {
    "key": {"bucket": "2", "num-sorted-run.compaction-trigger": "3"},
    "dynamic buckets": {"bucket": "-1"},
    "lookup changelog": {"bucket": "1", "changelog-producer": "lookup"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "append": {"bucket": "-1", "compaction.min.file-num": "3"},
    "append with vectors": {"bucket": "-1", "deletion-vectors.enabled": "true"},
}


def rows_of(table: Table) -> Rows:
    read = table.scan(["id", "v"]).to_arrow()
    keys: list[Any] = read["id"].to_pylist()
    values: list[Any] = read["v"].to_pylist()
    found = dict(zip(keys, values, strict=True))
    assert len(found) == len(keys), "a row is there twice"
    return found


def own(rows: Rows, worker: int) -> Rows:
    return {key: value for key, value in rows.items() if key // SPACE == worker}


class TableUnderTest:
    """One table, the processes that work on it, and what they have acknowledged."""

    def __init__(self, directory: Path, kind: str, seed: int) -> None:
        catalog = interbed.load_catalog("lake", warehouse=str(directory))
        catalog.create_database("d")
        keys = [] if kind.startswith("append") else ["id"]
        options = {"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "12", **KINDS[kind]}
        # No power cuts here: data that a killed process has written persist without a sync.
        options["commit.sync"] = "none"
        self.location = catalog.create_table("d.t", SCHEMA, primary_keys=keys, options=options).location
        self.shows_when_compacted = kind == "vectors"
        self.random = Random(seed)
        self.numbers = itertools.count(1)
        self.rows: Rows = {}
        self.tags: dict[str, Rows | None] = {}
        """The rows of each tag, None until it was read; the same for branches."""
        self.branches: dict[str, Rows | None] = {}
        self.doubtful: set[str] = set()
        """Tags and branches whose creation or deletion was not acknowledged."""
        self.own_of_tags: dict[str, tuple[int, Rows]] = {}
        self.begun: dict[int, dict[str, Any]] = {}
        """The last operation that each process has begun."""
        self.counts: Counter[str] = Counter()

    @property
    def table(self) -> Table:
        return interbed.load_table(self.location)

    def round(self, fork_server: "subprocess.Popen[str]", workers: int, operations: int) -> None:
        """Let the given number of processes work at once, kill some of them, and check the table."""
        jobs = [self.job(number, operations) for number in range(1, workers + 1)]
        may: dict[int, list[Rows]] = {number: [own(self.rows, number)] for number in range(1, workers + 1)}
        for message in self.run(fork_server, jobs):
            self.hear(message, may)
        self.check_rows(may)
        self.check_versions()
        # Where new rows are visible only after their compaction, a snapshot has more rows than it shows.
        if self.random.random() < 0.3 and not self.shows_when_compacted:
            self.go_back(fork_server)

    def job(self, number: int, operations: int) -> dict[str, Any]:
        kill = self.random.choice(["calls", "calls", "calls", "millis", "millis", "none"])
        ends = {"calls": {"calls": self.random.randint(0, 60)}, "millis": {"millis": self.random.randint(1, 400)}}
        rows = {str(key): value for key, value in own(self.rows, number).items()}
        first = next(self.numbers) * 1000
        return {
            "worker": number,
            "seed": self.random.random(),
            "rows": rows,
            "next": first,
            "operations": operations,
            **ends.get(kill, {}),
        }

    def run(self, fork_server: "subprocess.Popen[str]", jobs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        assert fork_server.stdin is not None
        assert fork_server.stdout is not None
        fork_server.stdin.write(f"{json.dumps(jobs)}\n")
        fork_server.stdin.flush()
        for line in fork_server.stdout:
            message: dict[str, Any] = json.loads(line)
            if "over" in message:
                self.counts["killed"] += message["over"].count(-9)
                assert set(message["over"]) <= {0, -9}, message
                return
            yield message
        raise AssertionError("the fork server has ended")

    # -- messages of the workers -----------------------------------------------------------------------------------

    def hear(self, message: dict[str, Any], may: dict[int, list[Rows]]) -> None:
        """Process a message of a worker; `may` are the rows that its keys may have."""
        worker, event, what = message["worker"], message["event"], message.get("what", "")
        assert event != "failed", message
        if event == "begin":
            self.begun[worker] = message
            self.begin(message, may[worker])
            return
        begun = self.begun[worker]
        self.counts[f"{what} {event}"] += 1
        if event == "refused":
            assert "Corrupt" not in message["error"], message
        if "rows" in begun and event != "unknown":
            may[worker][:] = [may[worker][-1] if event == "done" else may[worker][0]]
        name = begun.get("name", "")
        if event == "done":
            self.doubtful.discard(name)
            if what == "tag":
                self.tags[name], self.own_of_tags[name] = None, (worker, may[worker][0])
            elif what == "branch":
                self.branches[name] = None
            elif what == "drop tag":
                self.tags.pop(name, None)
            elif what == "drop branch":
                self.branches.pop(name, None)

    def begin(self, message: dict[str, Any], may: list[Rows]) -> None:
        if "rows" in message:
            may.append({int(key): value for key, value in message["rows"].items()})
        if message["what"] in ("tag", "branch", "drop tag", "drop branch"):
            self.doubtful.add(message["name"])

    # -- state of the table ----------------------------------------------------------------------------------------

    def check_rows(self, may: dict[int, list[Rows]]) -> None:
        if self.shows_when_compacted:
            self.table.compact(full=True)
        found = rows_of(self.table)
        for worker, allowed in may.items():
            assert own(found, worker) in allowed, f"worker {worker} has {own(found, worker)}, not one of {allowed}"
        self.rows = found

    def check_versions(self) -> None:
        """Read every version, remove orphan files, and read every version again."""
        table = self.table
        findings = table.maintenance.fsck(repair=True).findings
        assert all(f.mended for f in findings if not f.what.startswith("branch")), findings
        for attempt in range(2):
            tags = {tag.name: rows_of(table.copy({"scan.tag-name": tag.name})) for tag in table.versions.tags()}
            branches = {name: rows_of(table.branch(name)) for name in table.versions.branches()}
            self.compare("tags", self.tags, tags)
            self.compare("branches", self.branches, branches)
            for snapshot in table.snapshots():
                rows_of(table.copy({"scan.snapshot-id": str(snapshot.id)}))
            assert rows_of(table) == self.rows
            if attempt == 0:
                remove_orphan_files(table.store, older_than_millis=(LATER - 1) * 1000, clock=lambda: LATER)
        self.doubtful.clear()
        self.counts["rounds"] += 1

    def compare(self, what: str, known: dict[str, Rows | None], found: dict[str, Rows]) -> None:
        lost = set(known) - set(found) - self.doubtful
        strange = set(found) - set(known) - self.doubtful
        assert (lost, strange) == (set(), set()), f"{what} lost: {lost}, {what} that no process made: {strange}"
        for name, rows in found.items():
            before = known.get(name)
            assert before is None or before == rows, f"{what} {name}: {rows}, not {before}"
            if name in self.own_of_tags and not self.shows_when_compacted:
                worker, expected = self.own_of_tags[name]
                assert own(rows, worker) == expected, f"{what} {name}: {own(rows, worker)}, not {expected}"
        known.clear()
        known.update(found)

    def go_back(self, fork_server: "subprocess.Popen[str]") -> None:
        """Let a process go back or forward; it may be killed before the end."""
        table = self.table
        versions = {str(s.id): rows_of(table.copy({"scan.snapshot-id": str(s.id)})) for s in table.snapshots()[-4:]}
        newest = max(table.store.snapshots.ids(), default=0)
        for name, rows in self.branches.items():
            # A branch of rolled-back snapshots may begin beyond the table's newest snapshot, which leaves a gap.
            if table.branch(name).store.snapshots.ids()[0] <= newest + 1:
                versions[f"branch {name}"] = rows or {}
        if not versions:
            return
        version = self.random.choice(sorted(versions))
        job = {**self.job(1, 1), "lone": version}
        for message in self.run(fork_server, [job]):
            assert message["event"] != "failed", message
            self.counts[f"go back {message['event']}"] += 1
        found = rows_of(self.table)
        assert found in (self.rows, versions[version]), f"{found}, not {self.rows} nor {versions[version]}"
        table = self.table
        self.rows = found
        # A fast-forward also brings the tags of the branch.
        left = {tag.name for tag in table.versions.tags()}
        assert left <= set(self.tags) or version.startswith("branch ")
        self.tags = {name: self.tags.get(name) for name in left}
        self.check_versions()


@contextmanager
def started(location: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.table.crashes.fork_server", location],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def live(directory: Path, kind: str, seed: int, *, workers: int, rounds: int, operations: int) -> Counter[str]:
    life = TableUnderTest(directory, kind, seed)
    with started(life.location) as fork_server:
        for _ in range(rounds):
            life.round(fork_server, workers, operations)
    assert life.counts["killed"]
    return life.counts


@pytest.mark.parametrize("workers", each_run([1, 3], lambda workers: workers == 3))
def test_acknowledged_changes_of_killed_processes_persist(tmp_path: Path, workers: int, tally: Tally) -> None:
    counts = live(tmp_path, "key", seed=workers, workers=workers, rounds=4, operations=5)
    tally("processes killed with SIGKILL beside others", counts["killed"])


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_no_change_is_lost_in_many_rounds_of_killed_processes(
    tmp_path: Path, kind: str, workers: int, tally: Tally
) -> None:
    counts = live(tmp_path, kind, seed=workers, workers=workers, rounds=40, operations=8)
    tally("processes killed with SIGKILL beside others", counts["killed"])
    tally("checks of a table after a SIGKILL", counts["rounds"])
