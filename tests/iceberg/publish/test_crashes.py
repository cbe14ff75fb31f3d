"""Crashes of a process at any step of a commit or a publication.

The published metadata are consistent after each crash. The next commit or an explicit call publishes the rest.
"""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import interbed
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table, load_table
from tests.iceberg.publish.tables import (
    KEYED,
    VECTORS,
    assert_true,
    by_pyiceberg,
    has_whole_puffins,
    metadata_directory,
    named_files,
    ordered,
    place_of,
    published,
    rows,
    seen,
)
from tests.support import shares
from tests.support.dying_disk import DyingDisk, SimulatedKill
from tests.support.shares import each_run

FEW = {
    "metadata.iceberg.compaction.min.file-num": "2",
    "metadata.iceberg.compaction.max.file-num": "2",
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "2",
}

Operation = Callable[[Table], object]

OPERATIONS: dict[str, Operation] = {
    "append": lambda table: table.append(rows(7)),
    "delete": lambda table: table.delete("id = 2"),
    "rollback": lambda table: table.versions.rollback_to((table.store.snapshots.latest_id() or 0) - 1),
    "tag": lambda table: table.versions.create_tag("t"),
    "expiry": lambda table: table.maintenance.expire_snapshots(retain_max=1, retain_min=1),
}
VECTOR_OPERATIONS: dict[str, Operation] = {
    "delete": lambda table: table.delete("id = 11 or id = 21"),
    "compaction": lambda table: table.compact(),
    "rollback": lambda table: table.versions.rollback_to((table.store.snapshots.latest_id() or 0) - 1),
}
KEYED_OPERATIONS: dict[str, Operation] = {
    "upsert and compaction": lambda table: (table.upsert(rows(2, v="b")), table.compact()),
}


def killed(location: str, operation: Operation, step: int | None) -> int:
    """Run an operation in a process that dies before a step. Return the number of steps it took."""
    disk = DyingDisk(step)
    table = Table("t", open_store(location, LocalFileIO(disk)))
    with contextlib.suppress(SimulatedKill):
        operation(table)
    return len(disk.steps)


def assert_whole(table: Table, versions: dict[int, list[dict[str, object]]]) -> None:
    """Assert that the published metadata reference existing files only, and show the rows of one of the table's
    snapshots.
    """
    gone = [path for path in named_of_current(table) if not Path(path).exists()]
    assert not gone
    # Readers that look for versions after the version hint may see a newer one.
    current = interbed.load_iceberg_table(place_of(table)).snapshots()[-1].snapshot_id
    if current in versions:
        assert seen(table) == versions[current]


def named_of_current(table: Table) -> set[str]:
    """Return the files that a reader of the newest snapshot needs."""
    static = by_pyiceberg(table)
    snapshot = static.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(static.io)
    entries = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(static.io)]
    return {snapshot.manifest_list, *(m.manifest_path for m in manifests), *(e.data_file.file_path for e in entries)}


def campaign(tmp_path: Path, name: str, operation: Operation, make: Callable[[Path], Table]) -> None:
    """Kill the operation before each of its steps, each time on a copy of the original table."""
    here = tmp_path / "lake"
    location = make(here).location
    origin = tmp_path / "origin"
    shutil.copytree(here, origin)
    steps = killed(location, operation, None)
    versions = _rows_by_snapshot(load_table(location))
    chosen = range(steps) if shares.LONG else range(0, steps, 7)
    assert steps > 10
    for step in chosen:
        shutil.rmtree(here)
        shutil.copytree(origin, here)
        killed(location, operation, step)
        table = load_table(location)
        try:
            assert_whole(table, versions)
            if step % 4 == 0:
                table.maintenance.publish_iceberg()
                assert_true(table)
            table.append(rows(90, v="after"))
            assert_true(table)
            assert {path for path in named_files(table) if not Path(path).exists()} == set()
            assert len(list(metadata_directory(table).glob("v*.json"))) == 1
            assert not table.options.deletion_vectors_enabled or has_whole_puffins(table)
        except AssertionError as error:
            error.add_note(f"{name}, killed before step {step}")
            raise


def _rows_by_snapshot(table: Table) -> dict[int, list[dict[str, object]]]:
    if table.schema.has_primary_key and not table.options.deletion_vectors_enabled:
        return {}
    return {
        number: ordered(table.scan(snapshot_id=number).to_arrow().to_pylist()) for number in table.store.snapshots.ids()
    }


def appended(warehouse: Path) -> Table:
    table = published(warehouse, FEW, partitions=["p"])
    for number in range(3):
        table.append(rows(number, p=number % 2))
    return table


@pytest.mark.longer
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_append_table_survives(tmp_path: Path, name: str) -> None:
    campaign(tmp_path, name, OPERATIONS[name], appended)


@pytest.mark.longer
@pytest.mark.parametrize("name", VECTOR_OPERATIONS)
def test_an_append_table_with_vectors_survives(tmp_path: Path, name: str) -> None:
    def made(warehouse: Path) -> Table:
        table = published(warehouse, {**FEW, **VECTORS}, partitions=["p"])
        for p in (1, 2):
            table.append(rows(*range(10 * p, 10 * p + 10), p=p))
        table.delete("id = 12")
        table.delete("id = 13 or id = 22")
        return table

    campaign(tmp_path, name, VECTOR_OPERATIONS[name], made)


@pytest.mark.longer
@pytest.mark.parametrize("vectors", each_run([False, True], lambda vectors: not vectors))
def test_a_table_with_a_key_survives(tmp_path: Path, vectors: bool) -> None:
    def made(warehouse: Path) -> Table:
        options = {**FEW, "bucket": "1", **(VECTORS if vectors else {})}
        table = published(warehouse, options, schema=KEYED, keys=["id"])
        table.upsert([{"id": i, "v": str(i * 7919 % 10_007), "p": 1} for i in range(5000)])
        table.compact()
        return table

    campaign(tmp_path, "upsert", KEYED_OPERATIONS["upsert and compaction"], made)
