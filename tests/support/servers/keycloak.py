"""Keycloak 26.7.3 as an identity provider: a realm with clients for OAuth 2.0 client credentials.

It runs in development mode with a database in memory, on a free port of 127.0.0.1. Maven fetches its distribution once,
177 MB, into the tests' cache. The realm is imported by the admin's REST interface when the server answers.
"""

import json
import os
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.peers.cache import built_once, run
from tests.support.servers.ports import free_port
from tests.support.waits import at_most, wait_until

VERSION = "26.7.3"
REALM = "lake"
AUDIENCE = "interbed"
SECRETS = {"etl": "secret of etl", "other": "secret of other"}
"""Secrets by client; the tokens of `other` are for another audience."""

_ADMIN, _PASSWORD = "admin", "password of the admin"
_START_SECONDS_MAX = at_most(120.0)
_REQUEST_SECONDS_MAX = at_most(30)
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(slots=True)
class Keycloak:
    """A running server. `issuer` is that of the realm's tokens."""

    uri: str
    process: "subprocess.Popen[bytes]"

    @property
    def issuer(self) -> str:
        """The issuer, whose OpenID configuration names the keys."""
        return f"{self.uri}/realms/{REALM}"

    @property
    def token_endpoint(self) -> str:
        """The address for client credentials."""
        return f"{self.issuer}/protocol/openid-connect/token"

    def rotate_keys(self) -> None:
        """Sign further tokens by a new key; the older one verifies those that it has signed."""
        config = {"priority": ["200"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]}
        key = {"providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider", "config": config}
        self.administer(f"/realms/{REALM}/components", {"name": "rotated", **key})

    def administer(self, path: str, body: Any) -> None:
        """Send a change to the admin's interface."""
        form = {"grant_type": "password", "client_id": "admin-cli", "username": _ADMIN, "password": _PASSWORD}
        address = f"{self.uri}/realms/master/protocol/openid-connect/token"
        answer = _sent(urllib.request.Request(address, data=urlencode(form).encode()))
        headers = {
            "authorization": f"Bearer {json.loads(answer)['access_token']}",
            "content-type": "application/json",
        }
        _sent(urllib.request.Request(f"{self.uri}/admin{path}", data=json.dumps(body).encode(), headers=headers))

    def kill(self) -> None:
        """End the server at once: an outage."""
        # The shell of the command and the JVM are one session.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=at_most(30))


@contextmanager
def running_keycloak() -> Iterator[Keycloak]:
    """Run a server with the realm."""
    home, port = _home(), free_port()
    with tempfile.TemporaryDirectory(prefix="interbed-keycloak-", ignore_cleanup_errors=True) as name:
        log = Path(name) / "keycloak.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [home / "bin" / "kc.sh", "start-dev", "--db=dev-mem", f"--http-port={port}", "--http-host=127.0.0.1"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={
                    **_environment(),
                    "JAVA_OPTS": " ".join(_OPTIONS),
                    "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN,
                    "KC_BOOTSTRAP_ADMIN_PASSWORD": _PASSWORD,
                    "TMPDIR": name,
                },
                start_new_session=True,
            )
        server = Keycloak(f"http://127.0.0.1:{port}", process)
        try:
            wait_until(
                lambda: _answers(server.uri, process), lambda: log.read_text(errors="replace"), _START_SECONDS_MAX
            )
            server.administer("/realms", _realm())
            yield server
        finally:
            server.kill()


def _answers(uri: str, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, "Keycloak has ended"
    try:
        _sent(urllib.request.Request(f"{uri}/realms/master"))
    except OSError:
        return False
    return True


def _sent(request: urllib.request.Request) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS_MAX) as response:
            content: bytes = response.read()
            return content
    except urllib.error.HTTPError as error:
        with error:
            raise OSError(f"{request.full_url} answers {error.code}: {error.read()[:500]!r}") from error


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("KC_")}


def _home() -> Path:
    """Return the directory of the distribution."""
    artifact = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"

    def build(directory: Path) -> None:
        run("mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}")
        [archive] = directory.glob("*.zip")
        with zipfile.ZipFile(archive) as content:
            content.extractall(directory)
        archive.unlink()
        (directory / f"keycloak-{VERSION}" / "bin" / "kc.sh").chmod(0o755)

    return built_once(f"keycloak-{VERSION}", build) / f"keycloak-{VERSION}"


def _realm() -> dict[str, Any]:
    return {
        "realm": REALM,
        "enabled": True,
        "sslRequired": "none",
        "accessTokenLifespan": 60,
        "clients": [_client(name, secret) for name, secret in SECRETS.items()],
    }


def _client(name: str, secret: str) -> dict[str, Any]:
    audience = AUDIENCE if name == "etl" else "elsewhere"
    mapper = {
        "name": "audience",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-audience-mapper",
        "config": {"included.custom.audience": audience, "access.token.claim": "true"},
    }
    return {
        "clientId": name,
        "secret": secret,
        "serviceAccountsEnabled": True,
        "standardFlowEnabled": False,
        "publicClient": False,
        "protocolMappers": [mapper],
    }
