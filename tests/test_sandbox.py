"""The sandbox of tests with hostile locations: what leads out of its directory is refused, by every call."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.sandbox import LEADS_OUT, sandbox

Call = Callable[[Path, Path, int], object]


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """Return the directory of the sandbox, with a file and a directory."""
    return _filled(tmp_path / "inside")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory beside the sandbox, with a file and a directory."""
    return _filled(tmp_path / "outside")


def _filled(directory: Path) -> Path:
    (directory / "folder").mkdir(parents=True)
    (directory / "file").write_text("content")
    return directory


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


CHANGES: dict[str, Call] = {
    "remove": lambda inside, outside, of_outside: os.remove(outside / "file"),
    "remove by a descriptor": lambda inside, outside, of_outside: os.remove("file", dir_fd=of_outside),
    "remove by a relative path": lambda inside, outside, of_outside: os.remove("../outside/file"),
    "remove by bytes": lambda inside, outside, of_outside: os.remove(os.fsencode(outside / "file")),
    "rmdir": lambda inside, outside, of_outside: (outside / "folder").rmdir(),
    "rmdir by a descriptor": lambda inside, outside, of_outside: os.rmdir("folder", dir_fd=of_outside),
    "rename out": lambda inside, outside, of_outside: os.rename(inside / "file", outside / "new"),
    "rename out by a descriptor": lambda inside, outside, of_outside: os.rename(
        inside / "file", "new", dst_dir_fd=of_outside
    ),
    "rename in": lambda inside, outside, of_outside: os.rename(outside / "file", inside / "new"),
    "rename in by a descriptor": lambda inside, outside, of_outside: os.rename(
        "file", inside / "new", src_dir_fd=of_outside
    ),
    "replace out": lambda inside, outside, of_outside: os.replace(inside / "file", outside / "file"),
    "replace in": lambda inside, outside, of_outside: os.replace(outside / "file", inside / "file"),
    "link out": lambda inside, outside, of_outside: os.link(inside / "file", outside / "new"),
    "link out by a descriptor": lambda inside, outside, of_outside: os.link(
        inside / "file", "new", dst_dir_fd=of_outside
    ),
    "link in": lambda inside, outside, of_outside: os.link(outside / "file", inside / "new"),
    "truncate": lambda inside, outside, of_outside: os.truncate(outside / "file", 0),
    "shutil.rmtree": lambda inside, outside, of_outside: shutil.rmtree(outside),
    "shutil.move out": lambda inside, outside, of_outside: shutil.move(inside / "file", outside / "new"),
    "shutil.move in": lambda inside, outside, of_outside: shutil.move(outside / "file", inside / "new"),
    "shutil.copyfile": lambda inside, outside, of_outside: shutil.copyfile(inside / "file", outside / "file"),
    "shutil.copytree": lambda inside, outside, of_outside: shutil.copytree(inside, outside / "new"),
}
"""Calls that change or delete what is outside, or move it in."""

CREATIONS: dict[str, Call] = {
    "mkdir": lambda inside, outside, of_outside: (outside / "new").mkdir(),
    "mkdir by a descriptor": lambda inside, outside, of_outside: os.mkdir("new", dir_fd=of_outside),
    "mkdir behind a link": lambda inside, outside, of_outside: (inside / "link" / "new").mkdir(),
    "symlink": lambda inside, outside, of_outside: (outside / "new").symlink_to(inside),
    "open": lambda inside, outside, of_outside: (outside / "new").write_text("x"),
}
"""Calls that create a name outside."""


def _state(directory: Path) -> list[tuple[str, int]]:
    return sorted((str(path.relative_to(directory)), path.lstat().st_size) for path in directory.rglob("*"))


def _refused(call: Call, inside: Path, outside: Path) -> None:
    with _opened(outside) as of_outside, pytest.raises(PermissionError, match=LEADS_OUT):
        call(inside, outside, of_outside)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_outside_is_refused_and_fails_the_test(
    inside: Path, outside: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(inside)
    before = _state(inside), _state(outside)
    with pytest.raises(AssertionError, match=LEADS_OUT), sandbox(inside):
        _refused(CHANGES[name], inside, outside)
    assert (_state(inside), _state(outside)) == before


@pytest.mark.parametrize("name", CREATIONS)
def test_a_creation_outside_is_refused(inside: Path, outside: Path, name: str) -> None:
    (inside / "link").symlink_to(outside)
    before = _state(outside)
    with sandbox(inside):
        _refused(CREATIONS[name], inside, outside)
    assert _state(outside) == before


def test_calls_inside_are_carried_out(inside: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inside)
    (inside / "link").symlink_to(outside)
    with sandbox(inside), _opened(inside) as descriptor:
        (inside / "new").mkdir()
        os.rename("file", "moved", src_dir_fd=descriptor, dst_dir_fd=descriptor)
        os.link("moved", inside / "new" / "linked")
        shutil.copytree(inside / "new", inside / "copied")
        shutil.move(inside / "copied", inside / "new")
        shutil.rmtree(inside / "folder")
        # The link is deleted, and not the directory that it names.
        (inside / "link").unlink()
        os.remove("moved", dir_fd=descriptor)
        assert (outside / "file").read_text() == "content"
    assert [name for name, _ in _state(inside)] == ["new", "new/copied", "new/copied/linked", "new/linked"]


def test_a_module_that_is_imported_for_the_first_time_is_compiled(inside: Path, outside: Path) -> None:
    (outside / "late_module.py").write_text("VALUE = 1\n")
    with pytest.MonkeyPatch.context() as patch, sandbox(inside):
        patch.syspath_prepend(outside)
        patch.setattr(sys, "dont_write_bytecode", False)
        patch.delitem(sys.modules, "late_module", raising=False)
        import late_module  # type: ignore[import-not-found]

        assert late_module.VALUE == 1
    sys.modules.pop("late_module", None)
    assert list(outside.glob("__pycache__/late_module.*.pyc"))


def test_nothing_is_refused_afterwards(inside: Path, outside: Path) -> None:
    with sandbox(inside):
        pass
    (outside / "file").unlink()
    assert not (outside / "file").exists()
