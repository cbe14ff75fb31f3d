"""`interbed ingest kafka` as a separate process, whose CPU time and memory are measured from outside."""

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
    """Process of the command; end it by `wait` or `stop`.

    CPU time is that of the process and of its children, interpreter and imports included.
    """

    def __init__(self, bootstrap_servers: str, topic: str, warehouse: Path, *arguments: str) -> None:
        """Start the command; its output is stored beside the warehouse."""
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
        """Samples: seconds since the start, and resident MB."""
        self.cpu_s = self.wall_s = 0.0
        """CPU and wall seconds, known after the end."""

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._started

    @property
    def peak_mb(self) -> float:
        """Maximum of the memory samples."""
        return max(mb for _, mb in self.memory)

    def look(self) -> None:
        """Take a memory sample. Raises RuntimeError with its last errors if it has failed."""
        if self._process.poll() is None:
            self.memory.append((self.seconds, self._watched.memory_info().rss / 2**20))
        elif self._process.returncode:
            raise RuntimeError(f"Ingestion ended with {self._process.returncode}:\n{_end_of(self._errors)}")

    def wait(self, timeout_seconds: float) -> dict[str, Any]:
        """Wait for the end, and return the summary in its output. Raises TimeoutError, and RuntimeError if it fails."""
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
        """Let it commit the rows that it has read, and end. Raises the errors of `wait`."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait(self.seconds + STOP_SECONDS_MAX)

    def kill(self) -> None:
        """Kill it if it has not ended."""
        self._process.kill()
        self._process.wait()

    def said(self) -> Sequence[dict[str, Any]]:
        """Return the lines of its `--json` output so far."""
        return [json.loads(line) for line in self._output.read_text().splitlines(keepends=True) if line.endswith("\n")]


def checksum(warehouse: Path) -> TableChecksum:
    """Return the checksum of the filled table."""
    table = interbed.load_catalog("bench", warehouse=f"file:{warehouse}").get_table(TABLE)
    rows = table.scan(columns=["id", "cents", "note"]).to_arrow()
    notes: Any = rows["note"]
    sums = [pc.sum(column).as_py() or 0 for column in (rows["id"], rows["cents"], pc.utf8_length(notes))]
    return TableChecksum(rows=rows.num_rows, ids=sums[0], cents=sums[1], letters=sums[2])


def _seconds_of_ended() -> float:
    """Return CPU seconds of all ended children of this process, and of their ended children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _end_of(file: Path) -> str:
    return file.read_text(errors="replace")[-4000:]
