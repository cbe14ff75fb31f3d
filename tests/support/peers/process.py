"""A helper process that answers JSON commands, one per line, until its stdin is closed."""

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

from tests.support.waits import at_most


class PeerError(Exception):
    """Error of a command that the peer refused; `kind` is the class of its exception."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class PeerProcess:
    """Process of `arguments`; `call` sends one command and waits at most `timeout_seconds` for its answer."""

    def __init__(
        self,
        arguments: list[str],
        log: Path,
        timeout_seconds: float = 120,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._log_path = log
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment
        )
        self._answers: queue.Queue[bytes] = queue.Queue()
        # A thread reads the answers, so that the wait for an answer can time out.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id of the helper."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def call(self, command: str, **fields: Any) -> Any:
        """Return the peer's answer. Raises PeerError when it refuses, RuntimeError when it has ended or times out."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"command": command, **fields}).encode() + b"\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=self._timeout_seconds)
        except queue.Empty:
            self.kill()
            raise RuntimeError(f"no answer to {command!r} in {self._timeout_seconds} s") from None
        if not line:
            raise RuntimeError(f"the peer has ended:\n{self._log_path.read_text()[-4000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"]["class"], answer["error"]["message"])
        return answer["ok"]

    def close(self) -> None:
        """End the process by closing its stdin, and kill it if that does not help."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=at_most(10))
            except subprocess.TimeoutExpired:
                self.kill()
        with contextlib.suppress(BrokenPipeError):
            # What was to be sent to a process that was killed.
            self._process.stdin.close()
        self._reader.join(timeout=at_most(10))
        self._process.stdout.close()
        self._log.close()

    def kill(self) -> None:
        """Kill the process at once."""
        self._process.kill()
        self._process.wait(timeout=at_most(10))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JvmPeer:
    """JVM of a peer with its own temporary directory; close it (or leave its `with` block) to end it."""

    _process: PeerProcess
    _directory: "tempfile.TemporaryDirectory[str]"

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        return self._process.pid

    def close(self) -> None:
        """End the JVM and delete its directory."""
        with contextlib.closing(self._process):
            pass
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
