"""A FileIO that reads files below some directories only."""

from pathlib import Path

import pytest

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.io.api import ConfinedFileIO, open_sized
from interbed.storage.io.local import LocalFileIO


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory with files in three tables, of which two may be read, and links between them."""
    for name in ("table", "part", "table_old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "table" / "linked").symlink_to(tmp_path / "table_old" / "file")
    (tmp_path / "table" / "inside").symlink_to(tmp_path / "part" / "file")
    (tmp_path / "table" / "other").symlink_to(tmp_path / "table_old")
    return tmp_path


def _confined(home: Path) -> ConfinedFileIO:
    return ConfinedFileIO(LocalFileIO(), f"{home}/table/", f"{home}/part")


@pytest.mark.parametrize("path", ["table/file", "part/file", "table/inside"])
def test_files_below_the_directories_are_read(home: Path, path: str) -> None:
    files, place = _confined(home), f"{home}/{path}"
    content = (home / path).read_bytes()
    assert files.read_bytes(place) == content
    assert files.open_input(place).read() == open_sized(files, place, None).read() == content
    assert (files.exists(place), files.size(place)) == (True, len(content))
    assert {each.name for each in files.list(f"{home}/part")} == {"file"}


@pytest.mark.parametrize(
    "path",
    [
        "table_old/file",
        "file",
        "",
        "table/linked",
        "table/other/file",
        "table/../table_old/file",
        "table/../table/file",
    ],
)
def test_other_files_are_refused_by_name(home: Path, path: str) -> None:
    files, place = _confined(home), f"{home}/{path}"
    reads = (files.read_bytes, files.open_input, lambda each: files.open_sized(each, 1), files.exists, files.size)
    for read in (*reads, files.list):
        with pytest.raises(NotSupportedError, match=r"is not in .*/table, the directory of its table"):
            read(place)
