"""Hive 4.0.1's client with a token of the server: by HTTP, and by SASL PLAIN."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.catalog.server.migration.commands import run
from tests.support.peers.hive_client import client_classpath
from tests.support.servers.java_metastore import QUICK_START
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most


@pytest.mark.long
def test_hives_client_is_authenticated_by_its_token(tmp_path: Path) -> None:
    arguments = ["--http-port", "0", "--authentication", "token", "--audit-log", str(tmp_path / "audit.log")]
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *arguments) as server:
        token = run("token", "create", "etl", "--db", server.db).strip()
        uri = server.http.replace("http://", "thrift://")

        def answer(given: str, database: str) -> str:
            command = ["java", *QUICK_START, "-cp", client_classpath(), "TokenClient", uri, database]
            environment = {**os.environ, "HMS_JWT": given}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=at_most(180))
            assert done.returncode == 0, done.stderr[-3000:]
            # Hive logs to the same output.
            (found,) = (line for line in done.stdout.splitlines() if line.startswith(("databases", "refused")))
            return found

        assert answer(token, "by_java") == "databases by_java,default"
        assert answer(token[:-1] + "~", "by_nobody").startswith("refused")
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [(line["user"], line["database"]) for line in lines if line["method"].startswith("create_database")] == [
        ("etl", "by_java")
    ]


@pytest.mark.long
def test_hives_client_is_authenticated_by_sasl_plain(tmp_path: Path) -> None:
    arguments = ["--authentication", "token", "--audit-log", str(tmp_path / "audit.log")]
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *arguments) as server:
        token = run("token", "create", "etl", "--db", server.db).strip()
        connections = [("etl", token, "by_java"), ("etl", token[:-1] + "~", "wrong"), ("root", token, "other")]
        done = subprocess.run(
            ["java", *QUICK_START, "-cp", client_classpath(), "PlainClient"],
            input="\n".join("\t".join((server.uri, *each)) for each in connections),
            capture_output=True,
            text=True,
            timeout=at_most(180),
        )
    assert done.returncode == 0, done.stderr[-3000:]
    # Hive logs to the same output.
    found = [line for line in done.stdout.splitlines() if line.startswith(("databases", "refused"))]
    assert found[0] == "databases by_java,default"
    assert "Peer indicated failure: The token is not valid" in found[1]
    assert "Peer indicated failure: The token is that of another user" in found[2]
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [(line["user"], line["database"]) for line in lines if line["method"].startswith("create_database")] == [
        ("etl", "by_java")
    ]
