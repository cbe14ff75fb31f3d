"""Files that are durable before a snapshot names them, and the effect of `commit.sync`."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import CommitStateUnknownError, InvalidOptionError, SyncFailedError
from interbed.storage.io.local import LocalDisk, LocalFileIO
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.version.references import References

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))


class WatchedDisk(LocalDisk):
    """A disk that records the files that were synced before each snapshot was created. Files named `refused` fail to
    sync.
    """

    def __init__(self) -> None:
        super().__init__()
        self.synced: set[str] = set()
        self.before: dict[str, set[str]] = {}
        self.refused = "nothing"

    def sync_file(self, path: str) -> bool:
        self._note(path)
        return super().sync_file(path)

    def sync_directory(self, path: str) -> None:
        self._note(path)
        super().sync_directory(path)

    def link(self, source: str, target: str) -> None:
        self.before[target] = set(self.synced)
        super().link(source, target)

    def _note(self, path: str) -> None:
        if path.endswith(self.refused):
            raise SyncFailedError(f"Can't sync {path}.")
        self.synced.add(path)


def watched(tmp_path: Path, **options: str) -> tuple[Any, WatchedDisk]:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options={"bucket": "2", **options})
    disk = WatchedDisk()
    return Table("t", open_store(f"{tmp_path}/d.db/t", LocalFileIO(disk))), disk


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"value {i}" for i in ids]}, schema=SCHEMA)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "changelog-producer": "input",
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "1",
        },
        {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
        {"bucket": "-1"},
        {
            "deletion-vectors.enabled": "true",
            "index-file-in-data-file-dir": "true",
            "changelog-producer": "lookup",
            "data-file.external-paths": "file:{outside}",
            "data-file.external-paths.strategy": "round-robin",
        },
    ],
    ids=["plain", "changelog and indexes", "deletion vectors", "dynamic buckets", "files outside"],
)
def test_everything_that_a_snapshot_names_is_synced_before_it_exists(tmp_path: Path, options: dict[str, str]) -> None:
    options = {key: value.format(outside=tmp_path / "outside") for key, value in options.items()}
    table, disk = watched(tmp_path, **options)
    table.upsert(rows(*range(20)))
    table.upsert(rows(*range(10, 30)))
    table.delete("id < 5")
    table.compact(full=True)
    table.analyze()
    named: set[str] = set()
    snapshots = table.snapshots()
    assert len(snapshots) >= 5
    for snapshot in snapshots:
        references = References(table.store)
        named |= references.metadata(snapshot, changelog=True) | set(
            references.named_data(snapshot, changelog=True, known=set())
        )
        before = disk.before[table.store.paths.snapshot(snapshot.id)]
        missing = {path for path in named if path not in before and "/statistics/" not in path}
        assert missing == set(), f"snapshot {snapshot.id}"
        assert {str(Path(path).parent) for path in named} <= before
    indexed = bool(set(options) & {"bucket", "deletion-vectors.enabled"})
    assert any("/index" in path and "/manifest/" not in path for path in named) == indexed
    if "index-file-in-data-file-dir" in options:
        assert {path for path in named if "/bucket-" in path} == {p for p in named if "/outside/bucket-" in p}


def test_files_of_another_process_are_synced_by_the_committer(tmp_path: Path) -> None:
    table, disk = watched(tmp_path)
    elsewhere = interbed.load_table(table.location)
    with elsewhere.new_write("u") as write:
        write.write_arrow(rows(*range(20)))
        messages = write.prepare_commit()
    table.new_commit("u").commit(messages)
    files = {path for path in disk.before[table.store.paths.snapshot(1)] if "/data-" in path}
    assert len(files) == 2


@pytest.mark.parametrize("kind", ["snapshot", "none"])
def test_a_weaker_sync_leaves_files_to_the_operating_system(tmp_path: Path, kind: str) -> None:
    table, disk = watched(tmp_path, **{"commit.sync": kind})
    table.upsert(rows(1, 2))
    assert not {path for path in disk.synced if "/data-" in path or "/manifest" in path}
    assert (table.snapshot_directory in disk.synced) == (kind == "snapshot")
    assert table.to_arrow().num_rows == 2
    disk.synced.clear()
    table.copy({"commit.sync": "full"}).upsert(rows(3))
    assert {path for path in disk.synced if "/data-" in path}


def test_other_values_of_the_option_are_refused(tmp_path: Path) -> None:
    table, _ = watched(tmp_path)
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    refused = pytest.raises(InvalidOptionError, match=r"commit\.sync.*full, snapshot, none.*always")
    with refused:
        catalog.create_table("d.u", SCHEMA, options={"commit.sync": "always"})
    with refused:
        catalog.alter_table("d.t", interbed.SchemaChange.set_option("commit.sync", "always"))
    with refused:
        table.copy({"commit.sync": "always"})
    defaults = interbed.load_catalog("lake", warehouse=str(tmp_path), **{"table-default.commit.sync": "none"})
    assert defaults.create_table("d.v", SCHEMA).schema.options["commit.sync"] == "none"


def test_files_that_cannot_be_synced_are_not_committed(tmp_path: Path) -> None:
    table, disk = watched(tmp_path)
    table.upsert(rows(1))
    for refused in (".parquet", "bucket-0", "/manifest"):
        disk.refused = refused
        with pytest.raises(SyncFailedError):
            table.upsert(rows(*range(10)))
    disk.refused = "nothing"
    assert [s.id for s in table.snapshots()] == [1]
    assert len(list(Path(table.location).glob("bucket-*/*"))) == 1
    table.upsert(rows(2))
    assert table.to_arrow().num_rows == 2


def test_the_outcome_is_unknown_when_the_name_of_a_snapshot_cannot_be_synced(tmp_path: Path) -> None:
    table, disk = watched(tmp_path)
    disk.refused = "/snapshot"
    with pytest.raises(CommitStateUnknownError, match="snapshot-1"):
        table.upsert(rows(1))
    disk.refused = "nothing"
    assert table.latest_snapshot().id == 1
    assert table.to_arrow().num_rows == 1


@pytest.mark.parametrize("hint", [b"", b"\0\0\0", b"1", b"99", b"-1", "\u0663".encode(), b"\xff"])
@pytest.mark.parametrize("name", ["LATEST", "EARLIEST"])
def test_a_stale_hint_left_by_a_power_cut_is_ignored(tmp_path: Path, name: str, hint: bytes) -> None:
    table, _ = watched(tmp_path)
    for number in range(4):
        table.upsert(rows(number))
    table.expire_snapshots(retain_max=2, retain_min=2)
    path = Path(table.location) / "snapshot" / name
    path.write_bytes(hint)
    opened = interbed.load_table(table.location)
    assert [s.id for s in opened.snapshots()] == [3, 4]
    assert opened.to_arrow().num_rows == 4
    opened.upsert(rows(4))
    assert opened.store.snapshots.latest_id() == 5
    assert opened.to_arrow().num_rows == 5
    assert opened.maintenance.expire_snapshots(retain_max=1, retain_min=1).snapshots == (3, 4)
