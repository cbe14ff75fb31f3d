"""Spark applications with an injected fault, most often SIGKILL, in the notation of storage.io.faults."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.waits import at_most

ROOT = Path(__file__).parents[3]
SUPPORT = ROOT / "tests" / "support"
TIMEOUT_SECONDS = at_most(600)


def run_killed(path: Path, program: str, *arguments: str, fault: str | None, once: Path | None = None) -> int:
    """Run a program of tests/support with the fault `fault`, None for no fault, and return its exit code.

    The application writes the ids of its processes to the file `pids` in `path`; its output is appended to `log` there.
    With `once` only one task meets the fault, or only its executor is killed instead of the application; that task
    creates the file `once`.
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
