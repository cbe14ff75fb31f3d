"""Several processes on one table, and processes that are killed in the middle of a commit."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.table.opening import open_store
from tests.storage.commit.tables import (
    data_file,
    live_names,
    manifest_names,
    message,
    primary_key_table,
    referenced_names,
)
from tests.support.shares import each_run
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[3]
WRITERS = 8
COMMITS = 20
DEADLINE_SECONDS = at_most(60)


def start_writer(location: Path, user: str, commits: int, *faults: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.storage.commit.writer_process", str(location), user, str(commits), *faults],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_eight_concurrent_processes_lose_no_commit(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    writers = [start_writer(tmp_path, f"w{i}", COMMITS) for i in range(WRITERS)]
    try:
        outputs = [w.communicate(timeout=DEADLINE_SECONDS) for w in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert [(w.returncode, errors) for w, (_, errors) in zip(writers, outputs, strict=True)] == [(0, "")] * WRITERS
    ids = sorted(int(line) for output, _ in outputs for line in output.splitlines())
    assert ids == list(range(1, WRITERS * COMMITS + 1))
    assert store.snapshots.ids() == ids
    assert live_names(store) == {f"data-w{i}-{n}.parquet" for i in range(WRITERS) for n in range(COMMITS)}
    latest = store.snapshots.latest()
    assert latest is not None
    assert (latest.id, latest.total_record_count) == (WRITERS * COMMITS, WRITERS * COMMITS)
    assert manifest_names(store) == referenced_names(store)


@pytest.mark.parametrize(
    "fault",
    each_run(
        [
            "open_output:*/manifest/manifest-*:kill-before:1",
            "open_output:*/manifest/manifest-*:kill-after:2",
            "open_output:*/manifest/manifest-list-*:kill-after:3",
            "create_exclusive:*/snapshot/snapshot-*:kill-before:1",
            "create_exclusive:*/snapshot/snapshot-*:kill-after:1",
            "overwrite:*/snapshot/LATEST:kill-before:1",
            "overwrite:*/snapshot/LATEST:kill-after",
            "overwrite:*/snapshot/EARLIEST:kill-before",
        ],
        lambda fault: "/snapshot/snapshot-" in fault or "LATEST:kill-after" in fault,
    ),
)
def test_a_table_stays_writable_after_a_writer_is_killed_at_any_point(tmp_path: Path, fault: str) -> None:
    store = primary_key_table(tmp_path)
    writer = start_writer(tmp_path, "victim", 3, fault)
    try:
        _, errors = writer.communicate(timeout=DEADLINE_SECONDS)
    finally:
        writer.kill()
        writer.wait()
    assert (writer.returncode, errors) == (-signal.SIGKILL, "")
    ids = store.snapshots.ids()
    assert ids == list(range(1, len(ids) + 1))
    made = {f"data-victim-{n}.parquet" for n in range(len(ids))}
    assert live_names(store) == made
    assert referenced_names(store) <= manifest_names(store)
    # The next writer commits, and the restarted victim neither repeats nor omits a commit.
    other = data_file()
    assert FileStoreCommit(open_store(str(tmp_path)), "other").commit([message(other)]) == [len(ids) + 1]
    again = start_writer(tmp_path, "victim", 3)
    output, errors = again.communicate(timeout=DEADLINE_SECONDS)
    assert (again.returncode, errors) == (0, "")
    assert [int(line) for line in output.splitlines()[: len(ids)]] == ids
    assert live_names(store) == {other.file_name, *(f"data-victim-{n}.parquet" for n in range(3))}
    assert store.snapshots.ids() == [1, 2, 3, 4]


def test_a_staged_snapshot_of_a_killed_writer_is_ignored(tmp_path: Path) -> None:
    store = primary_key_table(tmp_path)
    FileStoreCommit(store, "u").commit([message(data_file())])
    (tmp_path / "snapshot" / ".snapshot-2.0.tmp").write_text("{")
    (tmp_path / "snapshot" / "snapshot-x").write_text("{")
    assert store.snapshots.ids() == [1]
    assert FileStoreCommit(store, "u").commit([message(data_file())]) == [2]
