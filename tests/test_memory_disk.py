"""The temporary files of a run are in memory where it has room, and are deleted."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.memory_disk import PREFIX, has_room, is_running, remove_abandoned
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import os, sys, tempfile
from pathlib import Path
from tests.support.memory_disk import use_memory

directory = use_memory(Path(sys.argv[1]), int(sys.argv[2]))
print(tempfile.gettempdir())
if directory is not None:
    Path(tempfile.gettempdir(), "left").touch()
    if os.fork() == 0:
        sys.exit()
    os.wait()
    print(sorted(os.listdir(tempfile.gettempdir())))
    directory.kept = sys.argv[3] == "kept"
"""


def run(memory: Path, least_free: int, end: str = "removed", **variables: str) -> list[str]:
    """Return the output of a process that uses the directory as memory."""
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(memory), str(least_free), end],
        cwd=ROOT,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=at_most(60),
        check=True,
    )
    return done.stdout.splitlines()


def test_the_directory_of_a_run_is_deleted_by_its_process_alone(tmp_path: Path) -> None:
    place, files = run(tmp_path, 1)
    assert Path(place).parent == tmp_path
    assert files == "['left']"
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_failed_run_are_deleted_by_the_next_one(tmp_path: Path) -> None:
    place = Path(run(tmp_path, 1, "kept")[0])
    assert [file.name for file in place.iterdir()] == ["left"]
    run(tmp_path, 1)
    assert not place.exists()


def test_without_room_or_with_a_directory_of_the_caller_nothing_is_moved(tmp_path: Path) -> None:
    beyond = 1 << 62
    assert not Path(run(tmp_path, beyond)[0]).is_relative_to(tmp_path)
    own = tmp_path / "own"
    own.mkdir()
    assert run(tmp_path, 1, TMPDIR=str(own)) == [str(own)]
    assert not has_room(tmp_path / "missing", 1)


def test_directories_of_running_processes_and_other_names_stay(tmp_path: Path) -> None:
    names = [f"{PREFIX}{number}" for number in (7, 8)] + [f"{PREFIX}cache", "pulse"]
    for name in names:
        (tmp_path / name / "inner").mkdir(parents=True)
    remove_abandoned(tmp_path, lambda process: process == 8)
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])


def test_a_process_that_has_ended_is_not_running() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    assert is_running(ended.pid)
    ended.wait(timeout=at_most(60))
    assert not is_running(ended.pid)
