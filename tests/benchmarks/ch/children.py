"""Processes of a run: programs that run until they get a signal, and the CPU time of process trees."""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.command import ROOT

STOP_SECONDS_MAX = 300.0
_TICK_SECONDS = 0.1


def cpu_seconds(pid: int, *, alone: bool = False) -> float:
    """Return the CPU seconds of a process and, unless `alone`, of all its descendants, including ended ones."""
    try:
        process = psutil.Process(pid)
        processes = [process] if alone else [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system
            # The figures of a live process include its ended children.
            total += 0.0 if alone else times.children_user + times.children_system
    return total


class ChildProcess:
    """Program with its output in files; leaving its `with` block ends it in any case."""

    def __init__(self, name: str, command: Sequence[str], directory: Path) -> None:
        self.name = name
        self._output, self._errors = directory / f"{name}.out", directory / f"{name}.err"
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=ROOT
            )

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._process.pid

    def said(self) -> list[dict[str, Any]]:
        """Return the JSON lines of its output so far."""
        lines = self._output.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n") and line.startswith("{")]

    def check(self) -> None:
        """Raise RuntimeError with the end of its errors if it has failed, or has ended without a signal."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n{self._last_words()}")

    def wait_for_commits(self, count: int, timeout_seconds: float) -> None:
        """Wait until it has reported `count` commits. Raises TimeoutError, and the errors of `check`."""
        deadline = time.monotonic() + timeout_seconds
        while sum(line.get("event") == "commit" for line in self.said()) < count:
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} has not made {count} commits in {timeout_seconds:.0f} s.")
            time.sleep(_TICK_SECONDS)

    def wait(self, timeout_seconds: float = STOP_SECONDS_MAX) -> None:
        """Wait until it ends. Raises RuntimeError with the end of its errors unless it succeeds in time."""
        try:
            code = self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.name} had not ended after {timeout_seconds:.0f} s.") from None
        if code:
            raise RuntimeError(f"{self.name} ended with {code}:\n{self._last_words()}")

    def stop(self) -> None:
        """Send it a signal to end, and wait for its end. Raises the errors of `check` and `wait`."""
        self.check()
        self._process.send_signal(signal.SIGTERM)
        self.wait()

    def kill(self) -> None:
        """Kill it and all its descendants, if it has not ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            below = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            for each in below:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
        self._process.wait()

    def __enter__(self) -> "ChildProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def _last_words(self) -> str:
        return self._errors.read_text(errors="replace")[-4000:]
