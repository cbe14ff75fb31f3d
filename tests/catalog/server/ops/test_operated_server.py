"""A real server as its operators see it: health, metrics, logs and audit over one process and over several."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from thrift.Thrift import TApplicationException

from interbed.catalog.client.errors import TableNotFoundError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.process.command import stop_server
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import (
    MetastoreUnderTest,
    foreign_client,
    lock_component,
    lock_request,
    metastore_under_test,
    migrated_database,
    table,
)
from tests.support.shares import each_run
from tests.support.waits import at_most, wait_until

WORKERS = {"one process on SQLite": 1, "three processes on PostgreSQL": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatedServer:
    """Server with its health port and its log files."""

    running: MetastoreUnderTest
    health: tuple[str, int]
    directory: Path
    workers: int

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a page of the health port."""
        connection = http.client.HTTPConnection(*self.health, timeout=at_most(60))
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def samples(self) -> dict[tuple[str, ...], float]:
        """Return the samples of /metrics, by name and labels."""
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.get("/metrics")[1])
            for sample in family.samples
        }

    def log(self) -> list[dict[str, Any]]:
        """Return the lines of the log."""
        return [json.loads(line) for line in (self.directory / "server.log").read_text().splitlines()]

    def audit(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in (self.directory / "audit.jsonl").read_text().splitlines()]


def health_address(log: Path) -> tuple[str, int]:
    """Return the address of the health port, which the server writes into its log."""
    found: list[re.Match[str]] = []

    def is_logged() -> bool:
        found.extend(re.finditer(r"http://([\d.]+):(\d+)/health", log.read_text()))
        return bool(found)

    wait_until(is_logged, "the port")
    return found[0][1], int(found[0][2])


# The metrics of one process on SQLite are covered by test_health.py in each run.
@pytest.fixture(scope="module", params=each_run(WORKERS, lambda name: WORKERS[name] > 1))
def operated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatedServer]:
    """Run a server with health port, JSON log and audit log."""
    workers = WORKERS[request.param]
    directory = tmp_path_factory.mktemp("operated")
    if workers == 1:
        db = f"sqlite:///{directory / 'metastore.db'}"
    else:
        db = migrated_database(request.getfixturevalue("postgres_url"))
    arguments = [
        *("--workers", str(workers), "--health-port", "0", "--log-format", "json", "--slow-call-seconds", "1us"),
        *("--audit-log", str(directory / "audit.jsonl"), "--reaper-seconds", "0.2", "--lock-lease-seconds", "2"),
    ]
    with metastore_under_test(db, directory, *arguments) as running:
        yield OperatedServer(
            running=running, health=health_address(directory / "server.log"), directory=directory, workers=workers
        )


@pytest.fixture
def client(operated: OperatedServer) -> Iterator[HiveMetastoreClient]:
    """Connect a client to the server."""
    with HiveMetastoreClient(operated.running.uri, timeout_seconds=at_most(60)) as open_client:
        yield open_client


def test_a_server_is_ready_with_all_its_workers(operated: OperatedServer) -> None:
    assert operated.health[0] == "127.0.0.1"
    assert operated.get("/health/live")[0] == 200
    status, body = operated.get("/health/ready")
    assert (status, json.loads(body)) == (200, {"status": "ready", "reasons": []})
    assert operated.samples()["interbed_workers",] == operated.workers


def test_calls_of_all_processes_are_counted_together(operated: OperatedServer) -> None:
    before = operated.samples()
    uri = operated.running.uri

    def counted(*key: str) -> float:
        return operated.samples().get(key, 0) - before.get(key, 0)

    for _ in range(6):
        with HiveMetastoreClient(uri, timeout_seconds=at_most(60)) as client, pytest.raises(TableNotFoundError):
            client.get_table("default", "none")
    with foreign_client(operated.running.port) as foreign:
        for _ in range(3):
            with pytest.raises(TApplicationException, match="Invalid method name"):
                foreign.open_txns(None)
    # The reply is sent before the call is counted.
    wait_until(lambda: counted("interbed_calls_total", "get_table") == 6, "the calls")
    assert counted("interbed_call_errors_total", "get_table", "refused") == 6
    assert counted("interbed_call_seconds_count", "get_table") == 6
    wait_until(lambda: counted("interbed_unknown_method_calls_total", "open_txns") == 3, "the unknown calls")


def test_changes_are_audited_and_counted_and_locks_are_not(
    operated: OperatedServer, client: HiveMetastoreClient
) -> None:
    event = operated.samples()["interbed_notification_event_id",]
    client.create_database(ttypes.Database(name="audited"))
    client.create_table(table("audited", "t"))
    client.unlock(client.lock(lock_request(lock_component(3, "audited", "t"))).lockid)
    with pytest.raises(TableNotFoundError):
        client.drop_table("audited", "none")
    client.drop_database("audited", cascade=True)
    wait_until(lambda: any(line["method"] == "drop_database" for line in operated.audit()), "the audit log's last line")
    lines = [line for line in operated.audit() if line.get("database") == "audited"]
    assert [(line["method"].split("_with")[0], line.get("table"), line["outcome"]) for line in lines] == [
        ("create_database", None, "ok"),
        ("create_table", "t", "ok"),
        *([("drop_table", "none", "refused")] if any(line.get("table") == "none" for line in lines) else []),
        ("drop_database", None, "ok"),
    ]
    assert all(line["peer"].startswith("127.0.0.1:") and line["user"] and line["request_id"] for line in lines)
    assert len({line["request_id"] for line in lines}) == len(lines)
    assert operated.samples()["interbed_notification_event_id",] > event


def test_log_lines_have_the_request_and_slow_calls_are_logged(
    operated: OperatedServer, client: HiveMetastoreClient
) -> None:
    client.get_all_databases()
    slow = [line for line in operated.log() if line["message"].startswith("slow call: get_all_databases")]
    assert slow
    assert {"request_id", "peer", "user", "seconds", "process", "time"} <= slow[-1].keys()
    assert (slow[-1]["method"], slow[-1]["level"], slow[-1]["outcome"]) == ("get_all_databases", "WARNING", "ok")


def test_the_reaper_removes_the_lock_of_a_silent_client(operated: OperatedServer, client: HiveMetastoreClient) -> None:
    expired = operated.samples()["interbed_locks_expired_total",]
    client.lock(lock_request(lock_component(3, "d", "t")))
    wait_until(lambda: operated.samples()["interbed_locks_expired_total",] == expired + 1, "the reaper")
    assert client.show_locks("d", "t") == []


def test_clients_can_read_the_effective_settings(operated: OperatedServer, client: HiveMetastoreClient) -> None:
    assert client.get_config_value("hive.txn.timeout", "") == "2s"
    assert client.get_config_value("metastore.warehouse.dir", "") == f"file:{operated.running.warehouse}"


def test_connections_are_counted(operated: OperatedServer) -> None:
    with foreign_client(operated.running.port) as one, foreign_client(operated.running.port) as other:
        one.getStatus()
        other.getStatus()
        wait_until(lambda: operated.samples()["interbed_connections",] >= 2, "the connections")


def test_a_server_that_cannot_use_a_setting_reports_it_and_does_not_start(
    operated: OperatedServer, tmp_path: Path
) -> None:
    for arguments, told in [
        (["--health-port", str(operated.health[1])], f"health port 127.0.0.1:{operated.health[1]}"),
        (["--audit-log", str(tmp_path / "none" / "audit")], str(tmp_path / "none" / "audit")),
        (["--host", "no-such-host.invalid", "--no-authentication"], "cannot listen on no-such-host.invalid"),
    ]:
        command = [
            "interbed.catalog.server.process.main",
            "--port",
            "0",
            "--db",
            f"sqlite:///{tmp_path}/m.db",
            *arguments,
        ]
        result = subprocess.run(
            [sys.executable, "-m", *command],
            capture_output=True,
            text=True,
            timeout=at_most(120),
            check=False,
            cwd=tmp_path,
        )
        assert result.returncode == 1
        assert told in result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.long
def test_a_server_that_is_stopped_ends_all_its_processes(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    with metastore_under_test(db, tmp_path, "--health-port", "0", "--workers", "2") as running:
        address = health_address(tmp_path / "server.log")
        os.kill(running.running.process.pid, signal.SIGTERM)
        assert stop_server(running.running) == 0
        with pytest.raises(OSError):
            http.client.HTTPConnection(*address, timeout=at_most(60)).request("GET", "/health/live")
