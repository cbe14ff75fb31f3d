"""Published tables under random changes: readers of Iceberg see the rows of the table.

pyiceberg and interbed's reader are checked after each change, and Iceberg's reader in Spark at the end.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from interbed.storage.table.table import load_table
from tests.iceberg.java_tables import ordered as in_order
from tests.iceberg.publish.tables import (
    KEYED,
    ROWS,
    VECTORS,
    VERSION,
    assert_true,
    has_whole_puffins,
    place_of,
    published,
    seen,
    shown,
)
from tests.support import shares
from tests.support.peers.iceberg import IcebergPeer
from tests.support.shares import each_run

KINDS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "append": ({}, ()),
    "append of version 3": ({VERSION: "3"}, ()),
    "append with vectors": ({**VECTORS, "deletion-vectors.modifiable": "true"}, ()),
    "keys": ({"bucket": "1", "num-sorted-run.compaction-trigger": "2"}, ("id", "p")),
    "keys of version 3": ({"bucket": "2", VERSION: "3"}, ("id", "p")),
    "keys with vectors": ({**VECTORS, "bucket": "1"}, ("id", "p")),
}
OF_EACH_RUN = ("append with vectors", "keys of version 3")
FEW = {
    "metadata.iceberg.compaction.min.file-num": "3",
    "metadata.iceberg.compaction.max.file-num": "6",
    "snapshot.num-retained.min": "3",
    "snapshot.num-retained.max": "8",
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose Iceberg warehouse is beside the databases."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def spark(warehouse: Path) -> Iterator[IcebergPeer]:
    """Iceberg in Java over the published tables."""
    with IcebergPeer(warehouse / "iceberg") as running:
        yield running


class RandomChanges:
    """Random changes of one published table."""

    def __init__(self, warehouse: Path, kind: str, seed: int) -> None:
        self.dice = random.Random(f"{kind} {seed}")
        options, keys = KINDS[kind]
        partitions = self.dice.choice([(), ("p",)])
        name = f"{kind.replace(' ', '_')}_{seed}"
        schema = KEYED if keys else ROWS
        self.keyed = bool(keys)
        self.table = published(
            warehouse, {**FEW, **options}, schema=schema, keys=keys, partitions=partitions, name=name
        )
        self.columns = ["id", "v", "p"]
        self.wide = False
        self.made = 0

    def step(self) -> str:
        """Apply one random change and return its name."""
        steps: list[Callable[[], Any]] = [
            *[self.write] * 6,
            *[self.delete] * 2,
            *[self.compact] * 2,
            self.overwrite,
            self.evolve,
            self.tag,
            self.rollback,
            self.expire,
        ]
        chosen = self.dice.choice(steps)
        chosen()
        return chosen.__name__

    def write(self) -> None:
        """Write new rows, or new versions of existing keys."""
        self.table.append([self.row() for _ in range(self.dice.choice([1, 3, 40]))])

    def row(self) -> dict[str, Any]:
        """Return a row with values for all columns."""
        values: dict[str, Any] = {name: self.dice.choice([None, 1, 2]) for name in self.columns}
        values["id"] = self.dice.randint(0, 60) + (1 << 35 if self.wide and self.dice.random() < 0.1 else 0)
        values["p"] = self.dice.choice([1, 2, 3] if self.keyed else [None, 1, 2])
        values[self.columns[1]] = self.dice.choice([None, "a", "b" * 30, "ü"])
        return values

    def delete(self) -> None:
        """Delete a random range of ids."""
        low = self.dice.randint(0, 60)
        self.table.delete(f"id >= {low} and id < {low + self.dice.randint(1, 20)}")

    def compact(self) -> None:
        """Compact the whole table."""
        self.table.compact()

    def overwrite(self) -> None:
        """Overwrite the table, or the partitions of the new rows."""
        self.table.overwrite([self.row() for _ in range(self.dice.randint(1, 5))])

    def evolve(self) -> None:
        """Add, rename, widen or drop a column."""
        match self.dice.randint(0, 3):
            case 0:
                self.made += 1
                self.alter(AddColumn(f"n{self.made}", AtomicType(TypeRoot.INT)))
                self.columns.append(f"n{self.made}")
            case 1:
                self.made += 1
                self.alter(RenameColumn(self.columns[1], f"v{self.made}"))
                self.columns[1] = f"v{self.made}"
            case 2 if not self.wide and not self.keyed:
                self.alter(UpdateColumnType("id", AtomicType(TypeRoot.BIGINT)))
                self.wide = True
            case _ if len(self.columns) > 3:
                self.alter(DropColumn(self.columns.pop()))
            case _:
                pass

    def alter(self, change: Any) -> None:
        """Apply the schema change and publish it."""
        self.table.store.alter([change])
        self.table = load_table(self.table.location)
        # No snapshot was committed yet that could be published.
        if self.table.store.snapshots.latest() is not None:
            self.table.maintenance.publish_iceberg()

    def tag(self) -> None:
        """Create a tag, or delete all tags."""
        if self.table.store.snapshots.latest() is None:
            return
        if self.dice.random() < 0.3:
            for tag in self.table.versions.tags():
                self.table.versions.delete_tag(tag.name)
        else:
            self.made += 1
            self.table.versions.create_tag(f"t{self.made}", self.dice.choice(self.table.store.snapshots.ids()))

    def rollback(self) -> None:
        """Roll back to one of the newest snapshots with the current schema."""
        store = self.table.store
        ids = [n for n in store.snapshots.ids()[-4:] if store.snapshots.snapshot(n).schema_id == store.schema.id]
        if ids:
            self.table.versions.rollback_to(self.dice.choice(ids))

    def expire(self) -> None:
        """Expire all but a few snapshots."""
        self.table.maintenance.expire_snapshots(retain_max=self.dice.randint(1, 4), retain_min=1)

    def check(self) -> None:
        """Assert that readers see the rows of the table and of its earlier snapshots."""
        if self.table.store.snapshots.latest() is None:
            return
        self.table = load_table(self.table.location)
        assert_true(self.table)
        # So pyiceberg has read the rows, because it skips only tables whose vectors are in index files.
        assert has_whole_puffins(self.table)

    def check_history(self) -> None:
        """Assert that each snapshot of an append table shows its rows."""
        found = interbed.load_iceberg_table(place_of(self.table))
        for one in found.snapshots():
            if self.keyed:
                found.scan(snapshot_id=one.snapshot_id).to_arrow()
                continue
            then = self.table.scan(snapshot_id=one.snapshot_id).to_arrow()
            now = found.scan(snapshot_id=one.snapshot_id).to_arrow()
            common = [name for name in now.column_names if name in then.column_names]
            assert in_order(now.select(common)) == in_order(then.select(common)), one.snapshot_id


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", each_run(KINDS, lambda kind: kind in OF_EACH_RUN))
def test_an_iceberg_table_equals_its_table_after_any_changes(spark: IcebergPeer, warehouse: Path, kind: str) -> None:
    for seed in range(12 if shares.LONG else 1):
        trial = RandomChanges(warehouse, kind, seed)
        done = []
        for _ in range(40 if shares.LONG else 16):
            done.append(trial.step())
            try:
                trial.check()
            except AssertionError as error:
                error.add_note(f"{kind}, seed {seed}, after {', '.join(done)}")
                raise
        trial.check_history()
        name = f"ice.db.{trial.table.name.rpartition('.')[2] or trial.table.name}".replace("ice.db.ice.db.", "ice.db.")
        assert in_order(spark.rows(name)) == in_order(pa.Table.from_pylist(seen(trial.table), spark.rows(name).schema))
        assert seen(trial.table) == shown(trial.table)
