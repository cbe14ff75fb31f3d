"""A real Debezium for tests: its PostgreSQL connector in a standalone worker of Kafka Connect.

The worker reads one database and writes its changes to Kafka: as JSON, with or without the schema of each message, or
as Avro with the schemas in a registry. Its REST interface is on a free port of 127.0.0.1. Maven fetches its jars once.
"""

import http.client
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.ports import free_port
from tests.support.servers.schema_registry import SchemaRegistryServer
from tests.support.waits import at_most

_PEERS = Path(__file__).resolve().parents[2] / "peers"
POM = _PEERS / "debezium" / "pom.xml"
CONVERTER_POM = _PEERS / "avro_converter" / "pom.xml"
START_SECONDS_MAX = at_most(120.0)
STOP_SECONDS_MAX = at_most(30.0)
REQUEST_SECONDS_MAX = at_most(10.0)

_JAVA = (
    "java",
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Duser.timezone=UTC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_AVRO_CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"


class DebeziumServer:
    """Worker that runs the one connector `name`."""

    def __init__(self, directory: Path, port: int, name: str, process: "subprocess.Popen[bytes]") -> None:
        self._directory = directory
        self._port = port
        self._name = name
        self._process = process

    def check(self) -> None:
        """Check that the connector works. Raises RuntimeError with the end of its log when the worker or the connector
        failed.
        """
        if self._process.poll() is not None:
            raise self._error(f"Kafka Connect ended with {self._process.returncode}")
        status = self._status()
        failed = [part for part in _parts(status) if part["state"] == "FAILED"]
        if failed:
            raise self._error(f"Debezium failed: {failed[0].get('trace')}")

    def wait_until_running(self) -> None:
        """Wait until the connector and its task run. Raises RuntimeError when they do not."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            self.check()
            parts = _parts(self._status())
            if len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts):
                return
            time.sleep(0.05)
        raise self._error("Debezium did not start")

    def _status(self) -> "dict[str, Any] | None":
        """Return the worker's status of the connector and its task; None while it does not answer or does not know
        them.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=REQUEST_SECONDS_MAX)
        try:
            connection.request("GET", f"/connectors/{self._name}/status")
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if response.status != http.client.OK:
            return None
        status: dict[str, Any] = json.loads(content)
        return status

    def _error(self, what: str) -> RuntimeError:
        log = (self._directory / "connect.log").read_text(errors="replace")
        return RuntimeError(f"{what}. The end of its log:\n{log[-4000:]}")


@contextmanager
def running_debezium(
    kafka: KafkaServer,
    postgres_url: str,
    *,
    prefix: str,
    schemas: bool = True,
    registry: SchemaRegistryServer | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[DebeziumServer]:
    """Run a worker that reads new changes of the database at the url (`postgresql://USER@127.0.0.1:PORT/DATABASE`).

    Topics are named PREFIX.SCHEMA.TABLE; `prefix` (lower-case letters, digits, _) also names the replication slot and
    the publication. Messages are JSON, with their schema if `schemas` is set; with a `registry` they are Avro.
    `settings` are further settings of the connector.
    """
    with tempfile.TemporaryDirectory(prefix="interbed-debezium-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        port = free_port()
        _write_properties(directory / "worker.properties", _worker(kafka, directory, port))
        converters = _json(schemas) if registry is None else _avro(registry)
        _write_properties(
            directory / "connector.properties",
            {**_connector(postgres_url, prefix), **converters, **(settings or {})},
        )
        process = _start(directory, [_jars(), *([] if registry is None else [_converter_jars()])])
        try:
            server = DebeziumServer(directory, port, prefix, process)
            server.wait_until_running()
            yield server
            server.check()
        finally:
            # Its offsets are not needed any more, so a kill is enough.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=STOP_SECONDS_MAX)


def _worker(kafka: KafkaServer, directory: Path, port: int) -> Mapping[str, str]:
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "offset.storage.file.filename": str(directory / "offsets"),
        "offset.flush.interval.ms": "1000",
        # The plugins are listed by name, so that the class path is not scanned for them.
        "plugin.discovery": "service_load",
        "listeners": f"http://127.0.0.1:{port}",
    }


def _json(schemas: bool) -> Mapping[str, str]:
    settings = {"": _CONVERTER, ".schemas.enable": str(schemas).lower()}
    return {f"{part}.converter{name}": value for part in ("key", "value") for name, value in settings.items()}


def _avro(registry: SchemaRegistryServer) -> Mapping[str, str]:
    settings = {
        "": _AVRO_CONVERTER,
        ".apicurio.registry.url": registry.own_url,
        ".apicurio.registry.auto-register": "true",
        # Messages begin with the schema id of Confluent's interface, as messages of Confluent do.
        ".apicurio.registry.headers.enabled": "false",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.as-confluent": "true",
    }
    return {f"{part}.converter{name}": value for part in ("key", "value") for name, value in settings.items()}


def _connector(postgres_url: str, prefix: str) -> Mapping[str, str]:
    url = urlsplit(postgres_url)
    return {
        "name": prefix,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": url.hostname or "",
        "database.port": str(url.port),
        "database.user": url.username or "",
        "database.password": url.password or "",
        "database.dbname": url.path.lstrip("/"),
        "topic.prefix": prefix,
        "plugin.name": "pgoutput",
        "slot.name": prefix,
        "publication.name": prefix,
        "poll.interval.ms": "20",
    }


def _parts(status: "dict[str, Any] | None") -> "list[dict[str, Any]]":
    """Return the connector and its tasks, each with its state."""
    return [] if status is None else [status["connector"], *status["tasks"]]


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _start(directory: Path, jars: Sequence[Path]) -> "subprocess.Popen[bytes]":
    with (directory / "connect.log").open("ab") as output:
        return subprocess.Popen(
            [
                *_JAVA,
                *("-cp", ":".join(f"{each}/*" for each in jars), "org.apache.kafka.connect.cli.ConnectStandalone"),
                *(str(directory / "worker.properties"), str(directory / "connector.properties")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            # A process group of its own: it is killed by the group id, and a Ctrl-C reaches the tests first.
            start_new_session=True,
        )


def _jars() -> Path:
    def build(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", POM, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    return built_once(f"debezium-{fingerprint(POM)}", build)


def _converter_jars() -> Path:
    def build(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", CONVERTER_POM, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    return built_once(f"avro-converter-{fingerprint(CONVERTER_POM)}", build)
