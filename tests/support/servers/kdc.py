"""A KDC of Kerberos for tests: Apache Kerby's, in a JVM on a port of 127.0.0.1, with principals and keytabs.

Maven fetches its jars once, 4 MB. `tests/peers/kerberos/java/KdcPeer.java` starts it, in about a second. A process uses
it by the variables of `environment`, a JVM by `java_options`.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.spark import PEERS, maven_jars
from tests.support.servers.java_program import JavaProgram
from tests.support.servers.ports import free_port
from tests.support.waits import at_most

REALM = "EXAMPLE.ORG"
START_SECONDS_MAX = at_most(60.0)

SOURCE = PEERS / "kerberos" / "java" / "KdcPeer.java"

_JAVA = ("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class KeyDistributionCenter:
    """Running KDC of the realm REALM."""

    def __init__(self, program: JavaProgram, port: int, home: Path) -> None:
        self.home = home
        self._port = port
        self._program = program
        self._keytabs: dict[tuple[str, ...], Path] = {}

    def keytab(self, *principals: str) -> Path:
        """Return a file with the keys of principals `name` or `service/host`, which are added to the realm."""
        if principals not in self._keytabs:
            path = self.home / f"{len(self._keytabs)}.keytab"
            for principal in principals:
                self._program.send(f"{principal}@{REALM}\t{path}", START_SECONDS_MAX)
            self._keytabs[principals] = path
        return self._keytabs[principals]

    def configuration(self, name: str = "krb5", **settings: str) -> Path:
        """Return a krb5.conf for this realm, with further settings of its section libdefaults."""
        path = self.home / f"{name}.conf"
        values = {
            "default_realm": REALM,
            "dns_lookup_kdc": "false",
            "dns_lookup_realm": "false",
            "dns_canonicalize_hostname": "false",
            "rdns": "false",
            "udp_preference_limit": "1",
            **settings,
        }
        lines = "\n".join(f"  {key} = {value}" for key, value in values.items())
        path.write_text(
            f"[libdefaults]\n{lines}\n\n[realms]\n  {REALM} = {{\n    kdc = 127.0.0.1:{self._port}\n  }}\n\n"
            f"[domain_realm]\n  127.0.0.1 = {REALM}\n  localhost = {REALM}\n"
        )
        return path

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of a process that uses this KDC, with an empty ticket cache of its own."""
        return {
            "KRB5_CONFIG": str(self.configuration()),
            "KRB5CCNAME": f"FILE:{self.home / 'tickets'}",
            "KRB5RCACHEDIR": str(self.home),
        }

    @property
    def java_options(self) -> tuple[str, ...]:
        """Options of a JVM that uses this KDC."""
        return (f"-Djava.security.krb5.conf={self.configuration()}",)


@contextmanager
def running_kdc() -> Iterator[KeyDistributionCenter]:
    """Run a KDC without principals."""
    with tempfile.TemporaryDirectory(prefix="interbed-kdc-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        port = free_port()
        command = [*_JAVA, f"-Djava.io.tmpdir={home}", "-cp", _classpath(), "KdcPeer", str(home), str(port), REALM]
        program = JavaProgram("the KDC", command, home)
        try:
            program.expect("ready", START_SECONDS_MAX)
            yield KeyDistributionCenter(program, port, home)
        finally:
            program.close()


def _classpath() -> str:
    jars = maven_jars("kerberos", "kerby-2.1.0", "-DincludeScope=runtime")

    def build(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", SOURCE)

    name = f"kdc-peer-{fingerprint(PEERS / 'kerberos' / 'pom.xml', SOURCE)}"
    return f"{built_once(name, build)}:{jars}/*"
