"""Writers that are held up at the creation of their snapshot while others commit and their base snapshot expires.

The writer's snapshot id may be free again by then. The snapshot that it creates there is no part of the table's history
and must not be reported as committed. If other writers have built on its snapshot, it must not be created a second
time.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from interbed.storage.base.errors import CommitFailedError, CommitStateUnknownError
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.io.api import FileIO, FileStatus, WrappedFileIO
from interbed.storage.meta.file_store import FileStore, StoreEnvironment
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.snapshot.snapshot import CommitKind, ExclusiveCreatePublisher, Snapshot
from interbed.storage.scan import manifest_reader
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.write.commit_message import CommitMessage
from tests.storage.commit.tables import data_file, message, primary_key_table, quick, with_data, write_files

MERGING = {"manifest.merge-min-count": "3"}
Step = Callable[[], None]


class _HeldUpPublisher:
    """A publisher that runs a callback at the first creation of a snapshot."""

    def __init__(self, store: FileStore, before: Step | None, after: Step | None) -> None:
        self._plain = ExclusiveCreatePublisher(store.file_io, store.paths)
        self._steps = (before, after)

    def publish(self, snapshot: Snapshot) -> bool:
        (before, after), self._steps = self._steps, (None, None)
        if before is not None:
            before()
        created = self._plain.publish(snapshot)
        if after is not None:
            after()
        return created


@pytest.fixture(params=["on a disk", "in a store"])
def new_table(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., FileStore]:
    if request.param == "in a store":
        request.getfixturevalue("like_a_store")
    return lambda **options: primary_key_table(tmp_path / "t", **options)


def commit(store: FileStore, *files: DataFileMeta) -> None:
    """Commit each of the files in a snapshot of its own."""
    for file in files:
        FileStoreCommit(open_store(store.location), "other", retry=quick()).commit([message(file)])


def held_up(store: FileStore, brought: CommitMessage, *, before: Step | None = None, after: Step | None = None) -> int:
    publisher = _HeldUpPublisher(store, before, after)
    environment = StoreEnvironment(publisher=lambda file_io, paths: publisher)
    own = open_store(store.location, store.file_io, environment=environment)
    write_files(own, brought)
    (made,) = FileStoreCommit(own, "held up", retry=quick()).commit([brought])
    return made


def live(store: FileStore) -> Counter[str]:
    """Return the number of occurrences of each file in the newest snapshot."""
    plan = TableScan(open_store(store.location)).plan()
    return Counter(file.file_name for split in plan.splits for file in split.files)


def expired(store: FileStore, retained: int) -> None:
    Table("t", open_store(store.location)).maintenance.expire_snapshots(retain_min=retained, retain_max=retained)


def going_on(store: FileStore, files: Sequence[DataFileMeta], retained: int = 1) -> Step:
    """Return a step in which other writers commit the files, after which all but some snapshots expire."""

    def step() -> None:
        commit(store, *files)
        expired(store, retained)

    return step


def begun(new_table: Callable[..., FileStore], already: int, more: int) -> tuple[FileStore, list[DataFileMeta]]:
    """A table in which the first `already` files are committed, and the list of all files."""
    store = new_table(**MERGING)
    files = [data_file(number, number) for number in range(already + more)]
    commit(store, *files[:already])
    return store, files


@pytest.mark.sample(10)
@pytest.mark.parametrize("retained", [1, 2])
@pytest.mark.parametrize("others", [2, 3, 12])
@pytest.mark.parametrize("already", [0, 1, 3])
def test_a_snapshot_id_that_expiry_has_freed_is_not_used_again(
    new_table: Callable[..., FileStore], already: int, others: int, retained: int
) -> None:
    store, files = begun(new_table, already, others + 1)
    made = held_up(store, message(files[-1]), before=going_on(store, files[already:-1], retained))
    assert made == already + others + 1
    newest = already + others + 1
    assert store.snapshots.ids() == list(range(newest - retained, newest + 1))
    assert store.snapshots.latest_id() == newest
    assert live(store) == Counter(file.file_name for file in files)


@pytest.mark.sample(12)
@pytest.mark.parametrize("retained", [1, 2])
@pytest.mark.parametrize("others", [0, 1, 2, 4])
@pytest.mark.parametrize("already", [0, 1, 3])
def test_a_snapshot_that_others_have_built_on_is_not_committed_again(
    new_table: Callable[..., FileStore], already: int, others: int, retained: int
) -> None:
    store, files = begun(new_table, already, others + 1)
    meanwhile = going_on(store, files[already + 1 :], retained)
    assert held_up(store, message(files[already]), after=meanwhile) == already + 1
    assert live(store) == Counter(file.file_name for file in files)
    newest = already + others + 1
    assert store.snapshots.ids() == list(range(max(1, newest - retained + 1), newest + 1))


def test_the_outcome_of_a_first_snapshot_may_stay_unknown(
    new_table: Callable[..., FileStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_table()

    def broken() -> None:
        def refuse(*_: object) -> None:
            raise OSError("the directory can't be read")

        monkeypatch.setattr("interbed.storage.meta.snapshot.manager.SnapshotManager.stored_ids", refuse)

    with pytest.raises(CommitStateUnknownError, match="can't be looked up"):
        held_up(store, message(data_file()), after=broken)
    monkeypatch.undo()
    assert live(store).total() == 1


class _StaleListingFileIO(WrappedFileIO):
    """A FileIO that runs a callback during the first listing of snapshots and returns the listing from before."""

    def __init__(self, inner: FileIO, after: Step) -> None:
        super().__init__(inner)
        self._steps = [after]

    def list(self, path: str) -> list[FileStatus]:
        found = self.inner.list(path)
        if path.endswith("/snapshot") and self._steps:
            self._steps.pop()()
        return found


class _LateReadFileIO(WrappedFileIO):
    """A FileIO that runs a callback before the n-th read of metadata."""

    def __init__(self, inner: FileIO, number: int, before: Step) -> None:
        super().__init__(inner)
        self.readings = 0
        self._number = number
        self._before = before

    def read_bytes(self, path: str) -> bytes:
        if "/manifest/" in path:
            self.readings += 1
            if self.readings == self._number:
                self._before()
        return self.inner.read_bytes(path)


@pytest.mark.sample(6)
@pytest.mark.parametrize("retained", [1, 2])
@pytest.mark.parametrize("number", range(1, 6))
def test_metadata_that_expires_while_a_commit_reads_it_counts_as_a_lost_race(
    new_table: Callable[..., FileStore], monkeypatch: pytest.MonkeyPatch, number: int, retained: int
) -> None:
    store = new_table(**MERGING)
    old, *others = (data_file(key, key) for key in range(6))
    commit(store, old, *others[:2])
    # This process need not read metadata that it has written itself.
    monkeypatch.setattr(manifest_reader, "_CONTENTS", MemoryCache())
    file_io = _LateReadFileIO(store.file_io, number, going_on(store, others[2:], retained))
    compaction = message(before=[old], after=[data_file(0, 0, level=5)])
    own = open_store(store.location, file_io)
    write_files(own, compaction)
    (made,) = FileStoreCommit(own, "held up", retry=quick()).commit([compaction])
    assert file_io.readings >= number
    assert made == store.snapshots.latest_id() == 7
    (new,) = compaction.compaction.after
    assert live(store) == Counter(file.file_name for file in (new, *others))
    assert {path.name for path in Path(store.location, "manifest").iterdir()} == _named(store)


def _named(store: FileStore) -> set[str]:
    """The metadata files that snapshots name."""
    reader = ManifestReader(store.file_io, store.paths)
    names = set[str]()
    for number in store.snapshots.ids():
        snapshot = store.snapshots.snapshot(number)
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest)
        names.update(name for name in lists if name is not None)
        names.update(manifest.file_name for manifest in reader.data(snapshot))
    return names


@pytest.mark.parametrize("lookup", [SnapshotManager.latest_id, SnapshotManager.earliest_id, SnapshotManager.latest])
def test_a_table_is_not_empty_because_all_listed_snapshots_have_expired(
    new_table: Callable[..., FileStore], lookup: Callable[[SnapshotManager], object]
) -> None:
    store = new_table()
    commit(store, data_file())
    meanwhile = going_on(store, [data_file() for _ in range(3)])
    for hint in (store.paths.latest_hint, store.paths.earliest_hint):
        store.file_io.delete(hint)
    found = lookup(SnapshotManager(_StaleListingFileIO(store.file_io, meanwhile), store.paths))
    assert (found.id if isinstance(found, Snapshot) else found) == 4


def test_a_late_snapshot_under_a_freed_id_is_not_taken_for_the_newest(
    new_table: Callable[..., FileStore],
) -> None:
    store = new_table()
    commit(store, data_file())
    remembered = open_store(store.location)
    assert remembered.snapshots.latest_id() == 1
    found: list[object] = []

    def look() -> None:
        # The held-up writer has just used a freed id and has not noticed it yet.
        assert store.snapshots.exists(2)
        found.extend([remembered.snapshots.latest_id(), remembered.snapshots.latest()])

    def meanwhile() -> None:
        commit(store, data_file())
        assert remembered.snapshots.latest_id() == 2
        going_on(store, [data_file(), data_file()])()

    assert held_up(store, message(data_file()), before=meanwhile, after=look) == 5
    assert found == [4, store.snapshots.snapshot(4)]


def test_an_expiry_keeps_files_that_only_a_late_snapshot_has_deleted(
    new_table: Callable[..., FileStore],
) -> None:
    store = new_table()
    old = data_file()
    (path,) = write_files(store, message(old))
    commit(store, old, data_file(1, 1))
    meanwhile = going_on(store, [data_file(key, key) for key in range(2, 6)])
    late: list[Snapshot] = []

    def killed() -> None:
        # Two snapshots, as if another writer had built on the first one before it was killed.
        late.append(store.snapshots.stored(3))
        second = replace(late[0], id=4, uuid="late")
        assert ExclusiveCreatePublisher(store.file_io, store.paths).publish(second)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        held_up(store, message(before=[old], after=[data_file(level=5)]), before=meanwhile, after=killed)
    assert late[0].commit_kind is CommitKind.COMPACT
    going_on(store, [data_file(9, 9)])()
    assert store.snapshots.ids() == [7]
    assert live(store)[old.file_name] == 1
    assert path.exists()


def test_files_that_an_expiry_may_delete_with_a_late_snapshot_are_not_committed_again(
    new_table: Callable[..., FileStore],
) -> None:
    store = new_table()
    brought = with_data(message(data_file()), changelog_files=(data_file(),))
    meanwhile = going_on(store, [data_file(key, key) for key in range(3)])
    with pytest.raises(CommitFailedError, match="Write again"):
        held_up(store, brought, before=meanwhile)
    assert live(store).total() == 3
    assert store.snapshots.ids() == [3]
    (new,) = brought.data.new_files
    assert not Path(store.paths.bucket_directory(brought.bucket_id), new.file_name).exists()
