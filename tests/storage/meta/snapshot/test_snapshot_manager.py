"""Looking up snapshots, with right and wrong hints, and creating them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from interbed.storage.base.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    NotSupportedError,
    SnapshotNotFoundError,
    StorageAccessError,
)
from interbed.storage.io.api import OBJECT_STORE_CAPABILITIES, FileStatus
from interbed.storage.io.faults import Fault, FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.manager import SnapshotManager
from interbed.storage.meta.snapshot.snapshot import CommitKind, ExclusiveCreatePublisher, Snapshot
from tests.support.paced_files import PacedFiles

CREATE = "create_exclusive:*/snapshot/snapshot-*"


def snapshot(snapshot_id: int, user: str = "u", time_millis: int | None = None) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=snapshot_id,
        commit_kind=CommitKind.APPEND,
        time_millis=snapshot_id * 10 if time_millis is None else time_millis,
        total_record_count=0,
        delta_record_count=0,
        uuid=f"{user}-{snapshot_id}",
    )


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    return TablePaths(str(tmp_path))


def made(paths: TablePaths, *ids: int) -> SnapshotManager:
    publisher = ExclusiveCreatePublisher(LocalFileIO(), paths)
    for snapshot_id in ids:
        assert publisher.publish(snapshot(snapshot_id))
    return SnapshotManager(LocalFileIO(), paths)


def test_a_table_without_snapshots_has_none(paths: TablePaths) -> None:
    manager = SnapshotManager(LocalFileIO(), paths)
    assert (manager.latest_id(), manager.earliest_id(), manager.latest(), manager.ids()) == (None, None, None, [])
    with pytest.raises(SnapshotNotFoundError, match="no snapshots"):
        manager.snapshot(1)


@pytest.mark.parametrize("hint", [None, "1", "3", "5", "7", "99", "", "x", "-1"])
def test_the_newest_snapshot_is_found_with_any_hint(paths: TablePaths, hint: str | None) -> None:
    manager = made(paths, 3, 4, 5)
    if hint is not None:
        Path(paths.latest_hint).write_text(hint)
        Path(paths.earliest_hint).write_text(hint)
    assert manager.latest_id() == 5
    assert SnapshotManager(LocalFileIO(), paths, lambda: 4).latest_id() == 5
    assert SnapshotManager(LocalFileIO(), paths, lambda: 98).latest_id() == 5
    if hint != "5":
        assert manager.earliest_id() == 3


@pytest.mark.parametrize("listed", [(), (1, 2), (1, 2, 3, 5, 6)])
def test_the_newest_and_the_oldest_are_found_with_stale_listings(
    paths: TablePaths, monkeypatch: pytest.MonkeyPatch, listed: tuple[int, ...]
) -> None:
    made(paths, 2, 3, 4)
    if not listed:
        made(paths, 1)
    files = LocalFileIO()
    names = [f"snapshot-{number}" for number in listed]
    entries = [FileStatus(path=n, name=n, is_directory=False, size=1, modified_millis=None) for n in names]
    monkeypatch.setattr(files, "list", lambda path: entries)
    manager = SnapshotManager(files, paths)
    assert manager.latest_id() == 4
    assert manager.earliest_id() == (2 if listed else None)


def test_hints_are_written_and_used(paths: TablePaths) -> None:
    manager = made(paths, 1, 2)
    manager.write_hints(2)
    assert Path(paths.latest_hint).read_text() == "2"
    assert Path(paths.earliest_hint).read_text() == "1"
    io = FaultyFileIO(LocalFileIO())
    assert SnapshotManager(io, paths).latest_id() == 2
    assert "list" not in {name for name, _ in io.calls}


def test_a_failure_to_write_hints_is_ignored(paths: TablePaths) -> None:
    made(paths, 1)
    io = FaultyFileIO(LocalFileIO(), [Fault.parse("overwrite:*:fail-before")])
    SnapshotManager(io, paths).write_hints(1)
    assert not Path(paths.latest_hint).exists()


def test_a_snapshot_is_found_by_time_and_by_user(paths: TablePaths) -> None:
    manager = made(paths, 2, 3)
    ExclusiveCreatePublisher(LocalFileIO(), paths).publish(snapshot(4, "other"))
    assert manager.by_time_millis(39).id == 3
    assert manager.by_time_millis(10**15).id == 4
    with pytest.raises(SnapshotNotFoundError, match="2 to 4"):
        manager.by_time_millis(19)
    found = manager.latest_of_user("u")
    assert found is not None
    assert found.id == 3
    assert manager.latest_of_user("nobody") is None


def test_the_error_of_a_missing_snapshot_lists_the_existing_ones(paths: TablePaths) -> None:
    with pytest.raises(SnapshotNotFoundError, match="2 to 3"):
        made(paths, 2, 3).snapshot(1)


def test_the_error_names_a_corrupt_snapshot(paths: TablePaths) -> None:
    manager = made(paths, 1)
    Path(paths.snapshot(1)).write_text("{")
    with pytest.raises(CorruptFileError, match="snapshot/snapshot-1"):
        manager.latest()


def test_a_gateway_with_the_same_response_to_all_requests_is_detected(tmp_path: Path) -> None:
    class BrokenGateway(PacedFiles):
        is_broken = False

        def read_bytes(self, path: str) -> bytes:
            return b"<html>Maintenance</html>" if self.is_broken else super().read_bytes(path)

    far = TablePaths("s3://far/t")
    files = BrokenGateway("s3://far", tmp_path)
    publisher = ExclusiveCreatePublisher(files, far)
    manager = SnapshotManager(files, far)
    for number in (1, 2):
        assert publisher.publish(snapshot(number))
    assert manager.latest() == snapshot(2)
    files.is_broken = True
    with pytest.raises(CorruptFileError, match="snapshot-"):
        manager.latest()
    with pytest.raises(CorruptFileError, match="snapshot-"):
        SnapshotManager(files, far).latest()


def test_a_snapshot_is_read_again_after_a_rollback(paths: TablePaths) -> None:
    manager = made(paths, 1, 2)
    assert manager.snapshot(2).commit_user == "u"
    Path(paths.snapshot(2)).unlink()
    ExclusiveCreatePublisher(LocalFileIO(), paths).publish(snapshot(2, "other"))
    latest = manager.latest()
    assert latest is not None
    assert latest.commit_user == "other"
    assert manager.snapshot(2).commit_user == "other"


def test_one_of_several_racing_writers_creates_the_snapshot(paths: TablePaths) -> None:
    publisher = ExclusiveCreatePublisher(LocalFileIO(), paths)
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: publisher.publish(snapshot(1, f"user-{i}")), range(8)))
    assert won.count(True) == 1
    latest = SnapshotManager(LocalFileIO(), paths).latest()
    assert latest is not None
    assert latest.commit_user == f"user-{won.index(True)}"


def test_a_creation_with_an_error_after_the_write_has_succeeded(paths: TablePaths) -> None:
    io = FaultyFileIO(LocalFileIO(), [Fault.parse(f"{CREATE}:fail-after")])
    assert ExclusiveCreatePublisher(io, paths).publish(snapshot(1))


def test_a_creation_with_an_error_before_the_write_has_failed(paths: TablePaths) -> None:
    io = FaultyFileIO(LocalFileIO(), [Fault.parse(f"{CREATE}:fail-before")])
    with pytest.raises(StorageAccessError, match="snapshot-1"):
        ExclusiveCreatePublisher(io, paths).publish(snapshot(1))


def test_a_creation_with_an_error_has_lost_when_another_writers_snapshot_exists(paths: TablePaths) -> None:
    made(paths, 1)
    io = FaultyFileIO(LocalFileIO(), [Fault.parse(f"{CREATE}:fail-before")])
    assert not ExclusiveCreatePublisher(io, paths).publish(snapshot(1, "other"))


@pytest.mark.parametrize("action", ["fail-before", "fail-after"])
def test_the_outcome_of_a_creation_that_cannot_be_checked_is_unknown(paths: TablePaths, action: str) -> None:
    faults = [Fault.parse(f"{CREATE}:{action}"), Fault.parse("read_bytes:*/snapshot/snapshot-*:fail-before")]
    with pytest.raises(CommitStateUnknownError, match="user 'u' and identifier 1"):
        ExclusiveCreatePublisher(FaultyFileIO(LocalFileIO(), faults), paths).publish(snapshot(1))


def test_the_outcome_of_a_failed_remote_creation_without_a_file_is_unknown(paths: TablePaths) -> None:
    io = FaultyFileIO(LocalFileIO(), [Fault.parse(f"{CREATE}:fail-before")])
    io.capabilities = OBJECT_STORE_CAPABILITIES
    with pytest.raises(CommitStateUnknownError):
        ExclusiveCreatePublisher(io, paths).publish(snapshot(1))


def test_a_creation_repeated_by_the_client_has_succeeded(paths: TablePaths) -> None:
    made(paths, 1)
    publisher = ExclusiveCreatePublisher(LocalFileIO(), paths)
    assert publisher.publish(snapshot(1))
    assert not publisher.publish(replace(snapshot(1), uuid="another"))


class _RecordingLock:
    def __init__(self, fail: str = "") -> None:
        self.events: list[str] = []
        self._fail = fail

    @contextmanager
    def hold(self) -> Iterator[None]:
        if self._fail == "acquire":
            raise StorageAccessError("the lock is taken")
        self.events.append("locked")
        yield
        self.events.append("unlocked")
        if self._fail == "release":
            raise StorageAccessError("the lock server is gone")


def test_the_lock_is_held_around_the_creation(paths: TablePaths) -> None:
    lock = _RecordingLock()
    assert ExclusiveCreatePublisher(LocalFileIO(), paths, lock).publish(snapshot(1))
    assert lock.events == ["locked", "unlocked"]


def test_without_the_lock_no_snapshot_is_created(paths: TablePaths) -> None:
    with pytest.raises(StorageAccessError, match="taken"):
        ExclusiveCreatePublisher(LocalFileIO(), paths, _RecordingLock("acquire")).publish(snapshot(1))
    assert SnapshotManager(LocalFileIO(), paths).latest() is None


def test_a_failed_release_of_the_lock_does_not_undo_the_snapshot(paths: TablePaths) -> None:
    assert ExclusiveCreatePublisher(LocalFileIO(), paths, _RecordingLock("release")).publish(snapshot(1))


def test_a_store_without_exclusive_creation_needs_a_lock(paths: TablePaths) -> None:
    io = FaultyFileIO(LocalFileIO())
    io.exclusive_create = False
    with pytest.raises(NotSupportedError, match=r"lock\.enabled"):
        ExclusiveCreatePublisher(io, paths).publish(snapshot(1))
    assert ExclusiveCreatePublisher(io, paths, _RecordingLock()).publish(snapshot(1))


class SlowFileIO(LocalFileIO):
    """A local disk that passes for an object store."""

    capabilities = OBJECT_STORE_CAPABILITIES


def test_the_remembered_newest_snapshot_is_checked_again(paths: TablePaths) -> None:
    io = SlowFileIO()
    publisher = ExclusiveCreatePublisher(io, paths)
    manager = SnapshotManager(io, paths)
    assert (manager.latest(), manager.standing(), manager.remembered_ids()) == (None, None, None)
    for number in (1, 2, 3):
        assert publisher.publish(snapshot(number))
    manager.write_hints(3)
    found = manager.latest()
    assert found is not None
    assert found.id == 3
    assert manager.standing() == found

    # Another process commits, with a hint and without one.
    other = SnapshotManager(io, paths)
    assert publisher.publish(snapshot(4))
    assert (manager.latest_id(), manager.standing()) == (4, snapshot(4))
    other.write_hints(4)
    for number in (5, 6):
        assert publisher.publish(snapshot(number))
    other.write_hints(6)
    assert manager.latest() == snapshot(6)

    # It rolls back, and commits again.
    other.note_latest(5)
    io.delete(paths.snapshot(6))
    io.overwrite(paths.snapshot(5), snapshot(5, "somebody").to_json().encode())
    assert manager.standing() is None
    assert manager.latest() == snapshot(5, "somebody")
    assert manager.standing() == snapshot(5, "somebody")
    for number in range(1, 6):
        io.delete(paths.snapshot(number))
    assert (manager.standing(), manager.latest(), manager.latest_id()) == (None, None, None)
