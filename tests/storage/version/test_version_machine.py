"""Random histories of a table: after any sequence of commits, tags, branches, expiry and cleanup, each version has its
rows.

No file is left that no version needs.
"""

import itertools
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import interbed
from interbed.storage.version.orphans import remove_orphan_files
from tests.support.examples import examples

LATER = 4_102_444_800
"""Seconds since the epoch: long after every file of the test was written."""

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
Rows = dict[int, int]


def rows_of(table: Any) -> Rows:
    read = table.scan().to_arrow()
    return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


class VersionsMachine(RuleBasedStateMachine):
    """A table that has a branch at times. The model consists of the rows of each snapshot and tag."""

    options: ClassVar[dict[str, str]] = {}
    shows_all = True
    """Whether a snapshot shows all rows that were written until then."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-versions-")
        catalog = interbed.load_catalog("lake", warehouse=self._directory.name)
        catalog.create_database("d")
        self.table = catalog.create_table(
            "d.t",
            SCHEMA,
            primary_keys=["id"],
            options={"bucket": "1", "num-sorted-run.compaction-trigger": "3", **self.options},
        )
        self.rows: Rows = {}
        self.snapshots: dict[int, Rows] = {}
        self.tags: dict[str, Rows] = {}
        self.branch: Rows | None = None
        self.numbers = itertools.count()

    def teardown(self) -> None:
        self.no_unneeded_file_is_left()
        self._directory.cleanup()

    def committed(self) -> None:
        # With deletion vectors, new rows are visible from the snapshot of their compaction on, so read each one itself.
        for snapshot in self.table.snapshots():
            if snapshot.id not in self.snapshots:
                self.snapshots[snapshot.id] = rows_of(self.table.copy({"scan.snapshot-id": str(snapshot.id)}))

    @rule(keys=st.lists(st.integers(0, 5), min_size=1, max_size=4))
    def upsert(self, keys: list[int]) -> None:
        value = next(self.numbers)
        self.rows.update(dict.fromkeys(keys, value))
        self.table.upsert(pa.table({"id": keys, "v": [value] * len(keys)}, schema=SCHEMA))
        self.committed()

    @rule()
    def delete(self) -> None:
        self.rows = {key: value for key, value in self.rows.items() if key > 2}
        self.table.delete("id <= 2")
        self.committed()

    @rule()
    def compact(self) -> None:
        self.table.compact(full=True)
        self.committed()

    @precondition(lambda self: self.snapshots)
    @rule(name=st.sampled_from("abc"), data=st.data())
    def tag(self, name: str, data: st.DataObject) -> None:
        snapshot = data.draw(st.sampled_from(sorted(self.snapshots)))
        if name in self.tags:
            self.table.versions.delete_tag(name)
        self.table.versions.create_tag(name, snapshot)
        self.tags[name] = self.snapshots[snapshot]

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def untag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tags)))
        self.table.versions.delete_tag(name)
        del self.tags[name]

    @precondition(lambda self: self.snapshots)
    @rule(left=st.integers(1, 4))
    def expire(self, left: int) -> None:
        result = self.table.maintenance.expire_snapshots(retain_max=left, retain_min=left, clock=lambda: LATER)
        for number in result.snapshots:
            del self.snapshots[number]

    @precondition(lambda self: self.tags and self.branch is None)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tags)))
        self.table.versions.create_branch("b", name)
        self.branch = dict(self.tags[name])

    @precondition(lambda self: self.branch is not None)
    @rule(keys=st.lists(st.integers(0, 5), min_size=1, max_size=3))
    def upsert_in_branch(self, keys: list[int]) -> None:
        assert self.branch is not None
        value = next(self.numbers)
        self.branch.update(dict.fromkeys(keys, value))
        self.table.branch("b").upsert(pa.table({"id": keys, "v": [value] * len(keys)}, schema=SCHEMA))

    @precondition(lambda self: self.branch is not None)
    @rule()
    def expire_in_branch(self) -> None:
        self.table.branch("b").maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)

    @precondition(lambda self: self.branch is not None)
    @rule()
    def delete_branch(self) -> None:
        self.table.versions.delete_branch("b")
        self.branch = None
        self.remove_orphans()

    @precondition(lambda self: self.snapshots and self.shows_all)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(sorted(self.snapshots)))
        self.table.versions.rollback_to(target)
        self.rows = dict(self.snapshots[target])
        self.snapshots = {number: rows for number, rows in self.snapshots.items() if number <= target}
        kept = {tag.name for tag in self.table.versions.tags()}
        self.tags = {name: rows for name, rows in self.tags.items() if name in kept}
        self.remove_orphans()

    def remove_orphans(self) -> None:
        remove_orphan_files(self.table.store, older_than_millis=(LATER - 1) * 1000, clock=lambda: LATER)

    @invariant()
    def every_version_has_its_rows(self) -> None:
        assert rows_of(self.table) == self.rows
        assert [s.id for s in self.table.snapshots()] == sorted(self.snapshots)
        for number, rows in self.snapshots.items():
            assert rows_of(self.table.copy({"scan.snapshot-id": str(number)})) == rows
        for name, rows in self.tags.items():
            assert rows_of(self.table.copy({"scan.tag-name": name})) == rows
        if self.branch is not None:
            assert rows_of(self.table.branch("b")) == self.branch

    def no_unneeded_file_is_left(self) -> None:
        # Files that the branch's expiry could not attribute to the branch alone are left for the removal of orphans.
        if self.branch is None:
            result = remove_orphan_files(
                self.table.store, older_than_millis=(LATER - 1) * 1000, dry_run=True, clock=lambda: LATER
            )
            assert [Path(path).name for path in result.files] == []


class VersionsWithDeletionVectors(VersionsMachine):
    options: ClassVar[dict[str, str]] = {"deletion-vectors.enabled": "true"}
    shows_all = False


class VersionsWithChangelog(VersionsMachine):
    options: ClassVar[dict[str, str]] = {"changelog-producer": "lookup"}


pytestmark = pytest.mark.longer

for _machine in (VersionsMachine, VersionsWithDeletionVectors, VersionsWithChangelog):
    _machine.TestCase.settings = settings(max_examples=examples(12), stateful_step_count=14, deadline=None)

TestVersions = VersionsMachine.TestCase
TestVersionsWithDeletionVectors = VersionsWithDeletionVectors.TestCase
TestVersionsWithChangelog = VersionsWithChangelog.TestCase
