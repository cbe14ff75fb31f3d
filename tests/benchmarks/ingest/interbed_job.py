"""`interbed ingest kafka` as a process of its own, whose processor time and memory are looked at from outside."""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc

import interbed
from tests.benchmarks.ingest.orders import TableChecksum

TABLE = "shop.orders"
BUCKETS = 4
STOP_SECONDS_MAX = 120.0
_TICK_SECONDS = 0.1


class IngestJob:
    """The command from the moment it starts; a run of it is ended by `wait` or `stop`.

    Processor time is that of the process and of what it started, interpreter and imports included.
    """

    def __init__(self, bootstrap_servers: str, topic: str, warehouse: Path, *arguments: str) -> None:
        """Start it; what it says is kept beside the warehouse."""
        command = [sys.executable, "-m", "interbed.cli", "ingest", "kafka", "-o", f"warehouse=file:{warehouse}"]
        command += ["--bootstrap-servers", bootstrap_servers, "--topic", topic, "--table", TABLE, "--json"]
        command += ["--table-option", f"bucket={BUCKETS}", *arguments]
        self._output, self._errors = (warehouse.with_suffix(end) for end in (".out", ".err"))
        self._before = _seconds_of_ended()
        self._started = time.perf_counter()
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        self._watched = psutil.Process(self._process.pid)
        self.memory: list[tuple[float, float]] = []
        """Seconds since the start, and MB that were resident then."""
        self.cpu_s = self.wall_s = 0.0
        """Known when it has ended."""

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.perf_counter() - self._started

    @property
    def peak_mb(self) -> float:
        """The most memory that was seen."""
        return max(mb for _, mb in self.memory)

    def look(self) -> None:
        """Note how much memory it has now; RuntimeError with its last words when it has ended with an error."""
        if self._process.poll() is None:
            self.memory.append((self.seconds, self._watched.memory_info().rss / 2**20))
        elif self._process.returncode:
            raise RuntimeError(f"Ingestion ended with {self._process.returncode}:\n{_end_of(self._errors)}")

    def wait(self, timeout_seconds: float) -> dict[str, Any]:
        """What it says of itself at its end. Raises TimeoutError, and RuntimeError when it ends with an error."""
        while self._process.poll() is None:
            if self.seconds > timeout_seconds:
                self.kill()
                raise TimeoutError(f"Ingestion had not ended after {timeout_seconds:.0f} s.")
            self.look()
            time.sleep(_TICK_SECONDS)
        self.wall_s = self.seconds
        self.cpu_s = _seconds_of_ended() - self._before
        self.look()
        return self.said()[-1]

    def stop(self) -> dict[str, Any]:
        """Have it commit what it read, and end. Raises as `wait` does."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait(self.seconds + STOP_SECONDS_MAX)

    def kill(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.wait()

    def said(self) -> Sequence[dict[str, Any]]:
        """The lines of its `--json` so far."""
        return [json.loads(line) for line in self._output.read_text().splitlines(keepends=True) if line.endswith("\n")]


def checksum(warehouse: Path) -> TableChecksum:
    """What is in the table that was filled."""
    table = interbed.load_catalog("bench", warehouse=f"file:{warehouse}").get_table(TABLE)
    rows = table.scan(columns=["id", "cents", "note"]).to_arrow()
    notes: Any = rows["note"]
    sums = [pc.sum(column).as_py() or 0 for column in (rows["id"], rows["cents"], pc.utf8_length(notes))]
    return TableChecksum(rows=rows.num_rows, ids=sums[0], cents=sums[1], letters=sums[2])


def _seconds_of_ended() -> float:
    """Processor time of all processes of this one that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _end_of(file: Path) -> str:
    return file.read_text(errors="replace")[-4000:]
