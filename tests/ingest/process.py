"""`interbed ingest kafka` as a process that tests kill."""

import json
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.forked import start_python
from tests.support.servers.kafka import KafkaServer
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(60.0)


@dataclass(frozen=True, slots=True)
class Run:
    """An ingesting process, whose standard error goes into the log."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def next_commit(self, seconds: float = DEADLINE_SECONDS) -> bool:
        """Wait for the log line of the next commit. Return False if it does not come within some seconds."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return False
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait(DEADLINE_SECONDS)}:\n{self.log.read_text()}"
        assert json.loads(line)["event"] == "commit"
        return True

    def stop(self) -> None:
        self.process.terminate()
        # It may be idle, or not have installed its signal handler yet.
        assert self.process.wait(DEADLINE_SECONDS) in (0, -signal.SIGTERM), self.log.read_text()


@contextmanager
def ingesting(kafka: KafkaServer, warehouse: Path, *options: str) -> Iterator[Run]:
    """Run the command, into tables of the database shop, and kill the process at the end unless it has ended."""
    command = [sys.executable, "-m", "interbed.cli", "ingest", "kafka", "-o", f"warehouse={warehouse}", "--json"]
    command += ["--bootstrap-servers", kafka.bootstrap_servers, *options]
    command += ["--database", "shop", "--commit-interval", "100ms"]
    log = warehouse.parent / "ingest.log"
    with (
        log.open("wb") as output,
        start_python(command, stdout=subprocess.PIPE, stderr=output, bufsize=0) as process,
    ):
        try:
            yield Run(process, log)
        finally:
            process.send_signal(signal.SIGKILL)
