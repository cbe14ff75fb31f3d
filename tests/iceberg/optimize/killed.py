"""An optimization in its own process, which an injected fault kills at one of its file operations.

The operations are those of interbed's FileIO, and each file that pyiceberg creates (manifests).
"""

import multiprocessing
import time
from collections.abc import Mapping
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile

from interbed.iceberg import table as table_module
from interbed.iceberg.read import files
from interbed.storage.io.api import FileIO
from interbed.storage.io.faults import Fault, FaultAction, FaultyFileIO
from interbed.storage.io.resolve import file_io_for
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(60)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


def run_killed(location: str, mode: str, action: FaultAction, skip: int) -> int:
    """Optimize the table and expire its old snapshots until the fault after `skip` operations. Return the exit code."""
    process = _context.Process(target=_optimize, args=(location, mode, action, skip))
    process.start()
    process.join(DEADLINE_SECONDS)
    assert process.exitcode is not None
    return process.exitcode


def _optimize(location: str, mode: str, action: FaultAction, skip: int) -> None:
    some, _ = file_io_for(location)
    faulty = FaultyFileIO(some, [Fault(operation="*", pattern="*", action=action, skip=skip)])

    def opened(path: str, options: Mapping[str, str] | None = None) -> tuple[FileIO, str]:
        return faulty, file_io_for(path, options)[1]

    create = PyArrowFile.create

    def created(self: PyArrowFile, overwrite: bool = False) -> Any:
        return faulty._do("create", self.location, lambda: create(self, overwrite))

    table_module.file_io_for = opened  # type: ignore[attr-defined]
    files.file_io_for = opened  # type: ignore[attr-defined]
    PyArrowFile.create = created  # type: ignore[method-assign]
    table = table_module.load_iceberg_table(location)
    table.compact(mode=mode)
    table.expire_snapshots(older_than=int(time.time() * 1000), retain_last=1)
