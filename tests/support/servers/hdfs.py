"""A real HDFS for tests: two name nodes, one of them active, and a data node in one JVM on ports of 127.0.0.1.

Maven fetches its jars once, 92 MB. `tests/peers/hdfs/java/HdfsPeer.java` starts it. It takes its first request after
some five seconds; its files are temporary.
"""

import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.spark import PEERS, maven_jars
from tests.support.servers.ports import free_ports
from tests.support.waits import at_most

START_SECONDS_MAX = at_most(120.0)
COMMAND_SECONDS_MAX = at_most(60.0)
STOP_SECONDS_MAX = at_most(30.0)
NAMESERVICE = "lake"

SOURCE = PEERS / "hdfs" / "java" / "HdfsPeer.java"

_JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class HdfsServer:
    """Running HDFS. `send` sends it a command; `ports` are those of its name nodes, the active one first."""

    def __init__(self, process: "subprocess.Popen[str]", ports: list[int], home: Path) -> None:
        self.ports = ports
        self._process = process
        self._home = home
        self._lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

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
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        self.expect("done", COMMAND_SECONDS_MAX)

    def expect(self, line: str, seconds: float) -> None:
        """Wait for this line of output. Raises RuntimeError with the end of the log for another line or none."""
        try:
            said = self._lines.get(timeout=seconds)
        except queue.Empty:
            said = "nothing"
        if said != line:
            log = (self._home / "hdfs.log").read_text(errors="replace")[-4000:]
            raise RuntimeError(f"HDFS says {said!r} in place of {line!r}:\n{log}")

    def close(self) -> None:
        """Kill the process group; none of its state is needed again."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=STOP_SECONDS_MAX)
        self._reader.join(timeout=STOP_SECONDS_MAX)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(line.strip())
        self._lines.put("the end")


@contextmanager
def running_hdfs() -> Iterator[HdfsServer]:
    """Run an HDFS with empty directories."""
    with tempfile.TemporaryDirectory(prefix="interbed-hdfs-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        ports = free_ports(2)
        arguments = [str(home / "data"), *map(str, ports)]
        with (home / "hdfs.log").open("ab") as log:
            process = subprocess.Popen(
                [*_JAVA, f"-Djava.io.tmpdir={home}", "-cp", _classpath(), "HdfsPeer", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=home,
                # A process group of its own: it is killed by the group id, and a Ctrl-C reaches the tests first.
                start_new_session=True,
            )
        server = HdfsServer(process, ports, home)
        try:
            server.expect("ready", START_SECONDS_MAX)
            yield server
        finally:
            server.close()


def _classpath() -> str:
    jars = maven_jars("hdfs", "hdfs-3.3.6", "-DincludeScope=runtime")

    def build(directory: Path) -> None:
        # -proc:none: the annotation processors in some jars would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", SOURCE)

    name = f"hdfs-peer-{fingerprint(PEERS / 'hdfs' / 'pom.xml', SOURCE)}"
    return f"{built_once(name, build)}:{jars}/*"
