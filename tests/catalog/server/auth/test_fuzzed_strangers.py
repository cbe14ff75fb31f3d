"""Connections of clients without valid credentials: none is served, none harms the server or its other clients."""

from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.benchmarks.strangers import exchanged, web_token
from tests.catalog.server.auth.issuer import rsa_key, trusting
from tests.catalog.server.auth.test_authenticated_server import asked
from tests.catalog.server.migration.commands import run
from tests.support import shares
from tests.support.servers.metastore import metastore_under_test
from tests.support.strangers import HTTP, THRIFT, StrangerGenerator, judged
from tests.support.tally import Tally

CONNECTIONS = 20_000 if shares.LONG else 1_000
WARM_UP = 200


@pytest.mark.longer
@pytest.mark.attack("fuzzed connections before authentication")
def test_no_stranger_is_served(tmp_path: Path, tally: Tally) -> None:
    key = rsa_key()
    settings = ("--http-port", "0", "--authentication", "token,jwt", "--access-authorizer", "builtin")
    issuer = trusting(tmp_path, key)
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings, *issuer) as server:
        good = run("token", "create", "ann", "--db", server.db).strip()
        secrets = [good[:-1] + ("A" if good[-1] != "A" else "B"), good[:4] + "0" * 16 + good[20:], good.upper()]
        generator = StrangerGenerator(11, tmp_path, secrets)
        ports = {THRIFT: server.port, HTTP: int(server.http.rpartition(":")[2])}
        process = psutil.Process(server.running.process.pid)
        threads = memory = 0
        found: Counter[str] = Counter()
        for number in range(CONNECTIONS):
            sent = generator.next()
            reply = exchanged(ports, sent, "127.0.0.1" if number % 3 else f"127.0.0.{number % 200 + 2}")
            assert reply is not None, sent
            found[judged(sent.port, reply)] += 1
            assert judged(sent.port, reply) != "in", (sent, reply)
            if number % 50 == 0:
                assert asked(server, "/iceberg/v1/config", f"Bearer {good}")[0] == 200
                assert asked(server, "/iceberg/v1/config", f"Bearer {web_token(key)}")[0] in (200, 429)
            if number == WARM_UP:
                # Modules are loaded by the first calls.
                threads, memory = process.num_threads(), process.memory_info().rss
        assert process.num_threads() <= threads + 20
        assert process.memory_info().rss - memory < 64 << 20
    assert found["refused"] > CONNECTIONS / 3
    log = (tmp_path / "server.log").read_text()
    assert "Traceback" not in log
    assert " ERROR " not in log
    tally("connections of strangers", CONNECTIONS)
