"""A real HDFS for tests: two name nodes, one of them active, and a data node in one JVM on ports of 127.0.0.1.

Maven fetches its jars once, 92 MB. `tests/peers/hdfs/java/HdfsPeer.java` starts it. It takes its first request after
some five seconds; its files are temporary.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.spark import PEERS, maven_jars
from tests.support.servers.java_program import JavaProgram
from tests.support.servers.ports import free_ports
from tests.support.waits import at_most

START_SECONDS_MAX = at_most(120.0)
COMMAND_SECONDS_MAX = at_most(60.0)
NAMESERVICE = "lake"

SOURCE = PEERS / "hdfs" / "java" / "HdfsPeer.java"

_JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class HdfsServer:
    """Running HDFS. `send` sends it a command; `ports` are those of its name nodes, the active one first."""

    def __init__(self, program: JavaProgram, ports: list[int]) -> None:
        self.ports = ports
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
        }

    def send(self, command: str) -> None:
        """Send a command: `fail over`, `safe mode` or `leave safe mode`. Raises RuntimeError when it fails."""
        self._program.send(command, COMMAND_SECONDS_MAX)


@contextmanager
def running_hdfs() -> Iterator[HdfsServer]:
    """Run an HDFS with empty directories."""
    with tempfile.TemporaryDirectory(prefix="interbed-hdfs-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        ports = free_ports(2)
        arguments = [str(home / "data"), *map(str, ports)]
        command = [*_JAVA, f"-Djava.io.tmpdir={home}", "-cp", _classpath(), "HdfsPeer", *arguments]
        program = JavaProgram("HDFS", command, home)
        try:
            program.expect("ready", START_SECONDS_MAX)
            yield HdfsServer(program, ports)
        finally:
            program.close()


def _classpath() -> str:
    jars = maven_jars("hdfs", "hdfs-3.3.6", "-DincludeScope=runtime")

    def build(directory: Path) -> None:
        # -proc:none: the annotation processors in some jars would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", SOURCE)

    name = f"hdfs-peer-{fingerprint(PEERS / 'hdfs' / 'pom.xml', SOURCE)}"
    return f"{built_once(name, build)}:{jars}/*"
