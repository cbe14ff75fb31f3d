"""Turns by courtesy: who wins again and again lets those go first who lose, and nothing of it can fail a commit."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.faults import Fault, FaultAction, FaultyFileIO
from interbed.storage.base.fileio.local import LocalFileIO
from interbed.storage.commit.courtesy import IDLE_SECONDS, LOSSES, NOTE, PAUSE_SECONDS_MAX, STREAK, Courtesy


class Commits:
    """Commits of this process to one table, each of which takes `seconds`; `pauses` are how long it let others go."""

    def __init__(self, directory: Path, file_io: FileIO | None = None) -> None:
        self.note = directory / NOTE
        self.pauses: list[float] = []
        self.seconds = 0.25
        self.now = 1000.0
        self._file_io = file_io or LocalFileIO()

    def make(self, losses: int = 0) -> None:
        courtesy = Courtesy(self._file_io, str(self.note.parent), clock=lambda: self.now, sleep=self._sleep)
        courtesy.let_others_go_first()
        for lost in range(1, losses + 1):
            courtesy.lost(lost)
        self.now += self.seconds
        courtesy.won(losses)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def commits(tmp_path: Path) -> Commits:
    return Commits(tmp_path)


def test_after_a_streak_others_go_first_for_as_long_as_it_took(commits: Commits) -> None:
    commits.note.touch()
    for _ in range(STREAK):
        commits.make()
    assert commits.pauses == []
    commits.make()
    assert commits.pauses == [STREAK * commits.seconds]
    assert not commits.note.exists()
    for _ in range(2 * STREAK):
        commits.make()
    assert len(commits.pauses) == 1


def test_a_pause_has_a_bound(commits: Commits) -> None:
    commits.seconds = 60
    for _ in range(STREAK):
        commits.make()
    commits.note.touch()
    commits.make()
    assert commits.pauses == [PAUSE_SECONDS_MAX]


@pytest.mark.parametrize("losses", range(LOSSES + 2))
def test_who_loses_again_leaves_a_note(commits: Commits, losses: int) -> None:
    commits.make(losses)
    assert commits.note.exists() == (losses >= LOSSES)


def _lost(commits: Commits) -> None:
    commits.make(losses=1)


def _idle(commits: Commits) -> None:
    commits.now += IDLE_SECONDS + 1


@pytest.mark.parametrize("between", [_lost, _idle])
def test_a_streak_ends_with_a_loss_and_with_a_pause_of_its_own(
    commits: Commits, between: Callable[[Commits], None]
) -> None:
    commits.note.touch()
    for _ in range(3):
        for _ in range(STREAK - 1):
            commits.make()
        between(commits)
    assert commits.pauses == []
    assert commits.note.exists()


@pytest.mark.parametrize("operation", ["overwrite", "read_bytes"])
def test_a_store_that_refuses_hinders_nobody(tmp_path: Path, operation: str) -> None:
    fault = Fault(operation=operation, pattern=f"*/{NOTE}", action=FaultAction.FAIL_BEFORE)
    commits = Commits(tmp_path, FaultyFileIO(LocalFileIO(), [fault]))
    commits.make(losses=LOSSES)
    for _ in range(STREAK + 1):
        commits.make()


@pytest.mark.usefixtures("like_a_store")
def test_commits_in_a_store_take_turns(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), primary_keys=["id"], options={"bucket": "1"})
    note = Path(table.location, "snapshot", NOTE)
    for number in range(STREAK + 1):
        table.upsert(pa.table({"id": [number]}))
    note.touch()
    for number in range(STREAK):
        table.upsert(pa.table({"id": [number]}))
    assert not note.exists()
    assert table.remove_orphan_files().files == ()
