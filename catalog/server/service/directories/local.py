"""Deleting local directories by open file descriptors.

A path is judged first and deleted then. In between another process may swap one of its directories for a link. So every
directory on the way is opened without following links, and what is deleted must be the inode that was judged.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager

Identity = tuple[int, int]
"""Device and inode of a file."""

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A directory on the way need not be readable, only searchable.
_ON_THE_WAY = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)

_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")


def identity_of(path: str) -> Identity | None:
    """Device and inode of a path, links followed; None if it cannot be looked at."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def mount_points_in(path: str) -> list[str]:
    """The mount points at or below a path without links; none where the system does not list them. OSError."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
            points = [_OCTAL.sub(lambda found: chr(int(found[1], 8)), line.split(" ")[4]) for line in lines]
    except FileNotFoundError:
        return []
    return [point for point in points if point == path or point.startswith(path.rstrip("/") + "/")]


def remove_tree(path: str, identity: Identity) -> None:
    """Delete a file, or a directory with everything in it, if it is still the one of this identity. OSError."""
    with _parent_of(path) as (parent, name):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        _check(path, found, identity)
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)


def empty_tree(path: str, identity: Identity) -> None:
    """Delete everything in a directory, if it is still the one of this identity. OSError."""
    with _parent_of(path) as (parent, name):
        directory = os.open(name, _DIRECTORY | os.O_RDONLY, dir_fd=parent)
        try:
            _check(path, os.fstat(directory), identity)
            with os.scandir(directory) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            for entry_name, is_directory in found:
                if is_directory:
                    shutil.rmtree(entry_name, dir_fd=directory)
                else:
                    os.unlink(entry_name, dir_fd=directory)
        finally:
            os.close(directory)


def remove_empty(path: str, identity: Identity) -> None:
    """Delete a directory that has nothing in it, if it is still the one of this identity. OSError."""
    with _parent_of(path) as (parent, name):
        _check(path, os.stat(name, dir_fd=parent, follow_symlinks=False), identity)
        os.rmdir(name, dir_fd=parent)


@contextmanager
def _parent_of(path: str) -> Iterator[tuple[int, str]]:
    """The directory that a path without links is in, opened, and the name there. OSError if there is a link by now."""
    *above, name = [part for part in path.split("/") if part]
    directory = os.open("/", _ON_THE_WAY)
    try:
        for part in above:
            inner = os.open(part, _ON_THE_WAY, dir_fd=directory)
            os.close(directory)
            directory = inner
        yield directory, name
    finally:
        os.close(directory)


def _check(path: str, found: os.stat_result, identity: Identity) -> None:
    if (found.st_dev, found.st_ino) != identity:
        raise OSError(f"{path} was replaced meanwhile")
