"""Power cuts in the middle of every operation on a table, which is stored on a PowerCutDisk.

After each step the disk reports which states a power cut could leave, and the table is opened in such a state. Every
snapshot, tag and branch that it lists must have its rows, acknowledged changes must be there, rows can be written, and
all of that still holds after orphan files were removed.
"""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.opening import open_store, schema_manager
from interbed.storage.table.table import Table
from interbed.storage.version.orphans import remove_orphan_files
from tests.support.power_cut import PowerCutDisk
from tests.support.tally import Tally

LATER = 4_102_444_800
"""Seconds since the epoch: long after every file of the test was written."""

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
Rows = dict[int, int]
NEW = 100
"""The key of the row that is written after a power cut."""


def rows_of(table: Any) -> Rows:
    read = table.scan(["id", "v"]).to_arrow()
    return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


def rows_without_new(table: Any) -> Rows:
    """The rows without the one that was written after the power cut."""
    return {key: value for key, value in rows_of(table).items() if key != NEW}


class TableHistory:
    """A table and the expected rows of it, of its snapshots, its tags and a branch.

    The power is cut at `share` of the steps of the disk, chosen by the seed.
    """

    def __init__(self, directory: Path, options: dict[str, str], *, seed: int, share: float) -> None:
        self.random = Random(seed)
        self.share = share
        self.cuts = 0
        lake = directory / "lake"
        lake.mkdir(parents=True)
        self.image = directory / "image"
        self.disk = PowerCutDisk(lake)
        self.rows: Rows = {}
        self.next_rows: list[Rows] = [{}]
        """The rows that the newest snapshot may have: the present ones, and those after the operation under way."""
        self.history: list[Rows] = [{}]
        self.snapshots: dict[int, Rows] = {}
        self.going: set[int] = set()
        """Snapshots that an expiry deletes, or has deleted."""
        self.tags: dict[str, Rows] = {}
        self.branches: dict[str, Rows] = {}
        self.numbers = itertools.count()
        self.has_key = options.get("keys") != ""
        self.disk.on_step = self.maybe_cut
        files, location = LocalFileIO(self.disk), f"{lake}/d.db/t"
        plain = {key: value for key, value in options.items() if key != "keys"}
        schema = interbed.Schema.from_pyarrow_schema(SCHEMA, [], ["id"] if self.has_key else [], plain)
        self.created, self.same_line = False, True
        schema_manager(location, files).create_table(schema)
        self.created = True
        self.table = Table("t", open_store(location, files))

    # -- power cuts ------------------------------------------------------------------------------------------------

    def maybe_cut(self) -> None:
        if self.random.random() < self.share:
            self.cut()

    def cut(self) -> None:
        """Check the state that a power cut at this moment leaves."""
        self.cuts += 1
        self.disk.image(self.image, self.random)
        try:
            self.check(f"{self.image}/d.db/t")
        finally:
            shutil.rmtree(self.image)

    def check(self, location: str) -> None:
        if not self.created and not Path(f"{location}/schema/schema-0").exists():
            return
        found = interbed.load_table(location)
        self.check_versions(found)
        value = -1 - next(self.numbers)
        found.upsert(batch([NEW], value)) if self.has_key else found.append(batch([NEW], value))
        written = rows_of(found)
        assert written.pop(NEW) == value
        # With deletion vectors, rows whose compaction did not follow are visible from the next one on.
        assert written in self.next_rows
        remove_orphan_files(found.store, older_than_millis=LATER * 1000, clock=lambda: LATER + 1)
        self.check_versions(interbed.load_table(location))

    def check_versions(self, found: Any) -> None:
        ids = found.store.snapshots.ids()
        if not self.same_line:
            for number in ids:
                assert rows_without_new(found.copy({"scan.snapshot-id": str(number)})) in self.history
            for tag in found.tags():
                assert rows_without_new(found.copy({"scan.tag-name": tag.name})) in self.history
            assert rows_without_new(found) in self.next_rows
            return
        assert set(self.snapshots) - self.going <= set(ids), "an acknowledged snapshot is not there"
        for number in ids:
            if number in self.going:
                continue
            read = rows_without_new(found.copy({"scan.snapshot-id": str(number)}))
            if number in self.snapshots:
                assert read == self.snapshots[number], f"snapshot {number} has other rows"
            else:
                assert read in self.next_rows, f"snapshot {number} has rows that were never there"
        assert rows_without_new(found) in self.next_rows
        tags = {tag.name for tag in found.tags()}
        assert set(self.tags) <= tags
        for name in tags & set(self.tags):
            assert rows_of(found.copy({"scan.tag-name": name})) == self.tags[name], f"tag {name}"
        assert set(self.branches) <= set(found.branches())
        for name, rows in self.branches.items():
            assert rows_of(found.branch(name)) == rows, f"branch {name}"

    # -- operations ------------------------------------------------------------------------------------------------

    def do(
        self,
        operation: Callable[[], object],
        rows: Rows | None = None,
        *,
        same_line: bool = True,
    ) -> None:
        """Carry out an operation that leaves the table with these rows; then it is acknowledged.

        An operation that leaves another history of snapshots (`same_line` False) removes the tags of later snapshots,
        too.
        """
        after = self.rows if rows is None else rows
        self.next_rows = [self.rows, after]
        self.same_line = same_line
        operation()
        self.same_line = True
        self.rows, self.next_rows = after, [after]
        self.history.append(after)
        if not same_line:
            self.table = Table("t", self.table.store.refreshed())
            self.snapshots.clear()
            # Higher ids, although they were used before, are those of other snapshots from now on.
            oldest = min(self.table.store.snapshots.ids())
            self.going = {number for number in self.going if number < oldest}
            self.tags = {
                t.name: rows_of(self.table.copy({"scan.tag-name": t.name})) for t in self.table.versions.tags()
            }
        for number in self.table.store.snapshots.ids():
            # With deletion vectors, new rows are visible from the snapshot of their compaction on, so read each one
            # itself.
            if number not in self.going and number not in self.snapshots:
                self.snapshots[number] = rows_of(self.table.copy({"scan.snapshot-id": str(number)}))
        assert self.snapshots[max(self.snapshots)] == after

    @property
    def compacts_to_show(self) -> bool:
        """Whether new rows are visible only after their compaction."""
        return self.has_key and self.table.options.deletion_vectors_enabled

    def write(self) -> None:
        value = next(self.numbers)
        keys = sorted(self.random.sample(range(8), 3)) if self.has_key else [1000 + 2 * value, 1001 + 2 * value]
        rows = {**self.rows, **dict.fromkeys(keys, value)}
        self.do(
            lambda: self.table.upsert(batch(keys, value)) if self.has_key else self.table.append(batch(keys, value)),
            rows,
        )

    def delete(self) -> None:
        gone = self.random.choice(sorted(self.rows)) if self.rows else 0
        self.do(lambda: self.table.delete(f"id = {gone}"), {k: v for k, v in self.rows.items() if k != gone})

    def overwrite(self) -> None:
        value = next(self.numbers)
        self.do(lambda: self.table.overwrite(batch([1, 2], value)), {1: value, 2: value})

    def compact(self) -> None:
        self.do(lambda: self.table.compact(full=True))

    def tag(self) -> None:
        if self.table.latest_snapshot() is not None:
            name = f"tag{next(self.numbers)}"
            self.do(lambda: self.table.versions.create_tag(name))
            self.tags[name] = self.rows

    def replace_tag(self) -> None:
        if self.tags:
            name = self.random.choice(sorted(self.tags))
            del self.tags[name]
            self.do(lambda: self.table.versions.replace_tag(name))
            self.tags[name] = self.rows

    def branch(self) -> None:
        if self.tags:
            tag, name = self.random.choice(sorted(self.tags)), f"branch{next(self.numbers)}"
            self.do(lambda: self.table.versions.create_branch(name, tag))
            self.branches[name] = self.tags[tag]

    def fast_forward(self) -> None:
        if self.branches:
            name = self.random.choice(sorted(self.branches))
            self.do(lambda: self.table.versions.fast_forward(name), self.branches[name], same_line=False)

    def roll_back(self) -> None:
        if self.compacts_to_show:
            # The rows that a snapshot shows differ from those that it holds.
            return
        newest = max(self.snapshots)
        target = self.random.choice([number for number in self.snapshots if number > newest - 3])
        rows = self.snapshots[target]
        self.do(lambda: self.table.versions.rollback_to(target), rows, same_line=False)

    def alter(self) -> None:
        name = f"extra{next(self.numbers)}"
        change = interbed.SchemaChange.add_column(name, interbed.data_type("INT"))
        self.do(lambda: self.table.store.alter([change]))
        self.table = Table("t", self.table.store.refreshed())

    def expire(self, left: int | None = None) -> None:
        left = self.random.randint(1, 3) if left is None else left
        ids = self.table.store.snapshots.ids()
        self.going |= set(ids[:-left])
        self.do(lambda: self.table.maintenance.expire_snapshots(retain_max=left, retain_min=left, clock=lambda: LATER))
        for number in self.going:
            self.snapshots.pop(number, None)

    def statistics(self) -> None:
        self.do(lambda: self.table.maintenance.analyze(["v"]))

    def live(self, operations: int) -> None:
        kinds = [self.write, self.write, self.write, self.compact, self.tag, self.branch, self.alter, self.replace_tag]
        kinds += [self.overwrite, self.statistics, self.expire, self.delete, self.roll_back, self.fast_forward]
        self.write()
        for _ in range(operations):
            self.random.choice(kinds)()
        self.cut()


def batch(keys: list[int], value: int) -> pa.Table:
    return pa.table({"id": keys, "v": [value] * len(keys)}, schema=SCHEMA)


KINDS = {
    "primary key": {"bucket": "2", "num-sorted-run.compaction-trigger": "3"},
    "dynamic buckets": {"bucket": "-1"},
    "deletion vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "changelog": {"bucket": "1", "changelog-producer": "lookup"},
    "append": {"bucket": "-1", "keys": ""},
    "append with deletion vectors": {"bucket": "-1", "keys": "", "deletion-vectors.enabled": "true"},
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_acknowledged_changes_survive_a_power_cut(tmp_path: Path, kind: str, tally: Tally) -> None:
    life = TableHistory(tmp_path, KINDS[kind], seed=1, share=0.02)
    life.live(10)
    tally("power cuts in the middle of operations on a table", life.cuts)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_power_cut_at_any_step_loses_no_row(tmp_path: Path, kind: str, seed: int, tally: Tally) -> None:
    life = TableHistory(tmp_path, KINDS[kind], seed=seed, share=0.3)
    life.live(20)
    tally("power cuts in the middle of operations on a table", life.cuts)


CUTS = 12


def test_a_table_with_expired_snapshots_survives_a_power_cut(tmp_path: Path) -> None:
    life = TableHistory(tmp_path, KINDS["primary key"], seed=1, share=0)
    for _ in range(3):
        life.write()
    life.compact()
    life.expire(left=1)
    assert len(life.snapshots) == 1
    for _ in range(CUTS):
        life.cut()


def test_a_fast_forwarded_table_survives_a_power_cut(tmp_path: Path) -> None:
    life = TableHistory(tmp_path, KINDS["primary key"], seed=2, share=0)
    life.write()
    life.tag()
    life.branch()
    life.write()
    life.fast_forward()
    assert len(life.snapshots) == 1
    assert len(life.tags) == 1
    for _ in range(CUTS):
        life.cut()


@pytest.mark.parametrize("sync", ["snapshot", "none"])
def test_a_weaker_sync_is_detected_by_the_simulation(tmp_path: Path, sync: str) -> None:
    life = TableHistory(tmp_path, {**KINDS["primary key"], "commit.sync": sync}, seed=3, share=0.1)
    with pytest.raises((AssertionError, interbed.InterbedError, OSError)):
        life.live(20)
