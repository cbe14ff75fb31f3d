"""Spark applications of their own that meet a fault, most often SIGKILL, as storage.io.faults writes it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SUPPORT = ROOT / "tests" / "support"
TIMEOUT_SECONDS = 600


def run_killed(path: Path, program: str, *arguments: str, fault: str | None, once: Path | None = None) -> int:
    """The exit code of a program of tests/support that is killed as `fault` says, None: not at all.

    The application writes its processes' ids to the file `pids` in `path`; what it says is added to `log` there. With
    `once` the fault is met by one task, or its executor is killed, not the application; that file is made by it then.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(p) for p in (SUPPORT / "faulty_python", ROOT / "src", ROOT)),
        "INTERBED_TEST_FAULT": fault or "",
        "INTERBED_TEST_PIDS": str(path / "pids"),
    }
    if once is not None:
        environment["INTERBED_TEST_ONCE"] = str(once)
    command = [sys.executable, str(Path(__file__).with_name(program)), *arguments]
    with (path / "log").open("ab") as log:
        return subprocess.run(
            command, env=environment, stdout=log, stderr=log, timeout=TIMEOUT_SECONDS, check=False
        ).returncode
