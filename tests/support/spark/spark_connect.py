"""A Spark Connect server in a separate process, started as a user starts it."""

import collections
import contextlib
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from tests.support.spark.spark_process import MODEST_SETTINGS, clean_environment, driver_jvm
from tests.support.waits import at_most

START_TIMEOUT_SECONDS = at_most(180)
STOP_TIMEOUT_SECONDS = at_most(60)
LOG_LINES = 60

_STARTED = re.compile(r"Spark Connect server started at: \S*:(\d+)")


@contextlib.contextmanager
def connect_server(
    settings: Mapping[str, str], home: Path, variables: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a server with these settings, and yield its address, `sc://127.0.0.1:port`. `variables` are added to its
    environment.
    """
    values = {
        **MODEST_SETTINGS,
        "spark.driver.extraJavaOptions": driver_jvm(),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.local.dir": str(home),
        **settings,
    }
    # The command of start-connect-server.sh in a Spark distribution; PySpark lacks that script.
    command = [
        str(Path(pyspark.__path__[0]) / "bin" / "spark-submit"),
        "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
        *(f"--conf={key}={value}" for key, value in values.items()),
    ]
    with subprocess.Popen(
        command,
        cwd=home,
        env={**clean_environment(), "SPARK_LOCAL_IP": "127.0.0.1", **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        reader = _LogReader(process)
        try:
            yield f"sc://127.0.0.1:{reader.port()}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            reader.join()


class _LogReader:
    """Reads a server's log to its end, because a full pipe would block the server, and finds the port in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._last: collections.deque[str] = collections.deque(maxlen=LOG_LINES)
        self._found: str | None = None
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._last.append(line)
            if (started := _STARTED.search(line)) is not None:
                self._found = started[1]
                self._settled.set()
        self._settled.set()

    def port(self) -> str:
        """Return the port. Raises RuntimeError with the end of the log when the server ended or took too long."""
        self._settled.wait(START_TIMEOUT_SECONDS)
        if self._found is None:
            raise RuntimeError(f"no Spark Connect server:\n{''.join(self._last)}")
        return self._found

    def join(self) -> None:
        """Wait for the end of the log."""
        self._thread.join(STOP_TIMEOUT_SECONDS)
