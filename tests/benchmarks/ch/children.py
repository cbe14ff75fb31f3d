"""Processes of a run: programs that go on until they are told to end, and what trees of processes spend."""

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
    """What a process, and all below it unless it is counted alone, have spent, those that ended included."""
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
            # What ended below a process that is still there is in its figures.
            total += 0.0 if alone else times.children_user + times.children_system
    return total


class ChildProcess:
    """A program with its output in files; leave its `with` to end it whatever happened."""

    def __init__(self, name: str, command: Sequence[str], directory: Path) -> None:
        """Start it."""
        self.name = name
        self._output, self._errors = directory / f"{name}.out", directory / f"{name}.err"
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=ROOT
            )

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def said(self) -> list[dict[str, Any]]:
        """The JSON lines that it has printed so far."""
        lines = self._output.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n") and line.startswith("{")]

    def check(self) -> None:
        """RuntimeError with its last words when it has ended with an error, or before it was told to."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n{self._last_words()}")

    def wait_for_commits(self, count: int, timeout_seconds: float) -> None:
        """Until it has said so often that it committed. Raises TimeoutError, and as `check` does."""
        deadline = time.monotonic() + timeout_seconds
        while sum(line.get("event") == "commit" for line in self.said()) < count:
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} has not made {count} commits in {timeout_seconds:.0f} s.")
            time.sleep(_TICK_SECONDS)

    def wait(self, timeout_seconds: float = STOP_SECONDS_MAX) -> None:
        """Until it ends; RuntimeError with its last words unless it ends well, or in time."""
        try:
            code = self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.name} had not ended after {timeout_seconds:.0f} s.") from None
        if code:
            raise RuntimeError(f"{self.name} ended with {code}:\n{self._last_words()}")

    def stop(self) -> None:
        """Tell it to end, and wait for that. Raises as `check` and `wait` do."""
        self.check()
        self._process.send_signal(signal.SIGTERM)
        self.wait()

    def kill(self) -> None:
        """End it and all below it, if it has not ended."""
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
