"""The path of a directory without symbolic links, which the kernel gives in one step where it can."""

import os

_PATH_ONLY = getattr(os, "O_PATH", None)
_DESCRIPTORS = "/proc/self/fd"


def real_path(path: str) -> str:
    """Return an absolute path with its symbolic links followed, as `os.path.realpath` does, which looks at each
    directory on the way. OSError, ValueError.
    """
    return _by_kernel(path) or os.path.realpath(path)


def _by_kernel(path: str) -> str | None:
    """Return the kernel's name of a path whose last part may not exist yet; None if the kernel does not say."""
    above, _, name = path.rpartition("/")
    if _PATH_ONLY is None or not above or name in ("", ".", ".."):
        return None
    try:
        parent = os.open(above, _PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _name_in(parent, name)
    except OSError:
        return None
    finally:
        os.close(parent)


def _name_in(parent: int, name: str) -> str | None:
    try:
        os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        found = _name_of(parent)
        return None if found is None else f"{found.rstrip('/')}/{name}"
    assert _PATH_ONLY is not None
    child = os.open(name, _PATH_ONLY | os.O_CLOEXEC, dir_fd=parent)
    try:
        return _name_of(child)
    finally:
        os.close(child)


def _name_of(descriptor: int) -> str | None:
    # Without /proc this is an OSError.
    found = os.readlink(f"{_DESCRIPTORS}/{descriptor}")
    # What is deleted, or outside of the root of the process, has a name that is no path.
    return found if found.startswith("/") and not found.endswith(" (deleted)") else None
