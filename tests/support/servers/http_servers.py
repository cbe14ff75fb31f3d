"""HTTP servers for tests on a free port of 127.0.0.1: object stores, Iceberg's REST catalog.

They are processes with temporary state: moto in a separate environment, S3Mock and S3Proxy with jars from Maven,
Azurite from npm, and the REST server of Iceberg's own tests with a catalog in SQLite. They are fetched once.
"""

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from interbed import testing
from tests.support.peers.cache import built_once, fingerprint, python_with, run
from tests.support.peers.spark import PEERS, maven_jars
from tests.support.servers.ports import free_port, free_ports
from tests.support.waits import at_most

START_SECONDS_MAX = at_most(120.0)
STOP_SECONDS_MAX = at_most(30.0)
REQUEST_SECONDS_MAX = at_most(10.0)

_JAVA = ("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

S3_REQUIREMENTS = PEERS / "s3" / "requirements.txt"


@contextmanager
def running_s3(bucket: str) -> Iterator[dict[str, str]]:
    """Run an S3 store with an empty bucket, and yield its options by interbed's names."""
    with testing.s3(bucket, python=str(moto_python())) as options:
        yield options


def for_hadoop(store: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the store for Hadoop's client `s3a`."""
    return {
        "fs.s3a.endpoint": store["s3.endpoint"],
        "fs.s3a.endpoint.region": store["s3.region"],
        "fs.s3a.access.key": store["s3.access-key"],
        "fs.s3a.secret.key": store["s3.secret-key"],
        "fs.s3a.path.style.access": "true",
    }


@contextmanager
def running_s3mock(bucket: str) -> Iterator[dict[str, str]]:
    """Run Adobe's S3Mock with an empty bucket: a second implementation that honours conditional puts."""
    port, secure = free_ports(2)
    jar = next(maven_jars("s3mock", "s3mock-4.6.0").glob("*.jar"))
    command = [*_JAVA, "-jar", str(jar), f"--server.port={secure}", f"--com.adobe.testing.s3mock.httpPort={port}"]
    with _running(command, port, "/", {"COM_ADOBE_TESTING_S3MOCK_STORE_INITIAL_BUCKETS": bucket}):
        yield {
            "s3.endpoint": f"http://127.0.0.1:{port}",
            "s3.access-key": "a",
            "s3.secret-key": "b",
            "s3.region": "us-east-1",
        }


@contextmanager
def running_s3proxy(bucket: str, directory: Path | None = None) -> Iterator[dict[str, str]]:
    """Run S3Proxy over a store in memory, or in a directory, with an empty bucket. It ignores the conditions of puts.

    Its options have Hadoop's names.
    """
    provider = "transient" if directory is None else f"filesystem\njclouds.filesystem.basedir={directory}"
    port = free_port()
    jar = next(maven_jars("s3proxy", "s3proxy-2.6.0").glob("*.jar"))
    with tempfile.TemporaryDirectory(prefix="interbed-s3proxy-") as name:
        settings = Path(name) / "s3proxy.conf"
        settings.write_text(
            f"s3proxy.authorization=none\ns3proxy.endpoint=http://127.0.0.1:{port}\n"
            f"jclouds.provider={provider}\njclouds.identity=a\njclouds.credential=b\n"
        )
        with _running([*_JAVA, "-jar", str(jar), "--properties", str(settings)], port, "/"):
            status, answer = request(port, "PUT", f"/{bucket}")
            if status != http.client.OK:
                raise RuntimeError(f"The store answers {status}: {answer!r}")
            yield {
                "fs.s3a.endpoint": f"http://127.0.0.1:{port}",
                "fs.s3a.access.key": "a",
                "fs.s3a.secret.key": "b",
                "fs.s3a.endpoint.region": "us-east-1",
            }


AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's default key, which its documentation publishes."""


@contextmanager
def running_azurite(container: str) -> Iterator[dict[str, str]]:
    """Run Azure's blob store with an empty container of the account AZURITE_ACCOUNT."""
    port = free_port()
    program = _azurite() / "node_modules" / ".bin" / "azurite-blob"
    command = [str(program), "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    place = f"/{AZURITE_ACCOUNT}/{container}"
    with _running([*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)], port, None):
        status, answer = request(port, "PUT", f"{place}?restype=container", _shared_key("PUT", place))
        if status != http.client.CREATED:
            raise RuntimeError(f"The store answers {status}: {answer!r}")
        yield {
            "fs.azure.endpoint": f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}",
            f"fs.azure.account.key.{AZURITE_ACCOUNT}.dfs.core.windows.net": AZURITE_KEY,
        }


def _shared_key(method: str, place: str) -> dict[str, str]:
    """Return the headers that sign the request for a new container."""
    date = formatdate(usegmt=True)
    version = "2021-08-06"
    # Twelve headers that this request lacks.
    lines = "\n" * 12
    text = f"{method}{lines}x-ms-date:{date}\nx-ms-version:{version}\n/{AZURITE_ACCOUNT}{place}\nrestype:container"
    digest = hmac.new(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    return {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {AZURITE_ACCOUNT}:{signature}",
        "Content-Length": "0",
    }


def _azurite() -> Path:
    listed = PEERS / "azurite" / "package.json"

    def build(directory: Path) -> None:
        shutil.copy(listed, directory)
        run("npm", "install", "--no-audit", "--no-fund", "--prefix", directory)

    return built_once(f"azurite-{fingerprint(listed)}", build)


@contextmanager
def running_rest_catalog(warehouse: Path) -> Iterator[str]:
    """Run Iceberg's REST catalog in Java over a directory, and yield its address."""
    with rest_catalog_process(warehouse) as (uri, _):
        yield uri


@contextmanager
def rest_catalog_process(
    warehouse: Path, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Run Iceberg's REST catalog in Java over a directory; yield its address and its process.

    `variables` are further ones of its environment, such as CATALOG_URI for its JDBC catalog, which else is in memory.
    """
    port = free_port()
    jars = maven_jars("iceberg_rest", "iceberg-rest-1.10.0")
    command = [*_JAVA, "-cp", f"{jars}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    given = {"CATALOG_REST_PORT": str(port), "CATALOG_WAREHOUSE": f"file:{warehouse}", **(variables or {})}
    with _running(command, port, "/v1/config", given) as process:
        yield f"http://127.0.0.1:{port}", process


def request(port: int, method: str, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """Return the status and the content of an answer. Raises OSError when there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_SECONDS_MAX)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@contextmanager
def _running(
    command: Sequence[str], port: int, ready: str | None, variables: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the server and yield its process, once it answers at the path `ready`, or on any path if that is None."""
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
                # A process group of its own: it is killed by the group id, and a Ctrl-C reaches the tests first.
                start_new_session=True,
            )
        try:
            _wait_until_ready(process, port, ready, log)
            yield process
        finally:
            # All its state is in memory, so a kill is enough.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=STOP_SECONDS_MAX)


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, path: str | None, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if request(port, "GET", path or "/")[0] == http.client.OK or path is None:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    said = log.read_text(errors="replace")[-4000:]
    raise RuntimeError(f"The server did not start (it ended with {process.poll()}):\n{said}")


def moto_python() -> Path:
    """Return the interpreter of an environment with moto."""
    return python_with("moto", S3_REQUIREMENTS)


if __name__ == "__main__":
    print(moto_python())
