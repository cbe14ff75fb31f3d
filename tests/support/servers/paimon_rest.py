"""The reference server of Paimon's REST catalog, RESTCatalogServer of the tests of paimon-core 1.4.2, in a JVM.

One JVM runs several servers, each with an empty catalog on a free port (tests/peers/paimon_rest). It checks the token
of each request, or its signature of DLF. It answers a request to an unknown path not at all.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.peers.cache import INTEROP, built_once, fingerprint, run
from tests.support.peers.process import JvmPeer, PeerProcess

PEER = Path(__file__).resolve().parents[2] / "peers" / "paimon_rest"
JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
TOKEN = "a-token-of-tests"
PREFIX = "paimon"


class PaimonRestServers(JvmPeer):
    """The JVM of the servers; close it (or leave its `with` block) to end it."""

    def __init__(self, timeout_seconds: float = 120) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-paimon-rest-", ignore_cleanup_errors=True)
        self.log = Path(self._directory.name) / "stderr.log"
        command = ["java", *JVM_OPTIONS, "-cp", paimon_rest_classpath(), "PaimonRestServer"]
        self._process = PeerProcess(command, self.log, timeout_seconds)

    @contextmanager
    def server(self, directory: Path, warehouse: str = "lake", **more: Any) -> Iterator[str]:
        """Run a server whose files are in the directory; yield its address.

        `more` are `defaults` and `overrides` of its configuration, or `key`, `secret`, `session` and `region` of DLF.
        """
        given = {"token": TOKEN, "prefix": PREFIX, **more}
        url: str = self._process.call("start", directory=f"file:{directory}", warehouse=warehouse, **given)
        try:
            # The server listens on the loopback interface, under any of its names.
            yield url
        finally:
            self._process.call("stop", url=url)

    @contextmanager
    def failing_after_commits(self) -> Iterator[None]:
        """Let all servers apply commits and answer them with an error, in this context."""
        self._process.call("fail_after_commits", on=True)
        try:
            yield
        finally:
            self._process.call("fail_after_commits", on=False)

    def forbid(self, url: str, table: str) -> None:
        """Refuse requests about a table with 403 from now on."""
        self._process.call("forbid", url=url, table=table)

    def set_token(self, url: str, table: str, options: Mapping[str, str], expires_millis: int) -> None:
        """Hand out this data token for a table from now on."""
        self._process.call("token", url=url, table=table, options=dict(options), expires=expires_millis)


def rest_options(url: str, warehouse: str = "lake", **more: str) -> dict[str, str]:
    """Return the options of a catalog on a server."""
    given: Mapping[str, str] = {"token.provider": "bear", "token": TOKEN}
    return {"metastore": "rest", "uri": url, "warehouse": warehouse, **given, **more}


def paimon_rest_classpath() -> str:
    """Return the class path of PaimonRestServer: its compiled classes and the jars of tests/peers/paimon_rest."""
    pom = PEER / "pom.xml"
    sources = [*sorted((PEER / "java").glob("*.java")), *sorted((INTEROP / "java_shared").glob("*.java"))]

    def copy(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    jars = built_once(f"paimon-rest-{fingerprint(pom)}", copy)

    def build(directory: Path) -> None:
        # -proc:none: the annotation processors in some jars would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", *sources)

    return f"{built_once(f'paimon-rest-peer-{fingerprint(pom, *sources)}', build)}:{jars}/*"
