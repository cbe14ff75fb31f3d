"""Loaded by every Python that has this folder on its path: kills a whole Spark application at one step of its planner.

INTERBED_TEST_FAULT is the step, as interbed.storage.fileio.faults writes it, INTERBED_TEST_PIDS a file with the ids of
the application's processes. The file system is wrapped when it is first imported, since a daemon that forks must not
import Arrow.
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

RESOLVE = "interbed.storage.fileio.resolve"


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        from interbed.storage.fileio import faults

        fault = faults.Fault.parse(os.environ["INTERBED_TEST_FAULT"])
        resolve: Any = module
        inner = resolve.file_io_for

        def file_io_for(*arguments: Any) -> Any:
            file_io, path = inner(*arguments)
            return faults.FaultyFileIO(file_io, [fault]), path

        resolve.file_io_for = file_io_for
        faults._kill = _kill_application


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != RESOLVE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _kill_application() -> None:
    for pid in Path(os.environ["INTERBED_TEST_PIDS"]).read_text(encoding="utf-8").split():
        os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if os.environ.get("INTERBED_TEST_FAULT"):
    sys.meta_path.insert(0, _Finder())
