"""A Java program of the tests that serves while it runs, takes commands on its input, and says lines on its output."""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.support.waits import at_most

STOP_SECONDS_MAX = at_most(30.0)


class JavaProgram:
    """A running program, called `what` in messages, with its log in a directory."""

    def __init__(self, what: str, command: Sequence[str], home: Path) -> None:
        self._what = what
        self._log = home / "program.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=home,
                # A process group of its own: it is killed by the group id, and a Ctrl-C reaches the tests first.
                start_new_session=True,
            )
        self._lines: queue.Queue[str] = queue.Queue()
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def send(self, command: str, seconds: float) -> None:
        """Send a command, and wait until it is done. Raises RuntimeError when it fails."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        self.expect("done", seconds)

    def expect(self, line: str, seconds: float) -> None:
        """Wait for this line of output. Raises RuntimeError with the end of the log for another line or none."""
        try:
            said = self._lines.get(timeout=seconds)
        except queue.Empty:
            said = "nothing"
        if said != line:
            log = self._log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{self._what} says {said!r} in place of {line!r}:\n{log}")

    def close(self) -> None:
        """Kill the process group; none of its state is needed again."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=STOP_SECONDS_MAX)
        self._reader.join(timeout=STOP_SECONDS_MAX)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(line.strip())
        self._lines.put("the end")
