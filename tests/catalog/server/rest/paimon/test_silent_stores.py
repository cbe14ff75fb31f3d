"""Stores that accept connections and never answer: they suspend their own tables, and leave the threads to others."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from interbed.catalog.server.process.command import RunningServer, stop_server
from tests.support.servers.metastore import started_server
from tests.support.waits import at_most

STORES = 70
REQUESTS = 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """Run a server with 70 warehouses in silent stores, and one on local disk."""
    with socket.socket() as silent, pytest.MonkeyPatch.context() as patch:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1000)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_REGION", "us-east-1")
        warehouses = ",".join(f"silent{number}=s3://silent{number}/lake" for number in range(STORES))
        running = started_server(
            f"sqlite:///{tmp_path / 'metastore.db'}",
            f"file:{tmp_path}/warehouse",
            *("--http-port", "0", "--store-seconds", "20", "--paimon-warehouses", warehouses),
            log=tmp_path / "server.log",
        )
        try:
            yield running
        finally:
            stop_server(running)


def _get(server: RunningServer, path: str) -> tuple[int, str]:
    address = urlsplit(server.http or "")
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=at_most(120))
    try:
        connection.request("GET", f"/paimon/v1/{path}")
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_requests_about_other_tables_are_answered_while_stores_are_silent(server: RunningServer) -> None:
    answers: list[tuple[int, str]] = []
    callers = [
        threading.Thread(target=lambda n=number: answers.append(_get(server, f"silent{n}/databases/d/tables/t")))
        for number in range(STORES)
    ]
    for caller in callers:
        caller.start()
    for _ in range(REQUESTS):
        status, text = _get(server, "hive/databases")
        assert (status, json.loads(text)["databases"]) == (200, ["default"])
    # All answers came before the deadline of the first store.
    assert answers == []
    for caller in callers:
        caller.join(at_most(240))
    assert len(answers) == STORES
    assert {status for status, _ in answers} == {503}
    assert all("s3://silent" in text for _, text in answers)
