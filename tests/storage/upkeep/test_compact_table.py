"""A compaction of many buckets begins with the largest, and returns its messages in the order of the buckets."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.clock import local_millis
from interbed.storage.base.errors import CommitConflictError, StorageAccessError
from interbed.storage.io.faults import Fault, FaultAction, FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.io.parallel import PendingFiles
from interbed.storage.lsm.compact.rewriter import run_compaction
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.upkeep import compact_table as module
from interbed.storage.upkeep.compact_table import compact_buckets, compact_table, restored_buckets
from tests.support.paced_files import PacedFiles
from tests.support.waits import at_most

ROWS = {"a": 10, "b": 4000, "c": 100, "d": 9000}
BY_SIZE = ["d", "b", "c", "a"]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Table, FaultyFileIO]:
    """A table of partitions of different sizes, each of one bucket with two runs, compacted by one thread."""
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    columns: list[Any] = [pa.field("p", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)]
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table(
        "db.t", pa.schema(columns), partition_keys=["p"], primary_keys=["p", "id"], options=options
    )
    for _ in range(2):
        names = [name for name, rows in ROWS.items() for _ in range(rows)]
        table.upsert(pa.table({"p": names, "id": [i for rows in ROWS.values() for i in range(rows)]}))
    monkeypatch.setattr(module, "COMPACTION_THREADS", 1)
    file_io = FaultyFileIO(LocalFileIO())
    return Table("db.t", open_store(table.location, file_io, dynamic_options={"write-only": "false"})), file_io


def _turns(file_io: FaultyFileIO) -> list[str]:
    """The partitions in the order in which their new files were written."""
    places = (path for operation, path in file_io.calls if operation == "open_output" and "/bucket-0/" in path)
    return list(dict.fromkeys(path.partition("/p=")[2][0] for path in places))


def test_the_largest_bucket_is_first_and_messages_are_in_the_order_of_buckets(
    watched: tuple[Table, FaultyFileIO],
) -> None:
    table, file_io = watched
    steps: list[tuple[int, int]] = []

    messages = compact_buckets(
        table.store, restore_buckets(table.store), progress=lambda done, of: steps.append((done, of))
    )

    assert _turns(file_io) == BY_SIZE
    assert [table.access.partition_spec(m.partition)["p"] for m in messages] == list(ROWS)
    assert steps == [(n, 4) for n in (1, 2, 3, 4)]


def test_an_error_in_one_bucket_deletes_the_files_of_earlier_buckets(watched: tuple[Table, FaultyFileIO]) -> None:
    table, file_io = watched
    before = sorted(Path(table.location).rglob("*.parquet"))
    file_io.arm(Fault(operation="open_output", pattern="*/p=c/*", action=FaultAction.FAIL_BEFORE))

    with pytest.raises(StorageAccessError, match="p=c"):
        compact_table(table.store, "c")

    assert _turns(file_io)[:3] == ["d", "b", "c"]
    assert sorted(Path(table.location).rglob("*.parquet")) == before


@pytest.mark.usefixtures("like_a_store")
def test_small_buckets_in_an_object_store_are_compacted_concurrently(
    watched: tuple[Table, FaultyFileIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = watched
    together = threading.Barrier(len(ROWS))

    def run_together(*given: Any) -> Any:
        together.wait(timeout=at_most(60))
        return run_compaction(*given)

    monkeypatch.setattr(module, "run_compaction", run_together)

    messages = compact_buckets(table.store, restore_buckets(table.store))

    assert [table.access.partition_spec(m.partition)["p"] for m in messages] == list(ROWS)


@pytest.mark.usefixtures("like_a_store")
def test_an_error_in_one_bucket_in_an_object_store_deletes_the_files_of_all_buckets(
    watched: tuple[Table, FaultyFileIO],
) -> None:
    table, file_io = watched
    before = sorted(Path(table.location).rglob("*.parquet"))
    file_io.arm(Fault(operation="open_output", pattern="*/p=c/*", action=FaultAction.FAIL_BEFORE))

    with pytest.raises(StorageAccessError, match="p=c"):
        compact_table(table.store, "c")

    assert sorted(Path(table.location).rglob("*.parquet")) == before


class _CutOffFiles(PacedFiles):
    """The upload of a partition's first new file fails at its end, which is known while the next bucket is read."""

    def __init__(self, root: Path, broken: str) -> None:
        super().__init__("s3://lake", root)
        self.next_is_read = threading.Event()
        self._broken = broken

    def open_sized(self, path: str, size: int | None) -> pa.NativeFile:
        if self._broken not in path and "/bucket-0/" in path:
            self.next_is_read.set()
        return super().open_sized(path, size)

    def ending(self, path: str) -> None:
        if self._broken in path:
            assert self.next_is_read.wait(at_most(60))
            raise OSError(5, "the line is cut")


@pytest.mark.usefixtures("watched")
def test_a_bucket_is_read_during_the_upload_of_the_last_one_whose_failure_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small buckets are compacted concurrently.
    monkeypatch.setattr(module, "_SMALL_BYTES", 1)
    before = sorted(tmp_path.rglob("*.parquet"))
    file_io = _CutOffFiles(tmp_path, "/p=d/")
    store = open_store("s3://lake/db.db/t", file_io, dynamic_options={"write-only": "false"})
    snapshots = store.snapshots.latest_id()

    with pytest.raises(StorageAccessError, match=r"Can't write .*p=d.*: the line is cut"):
        compact_table(store, "c")

    assert file_io.next_is_read.is_set()
    assert sorted(tmp_path.rglob("*.parquet")) == before
    assert store.snapshots.latest_id() == snapshots


class _HeldBackFiles(PacedFiles):
    """New files become visible once the gate opens."""

    def __init__(self, root: Path) -> None:
        super().__init__("s3://lake", root)
        self.gate = threading.Event()

    def ending(self, path: str) -> None:
        assert "/bucket-0/" not in path or self.gate.wait(at_most(60))


def test_files_still_being_uploaded_when_the_commit_fails_are_deleted(
    watched: tuple[Table, FaultyFileIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SMALL_BYTES", 1)
    file_io = _HeldBackFiles(tmp_path)
    store = open_store("s3://lake/db.db/t", file_io, dynamic_options={"write-only": "false"})
    settle = PendingFiles.settle
    others: list[Path] = []

    def compacted_by_others(*_: Any, **__: Any) -> list[Any]:
        monkeypatch.setattr(module, "take_up", lambda *_, **__: [])
        compact_table(watched[0].store, "other")
        others.extend(sorted(tmp_path.rglob("*.parquet")))
        return []

    def settled(pending: PendingFiles) -> None:
        file_io.gate.set()
        settle(pending)

    monkeypatch.setattr(PendingFiles, "settle", settled)
    monkeypatch.setattr(module, "take_up", compacted_by_others)
    with pytest.raises(CommitConflictError):
        compact_table(store, "c")

    assert file_io.gate.is_set()
    assert sorted(tmp_path.rglob("*.parquet")) == others


def test_partitions_with_new_files_are_left_out_until_they_are_idle(watched: tuple[Table, FaultyFileIO]) -> None:
    store, hour = watched[0].store, 3_600_000
    for minutes, expected in ((30, 0), (90, len(ROWS))):
        now = local_millis() + minutes * hour // 60
        found = restored_buckets(store, None, None, timedelta(hours=1), clock=lambda now=now: now)  # type: ignore[misc]
        assert len(found.buckets()) == expected
