"""Fault injection for Spark applications. Every Python process with this folder on its path imports this module.

INTERBED_TEST_FAULT is the fault, in the notation of interbed.storage.io.faults. A kill ends the whole application, by
the process ids in the file INTERBED_TEST_PIDS. With INTERBED_TEST_ONCE only one process meets the fault: the process
that creates the file of that name. A kill then ends only the executor of that process. The file system is wrapped when
it is first imported, because a daemon that forks must not import Arrow.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ONCE = os.environ.get("INTERBED_TEST_ONCE")
RESOLVE = "interbed.storage.io.resolve"


class _FaultyLoader(importlib.abc.Loader):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        from interbed.storage.io import faults

        fault = faults.Fault.parse(os.environ["INTERBED_TEST_FAULT"])
        resolve: Any = module
        inner = resolve.file_io_for

        class MetOnce(faults.FaultyFileIO):
            def _due(self, operation: str, path: str) -> faults.Fault | None:
                due = super()._due(operation, path)
                return due if due is not None and _is_first() else None

        def file_io_for(*arguments: Any) -> Any:
            file_io, path = inner(*arguments)
            return MetOnce(file_io, [fault]), path

        resolve.file_io_for = file_io_for
        faults._kill = _kill_executor if ONCE else _kill_application


class _FaultyFinder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != RESOLVE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader = _FaultyLoader(spec.loader)
        return spec


def _is_first() -> bool:
    """Return whether this process is the first to meet the fault, which only one process meets."""
    if ONCE is None:
        return True
    try:
        os.close(os.open(ONCE, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _kill_executor() -> None:
    """Kill this worker, the daemon that forked it and the JVM that started that."""
    daemon = os.getppid()
    # The fields after the command, which may hold blanks: state, parent.
    executor = Path(f"/proc/{daemon}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
    for pid in (int(executor), daemon, os.getpid()):
        os.kill(pid, signal.SIGKILL)


def _kill_application() -> None:
    for pid in Path(os.environ["INTERBED_TEST_PIDS"]).read_text(encoding="utf-8").split():
        os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if os.environ.get("INTERBED_TEST_FAULT"):
    sys.meta_path.insert(0, _FaultyFinder())
