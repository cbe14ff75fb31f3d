"""Servers for tests that speak HTTP on a free port of 127.0.0.1: a store with S3's interface, Iceberg's REST catalog.

Both are processes whose state is gone with them: moto in an environment of its own, and the server that Iceberg's own
tests start, with a catalog in SQLite, whose jars come from Maven. They are fetched once.
"""

import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.spark import PEERS, maven_jars

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0
REQUEST_SECONDS_MAX = 10.0

S3_REQUIREMENTS = PEERS / "s3" / "requirements.txt"


@contextmanager
def running_s3(bucket: str) -> Iterator[dict[str, str]]:
    """A store with an empty bucket; what opens it, by the names of interbed's options."""
    port = _free_port()
    command = [str(_moto_python()), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, port, "/moto-api/"):
        status, answer = request(port, "PUT", f"/{bucket}")
        if status != http.client.OK:
            raise RuntimeError(f"The store answers {status}: {answer!r}")
        yield {
            "s3.endpoint": f"http://127.0.0.1:{port}",
            "s3.access-key": "a",
            "s3.secret-key": "b",
            "s3.region": "us-east-1",
        }


@contextmanager
def running_rest_catalog(warehouse: Path) -> Iterator[str]:
    """Iceberg's REST catalog in Java over a directory; its address."""
    port = _free_port()
    jars = maven_jars("iceberg_rest", "iceberg-rest-1.10.0")
    java = ("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
    command = [*java, "-cp", f"{jars}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    with _running(
        command, port, "/v1/config", {"CATALOG_REST_PORT": str(port), "CATALOG_WAREHOUSE": f"file:{warehouse}"}
    ):
        yield f"http://127.0.0.1:{port}"


def request(port: int, method: str, path: str) -> tuple[int, bytes]:
    """The status of an answer, and its content; OSError when there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_SECONDS_MAX)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@contextmanager
def _running(
    command: Sequence[str], port: int, ready: str, variables: Mapping[str, str] | None = None
) -> Iterator[None]:
    """The server while it runs, from when it answers at the path `ready`."""
    with tempfile.TemporaryDirectory(prefix="interbed-server-", ignore_cleanup_errors=True) as name:
        log = Path(name) / "server.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=name,
                env={**os.environ, **(variables or {})},
                # A group of its own: it is ended by its id, and a Ctrl-C at the tests does not reach it before they do.
                start_new_session=True,
            )
        try:
            _wait_until_ready(process, port, ready, log)
            yield
        finally:
            # What it knows is in its memory alone, so that it need not be shut down.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=STOP_SECONDS_MAX)


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, path: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if request(port, "GET", path)[0] == http.client.OK:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    said = log.read_text(errors="replace")[-4000:]
    raise RuntimeError(f"The server did not start (it ended with {process.poll()}):\n{said}")


def _moto_python() -> Path:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"

    def build(directory: Path) -> None:
        run(sys.executable, "-m", "venv", directory)
        python = directory / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--no-input", "-r", S3_REQUIREMENTS)

    return built_once(f"moto-py{version}-{fingerprint(S3_REQUIREMENTS)}", build) / "bin" / "python"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
