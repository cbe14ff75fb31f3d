"""An overwrite and its compaction are one snapshot in tables whose files are visible only after their compaction."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.io.faults import Fault, FaultyFileIO
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table

SCHEMA = pa.schema(
    (pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False), pa.field("v", pa.int64()))
)
INVISIBLE = [
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "first-row"},
    {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
]


def rows(ids: list[int], partition: str, value: int) -> pa.Table:
    return pa.table({"id": ids, "p": [partition] * len(ids), "v": [value] * len(ids)}, schema=SCHEMA)


def seen_in(table: Table, snapshot: int) -> set[tuple[int, str, int]]:
    read = table.copy({"scan.snapshot-id": str(snapshot)}).to_arrow()
    return set(zip(*(read[name].to_pylist() for name in ("id", "p", "v")), strict=True))


@pytest.mark.parametrize("options", INVISIBLE, ids=["vectors", "first-row", "vectors and changelog"])
def test_every_snapshot_of_an_overwrite_has_the_old_or_the_new_rows(options: dict[str, str], tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table(
        "d.t", SCHEMA, primary_keys=["id", "p"], partition_keys=["p"], options={"bucket": "1", **options}
    )
    table.upsert(rows([1, 2, 3], "a", 1))
    table.upsert(rows([4], "b", 1))
    before = table.latest_snapshot()
    assert before is not None
    old = seen_in(table, before.id)
    assert len(old) == 4
    table.overwrite(rows([2, 3, 5], "a", 2), partitions={"p": "a"})
    new = {(2, "a", 2), (3, "a", 2), (5, "a", 2), (4, "b", 1)}
    made = [s for s in table.snapshots() if s.id > before.id]
    assert made[0].commit_kind is CommitKind.OVERWRITE
    assert [seen_in(table, s.id) for s in made] == [new] * len(made)
    assert len(made) == (2 if "changelog-producer" in options else 1)
    # Files that were compacted immediately are in no snapshot, and not on the disk either.
    named = {name for s in made for name in _files(table, s.id)}
    on_disk = {path.name for path in (Path(table.location) / "p=a" / "bucket-0").iterdir() if "data-" in path.name}
    assert on_disk - named == {name for name in _files(table, before.id) if name in on_disk} - named


def test_the_changelog_of_an_overwrite_with_unknown_outcome_is_committed_once(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
    table = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=options)
    with table.new_write("u", overwrite=True) as write:
        write.write_arrow(rows([1, 2], "a", 1))
        messages = write.prepare_commit()
    # The changelog's snapshot is created, but the object store neither confirms it nor answers later requests.
    doubt = [
        Fault.parse("create_exclusive:*/snapshot-2:fail-after"),
        Fault.parse("read_bytes:*/snapshot-2:fail-before"),
    ]
    faulty = Table("t", open_store(table.location, FaultyFileIO(table.store.file_io, doubt)))
    commit = faulty.new_commit("u")
    with pytest.raises(interbed.CommitStateUnknownError):
        commit.overwrite(messages)
    assert [s.id for s in table.snapshots()] == [1, 2]
    assert commit.overwrite(messages) == [1, 2]
    assert table.new_commit("u").overwrite(messages) == [1, 2]
    assert [s.id for s in table.snapshots()] == [1, 2]
    assert seen_in(table, 2) == {(1, "a", 1), (2, "a", 1)}
    assert table.changes().to_arrow()["id"].to_pylist() == [1, 2]


def _files(table: Table, snapshot: int) -> set[str]:
    plan = table.new_scan(snapshot_id=snapshot).entries()
    return {entry.file.file_name for entry in plan}
