"""A real schema registry for tests: Apicurio with Confluent's interface, on a free port of 127.0.0.1.

It keeps its schemas in memory. Maven fetches its distribution once.
"""

import http.client
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.servers.ports import free_port
from tests.support.waits import at_most

POM = Path(__file__).resolve().parents[2] / "peers" / "schema_registry" / "pom.xml"
START_SECONDS_MAX = at_most(120.0)
STOP_SECONDS_MAX = at_most(30.0)
REQUEST_SECONDS_MAX = at_most(10.0)

_JAVA = ("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class SchemaRegistryServer:
    """Schema registry at `port` of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def url(self) -> str:
        """URL of Confluent's interface."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @property
    def own_url(self) -> str:
        """URL of Apicurio's own interface."""
        return f"http://127.0.0.1:{self.port}/apis/registry/v2"

    def register(self, subject: str, schema: Any, references: Sequence[dict[str, Any]] = (), kind: str = "AVRO") -> int:
        """Register a schema, and return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        status, answer = self.request("POST", f"/apis/ccompat/v7/subjects/{subject}/versions", json.dumps(body))
        if status != http.client.OK:
            raise RuntimeError(f"The registry answers {status}: {answer!r}")
        number: int = json.loads(answer)["id"]
        return number

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        """Return the status and the content of an answer. Raises OSError when there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_SECONDS_MAX)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@contextmanager
def running_schema_registry() -> Iterator[SchemaRegistryServer]:
    """Run a registry without schemas."""
    with tempfile.TemporaryDirectory(prefix="interbed-registry-", ignore_cleanup_errors=True) as name:
        log = Path(name) / "registry.log"
        server = SchemaRegistryServer(free_port())
        process = _start(Path(name), server.port, log)
        try:
            _wait_until_ready(server, process, log)
            yield server
        finally:
            # All its state is in memory, so a kill is enough.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=STOP_SECONDS_MAX)


def _start(directory: Path, port: int, log: Path) -> "subprocess.Popen[bytes]":
    [jar] = _distribution().glob("*-runner.jar")
    with log.open("ab") as output:
        return subprocess.Popen(
            [*_JAVA, "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}", "-jar", str(jar)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            # A process group of its own: it is killed by the group id, and a Ctrl-C reaches the tests first.
            start_new_session=True,
        )


def _wait_until_ready(server: SchemaRegistryServer, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if server.request("GET", "/apis/ccompat/v7/subjects")[0] == http.client.OK:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    said = log.read_text(errors="replace")[-4000:]
    raise RuntimeError(f"The registry did not start (it ended with {process.poll()}):\n{said}")


def _distribution() -> Path:
    def build(directory: Path) -> None:
        # Maven's markers of unpacked files belong to the cached directory, not to the location of the pom.xml.
        where = [f"-DoutputDirectory={directory}", f"-DmarkersDirectory={directory}/unpacked"]
        run("mvn", "-q", "-B", "-f", POM, "dependency:unpack-dependencies", *where)

    return built_once(f"schema-registry-{fingerprint(POM)}", build)
