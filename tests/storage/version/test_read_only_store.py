"""Storage that refuses writes: no operation reports success, and all files are kept."""

import contextlib
import errno
import functools
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table

COLUMNS: list[Any] = [pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())]
SCHEMA = pa.schema(COLUMNS)
NOW = time.time()


@contextlib.contextmanager
def mounted_for_reading(source: Path, target: Path) -> Iterator[None]:
    """The directory mounted at another path, where the system refuses all writes. Raises CalledProcessError without
    privileges.
    """
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True, capture_output=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(target)], check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(target)], check=True, capture_output=True)


@functools.cache
def can_mount() -> bool:
    """Return whether this process may mount directories."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as directory:
        try:
            with mounted_for_reading(Path(directory), Path(directory)):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


class ReadOnlyFiles(LocalFileIO):
    """Local files on a simulated read-only file system, which refuses root as well."""

    def _refused(self, path: str) -> StorageAccessError:
        return StorageAccessError(f"Can't write {path}: {os.strerror(errno.EROFS)}.")

    def open_output(self, path: str) -> Any:
        raise self._refused(path)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        if self.exists(path):
            return False
        raise self._refused(path)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        raise self._refused(path)

    def make_directories(self, path: str) -> None:
        raise self._refused(path)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        if not self.exists(path):
            return False
        raise self._refused(path)

    def rename(self, source: str, target: str) -> bool:
        raise self._refused(source)


class StubbornFiles(LocalFileIO):
    """Local files of which some cannot be deleted."""

    def __init__(self, *kept: str) -> None:
        super().__init__()
        self._kept = kept

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        if any(part in path for part in self._kept) and self.exists(path):
            raise StorageAccessError(f"Can't delete {path}: Operation not permitted.")
        return super().delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                self.delete(path)
            except StorageAccessError:
                continue


def filled(warehouse: Path) -> Table:
    """A table with snapshots, a tag, a branch, a consumer and an orphan file."""
    catalog = interbed.load_catalog("test", warehouse=str(warehouse))
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for number in range(4):
        table.upsert(pa.table({"id": [number], "v": [number]}, schema=SCHEMA))
        if number == 1:
            table.versions.create_tag("kept")
    table.compact(full=True)
    table.versions.create_branch("b", "kept")
    table.versions.reset_consumer("c", 9)
    orphan = Path(table.location, "bucket-0", "data-orphan.parquet")
    orphan.write_bytes(b"nothing")
    os.utime(orphan, (NOW - 100_000, NOW - 100_000))
    return table


def files_of(table: Table) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in Path(table.location).rglob("*") if p.is_file()}


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "expire_snapshots": lambda t: t.maintenance.expire_snapshots(
        retain_max=1, retain_min=1, clock=lambda: NOW + 10_000
    ),
    "remove_orphan_files": lambda t: t.maintenance.remove_orphan_files(),
    "create_tag": lambda t: t.versions.create_tag("more"),
    "replace_tag": lambda t: t.versions.replace_tag("kept", 3),
    "rename_tag": lambda t: t.versions.rename_tag("kept", "other"),
    "delete_tag": lambda t: t.versions.delete_tag("kept"),
    "expire_tags": lambda t: t.versions.expire_tags(older_than=datetime.now(UTC) + timedelta(days=1)),
    "create_branch": lambda t: t.versions.create_branch("more"),
    "rename_branch": lambda t: t.versions.rename_branch("b", "other"),
    "delete_branch": lambda t: t.versions.delete_branch("b"),
    "fast_forward": lambda t: t.versions.fast_forward("b"),
    "rollback_to": lambda t: t.versions.rollback_to(2),
    "reset_consumer": lambda t: t.versions.reset_consumer("c", 2),
    "purge_files": lambda t: t.maintenance.purge_files(),
    "compact_manifests": lambda t: t.maintenance.compact_manifests(),
    "upsert": lambda t: t.upsert(pa.table({"id": [7], "v": [7]}, schema=SCHEMA)),
    "analyze": lambda t: t.maintenance.analyze(),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_operation_reports_success(tmp_path: Path, operation: str) -> None:
    table = filled(tmp_path)
    before = files_of(table)
    read_only = Table("db.t", open_store(table.location, ReadOnlyFiles()))
    assert read_only.to_arrow().num_rows == 4
    with pytest.raises(StorageAccessError, match="Read-only file system"):
        OPERATIONS[operation](read_only)
    assert files_of(table) == before


if can_mount():

    def test_no_operation_reports_success_on_a_read_only_mount(tmp_path: Path) -> None:
        table = filled(tmp_path / "lake")
        before = files_of(table)
        seen = tmp_path / "seen"
        seen.mkdir()
        with mounted_for_reading(tmp_path / "lake", seen):
            read_only = interbed.load_catalog("test", warehouse=str(seen)).get_table("db.t")
            assert read_only.to_arrow().num_rows == 4
            for operation in OPERATIONS.values():
                with pytest.raises(StorageAccessError, match="Read-only file system"):
                    operation(read_only)
        assert files_of(table) == before


def test_a_consumer_that_cannot_be_deleted_is_reported(tmp_path: Path) -> None:
    table = filled(tmp_path)
    read_only = Table("db.t", open_store(table.location, ReadOnlyFiles()))
    with pytest.raises(StorageAccessError, match="Read-only file system"):
        read_only.consumer_manager().delete_consumer("c")
    assert table.versions.consumers() == {"c": 9}


def test_expiry_counts_only_files_that_were_deleted(tmp_path: Path) -> None:
    table = filled(tmp_path)
    before = files_of(table)
    stubborn = Table("db.t", open_store(table.location, StubbornFiles("/bucket-0/data-")))
    result = stubborn.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: NOW + 10_000)
    assert result.snapshots
    assert result.data_files == 0
    gone = before.keys() - files_of(table).keys()
    assert len([path for path in gone if "/manifest/" in path]) == result.metadata_files > 0
    # The files that stayed are orphans now.
    assert table.maintenance.remove_orphan_files(datetime.fromtimestamp(time.time() - 0.001), dry_run=True).files


def test_orphans_that_cannot_be_deleted_are_reported_and_the_others_deleted(tmp_path: Path) -> None:
    table = filled(tmp_path)
    other = Path(table.location, "bucket-0", "data-orphan-2.parquet")
    other.write_bytes(b"nothing")
    os.utime(other, (NOW - 100_000, NOW - 100_000))
    stubborn = Table("db.t", open_store(table.location, StubbornFiles("orphan.parquet")))
    with pytest.raises(StorageAccessError, match=r"data-orphan\.parquet was not deleted.*not permitted"):
        stubborn.maintenance.remove_orphan_files()
    assert not other.exists()
