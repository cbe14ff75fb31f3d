"""FileIO that fails on purpose: for tests of crashes, lost races, and file systems that respond late or never.

A fault is written `operation:pattern:action[:skip]`; `create_exclusive:*/snapshot/snapshot-*:kill-before:2` kills the
process before the third exclusive creation of a snapshot. Faults fire once, in the order given.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError, StorageAccessError
from interbed.storage.io.api import FileIO, FileStatus

_T = TypeVar("_T")


class FaultAction(StrEnum):
    """Error, or end of the process, before or after the operation."""

    FAIL_BEFORE = "fail-before"
    FAIL_AFTER = "fail-after"
    KILL_BEFORE = "kill-before"
    KILL_AFTER = "kill-after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Failure at an operation (name of a method, or `*`) on a path like the pattern, after `skip` such calls."""

    operation: str
    pattern: str
    action: FaultAction
    skip: int = 0

    @staticmethod
    def parse(text: str) -> "Fault":
        """Return the fault that `operation:pattern:action[:skip]` describes; raises InvalidInputError."""
        parts = text.split(":")
        if len(parts) not in (3, 4) or parts[2] not in list(FaultAction):
            raise InvalidInputError(f"A fault is written operation:pattern:action[:skip], not {text!r}.")
        skip = int(parts[3]) if len(parts) == 4 else 0
        return Fault(operation=parts[0], pattern=parts[1], action=FaultAction(parts[2]), skip=skip)


class FaultyFileIO:
    """FileIO around another one, with faults; `calls` records every operation as (name, path).

    Safe for several threads: each operation counts once, in the order of the calls.
    """

    def __init__(self, inner: FileIO, faults: Sequence[Fault] = ()) -> None:
        self.scheme = inner.scheme
        self.capabilities = inner.capabilities
        self.exclusive_create = inner.exclusive_create
        self.calls: list[tuple[str, str]] = []
        self._inner = inner
        self._guard = threading.Lock()
        self._armed: list[list[Any]] = [[fault, fault.skip] for fault in faults]

    def arm(self, fault: Fault) -> None:
        """Add a fault, which fires once."""
        with self._guard:
            self._armed.append([fault, fault.skip])

    @property
    def armed(self) -> list[Fault]:
        """Faults that did not fire yet."""
        return [fault for fault, _ in self._armed]

    def read_bytes(self, path: str) -> bytes:
        return self._do("read_bytes", path, lambda: self._inner.read_bytes(path))

    def open_input(self, path: str) -> pa.NativeFile:
        return self._do("open_input", path, lambda: self._inner.open_input(path))

    def open_output(self, path: str) -> Any:
        return self._do("open_output", path, lambda: self._inner.open_output(path))

    def create_exclusive(self, path: str, content: bytes) -> bool:
        return self._do("create_exclusive", path, lambda: self._inner.create_exclusive(path, content))

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._do("overwrite", path, lambda: self._inner.overwrite(path, content, durable=durable))

    def sync(self, paths: Iterable[str]) -> None:
        """Sync the paths; each call counts once, by its first path."""
        paths = list(paths)
        if paths:
            self._do("sync", paths[0], lambda: self._inner.sync(paths))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self._inner.exists(path))

    def size(self, path: str) -> int:
        return self._do("size", path, lambda: self._inner.size(path))

    def list(self, path: str) -> list[FileStatus]:
        return self._do("list", path, lambda: self._inner.list(path))

    def make_directories(self, path: str) -> None:
        self._do("make_directories", path, lambda: self._inner.make_directories(path))

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        return self._do("delete", path, lambda: self._inner.delete(path, recursive=recursive))

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete the files; every path counts as one `delete_quietly`."""
        for path in paths:
            self._do("delete_quietly", path, lambda path=path: self._inner.delete_quietly([path]))  # type: ignore[misc]

    def rename(self, source: str, target: str) -> bool:
        return self._do("rename", source, lambda: self._inner.rename(source, target))

    def _do(self, operation: str, path: str, call: Callable[[], _T]) -> _T:
        self.calls.append((operation, path))
        fault = self._due(operation, path)
        if fault is None:
            return call()
        if fault.action is FaultAction.KILL_BEFORE:
            _kill()
        if fault.action is FaultAction.FAIL_BEFORE:
            raise StorageAccessError(f"Can't {operation} {path}: failed on purpose, before it was done.")
        try:
            call()
        finally:
            # Also after an operation that failed by itself, as the read of a file that need not exist.
            if fault.action is FaultAction.KILL_AFTER:
                _kill()
        raise StorageAccessError(f"Can't {operation} {path}: failed on purpose, after it was done.")

    def _due(self, operation: str, path: str) -> Fault | None:
        with self._guard:
            for armed in self._armed:
                fault: Fault = armed[0]
                if fault.operation in ("*", operation) and fnmatchcase(path, fault.pattern):
                    if armed[1] == 0:
                        self._armed.remove(armed)
                        return fault
                    armed[1] -= 1
            return None


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
