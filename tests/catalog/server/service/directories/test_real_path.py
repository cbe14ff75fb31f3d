"""Resolution of links in paths: the kernel's answer is that of a walk through the directories."""

import itertools
import os
from pathlib import Path

import pytest

from interbed.catalog.server.service.directories import locations as module
from interbed.catalog.server.service.directories.locations import real_path
from tests.support.tally import Tally

NAMES = ("dir", "file", "missing", "link", "dangling", "loop", "to_root", "up", "a (deleted)", "é ü")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Create directories, files and links of all kinds, on two levels."""
    for above in (tmp_path, tmp_path / "dir"):
        (above / "dir").mkdir(parents=True, exist_ok=True)
        (above / "a (deleted)").mkdir()
        (above / "é ü").mkdir()
        (above / "file").write_text("")
        (above / "link").symlink_to(above / "dir", target_is_directory=True)
        (above / "dangling").symlink_to(above / "nowhere" / "at" / "all")
        (above / "loop").symlink_to(above / "loop")
        (above / "to_root").symlink_to("/", target_is_directory=True)
        (above / "up").symlink_to("..", target_is_directory=True)
    return tmp_path


def test_the_kernel_and_a_walk_resolve_alike(tree: Path, tally: Tally) -> None:
    paths = [f"{tree}/{'/'.join(names)}" for n in (1, 2, 3) for names in itertools.product(NAMES, repeat=n)]
    paths += ["/", "/nowhere", "/nowhere/at", "/usr", f"{tree}//dir", f"{tree}/dir/", f"{tree}/."]
    for path in paths:
        assert real_path(path) == os.path.realpath(path), path
    tally("paths whose links were followed", len(paths))


def test_a_walk_without_the_kernel_resolves_alike(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DESCRIPTORS", "/nowhere")
    assert real_path(f"{tree}/link/dir") == os.path.realpath(tree / "dir" / "dir")
    monkeypatch.setattr(module, "_PATH_ONLY", None)
    assert real_path(f"{tree}/link/new") == f"{os.path.realpath(tree)}/dir/new"


def test_no_descriptor_is_left_open(tree: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for name in NAMES:
        real_path(f"{tree}/{name}/{name}")
    assert len(os.listdir("/proc/self/fd")) == before
