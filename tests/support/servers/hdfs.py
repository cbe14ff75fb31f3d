"""A real HDFS for tests: two name nodes, one of them active, and two data nodes in one JVM on ports of 127.0.0.1.

Maven fetches its jars once, 92 MB. `tests/peers/hdfs/java/HdfsPeer.java` starts it. It takes its first request after
some five seconds; its files are temporary. With a KDC it asks for Kerberos, and data nodes ask for block tokens.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.spark import PEERS, maven_jars
from tests.support.servers.java_program import JavaProgram
from tests.support.servers.kdc import REALM, KeyDistributionCenter
from tests.support.servers.ports import free_ports
from tests.support.waits import at_most

START_SECONDS_MAX = at_most(120.0)
COMMAND_SECONDS_MAX = at_most(60.0)
NAMESERVICE = "lake"
HDFS_PRINCIPAL = f"hdfs/localhost@{REALM}"

SOURCE = PEERS / "hdfs" / "java" / "HdfsPeer.java"

_JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class HdfsServer:
    """Running HDFS. `send` sends it a command; `ports` are those of its name nodes, the active one first;
    `security` are the settings of a client that Kerberos needs.
    """

    def __init__(self, program: JavaProgram, ports: list[int], security: Mapping[str, str]) -> None:
        self.ports = ports
        self.security = dict(security)
        self._program = program

    @property
    def uri(self) -> str:
        """URI of the name node that is active at first: `hdfs://127.0.0.1:port`."""
        return f"hdfs://127.0.0.1:{self.ports[0]}"

    @property
    def standby_uri(self) -> str:
        """URI of the name node that is the standby at first."""
        return f"hdfs://127.0.0.1:{self.ports[1]}"

    @property
    def settings(self) -> dict[str, str]:
        """Hadoop's settings for clients that name the nameservice: `hdfs://lake`."""
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        return {
            "dfs.nameservices": NAMESERVICE,
            f"dfs.ha.namenodes.{NAMESERVICE}": "nn0,nn1",
            f"dfs.namenode.rpc-address.{NAMESERVICE}.nn0": f"127.0.0.1:{self.ports[0]}",
            f"dfs.namenode.rpc-address.{NAMESERVICE}.nn1": f"127.0.0.1:{self.ports[1]}",
            f"dfs.client.failover.proxy.provider.{NAMESERVICE}": provider,
            **self.security,
        }

    def send(self, command: str) -> None:
        """Send a command: `fail over`, `safe mode` or `leave safe mode`. Raises RuntimeError when it fails."""
        self._program.send(command, COMMAND_SECONDS_MAX)


@contextmanager
def running_hdfs(kdc: KeyDistributionCenter | None = None, protection: str = "authentication") -> Iterator[HdfsServer]:
    """Run an HDFS with empty directories, with a KDC one with Kerberos.

    `protection` is then that of calls and of blocks: `authentication`, `integrity` or `privacy`. The users are `hdfs`,
    the superuser, and those of the KDC; everyone may create directories in the root.
    """
    with tempfile.TemporaryDirectory(prefix="interbed-hdfs-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        ports = free_ports(2)
        security = {} if kdc is None else _security(protection)
        settings = security if kdc is None else {**security, **_keys(kdc)}
        arguments = [str(home / "data"), *map(str, ports), *(f"{key}={value}" for key, value in settings.items())]
        options = (f"-Djava.io.tmpdir={home}", *(() if kdc is None else kdc.java_options))
        command = [*_JAVA, *options, "-cp", _classpath(), "HdfsPeer", *arguments]
        program = JavaProgram("HDFS", command, home)
        try:
            program.expect("ready", START_SECONDS_MAX)
            yield HdfsServer(program, ports, security)
        finally:
            program.close()


def _security(protection: str) -> dict[str, str]:
    """Return the settings of Kerberos for the cluster and its clients."""
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.rpc.protection": protection,
        "dfs.data.transfer.protection": protection,
        "dfs.namenode.kerberos.principal": HDFS_PRINCIPAL,
    }


def _keys(kdc: KeyDistributionCenter) -> dict[str, str]:
    """Return the settings for the cluster alone."""
    keytab = str(kdc.keytab("hdfs/localhost", "HTTP/localhost"))
    return {
        "hadoop.security.authorization": "true",
        "dfs.block.access.token.enable": "true",
        "dfs.datanode.kerberos.principal": HDFS_PRINCIPAL,
        "dfs.namenode.keytab.file": keytab,
        "dfs.datanode.keytab.file": keytab,
        "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "dfs.web.authentication.kerberos.keytab": keytab,
        # Data nodes of a cluster of one process have no privileged ports.
        "ignore.secure.ports.for.testing": "true",
    }


def _classpath() -> str:
    jars = maven_jars("hdfs", "hdfs-3.3.6", "-DincludeScope=runtime")

    def build(directory: Path) -> None:
        # -proc:none: the annotation processors in some jars would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", SOURCE)

    name = f"hdfs-peer-{fingerprint(PEERS / 'hdfs' / 'pom.xml', SOURCE)}"
    return f"{built_once(name, build)}:{jars}/*"
