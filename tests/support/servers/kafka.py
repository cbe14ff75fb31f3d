"""A real Kafka for tests: one temporary node that is broker and controller, on free ports of 127.0.0.1.

Maven fetches its jars once. Formatted storage and an archive of the loaded classes are also prepared once and kept in
the tests' cache, so that a broker takes its first request after one second instead of four.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.servers.ports import free_ports
from tests.support.waits import at_most

POM = Path(__file__).resolve().parents[2] / "peers" / "kafka" / "pom.xml"
START_SECONDS_MAX = at_most(120.0)
STOP_SECONDS_MAX = at_most(30.0)
CLUSTER_ID = "aW50ZXJiZWQtdGVzdHMtMQ"
"""Sixteen bytes in Base64, as Kafka requires; all brokers of the tests share it, and are never connected."""

USER, PASSWORD = "reader", "open-sesame-17"
"""Credentials for clients that authenticate themselves by SASL's mechanism PLAIN."""

_JAVA = (
    "java",
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    ),
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # An election has a single voter. A killed broker may register again when its session has expired.
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "100",
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "2000",
    # Few threads start faster, and a small buffer of the cleaner leaves the heap to messages.
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "2000000",
}


class KafkaServer:
    """Kafka broker at `bootstrap_servers`; it can be killed and restarted on the same port and data."""

    def __init__(self, directory: Path) -> None:
        """Prepare its data below `directory` without starting it."""
        self._directory = directory
        prepared = _prepared()
        shutil.copytree(prepared / "data", directory / "data")
        self._classes = prepared / "classes.jsa"
        ports = free_ports(3)
        self._port, self._sasl_port, _ = ports
        _write_settings(directory, ports)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Host and port for clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def sasl_bootstrap_servers(self) -> str:
        """Host and port for clients that authenticate themselves as USER with PASSWORD, without TLS."""
        return f"127.0.0.1:{self._sasl_port}"

    def start(self) -> None:
        """Start the broker and wait until it answers. Raises RuntimeError with the end of its log when it does not."""
        options = [f"-XX:SharedArchiveFile={self._classes}"] if self._classes.exists() else []
        self._process = _start(self._directory, *options)
        _wait_until_ready(self._directory, self._port, self._process)

    def kill(self) -> None:
        """Kill the broker by SIGKILL, as a crash; accepted messages remain in its data."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=STOP_SECONDS_MAX)


@contextmanager
def running_kafka() -> Iterator[KafkaServer]:
    """Run a Kafka broker without topics and with temporary data."""
    with tempfile.TemporaryDirectory(prefix="interbed-kafka-", ignore_cleanup_errors=True) as name:
        server = KafkaServer(Path(name))
        try:
            server.start()
            yield server
        finally:
            # Its data are not needed any more, so a kill is enough.
            server.kill()


def _write_settings(directory: Path, ports: Sequence[int]) -> None:
    """Write the settings. `ports` are for clients, for clients that authenticate themselves, and for the controller."""
    addresses = [
        f"{name}://127.0.0.1:{port}" for name, port in zip(("PLAINTEXT", "SASL", "CONTROLLER"), ports, strict=True)
    ]
    settings = {
        **_SETTINGS,
        "log.dirs": str(directory / "data"),
        "listeners": ",".join(addresses),
        "advertised.listeners": ",".join(addresses[:-1]),
        "controller.quorum.voters": f"1@127.0.0.1:{ports[-1]}",
    }
    lines = [f"{name}={value}\n" for name, value in settings.items()]
    (directory / "server.properties").write_text("".join(lines))


def _start(directory: Path, *options: str) -> subprocess.Popen[bytes]:
    with (directory / "kafka.log").open("ab") as output:
        return subprocess.Popen(
            [*_JAVA, *options, *("-cp", _classpath()), "kafka.Kafka", str(directory / "server.properties")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            # A process group of its own: it is killed by the group id, and a Ctrl-C reaches the tests first.
            start_new_session=True,
        )


def _wait_until_ready(directory: Path, port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        if _answers(port):
            return
        time.sleep(0.02)
    log = (directory / "kafka.log").read_text(errors="replace")
    raise RuntimeError(f"Kafka did not start (it ended with {process.poll()}):\n{log[-4000:]}")


def _answers(port: int) -> bool:
    try:
        # A client backs off before it connects again to a closed port; a plain connection does not.
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            pass
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        return bool(client.list_topics(timeout=5).brokers)
    except (OSError, KafkaException):
        return False


def _jars() -> Path:
    def build(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", POM, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    return built_once(f"kafka-{fingerprint(POM)}", build)


def _classpath() -> str:
    # The archive of classes is valid only for the same jars in the same order.
    return ":".join(str(jar) for jar in sorted(_jars().glob("*.jar")))


def _prepared() -> Path:
    """Return a directory with `data`, formatted storage, and `classes.jsa`, the classes that a broker loads."""

    def build(directory: Path) -> None:
        ports = free_ports(3)
        _write_settings(directory, ports)
        settings = directory / "server.properties"
        run(*_JAVA, "-cp", _classpath(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", settings)
        shutil.copytree(directory / "data", directory / "formatted")
        process = _start(directory, f"-XX:ArchiveClassesAtExit={directory / 'classes.jsa'}")
        try:
            _wait_until_ready(directory, ports[0], process)
            process.terminate()
            process.wait(timeout=START_SECONDS_MAX)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=STOP_SECONDS_MAX)
        shutil.rmtree(directory / "data")
        (directory / "formatted").rename(directory / "data")

    return built_once(f"kafka-prepared-{fingerprint(POM, Path(__file__))}", build)
