"""Changelog files and index files of commit messages: committed, replaced, kept by later snapshots, and cleaned up."""

from pathlib import Path

import pytest

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CommitConflictError, InvalidInputError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind
from interbed.storage.meta.manifest.index_manifest import (
    DELETION_VECTORS,
    HASH_INDEX,
    DeletionVectorRange,
    IndexFileMeta,
    IndexManifestEntry,
    read_index_manifest,
)
from interbed.storage.meta.manifest.manifest_file import read_manifest_list
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.write.commit_message import CommitMessage, DataIncrement, WriteBasis
from tests.storage.commit.tables import (
    data_file,
    manifest_names,
    message,
    partition,
    primary_key_table,
    referenced_names,
    with_compaction,
    with_data,
)


def index_file(name: str, kind: str = HASH_INDEX, *vectors: str) -> IndexFileMeta:
    """The metadata of an index file with deletion vectors of the named data files."""
    ranges = tuple(DeletionVectorRange(data_file_name=v, offset=1, length=9, cardinality=2) for v in vectors)
    return IndexFileMeta(
        index_type=kind, file_name=name, file_size=10, row_count=1, deletion_vectors=ranges if vectors else None
    )


def indexes(store: FileStore, snapshot_id: int) -> list[IndexManifestEntry]:
    """The entries of a snapshot's index manifest."""
    name = store.snapshots.read(snapshot_id).index_manifest
    if name is None:
        return []
    return read_index_manifest(ManifestReader(store.file_io, store.paths).content(name), source=name)


def test_a_message_with_all_kinds_of_files_survives_serialization() -> None:
    sent = CommitMessage(
        bucket_id=BucketId(partition("d1"), 1),
        total_buckets=2,
        data=DataIncrement(
            new_files=(data_file(),),
            deleted_files=(data_file(),),
            changelog_files=(data_file(),),
            new_index_files=(index_file("a"),),
            deleted_index_files=(index_file("b"),),
        ),
        compaction=CompactIncrement(
            before=(data_file(),),
            after=(data_file(),),
            changelog=(data_file(),),
            new_index_files=(index_file("c", DELETION_VECTORS, "x", "y"),),
            deleted_index_files=(index_file("d"),),
        ),
        basis=WriteBasis(hash_indexes=("h1", "h2"), keys_as_of=3, buckets_as_of=4),
        replaces=True,
    )
    assert CommitMessage.from_bytes(sent.to_bytes()) == sent
    assert not sent.is_empty
    with pytest.raises(InvalidInputError, match="Not a commit message"):
        CommitMessage.from_bytes(sent.to_bytes().replace(b'"deleted_files"', b'"deleted"'))
    assert message().is_empty


def test_the_append_and_the_compact_snapshot_have_their_own_changelogs(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    new, old_log, log = data_file(), data_file(rows=3), data_file(rows=5)
    after = new.upgraded(5)
    sent = with_data(message(new, before=[new], after=[after]), changelog_files=(old_log,))
    sent = with_compaction(sent, changelog=(log,))
    FileStoreCommit(store, "u").commit([sent])
    first, second = store.snapshots.read(1), store.snapshots.read(2)
    assert (first.changelog_record_count, second.changelog_record_count) == (3, 5)
    reader = ManifestReader(store.file_io, store.paths)
    for snapshot, file in ((first, old_log), (second, log)):
        assert snapshot.changelog_manifest_list is not None
        content = reader.content(snapshot.changelog_manifest_list)
        assert len(content) == snapshot.changelog_manifest_list_size
        entries = list(reader.entries(read_manifest_list(content, source="list")))
        assert [(e.kind, e.file) for e in entries] == [(FileKind.ADD, file)]


def test_a_changelog_alone_makes_a_snapshot(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    assert FileStoreCommit(store, "u").commit([with_data(message(), changelog_files=(data_file(),))]) == [1]
    assert store.snapshots.read(1).commit_kind is CommitKind.APPEND


def test_a_new_index_file_of_a_bucket_replaces_the_old_one(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    commit = FileStoreCommit(store, "u")
    marked = data_file()
    vectors = index_file("v1", DELETION_VECTORS, marked.file_name)
    commit.commit([with_data(message(data_file()), new_index_files=(index_file("h1"),))])
    commit.commit([with_data(message(data_file(), bucket=1), new_index_files=(index_file("h2"),))])
    commit.commit([with_data(message(marked), new_index_files=(vectors,))])
    commit.commit([with_data(message(data_file()), new_index_files=(index_file("h3"),))])
    assert {e.file.file_name for e in indexes(store, 4)} == {"h2", "h3", "v1"}
    assert store.snapshots.read(3).commit_kind is CommitKind.OVERWRITE
    commit.commit([with_data(message(data_file()), deleted_index_files=(vectors,))])
    assert [(e.partition, e.bucket, e.file.file_name) for e in indexes(store, 5)] == [
        (partition("d1"), 1, "h2"),
        (partition("d1"), 0, "h3"),
    ]
    commit.commit([message(data_file())])
    assert store.snapshots.read(6).index_manifest == store.snapshots.read(5).index_manifest


def test_an_index_file_that_another_writer_replaced_is_a_conflict(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    commit = FileStoreCommit(store, "u")
    commit.commit([with_data(message(data_file()), new_index_files=(index_file("h1"),))])
    first, second, third = index_file("h1"), index_file("h2"), index_file("h3")
    changed = with_data(message(data_file()), deleted_index_files=(first,), new_index_files=(second,))
    commit.commit([changed])
    late = with_data(message(data_file()), deleted_index_files=(first,), new_index_files=(third,))
    Path(store.paths.index("h3")).parent.mkdir(exist_ok=True)
    Path(store.paths.index("h3")).write_bytes(b"index")
    with pytest.raises(CommitConflictError, match="h1 of bucket 0 is not the table's any more"):
        commit.commit([late])
    assert not Path(store.paths.index("h3")).exists()
    assert manifest_names(store) == referenced_names(store)


def test_an_overwrite_drops_the_partitions_index_files_and_adds_its_own(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    commit = FileStoreCommit(store, "u")
    for dt in ("d1", "d2"):
        commit.commit([with_data(message(data_file(), dt=dt), new_index_files=(index_file(f"old-{dt}"),))])
    commit.overwrite([with_data(message(data_file()), new_index_files=(index_file("new"),))], partition={"dt": "d1"})
    assert {e.file.file_name for e in indexes(store, 3)} == {"old-d2", "new"}
    commit.overwrite([with_data(message(data_file()), new_index_files=(index_file("only"),))])
    assert [e.file.file_name for e in indexes(store, 4)] == ["only"]


def test_an_aborted_message_leaves_no_changelog_and_no_index_file(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    log = data_file()
    sent = with_data(message(data_file()), changelog_files=(log,), new_index_files=(index_file("h"),))
    bucket = Path(store.paths.bucket_directory(sent.bucket_id))
    bucket.mkdir(parents=True)
    Path(store.paths.index("h")).parent.mkdir()
    paths = [bucket / log.file_name, Path(store.paths.index("h"))]
    for path in paths:
        path.write_bytes(b"x")
    FileStoreCommit(store, "u").abort([sent])
    assert not any(path.exists() for path in paths)
