"""The trash directory: which data is moved there, under which names, and when it is deleted."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from interbed.catalog.server.service.undrop.drops import Trash
from interbed.catalog.server.service.warehouse import Warehouse

START = 1_700_000_000.25
KEPT = 3600.0


class FixedClock:
    """Clock whose time is set by the test."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FixedClock:
    """Return a clock that does not advance."""
    return FixedClock()


@pytest.fixture
def trash(tmp_path: Path, clock: FixedClock) -> Trash:
    """Return a trash that keeps everything for an hour."""
    return Trash(f"file:{tmp_path}/.Trash", keep_seconds=KEPT, clock=clock)


def directory(path: Path, text: str = "data") -> str:
    """Create a directory with a file in it, and return its location."""
    path.mkdir(parents=True)
    (path / "f").write_text(text)
    return f"file:{path}"


def test_a_directory_is_moved_to_its_whole_path_in_the_trash(trash: Trash, tmp_path: Path) -> None:
    assert trash.take(directory(tmp_path / "db.db" / "t"))
    assert not (tmp_path / "db.db" / "t").exists()
    assert (Path(f"{tmp_path}/.Trash/Current{tmp_path}") / "db.db" / "t" / "f").read_text() == "data"
    assert trash.take(f"file:{tmp_path}/db.db/never"), "what is not there is gone"


def test_a_name_in_use_gets_the_time_as_a_suffix(trash: Trash, tmp_path: Path) -> None:
    place = tmp_path / ".Trash" / "Current" / tmp_path.relative_to("/")
    for text in ("first", "second", "third"):
        assert trash.take(directory(tmp_path / "t", text))
    found = {path.name: (path / "f").read_text() for path in place.iterdir()}
    assert found["t"] == "first"
    assert found[f"t{int(START * 1000)}"] == "second"
    assert sorted(found.values()) == ["first", "second", "third"]


@pytest.mark.parametrize("call", ["makedirs", "rename"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_process_leaves_the_data_either_in_place_or_in_the_trash(
    trash: Trash, tmp_path: Path, call: str, when: str
) -> None:
    location = directory(tmp_path / "t")
    killed = f"""
import os
from interbed.catalog.server.service.undrop.drops import Trash
from interbed.catalog.server.service.warehouse import Warehouse

def dies(*arguments, real=os.{call}, **options):
    if {when == "after"}:
        real(*arguments, **options)
    os._exit(9)

os.{call} = dies
Warehouse("file:{tmp_path}", Trash({trash.root!r}, keep_seconds=1)).empty({location!r}, purge=False)
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9
    places = [tmp_path / "t" / "f", Path(f"{tmp_path}/.Trash/Current{tmp_path}/t/f")]
    assert [place.read_text() for place in places if place.exists()] == ["data"]
    Warehouse(f"file:{tmp_path}", trash).empty(location, purge=False)
    assert (list((tmp_path / "t").iterdir()), places[1].read_text()) == ([], "data")


def test_data_that_cannot_be_moved_is_kept_and_reported(
    trash: Trash, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert not trash.take("hdfs://name-node/warehouse/t")
        assert not trash.take(f"file:{tmp_path}")
        above = tmp_path / ".Trash" / "Current"
        above.mkdir(parents=True)
        (above / tmp_path.relative_to("/").parts[0]).write_text("a file in the way")
        assert not trash.take(directory(tmp_path / "t"))
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "the data in hdfs",
        "the data in file",
        "could not move file",
    ]
    assert "drop with PURGE" in caplog.text
    assert (tmp_path / "t" / "f").read_text() == "data"


def test_a_single_file_is_moved(trash: Trash, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("data")
    assert trash.take(f"file:{tmp_path}/file")
    assert Path(f"{tmp_path}/.Trash/Current{tmp_path}/file").read_text() == "data"


def test_data_dropped_within_the_trash_is_deleted(trash: Trash, tmp_path: Path) -> None:
    assert trash.take(directory(tmp_path / ".Trash" / "Current" / "t"))
    assert list((tmp_path / ".Trash" / "Current").iterdir()) == []


def test_data_is_kept_for_the_retention_time_and_deleted_within_twice_that(
    trash: Trash, tmp_path: Path, clock: FixedClock
) -> None:
    root = tmp_path / ".Trash"
    assert trash.expire() == 0
    trash.take(directory(tmp_path / "early"))
    assert trash.expire() == 0
    assert [path.name for path in root.iterdir()] == ["231114221320"], "Current is a checkpoint now"
    clock.now += KEPT - 1
    trash.take(directory(tmp_path / "late"))
    assert trash.expire() == 0
    assert sorted(path.name for path in root.iterdir()) == ["231114221320", "Current"]
    clock.now += 1
    assert trash.expire() == 1
    assert [path.name for path in root.iterdir()] == ["231114231320"]
    clock.now += KEPT
    assert trash.expire() == 1
    assert list(root.iterdir()) == []


def test_only_checkpoints_are_deleted(trash: Trash, tmp_path: Path, clock: FixedClock) -> None:
    names = ["mine", "231399999999", "2311142213", "231114221320.old"]
    for name in names:
        directory(tmp_path / ".Trash" / name)
    clock.now += 100 * KEPT
    assert trash.expire() == 0
    assert sorted(path.name for path in (tmp_path / ".Trash").iterdir()) == sorted(names)
