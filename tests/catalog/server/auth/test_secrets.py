"""Secrets of a running server and of its clients: in no log, no error, no answer, no command line, no core dump."""

import base64
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jwt
import psutil
import pytest

from interbed.catalog.server.auth.authentication import SaslStatus
from interbed.catalog.server.thrift.edge.transport import packed
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, rsa_key, trusting
from tests.catalog.server.auth.test_authenticated_server import asked
from tests.catalog.server.migration.commands import run
from tests.support.servers.ldap_directory import BASE, PASSWORDS, ldap_directory
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import at_most, wait_until

pytestmark = pytest.mark.attack("secrets in logs, errors, command lines and core dumps")

SEARCHER = PASSWORDS["search"]


@dataclass
class ServerWithSecrets:
    """A server, the secrets of it and its clients by what they are, and all answers so far."""

    server: MetastoreUnderTest
    directory: Path
    secrets: Mapping[str, str]
    answers: list[str] = field(default_factory=list)

    def exposed(self, text: str) -> list[str]:
        """Return what a text has of the secrets, as they are or encoded."""
        return [
            name
            for name, secret in self.secrets.items()
            if secret in text or base64.b64encode(f"ann:{secret}".encode()).decode() in text
        ]


def _sent_by_http(found: ServerWithSecrets) -> None:
    for secret in found.secrets.values():
        basic = base64.b64encode(f"ann:{secret}".encode()).decode()
        headers = (f"Bearer {secret}", f"Basic {basic}", f"Bearer {secret} x", f"bearer{secret}", f"Basic {secret}")
        for authorization in (*headers, secret):
            for path in ("/iceberg/v1/config", "/metastore"):
                status, headers_of_answer, body = asked(found.server, path, authorization)
                found.answers.append(f"{status} {headers_of_answer} {body!r}")


def _sent_by_sasl(found: ServerWithSecrets) -> None:
    for secret in found.secrets.values():
        for response in (f"\0ann\0{secret}", f"\0{secret}\0x", f"{secret}\0ann\0x", secret, f"\0root\0{secret}"):
            data = packed(SaslStatus.START, b"PLAIN") + packed(SaslStatus.COMPLETE, response.encode())
            with socket.create_connection(("127.0.0.1", found.server.port), timeout=at_most(30)) as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while part := connection.recv(65536):
                    answer += part
            found.answers.append(repr(answer))


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerWithSecrets]:
    """Run a server with every kind of secret, to which clients have sent right and wrong ones in many forms."""
    directory = tmp_path_factory.mktemp("secrets")
    key = rsa_key()
    password = directory / "password"
    password.write_text(SEARCHER)
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 300}
    with ldap_directory() as ldap:
        settings = (
            *("--http-port", "0", "--workers", "2", "--authentication", "token,jwt,ldap", "--optimizer", "on"),
            *trusting(directory, key),
            *("--ldap-url", ldap.url, "--ldap-user-base", f"ou=people,{BASE}"),
            *("--ldap-bind-dn", f"uid=search,ou=people,{BASE}", "--ldap-bind-password-file", str(password)),
            *("--audit-log", str(directory / "audit.log"), "--log-level", "DEBUG"),
        )
        db = f"sqlite:///{directory / 'metastore.db'}"
        with metastore_under_test(db, directory, *settings, start=subprocess.Popen) as server:
            secrets = {
                "token": run("token", "create", "ann", "--db", server.db).strip(),
                "revoked token": run("token", "create", "eve", "--db", server.db).strip(),
                "jwt": jwt.encode(claims, key, algorithm="RS256", headers={"kid": "k"}),
                "forged jwt": jwt.encode(claims, rsa_key(), algorithm="RS256", headers={"kid": "k"}),
                "password": PASSWORDS["ann"],
                "wrong password": "Winter 2026!",
                "password of the searching entry": SEARCHER,
            }
            run("token", "revoke", secrets["revoked token"].split("_")[1], "--db", server.db)
            found = ServerWithSecrets(server, directory, secrets)
            _sent_by_http(found)
            _sent_by_sasl(found)
            assert any(answer.startswith("200") for answer in found.answers)
            assert any(answer.startswith("401") for answer in found.answers)
            yield found


def _processes(server: MetastoreUnderTest) -> list[psutil.Process]:
    parent = psutil.Process(server.running.process.pid)
    return [parent, *parent.children(recursive=True)]


@pytest.mark.parametrize("file", ["server.log", "audit.log"])
def test_no_log_has_a_secret(busy: ServerWithSecrets, file: str) -> None:
    text = (busy.directory / file).read_text()
    assert busy.exposed(text) == []
    assert "not authenticated" in (busy.directory / "server.log").read_text()


def test_no_answer_has_a_secret(busy: ServerWithSecrets) -> None:
    assert [busy.exposed(answer) for answer in busy.answers if busy.exposed(answer)] == []


def test_no_command_line_and_no_environment_has_a_secret(busy: ServerWithSecrets) -> None:
    wait_until(lambda: len(_processes(busy.server)) >= 4, "the workers and the optimizer run")
    for process in _processes(busy.server):
        assert busy.exposed(" ".join(process.cmdline())) == []
        assert busy.exposed(str(process.environ())) == []


def test_no_core_dump_has_the_memory_of_the_server(busy: ServerWithSecrets) -> None:
    wait_until(lambda: len(_processes(busy.server)) >= 4, "the workers and the optimizer run")
    for process in _processes(busy.server):
        folder = Path("/proc") / str(process.pid)
        assert int((folder / "coredump_filter").read_text(), 16) == 0, process.cmdline()
        limits = (folder / "limits").read_text().splitlines()
        [core] = [line.split() for line in limits if line.startswith("Max core file size")]
        assert core[4] == "0", process.cmdline()


def test_the_settings_are_shown_without_secrets(busy: ServerWithSecrets) -> None:
    password = busy.directory / "password"
    environment = {
        **os.environ,
        "INTERBED_SERVER_DB": f"postgresql://interbed:{SEARCHER.replace(' ', '%20')}@127.0.0.1:1/x",
        "INTERBED_SERVER_LDAP_BIND_PASSWORD_FILE": str(password),
    }
    for form in ([], ["--json"]):
        shown = subprocess.run(
            [sys.executable, "-m", "interbed.cli", "server", "config", *form],
            env=environment,
            capture_output=True,
            text=True,
            timeout=at_most(60),
            check=False,
        )
        text = shown.stdout + shown.stderr
        assert busy.exposed(text) == []
        assert SEARCHER.replace(" ", "%20") not in text


def test_a_server_that_crashes_leaves_no_file(tmp_path: Path) -> None:
    """The kernel may write a core dump beside the server, or pass it to a program."""
    (tmp_path / "work").mkdir()
    code = (
        "import resource, os, signal\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)\n"
        "from interbed.catalog.server.ops.vital_signs import leave_no_core_dump\n"
        "leave_no_core_dump()\n"
        "os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "work", timeout=at_most(60), check=False)
    assert ended.returncode == -signal.SIGSEGV
    assert list((tmp_path / "work").iterdir()) == []
