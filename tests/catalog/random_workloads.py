"""Random workloads: several writers work on tables of an object store with faults; afterwards their reports are
checked.

Every write is a group of rows with a number of its own. A write that reported success is in the table once. A write
that reported a failure is not. A write whose state is reported as unknown is there as a whole or not at all. Readers
see whole groups.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import CommitStateUnknownError, InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.version.orphans import remove_orphan_files
from tests.support.servers.store_proxy import Fault, Request

GROUP_ROWS = 3
STALL_SECONDS = 0.3
RETRY_OPTIONS = {
    "s3.retry.interval": "1ms",
    "s3.retry.limit": "3",
    "s3.connection.timeout": "200ms",
    "s3.connection.request.timeout": "2s",
}
SCHEMA = pa.schema([("id", pa.int64()), ("number", pa.int64())])
KINDS = ("keyed", "looked up", "appended", "vectors")
Kind = Literal["keyed", "looked up", "appended", "vectors"]
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "keyed": {"bucket": "1"},
    "looked up": {"bucket": "2", "changelog-producer": "lookup"},
    "appended": {"bucket": "-1"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
}
_COMMON = {
    "num-sorted-run.compaction-trigger": "3",
    "manifest.merge-min-count": "4",
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "5",
    "commit.max-retries": "30",
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "20 ms",
}


@dataclass(slots=True)
class RandomFaults:
    """Random faults of requests: single ones, and storms in which all requests fail for a while.

    `count` is the number of faults so far, `limit` their maximum.
    """

    chance: random.Random
    rate: float = 0.06
    storms: float = 0.004
    limit: int = 1_000_000
    counts: Counter[str] = field(default_factory=Counter[str])
    _storm: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def count(self) -> int:
        """Number of all faults so far."""
        return self.counts.total()

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            if self.count >= self.limit:
                return None
            if self._storm > 0:
                self._storm -= 1
                fault = Fault(kind="answer", status=503)
            elif self.chance.random() < self.storms:
                self._storm = self.chance.randrange(4, 16)
                fault = Fault(kind="refuse")
            elif self.chance.random() < self.rate:
                fault = self._one()
            else:
                return None
            self.counts[f"{fault.kind} {fault.status}" if fault.kind == "answer" else fault.kind] += 1
            return fault

    def _one(self) -> Fault:
        kind = self.chance.choices(
            ("answer", "refuse", "lose", "cut", "twice", "stall"), weights=(30, 15, 25, 15, 14, 1)
        )[0]
        return Fault(
            kind=kind,  # type: ignore[arg-type]
            status=self.chance.choice((500, 502, 503, 429)),
            after_bytes=self.chance.choice((0, 1, 40, 300)),
            seconds=STALL_SECONDS,
        )


@dataclass(slots=True)
class WriterReport:
    """Reported outcomes of a writer's groups of rows, and the wrong results that it has read."""

    there: set[int] = field(default_factory=set[int])
    gone: set[int] = field(default_factory=set[int])
    unknown: set[int] = field(default_factory=set[int])
    wrong: list[str] = field(default_factory=list[str])
    steps: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])

    def set_state(self, group: int, outcome: Literal["there", "gone", "unknown"]) -> None:
        """Set the state of the group."""
        for name in ("there", "gone", "unknown"):
            getattr(self, name).discard(group)
        getattr(self, outcome).add(group)


class RandomWriter:
    """Writer with a catalog of its own; it alone writes rows with its `number`."""

    def __init__(self, open_table: Callable[[], interbed.Table], number: int, chance: random.Random) -> None:
        self._opener = open_table
        self._number = number
        self._chance = chance
        self._next = 0
        self._table: interbed.Table | None = None
        self.report = WriterReport()

    def run(self, steps: int) -> WriterReport:
        """Run random steps, and return the report."""
        for _ in range(steps):
            name = self._chance.choices(
                ("write", "delete", "read", "compact", "expire", "tag", "orphans", "alter", "open"),
                weights=(45, 8, 20, 6, 5, 5, 2, 3, 6),
            )[0]
            self.report.steps[name] += 1
            try:
                if self._table is None or name == "open":
                    self._table = self._opener()
                getattr(self, f"_{name}")(self._table)
            except (InterbedError, OSError) as error:
                self.report.errors[f"{name}: {type(error).__name__}"] += 1
                self._check_type(name, error)
        return self.report

    def _open(self, table: interbed.Table) -> None:
        """Open the table only, which precedes each step."""

    def _write(self, table: interbed.Table) -> None:
        group = self._number * 1_000_000 + self._next
        self._next += 1
        # Until success is reported: whatever error is raised, the group is never there in part.
        self.report.set_state(group, "gone")
        try:
            rows = group_rows(group)
            _ = table.upsert(rows) if table.primary_keys else table.append(rows)
        except CommitStateUnknownError:
            self.report.set_state(group, "unknown")
            raise
        self.report.set_state(group, "there")

    def _delete(self, table: interbed.Table) -> None:
        if not self.report.there:
            return
        group = self._chance.choice(sorted(self.report.there))
        try:
            deleted = table.delete(f"number = {group}")
        except CommitStateUnknownError:
            self.report.set_state(group, "unknown")
            raise
        # A commit may succeed without its compaction. A deletion then does not see its rows before a later compaction.
        waits = deleted is None and table.options.scans_skip_level_0
        self.report.set_state(group, "unknown" if waits else "gone")

    def _read(self, table: interbed.Table) -> None:
        wanted, unclear = set(self.report.there), set(self.report.unknown)
        seen = groups_of(table.to_arrow())
        self._check_whole(seen)
        own = {group for group in seen if group // 1_000_000 == self._number}
        # With deletion vectors, rows of level 0 and deletions are not visible before a compaction.
        waits = table.options.scans_skip_level_0
        if not waits and not wanted <= own <= wanted | unclear:
            self.report.wrong.append(f"writer {self._number} reads {own ^ wanted} otherwise than reported")

    def _check_whole(self, seen: Mapping[int, int]) -> None:
        halves = {group: count for group, count in seen.items() if count != GROUP_ROWS}
        if halves:
            self.report.wrong.append(f"writer {self._number} has read parts of groups, or groups twice: {halves}")

    def _compact(self, table: interbed.Table) -> None:
        table.compact()

    def _expire(self, table: interbed.Table) -> None:
        table.maintenance.expire_snapshots(retain_min=2, retain_max=3)

    def _tag(self, table: interbed.Table) -> None:
        name = f"t{self._number}"
        if any(tag.name == name for tag in table.versions.tags()):
            table.versions.delete_tag(name)
        else:
            table.versions.create_tag(name)

    def _orphans(self, table: interbed.Table) -> None:
        table.maintenance.remove_orphan_files()

    def _alter(self, table: interbed.Table) -> None:
        change = interbed.SchemaChange.set_option("snapshot.num-retained.max", str(self._chance.randrange(4, 9)))
        table.store.schemas.change([change])

    def _check_type(self, step: str, error: InterbedError | OSError) -> None:
        """Check that the error is one of interbed's, and not a bare one of a library."""
        if not isinstance(error, InterbedError):
            self.report.wrong.append(f"{step} has ended with {type(error).__name__}: {error}")


def group_rows(group: int) -> pa.Table:
    """Return the rows of a group."""
    ids = [group * GROUP_ROWS + n for n in range(GROUP_ROWS)]
    return pa.table({"id": ids, "number": [group] * GROUP_ROWS}, schema=SCHEMA)


def groups_of(rows: pa.Table) -> Counter[int]:
    """Return the number of rows of each group."""
    numbers: Any = rows["number"].to_pylist()
    return Counter(numbers)


def create(catalog: interbed.Catalog, name: str, kind: str) -> interbed.Table:
    """Create the table of a workload."""
    keys = [] if kind == "appended" else ["id"]
    return catalog.create_table(name, SCHEMA, primary_keys=keys, options={**_COMMON, **_OPTIONS[kind]})


def check_afterwards(open_table: Callable[[], interbed.Table], reports: list[WriterReport]) -> list[str]:
    """Return what is wrong with the table after the faults: its rows, and whether it can be maintained."""
    wrong = [each for one in reports for each in one.wrong]
    there = set().union(*(one.there for one in reports))
    unknown = set().union(*(one.unknown for one in reports))

    if open_table().options.scans_skip_level_0:
        # Rows of level 0 are visible after the next compaction.
        open_table().compact()

    def compare(when: str) -> dict[int, int]:
        seen = groups_of(open_table().to_arrow())
        lost, extra = there - seen.keys(), seen.keys() - there - unknown
        parts = {group: count for group, count in seen.items() if count != GROUP_ROWS}
        if lost or extra or parts:
            wrong.append(f"{when}: lost {sorted(lost)}, not reported {sorted(extra)}, not whole {parts}")
        return dict(seen)

    first = compare("after the faults")
    table = open_table()
    group = 999_000_001
    _ = table.upsert(group_rows(group)) if table.primary_keys else table.append(group_rows(group))
    there.add(group)
    first[group] = GROUP_ROWS
    for tag in table.versions.tags():
        table.versions.delete_tag(tag.name)
    table.compact()
    if compare("after a compaction") != first:
        wrong.append("a compaction has changed rows")
    table.maintenance.expire_snapshots(retain_min=1, retain_max=1)
    compare("after an expiry")
    later = int((time.time() + 3600) * 1000)
    remove_orphan_files(table.store, older_than_millis=later, clock=lambda: time.time() + 7200)
    compare("after the removal of orphan files")
    again = remove_orphan_files(table.store, older_than_millis=later, clock=lambda: time.time() + 7200)
    if again.files:
        wrong.append(f"orphan files were left: {again.files}")
    checked = open_table().maintenance.fsck()
    if not checked.is_sound:
        wrong.append(str(checked))
    return wrong


def run_writers(
    open_table: Callable[[int], Callable[[], interbed.Table]], seed: int, writers: Sequence[int], steps: int
) -> list[WriterReport]:
    """Run writers of these numbers concurrently; `open_table` returns the function by which a
    writer opens its table.
    """
    all_writers = [RandomWriter(open_table(number), number, random.Random(f"{seed}/{number}")) for number in writers]
    with ThreadPoolExecutor(len(writers)) as pool:
        return list(pool.map(lambda writer: writer.run(steps), all_writers))


def catalogs_through(file_io: FileIO, catalog: FileSystemCatalog, count: int) -> list[FileSystemCatalog]:
    """Return copies of the catalog with another FileIO."""
    found = [FileSystemCatalog(catalog.name, catalog.options) for _ in range(count)]
    for each in found:
        each._file_io = file_io
    return found


def run_writers_by_options(
    options: Mapping[str, str], table: str, seed: int, writers: Sequence[int], steps: int
) -> list[WriterReport]:
    """Run writers with a catalog of their own, created from options: for another process."""
    catalogs = {
        # An unused option gives each catalog a client of its own.
        number: interbed.CatalogFactory.create({**options, "fs.s3a.threads.max": str(number + 1)})
        for number in writers
    }
    return run_writers(lambda number: lambda: catalogs[number].get_table(table), seed, writers, steps)
