"""Deletion vectors of published tables: one Puffin file per index file, written once, and deleted with the last
snapshot that names it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from interbed.iceberg.publish import entries, publication
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.files import deletion_vectors
from interbed.storage.io.api import FileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table, load_table
from tests.iceberg.publish.tables import (
    KEYED,
    STORAGE,
    VECTORS,
    VERSION,
    assert_true,
    by_pyiceberg,
    has_whole_puffins,
    metadata_directory,
    named_files,
    ordered,
    published,
    puffins,
    rows,
    seen,
)


def with_vectors(warehouse: Path, **options: str) -> Table:
    """Create an append table whose partitions have one index file each."""
    table = published(warehouse, {**VECTORS, **options}, partitions=["p"])
    for p in (1, 2, 3):
        table.append(rows(*range(10 * p, 10 * p + 10), p=p))
    return table


class IndexFilesRead:
    """Recorder of the names of index files whose vectors are read."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._read = deletion_vectors.read_vectors
        self._names: list[str] = []
        patch.setattr(entries, "read_vectors", self)

    def __call__(self, files: FileIO, path: str, ranges: Any) -> Any:
        self._names.append(path.rpartition("/")[2])
        return self._read(files, path, ranges)

    def taken(self) -> list[str]:
        """Return the names since the last call."""
        names, self._names = self._names, []
        return names


def test_only_vectors_of_new_index_files_are_read_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_vectors(tmp_path)
    read = IndexFilesRead(monkeypatch)
    table.delete("id = 11 or id = 21")
    assert len(read.taken()) == len(puffins(table)) == 2
    before = {path: Path(path).stat().st_mtime_ns for path in puffins(table)}
    table.delete("id = 31")
    (new,) = puffins(table) - before.keys()
    assert read.taken() == [Path(new).name.removesuffix(".puffin")]
    assert {path: Path(path).stat().st_mtime_ns for path in before} == before
    assert_true(table)
    assert has_whole_puffins(table)
    table.append(rows(99))
    assert table.maintenance.publish_iceberg() == table.store.snapshots.latest_id()
    assert read.taken() == []


def test_a_puffin_file_is_deleted_with_the_last_snapshot_that_references_it(tmp_path: Path) -> None:
    keep = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
    table = with_vectors(tmp_path, **keep)
    for number in (11, 12, 21, 13, 14):
        table.delete(f"id = {number}")
        assert_true(table)
        assert puffins(table) <= named_files(table)
    table.versions.create_tag("vectors")
    table.compact()
    for number in range(3):
        table.append(rows(number))
    assert_true(table)
    assert by_pyiceberg(table).metadata.refs["vectors"]
    assert puffins(table)
    assert puffins(table) <= named_files(table)
    table.versions.delete_tag("vectors")
    assert_true(table)
    assert puffins(table) == set()


def test_a_rollback_deletes_newer_puffin_files(tmp_path: Path) -> None:
    table = with_vectors(tmp_path)
    table.delete("id = 11")
    before = puffins(table)
    table.delete("id = 12 or id = 21")
    assert puffins(table) > before
    table.versions.rollback_to(4)
    assert_true(table)
    assert puffins(table) == before
    table.delete("id = 13")
    assert_true(table)


def test_an_unpublished_rollback_deletes_no_files_of_older_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_vectors(tmp_path)
    table.delete("id = 11")
    table.append(rows(19, p=1))

    def refuse(*_: object) -> int:
        raise StorageAccessError("The store is away.")

    with monkeypatch.context() as away:
        away.setattr(publication, "publish", refuse)
        table.versions.rollback_to(4)
    table.delete("id = 21")
    # The new snapshot has its own manifests where the removed one shared them with retained snapshots.
    assert_true(table)
    assert [one.snapshot_id for one in by_pyiceberg(table).metadata.snapshots] == [1, 2, 3, 4, 5]
    assert puffins(table) <= named_files(table)


def test_complete_files_of_a_killed_publication_are_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_vectors(tmp_path)
    table.delete("id = 11 or id = 21")
    whole, half = sorted(puffins(table))
    content = Path(half).read_bytes()
    Path(half).write_bytes(content[:20])
    times = {path: Path(path).stat().st_mtime_ns for path in (whole, half)}
    for path in metadata_directory(table).glob("v*.json"):
        path.unlink()
    assert table.maintenance.publish_iceberg() == 4
    assert_true(table)
    assert Path(whole).stat().st_mtime_ns == times[whole]
    assert Path(half).read_bytes() == content


class OvertakenFileIO(LocalFileIO):
    """Files of a process that loses the race for each new metadata version."""

    def create_exclusive(self, path: str, content: bytes) -> bool:
        if path.endswith(".metadata.json"):
            load_table(path.split("/iceberg/", maxsplit=1)[0] + "/db.db/t").maintenance.publish_iceberg()
        return super().create_exclusive(path, content)


def test_files_that_another_publication_references_stay(tmp_path: Path) -> None:
    table = with_vectors(tmp_path)
    Table("t", open_store(table.location, OvertakenFileIO())).delete("id = 11")
    assert_true(table)
    assert len(puffins(table)) == 1
    assert puffins(table) <= named_files(table)


class RecordingFileIO(LocalFileIO):
    """Files that record which of them were durable before each new metadata version."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: set[str] = set()
        self.before_versions: list[set[str]] = []

    def sync(self, paths: Any) -> None:
        paths = list(paths)
        self.synced.update(paths)
        super().sync(paths)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        if path.endswith(".metadata.json"):
            self.before_versions.append(set(self.synced))
        return super().create_exclusive(path, content)


def test_files_are_durable_before_they_are_referenced(tmp_path: Path) -> None:
    location = with_vectors(tmp_path).location
    files = RecordingFileIO()
    table = Table("t", open_store(location, files))
    table.delete("id = 11")
    assert puffins(table) <= files.before_versions[-1]


@pytest.mark.parametrize("bitmap64", ["false", "true"])
def test_vectors_written_before_the_publication_are_shown(tmp_path: Path, bitmap64: str) -> None:
    silent = {STORAGE: "disabled", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": bitmap64}
    table = published(tmp_path, silent)
    table.append(rows(*range(10)))
    table.delete("id = 3")
    table.store.alter([SetOption(name, value) for name, value in {**VECTORS, STORAGE: "hadoop-catalog"}.items()])
    table = load_table(table.location)
    table.maintenance.publish_iceberg()
    assert_true(table)
    assert has_whole_puffins(table)
    assert len(seen(table)) == 9
    table.delete("id = 4")
    assert_true(table)
    assert len(seen(table)) == 8


def test_paths_have_the_same_form_in_vectors_and_manifests(tmp_path: Path) -> None:
    table = published(tmp_path, {"deletion-vectors.modifiable": "true"})
    table.append(rows(*range(10)))
    (newest,) = metadata_directory(table).glob("v*.json")
    said = json.loads(newest.read_text())
    newest.write_text(json.dumps({**said, "location": f"file:{table.location}"}))
    table.store.alter([SetOption(name, value) for name, value in VECTORS.items()])
    table = load_table(table.location)
    for number in (3, 4):
        table.delete(f"id = {number}")
        assert_true(table)
    assert by_pyiceberg(table).location().startswith("file:")
    assert len(by_pyiceberg(table).scan().to_arrow()) == 8
    assert all(".at-" in path for path in puffins(table))


def test_several_unpublished_commits_are_published_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"data-file.external-paths": f"file://{tmp_path}/one", "data-file.external-paths.strategy": "round-robin"}
    table = with_vectors(tmp_path / "lake", **places)

    def refuse(*_: object) -> int:
        raise StorageAccessError("The store is away.")

    with monkeypatch.context() as away:
        away.setattr(publication, "publish", refuse)
        for number in (11, 12):
            table.append(rows(100 + number, p=1))
            table.delete(f"id = {number} or id = {100 + number}")
    table.maintenance.publish_iceberg()
    assert_true(table)
    assert has_whole_puffins(table)
    for one in by_pyiceberg(table).metadata.snapshots:
        found = by_pyiceberg(table).scan(snapshot_id=one.snapshot_id).to_arrow()
        then = table.scan(snapshot_id=one.snapshot_id).to_arrow()
        assert ordered(found.to_pylist()) == ordered(then.to_pylist())


def test_a_primary_key_table_has_complete_puffin_files_after_each_upsert(tmp_path: Path) -> None:
    table = published(tmp_path, {**VECTORS, "bucket": "2", VERSION: "3"}, schema=KEYED, keys=["id"])
    table.upsert([{"id": i, "v": str(i * 7919 % 10_007), "p": 1} for i in range(20_000)])
    table.compact()
    for number in range(4):
        table.upsert(rows(number, 100 + number, v="b"))
        assert_true(table)
    assert puffins(table)
    assert has_whole_puffins(table)
