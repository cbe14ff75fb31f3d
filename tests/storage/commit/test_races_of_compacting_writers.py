"""Writers that compact one bucket in random order, by seeds. After each commit, the visible rows are compared with a
model.

Only compaction makes rows visible in these tables (deletion vectors, first-row). A writer begins, writes a few keys in
one or two files and compacts between them. Later it commits its rows, and later still its compaction. Other writers do
the same, with a dedicated compaction in between. A compaction may be given up, rows may not. Rows in files above level
0 are visible: each key once, with the value of a writer that no other writer has followed.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.lsm.compact.rewriter import NO_COMPACTION
from interbed.storage.meta.manifest.entry import EMPTY_ROW
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.table import Table
from interbed.storage.upkeep.compact_table import compact_buckets, restored_buckets
from interbed.storage.write.commit_message import CommitMessage
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = pytest.mark.usefixtures("each_kind_of_store")

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int64()), pa.field("b", pa.int64())))
COLUMNS = ("a", "b")
BUCKET = BucketId(EMPTY_ROW, 0)
KEYS = 3
"""Number of keys that a writer writes at a time. There are always new keys, because old ones are looked up and found.
"""
OTHERS = 1000
"""Rows of other keys, which are negative."""
WRITERS = 3
STEPS = 14
SEEDS = range(150) if LONG else range(3, 7)
UPDATE, DELETE = 2, 3

Values = tuple[int | None, ...]
Row = tuple[int, Values, int]
"""A key, its values and its row kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """KeyChange of a key by one writer in one file.

    `began` and `committed` are the numbers of commits before the writer began and before its rows were committed;
    `part` numbers the writer's files.
    """

    file: str
    values: Values
    kind: int
    began: int
    committed: int
    part: int

    def follows(self, other: "KeyChange") -> bool:
        """Return whether its writer knew of the other writer, or is the same."""
        if (self.began, self.committed) == (other.began, other.committed):
            return self.part > other.part
        return self.began >= other.committed


Allowed = Callable[[Sequence[KeyChange]], Iterable[Values | None]]
"""Function from the changes of a key (at least one) to its possible visible values; None means no row."""


def newest(changes: Sequence[KeyChange]) -> Iterable[Values | None]:
    last = [c for c in changes if not any(other.follows(c) for other in changes)]
    return [None if c.kind == DELETE else c.values for c in last]


def first(changes: Sequence[KeyChange]) -> Iterable[Values | None]:
    return [c.values for c in changes if not any(c.follows(other) for other in changes)]


def added(changes: Sequence[KeyChange]) -> Iterable[Values | None]:
    columns = zip(*(c.values for c in changes), strict=True)
    return [tuple(sum(known) if (known := [v for v in values if v is not None]) else None for values in columns)]


def newest_of_each_column(changes: Sequence[KeyChange]) -> Iterable[Values | None]:
    # A merged row has one sequence number, that of its newest part. So a writer may find older columns before its own
    # when a third writer, unknown to both, commits in between.
    ordered = all(a.follows(b) or b.follows(a) for a, b in combinations(changes, 2))
    choices: list[Values] = [()]
    for i in range(len(COLUMNS)):
        known = [c for c in changes if c.values[i] is not None]
        last = newest(known) if ordered else [c.values for c in known]
        of_column = {v[i] for v in last if v is not None} or {None}
        choices = [(*values, value) for values in choices for value in of_column]
    return choices


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A kind of table, its model, and the rows that its writers write."""

    options: dict[str, str]
    allowed: Allowed
    deletes: bool = False
    partial: bool = False


VECTORS = {"deletion-vectors.enabled": "true"}
SUMS = {f"fields.{name}.aggregate-function": "sum" for name in COLUMNS}
ENGINES = {
    "deduplicate": Engine(options=VECTORS, allowed=newest, deletes=True),
    "partial-update": Engine(
        options={**VECTORS, "merge-engine": "partial-update"}, allowed=newest_of_each_column, partial=True
    ),
    "aggregation": Engine(options={**VECTORS, "merge-engine": "aggregation", **SUMS}, allowed=added, partial=True),
    "first-row": Engine(options={"merge-engine": "first-row"}, allowed=first),
}


@dataclass(slots=True, kw_only=True)
class Job:
    """A writer that has prepared its commit, or a dedicated compaction. `parts` are the remaining commits."""

    began: int
    parts: list[list[CommitMessage]]
    files: list[tuple[str, list[Row]]] = field(default_factory=list[tuple[str, list[Row]]])


class CompactionRace:
    """One table, the running jobs, and the committed changes."""

    def __init__(self, table: Table, engine: Engine, seed: int) -> None:
        self.table = table
        self.engine = engine
        self.random = random.Random(seed)
        self.jobs: list[Job] = []
        self.changes: dict[int, list[KeyChange]] = {}
        self.commits = 0
        self.given_up = 0
        self.values = 0
        self.least_key = 0

    def run(self) -> None:
        """Run all steps, then the rest of the jobs and a compaction of the remaining files."""
        # Large enough that a compaction of new files leaves the base file at the highest level.
        numbers = [self.random.getrandbits(60) for _ in range(OTHERS)]
        others = pa.table({"id": range(-OTHERS, 0), "a": numbers, "b": numbers}, schema=SCHEMA)
        self.table.upsert(others)
        self.table.compact(full=True)
        for _ in range(STEPS):
            if len(self.jobs) < WRITERS and (not self.jobs or self.random.random() < 0.7):
                self.begin()
            else:
                self.commit(self.random.choice(self.jobs))
        while self.jobs:
            self.commit(self.random.choice(self.jobs))
        self.table.compact(full=self.random.random() < 0.5)
        self.check()
        assert not self.waiting()

    def begin(self) -> None:
        """Start a job, and let it do everything except its commits."""
        if self.random.random() < 0.2:
            store = self.table.store
            full = self.random.random() < 0.5
            messages = compact_buckets(store, restored_buckets(store, None, None, None), full=full)
            if messages:
                self.jobs.append(Job(began=self.commits, parts=[messages]))
            return
        self.least_key += 1
        written = [self.rows() for _ in range(self.random.randint(1, 2))]
        with self.table.new_write("w") as write:
            for rows in written:
                write.write_arrow(*arrow(rows))
                write.compact(BUCKET, full=self.random.random() < 0.5)
            messages = write.prepare_commit()
        names = [f.file_name for m in messages for f in m.data.new_files]
        assert len(names) == len(written)
        parts = [[replace(m, compaction=NO_COMPACTION) for m in messages]]
        if any(m.compaction for m in messages):
            parts.append([CommitMessage.of_compaction(m.bucket_id, m.total_buckets, m.compaction) for m in messages])
        self.jobs.append(Job(began=self.commits, parts=parts, files=list(zip(names, written, strict=True))))

    def rows(self) -> list[Row]:
        """Some keys with new values, so few that writers write the same keys."""
        rows: list[Row] = []
        for key in sorted(self.random.sample(range(self.least_key, self.least_key + KEYS), self.random.randint(1, 2))):
            self.values += 1
            values: Values = (self.values, self.values)
            if self.engine.partial:
                values = self.random.choice([(self.values, None), (None, self.values), values])
            kind = DELETE if self.engine.deletes and self.random.random() < 0.3 else UPDATE
            rows.append((key, values, kind))
        return rows

    def commit(self, job: Job) -> None:
        """Make the next commit of a job, and check the table. A compaction may be given up, rows never are."""
        messages = job.parts.pop(0)
        if not job.parts:
            self.jobs.remove(job)
        commit = self.table.new_commit("c")
        if job.files:
            commit.commit(messages)
            self.commits += 1
            for part, (file, rows) in enumerate(job.files):
                for key, values, kind in rows:
                    change = KeyChange(
                        file=file, values=values, kind=kind, began=job.began, committed=self.commits, part=part
                    )
                    self.changes.setdefault(key, []).append(change)
            job.files = []
        else:
            with suppress(interbed.CommitConflictError):
                self.given_up += 1
                commit.commit(messages)
                self.given_up -= 1
        self.check()

    def waiting(self) -> set[str]:
        """The files of level 0, which no reader reads."""
        restored = restore_buckets(self.table.store)
        return {f.file_name for bucket in restored.buckets() for f in restored.files(bucket) if f.level == 0}

    def check(self) -> None:
        """Compare the visible rows with the possible ones."""
        waiting = self.waiting()
        seen: dict[int, list[Values]] = {}
        for row in self.table.scan(filter="id >= 0").to_arrow().to_pylist():
            seen.setdefault(row["id"], []).append(tuple(row[name] for name in COLUMNS))
        assert seen.keys() <= self.changes.keys()
        for key, written in self.changes.items():
            changes = [c for c in written if c.file not in waiting]
            allowed = list(self.engine.allowed(changes)) if changes else [None]
            found: list[Values | None] = [*seen.get(key, [])] or [None]
            assert len(found) == 1, f"key {key} is there {len(found)} times: {found}"
            assert found[0] in allowed, f"key {key} is {found[0]}, not one of {allowed}"


def arrow(rows: Sequence[Row]) -> tuple[pa.Table, "pa.Array[Any]"]:
    """The rows and their kinds as a batch."""
    keys, values, kinds = zip(*rows, strict=True)
    columns = {"id": list(keys), **{name: [v[i] for v in values] for i, name in enumerate(COLUMNS)}}
    return pa.table(columns, schema=SCHEMA), pa.array(kinds, pa.int8())


@pytest.mark.longer
@pytest.mark.parametrize("engine", ENGINES)
def test_each_row_is_visible_once_in_any_order_of_writers_and_compactions(
    tmp_path: Path, engine: str, tally: Tally
) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    options = {"bucket": "1", **ENGINES[engine].options}
    given_up = 0
    for seed in SEEDS:
        table = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=options)
        race = CompactionRace(table, ENGINES[engine], seed)
        try:
            race.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        catalog.drop_table("d.t")
        given_up += race.given_up
    assert given_up
    tally("interleavings of writers that compact one bucket", len(SEEDS))
    tally("compactions given up in them", given_up)
