"""The optimizer beside a server that authenticates its clients: it maintains tables as a principal of its own."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import interbed
from interbed.catalog.server.auth.authentication import SaslStatus
from tests.catalog.server.auth.test_sasl_plain import GET_ALL, START, answered, framed, is_ended, options, response
from tests.catalog.server.migration.commands import run
from tests.support.certificates import make_certificates
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most, wait_until


@pytest.mark.parametrize("setting", ["plain", pytest.param("tls", marks=pytest.mark.long)])
def test_the_optimizer_maintains_tables_under_its_own_name(tmp_path: Path, setting: str) -> None:
    made = make_certificates(tmp_path)
    tls = ("--tls-certificate", str(made / "server.pem"), "--tls-key", str(made / "server.key"))
    further = (*tls, "--workers", "2", "--protocol", "compact", "--http-port", "0") if setting == "tls" else ()
    settings = ("--authentication", "token", "--optimizer", "on", "--audit-log", str(tmp_path / "audit.log"), *further)
    secure: dict[str, Any] = {}
    if setting == "tls":
        secure = {
            "hive.metastore.use.SSL": "true",
            "hive.metastore.truststore.path": str(made / "ca.pem"),
            "hive.metastore.thrift.compact.protocol.enabled": "true",
        }
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as server:
        token = run("token", "create", "ann", "--db", server.db).strip()
        given = options(server.uri.replace("127.0.0.1", "localhost"), token=token, **secure)
        with interbed.load_catalog("l", **given) as catalog:
            catalog.create_database("shop")
            schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
            table = catalog.create_table(
                "shop.t", schema, primary_keys=["id"], options={"bucket": "1", "write-only": "true"}
            )
            for step in range(8):
                table.upsert(pa.table({"id": range(100), "v": [step] * 100}))

        def changes() -> list[dict[str, Any]]:
            lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
            return [line for line in lines if line["user"] == "interbed-optimizer"]

        wait_until(lambda: bool(changes()), "the optimizer has changed a table", at_most(120))
        assert {line["mechanism"] for line in changes()} == {"optimizer"}

        # Its port serves no other client, with any token.
        parent = psutil.Process(server.running.process.pid)
        command = " ".join(part for child in parent.children(recursive=True) for part in child.cmdline())
        found = re.search(r"uri=thrift://127\.0\.0\.1:(\d+)", command)
        assert found is not None
        assert int(found[1]) != server.port
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=at_most(30)) as connection:
            assert b"for the optimizer beside the server alone" in framed(connection, GET_ALL)
        for user in ("ann", "interbed-optimizer"):
            with socket.create_connection(("127.0.0.1", int(found[1])), timeout=at_most(30)) as connection:
                connection.sendall(START + response(user, token))
                assert answered(connection)[0] == SaslStatus.BAD
                assert is_ended(connection)
