"""A directory outside of which a test deletes and creates nothing, whatever locations its inputs have."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

LEADS_OUT = "leads out of"
"""In the message of each refused operation."""

_CREATION = "os.mkdir"
_DELETIONS = ("os.remove", "os.rmdir", "os.rename", "shutil.rmtree")

_sandbox: list[str] = []
_refused: list[str] = []
_hooks = count()


def _refuse_to_leave_the_sandbox(event: str, arguments: tuple[Any, ...]) -> None:
    if not _sandbox or (event != _CREATION and event not in _DELETIONS):
        return
    path = arguments[0]
    # With the descriptor of a directory the path is relative to it, and rmtree has been checked before.
    if isinstance(path, str) and os.path.isabs(path) and not os.path.realpath(path).startswith(_sandbox[0] + os.sep):
        message = f"{event}: the location {LEADS_OUT} {_sandbox[0]}: {path}"
        if event in _DELETIONS:
            _refused.append(message)
        raise PermissionError(message)


@contextmanager
def sandbox(directory: Path) -> Iterator[None]:
    """Refuse to create, rename and delete directories and files outside of a directory, by PermissionError.

    AssertionError at the end if something was to be renamed or deleted there.
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
