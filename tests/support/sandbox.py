"""A directory outside of which a test deletes and creates nothing, whatever locations its inputs have.

An audit hook examines all paths of the calls of `os` and `shutil` that change names, and of `open` for writing. Paths
relative to a descriptor are those below its directory. Libraries that change files in C without `os` are not seen.
"""

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

LEADS_OUT = "leads out of"
"""In the message of each refused operation."""

Places = Sequence[tuple[int, int | None]]
"""The places of paths among the arguments of an event, each with that of the descriptor to which it is relative."""

_CREATIONS: Mapping[str, Places] = {"os.mkdir": [(0, 2)], "os.symlink": [(1, 2)], "open": [(0, None)]}
_CHANGES: Mapping[str, Places] = {
    "os.remove": [(0, 1)],
    "os.rmdir": [(0, 1)],
    # os.replace is os.rename as well.
    "os.rename": [(0, 2), (1, 3)],
    "os.link": [(0, 2), (1, 3)],
    "os.truncate": [(0, None)],
    "shutil.rmtree": [(0, 1)],
    "shutil.move": [(0, None), (1, None)],
    "shutil.copyfile": [(1, None)],
    "shutil.copytree": [(1, None)],
}
_PLACES = {**_CREATIONS, **_CHANGES}

_COMPILED = "__pycache__"
"""The directory in which Python keeps the modules that it imports for the first time."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_sandbox: list[str] = []
_refused: list[str] = []
_hooks = count()


def _refuse_to_leave_the_sandbox(event: str, arguments: tuple[Any, ...]) -> None:
    if not _sandbox or event not in _PLACES or (event == "open" and not (arguments[2] or 0) & _WRITES):
        return
    for place, place_of_descriptor in _PLACES[event]:
        path = _absolute(arguments[place], _argument(arguments, place_of_descriptor))
        if path is None or path.startswith(_sandbox[0] + os.sep) or _COMPILED in path.split(os.sep)[-2:]:
            continue
        message = f"{event}: the location {LEADS_OUT} {_sandbox[0]}: {path}"
        if event in _CHANGES:
            _refused.append(message)
        raise PermissionError(message)


def _argument(arguments: tuple[Any, ...], place: int | None) -> int | None:
    """Return the descriptor at a place, or None if there is none."""
    found = arguments[place] if place is not None and place < len(arguments) else None
    return found if isinstance(found, int) and found >= 0 else None


def _absolute(path: Any, descriptor: int | None) -> str | None:
    """Return the path of the name that a call changes: links in its directory are followed, the name itself is not.

    None for an open file instead of a path.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    given = os.fsdecode(path)
    if descriptor is not None:
        given = os.path.join(_directory_of(descriptor), given)
    directory, name = os.path.split(os.path.abspath(given))
    return os.path.join(os.path.realpath(directory), name)


def _directory_of(descriptor: int) -> str:
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{descriptor}")


@contextmanager
def sandbox(directory: Path) -> Iterator[None]:
    """Refuse to create, change, rename and delete files and directories outside of a directory, by PermissionError.

    AssertionError at the end if something was to be changed, renamed or deleted there.
    """
    if not next(_hooks):
        sys.addaudithook(_refuse_to_leave_the_sandbox)
    _refused.clear()
    _sandbox.append(str(directory.resolve()))
    try:
        yield
        assert not _refused, _refused[:5]
    finally:
        _sandbox.clear()
