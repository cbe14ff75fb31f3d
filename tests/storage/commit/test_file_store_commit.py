"""Commits: the resulting snapshots, also after failures and lost races."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from interbed.storage.base.errors import (
    CommitConflictError,
    CommitFailedError,
    CommitStateUnknownError,
    NotSupportedError,
    StorageAccessError,
)
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.io.faults import Fault, FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.file_store import FileStore, StoreEnvironment
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.meta.snapshot.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    ExclusiveCreatePublisher,
    Snapshot,
)
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.table.opening import open_store
from tests.storage.commit.tables import (
    data_file,
    live_names,
    manifest_names,
    message,
    primary_key_table,
    quick,
    referenced_names,
    with_compaction,
    write_files,
)

SNAPSHOT_CREATION = "create_exclusive:*/snapshot/snapshot-*"


def snapshot_of(store: FileStore, snapshot_id: int) -> Snapshot:
    return store.snapshots.read(snapshot_id)


def test_a_commit_creates_the_next_snapshot(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    first, second = data_file(rows=3), data_file(rows=4)
    assert FileStoreCommit(store, "u").commit([message(first)], watermark=7, properties={"k": "v"}) == [1]
    assert FileStoreCommit(store, "u").commit([message(second)]) == [2]
    one, two = snapshot_of(store, 1), snapshot_of(store, 2)
    assert (one.commit_kind, one.delta_record_count, one.total_record_count) == (CommitKind.APPEND, 3, 3)
    assert (two.delta_record_count, two.total_record_count) == (4, 7)
    assert (one.watermark, two.watermark, one.properties, two.properties) == (7, 7, {"k": "v"}, None)
    assert one.commit_identifier == BATCH_COMMIT_IDENTIFIER
    assert one.uuid != two.uuid
    assert one.writer_version is not None
    size = Path(store.paths.manifest(two.base_manifest_list)).stat().st_size
    assert two.base_manifest_list_size == size
    assert live_names(store) == {first.file_name, second.file_name}
    assert live_names(store, 1) == {first.file_name}
    assert Path(store.paths.latest_hint).read_text() == "2"
    assert Path(store.paths.earliest_hint).read_text() == "1"
    assert manifest_names(store) == referenced_names(store)


def test_a_commit_without_changes_creates_no_snapshot(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    assert FileStoreCommit(store, "u").commit([]) == []
    assert FileStoreCommit(store, "u").commit([], identifier=1, allow_empty=True) == [1]
    assert snapshot_of(store, 1).delta_record_count == 0


def test_new_and_compacted_files_are_committed_in_two_snapshots(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    new, merged = data_file(rows=5), data_file(level=5, rows=4)
    ids = FileStoreCommit(store, "u").commit([message(new, before=[new], after=[merged])], identifier=3)
    assert ids == [1, 2]
    assert snapshot_of(store, 2).commit_kind is CommitKind.COMPACT
    assert snapshot_of(store, 2).delta_record_count == -1
    assert snapshot_of(store, 2).total_record_count == 4
    assert live_names(store) == {merged.file_name}


def test_a_file_moved_to_another_level_stays_one_file(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    new = data_file()
    paths = write_files(store, message(new))
    commit = FileStoreCommit(store, "u")
    commit.commit([message(new)])
    upgrade = message(before=[new], after=[new.upgraded(5)])
    commit.commit([upgrade])
    assert live_names(store) == {new.file_name}
    with pytest.raises(CommitConflictError):
        commit.commit([with_compaction(upgrade, after=(new.upgraded(4),))])
    assert paths[0].exists()


@pytest.mark.parametrize(("action", "is_known"), [("fail-before", True), ("fail-after", True), ("lost", False)])
def test_new_records_are_committed_although_their_compaction_fails_in_the_store(
    tmp_path: Path, action: str, is_known: bool
) -> None:
    store = primary_key_table(tmp_path)
    old, new, compacted = data_file(), data_file(), data_file(level=5)
    FileStoreCommit(store, "u").commit([message(old)])
    pattern = f"create_exclusive:*/snapshot/snapshot-3:{action}"
    faults = ["create_exclusive:*/snapshot/snapshot-3:fail-before", "read_bytes:*/snapshot/snapshot-3:fail-before"]
    faulty = FaultyFileIO(LocalFileIO(), [Fault.parse(each) for each in ([pattern] if is_known else faults)])
    commit = FileStoreCommit(open_store(store.location, faulty), "u", retry=quick())
    both = message(new, before=[old], after=[compacted])
    paths = write_files(store, both)
    # After an error the caller would write the same rows again.
    ids = commit.commit([both])
    is_compacted = action == "fail-after"
    assert ids == ([2, 3] if is_compacted else [2])
    assert commit.gave_up_compaction is not is_compacted
    assert live_names(store) == {new.file_name, (compacted if is_compacted else old).file_name}
    # Files of a compaction whose snapshot may yet appear are kept.
    assert [path.exists() for path in paths] == [True, is_compacted or not is_known]


def test_rewritten_files_are_committed_in_an_overwrite_snapshot(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    old, new = data_file(rows=5), data_file(rows=4)
    commit = FileStoreCommit(store, "u")
    commit.commit([message(old)])
    assert commit.commit([message(new, deleted=[old])]) == [2]
    assert snapshot_of(store, 2).commit_kind is CommitKind.OVERWRITE
    assert live_names(store) == {new.file_name}


def test_a_compaction_of_files_that_another_compacted_is_a_conflict_and_leaves_no_file(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    old = data_file()
    FileStoreCommit(store, "u").commit([message(old)])
    mine = message(before=[old], after=[data_file(level=5)])
    theirs = message(before=[old], after=[data_file(level=5)])
    FileStoreCommit(store, "b").commit([theirs])
    (path,) = write_files(store, mine)
    before = manifest_names(store)
    with pytest.raises(CommitConflictError, match=r"bucket 0 of partition dt=d1"):
        FileStoreCommit(store, "a").commit([mine])
    assert not path.exists()
    assert manifest_names(store) == before
    assert store.snapshots.latest_id() == 2


def test_files_of_one_level_must_not_overlap(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    small, large = data_file(0, 9), data_file(5, 20)
    FileStoreCommit(store, "u").commit([message(small, large)])
    FileStoreCommit(store, "a").commit([message(before=[small], after=[small.upgraded(5)])])
    with pytest.raises(CommitConflictError, match="overlapping"):
        FileStoreCommit(store, "b").commit([message(before=[large], after=[large.upgraded(5)])])
    # In another bucket the same keys do not conflict.
    other = data_file(0, 9)
    FileStoreCommit(store, "b").commit([message(other, bucket=1)])
    FileStoreCommit(store, "b").commit([message(before=[other], after=[other.upgraded(5)], bucket=1)])


def test_a_commit_with_another_bucket_count_than_the_partitions_is_refused(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    FileStoreCommit(store, "u").commit([message(data_file())])
    with pytest.raises(CommitConflictError, match="rescale"):
        FileStoreCommit(store, "u").commit([message(data_file(), total=4)], check_append_conflicts=True)
    with pytest.raises(CommitConflictError, match="rescale"):
        FileStoreCommit(store, "u").commit([message(data_file()), message(data_file(), bucket=1, total=4)])
    # After the option is altered while a writer is at work, every commit checks the bucket count.
    old_writer = open_store(str(tmp_path))
    store.schemas.change([SetOption("bucket", "4")])
    FileStoreCommit(open_store(str(tmp_path)), "u").overwrite([message(data_file(), total=4)], partition={"dt": "d1"})
    with pytest.raises(CommitConflictError, match="rescale"):
        FileStoreCommit(old_writer, "u").commit([message(data_file())])


def test_an_identifier_is_committed_once(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    changes = message(data_file(), before=[], after=[])
    assert FileStoreCommit(store, "u").commit([changes], identifier=5) == [1]
    assert FileStoreCommit(store, "u").commit([changes], identifier=5) == [1]
    assert FileStoreCommit(store, "u").filter_committed([4, 5, 6]) == [6]
    assert FileStoreCommit(store, "other").filter_committed([5]) == [5]
    assert FileStoreCommit(store, "u").commit([message(data_file())], identifier=6) == [2]
    assert store.snapshots.ids() == [1, 2]


def test_a_job_that_died_between_its_two_snapshots_commits_the_second_on_restart(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    new = data_file()
    whole = message(new, before=[new], after=[new.upgraded(5)])
    FileStoreCommit(store, "u").commit([message(new)], identifier=1)
    assert FileStoreCommit(store, "u").commit([whole], identifier=1) == [1, 2]
    assert FileStoreCommit(store, "u").commit([whole], identifier=1) == [1, 2]


def test_batch_commits_of_one_user_are_distinguished_by_their_files(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    first = message(data_file())
    assert FileStoreCommit(store, "u").commit([first]) == [1]
    assert FileStoreCommit(store, "u").commit([message(data_file())]) == [2]
    assert FileStoreCommit(store, "u").commit([first]) == [1]
    assert store.snapshots.ids() == [1, 2]


class _OvertakenPublisher:
    """A publisher that another writer overtakes a given number of times."""

    def __init__(self, store: FileStore, times: int) -> None:
        self._plain = ExclusiveCreatePublisher(store.file_io, store.paths)
        self._store = store
        self.left = times
        self.tried: list[int] = []

    def publish(self, snapshot: Snapshot) -> bool:
        self.tried.append(snapshot.id)
        if self.left > 0:
            self.left -= 1
            plain = open_store(self._store.location)
            # The other writer commits without a turn, because this one holds the turn.
            FileStoreCommit(plain, f"rival-{self.left}", retry=quick()).commit([message(data_file(level=0), bucket=1)])
        return self._plain.publish(snapshot)


def overtaken(store: FileStore, times: int) -> tuple[FileStore, _OvertakenPublisher]:
    publisher = _OvertakenPublisher(store, times)
    environment = StoreEnvironment(publisher=lambda file_io, paths: publisher)
    return open_store(store.location, store.file_io, environment=environment), publisher


def test_a_commit_that_lost_a_race_is_retried(tmp_path: Path) -> None:
    store, publisher = overtaken(primary_key_table(tmp_path), 3)
    mine = data_file(rows=2)
    assert FileStoreCommit(store, "u", retry=quick()).commit([message(mine)]) == [4]
    assert publisher.tried == [1, 2, 3, 4]
    assert store.snapshots.ids() == [1, 2, 3, 4]
    assert snapshot_of(store, 4).total_record_count == 5
    assert mine.file_name in live_names(store)
    assert manifest_names(store) == referenced_names(store)


def test_a_commit_that_lost_too_many_races_fails_and_leaves_no_file(tmp_path: Path) -> None:
    store, _ = overtaken(primary_key_table(tmp_path), 99)
    mine = message(data_file())
    (path,) = write_files(store, mine)
    with pytest.raises(CommitFailedError, match=r"commit\.max-retries"):
        FileStoreCommit(store, "u", retry=quick(2)).commit([mine])
    assert not path.exists()
    assert store.snapshots.ids() == [1, 2, 3]
    assert manifest_names(store) == referenced_names(store)


def test_a_compaction_overtaken_by_appends_reads_only_the_new_manifests(tmp_path: Path) -> None:
    plain = primary_key_table(tmp_path)
    old = data_file()
    FileStoreCommit(plain, "u").commit([message(old)])
    io = FaultyFileIO(LocalFileIO())
    publisher = _OvertakenPublisher(plain, 2)
    store = open_store(str(tmp_path), io, environment=StoreEnvironment(publisher=lambda file_io, paths: publisher))
    FileStoreCommit(store, "u", retry=quick()).commit([message(before=[old], after=[old.upgraded(5)])])
    first = snapshot_of(plain, 1)
    lists = [path for name, path in io.calls if name == "read_bytes" and "/manifest/manifest-" in path]
    manifests = [p for p in lists if "/manifest-list-" not in p]
    assert len(manifests) == len(set(manifests))
    assert first.id == 1


class _SilentStore(FaultyFileIO):
    """An object store that creates the next snapshot or does not, never reports which, and cannot be asked."""

    def __init__(self, created: bool) -> None:
        super().__init__(LocalFileIO())
        self._created = created
        self._silent = True

    def create_exclusive(self, path: str, content: bytes) -> bool:
        if not self._silent:
            return super().create_exclusive(path, content)
        self._silent = False
        if self._created:
            super().create_exclusive(path, content)
        self.arm(Fault.parse("read_bytes:*/snapshot/snapshot-*:fail-before"))
        raise StorageAccessError(f"No answer for {path}.")


@pytest.mark.parametrize("created", [True, False])
def test_an_unknown_outcome_keeps_every_file_and_may_be_committed_again(tmp_path: Path, created: bool) -> None:
    store = primary_key_table(tmp_path)
    FileStoreCommit(store, "other").commit([message(data_file())])
    mine = message(data_file())
    (path,) = write_files(store, mine)
    commit = FileStoreCommit(open_store(str(tmp_path), _SilentStore(created)), "u")
    with pytest.raises(CommitStateUnknownError):
        commit.commit([mine])
    assert path.exists()
    assert store.snapshots.ids() == ([1, 2] if created else [1])
    assert referenced_names(store) <= manifest_names(store)
    assert commit.commit([mine]) == [2]
    assert FileStoreCommit(store, "u").commit([mine]) == [2]
    assert store.snapshots.ids() == [1, 2]
    assert path.exists()


def test_a_known_failure_removes_the_files_that_were_written(tmp_path: Path) -> None:
    primary_key_table(tmp_path)
    io = FaultyFileIO(LocalFileIO(), [Fault.parse(f"{SNAPSHOT_CREATION}:fail-before")])
    store = open_store(str(tmp_path), io)
    mine = message(data_file())
    (path,) = write_files(store, mine)
    with pytest.raises(StorageAccessError, match="snapshot-1"):
        FileStoreCommit(store, "u").commit([mine])
    assert not path.exists()
    assert manifest_names(store) == set()
    assert store.snapshots.ids() == []


@pytest.mark.parametrize("skip", range(4))
def test_a_failure_to_write_a_manifest_leaves_no_file(tmp_path: Path, skip: int) -> None:
    plain = primary_key_table(tmp_path)
    FileStoreCommit(plain, "u").commit([message(data_file())])
    io = FaultyFileIO(LocalFileIO(), [Fault.parse(f"open_output:*/manifest/*:fail-before:{skip}")])
    store = open_store(str(tmp_path), io)
    mine = message(data_file())
    if skip < 3:
        with pytest.raises(StorageAccessError, match="manifest"):
            FileStoreCommit(store, "u").commit([mine])
        assert store.snapshots.ids() == [1]
    else:
        assert FileStoreCommit(store, "u").commit([mine]) == [2]
    assert manifest_names(plain) == referenced_names(plain)


def test_aborting_deletes_the_files_of_the_messages(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    old = data_file()
    kept = write_files(store, message(old))
    mine = message(data_file(), before=[old], after=[data_file(), old.upgraded(5)])
    paths = write_files(store, mine)
    FileStoreCommit(store, "u").abort([mine])
    assert [p.exists() for p in paths] == [False, False, True]
    assert kept[0].exists()


def test_a_commit_does_not_recreate_a_dropped_table(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path / "t")
    store.file_io.delete(str(tmp_path / "t"), recursive=True)
    with pytest.raises(CommitFailedError, match="dropped"):
        FileStoreCommit(store, "u").commit([message(data_file())])
    assert not (tmp_path / "t" / "snapshot").exists()


def test_unsupported_tables_are_refused_by_their_option(tmp_path: Path) -> None:
    made = primary_key_table(tmp_path, None)
    # Another engine has created the table so.
    store = replace(made, options=CoreOptions({**made.options.raw, "sequence.snapshot-ordering": "true"}))
    with pytest.raises(NotSupportedError, match=r"sequence\.snapshot-ordering"):
        FileStoreCommit(store, "u").commit([message(data_file())])


def test_manifests_are_merged_when_they_are_many(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path, None, **{"manifest.merge-min-count": "4"})
    names = set()
    commit = FileStoreCommit(store, "u")
    for i in range(11):
        new = data_file(i, i)
        commit.commit([message(new)], identifier=i)
        names.add(new.file_name)
        assert live_names(store) == names
    latest = store.snapshots.latest()
    assert latest is not None
    assert len(ManifestReader(store.file_io, store.paths).base(latest)) < 5
    assert manifest_names(store) == referenced_names(store)


def test_deletions_are_resolved_when_manifests_exceed_the_full_merge_size(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path, None, **{"manifest.full-compaction-threshold-size": "1 kb"})
    commit = FileStoreCommit(store, "u")
    current = data_file()
    commit.commit([message(current)], identifier=0)
    for i in range(1, 6):
        new = data_file()
        commit.commit([message(new, deleted=[current])], identifier=i)
        current = new
    latest = store.snapshots.latest()
    assert latest is not None
    base = ManifestReader(store.file_io, store.paths).base(latest)
    assert sum(m.num_deleted_files for m in base) == 0
    assert live_names(store) == {current.file_name}


def test_a_table_in_an_object_store_can_be_committed_to() -> None:
    store = primary_key_table(f"memory://lake-{uuid.uuid4()}/db.db/t")
    files = [data_file() for _ in range(3)]
    for i, file in enumerate(files):
        assert FileStoreCommit(store, "u").commit([message(file)]) == [i + 1]
    assert live_names(store) == {f.file_name for f in files}
    assert store.snapshots.ids() == [1, 2, 3]


def test_a_snapshot_with_a_changed_schema_drops_the_statistics(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    commit = FileStoreCommit(store, "u")
    commit.commit([message(data_file())])
    first = snapshot_of(store, 1)
    store.publisher.publish(replace(first, id=2, uuid="x", statistics="stat-1", next_row_id=7))
    commit.commit([message(data_file())])
    store.schemas.change([SetOption("commit.max-retries", "3")])
    commit.commit([message(data_file())])
    assert [(s.statistics, s.schema_id, s.next_row_id) for s in store.snapshots.all()] == [
        (None, 0, None),
        ("stat-1", 0, 7),
        ("stat-1", 0, 7),
        (None, 1, 7),
    ]


class _FailingAfterwards:
    """A publisher that creates the snapshot and then fails, as one with a broken lock server might."""

    def __init__(self, store: FileStore) -> None:
        self._plain = ExclusiveCreatePublisher(store.file_io, store.paths)

    def publish(self, snapshot: Snapshot) -> bool:
        assert self._plain.publish(snapshot)
        raise StorageAccessError("The lock server is gone.")


def test_a_commit_whose_snapshot_exists_never_counts_as_failed(tmp_path: Path) -> None:
    plain = primary_key_table(tmp_path)
    environment = StoreEnvironment(publisher=lambda file_io, paths: _FailingAfterwards(plain))
    mine = message(data_file())
    (path,) = write_files(plain, mine)
    store = open_store(str(tmp_path), environment=environment)
    assert FileStoreCommit(store, "u").commit([mine]) == [1]
    assert path.exists()
    assert manifest_names(plain) == referenced_names(plain)


def test_committing_files_again_as_another_user_is_refused_and_deletes_nothing(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    mine = message(data_file())
    (path,) = write_files(store, mine)
    FileStoreCommit(store, "u").commit([mine])
    with pytest.raises(CommitConflictError, match="committed before"):
        FileStoreCommit(store, "other").commit([mine], check_append_conflicts=True)
    assert path.exists()
    assert manifest_names(store) == referenced_names(store)
