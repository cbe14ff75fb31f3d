"""Symbolic links, which only the local file system has: no deletion follows one that is below a warehouse."""

import os

from interbed.storage.base.fileio.api import FileIO


def is_link(file_io: FileIO, path: str) -> bool:
    """Whether the path itself is a symbolic link."""
    return file_io.scheme == "file" and os.path.islink(path.rstrip("/"))


def link_above(file_io: FileIO, path: str, root: str) -> str | None:
    """The first link among the directories between `root` and the path, both left out; None without one."""
    if file_io.scheme != "file" or not path.startswith(f"{root.rstrip('/')}/"):
        return None
    at = root.rstrip("/")
    for part in path.removeprefix(f"{at}/").split("/")[:-1]:
        at = f"{at}/{part}"
        if os.path.islink(at):
            return at
    return None
