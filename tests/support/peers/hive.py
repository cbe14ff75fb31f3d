"""HiveServer2 4.0.1 with Paimon's connector on a metastore: a JVM for a whole test module.

`HiveServer2` starts tests/peers/hive/java/HivePeer.java; `run` sends a statement through JDBC over TCP, in the session
of a user. `settings` are further ones of hive-site.xml, `hadoop` those of core-site.xml, by which Hadoop's classes log
in. Maven fetches the jars once, 285 MB, into the tests' cache.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.process import JvmPeer, PeerProcess

HIVE = Path(__file__).resolve().parents[2] / "peers" / "hive"

JVM_OPTIONS = (
    "-Xmx768m",
    "-Xss2m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:MetaspaceSize=256m",
    "-Xshare:auto",
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
    "-Djava.net.preferIPv4Stack=true",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang",
            "java.lang.reflect",
            "java.io",
            "java.math",
            "java.net",
            "java.nio",
            "java.text",
            "java.time",
            "java.util",
            "java.util.concurrent",
            "java.util.concurrent.atomic",
            "java.util.regex",
            "sun.nio.ch",
        )
    ),
)

LOGGING = """\
status=ERROR
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level=WARN
rootLogger.appenderRef.err.ref=err
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveRows:
    """Result of a statement: the names of the columns, their types as JDBC names them, and the rows.

    Every value is the text of JDBC or None. An array, map or struct is JSON, a binary is base64.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[list[str | None]]

    def column(self, name: str) -> list[str | None]:
        """Return the values of one column."""
        place = self.names.index(name)
        return [row[place] for row in self.rows]


class HiveServer2(JvmPeer):
    """The JVM of HiveServer2; close it (or leave its `with` block) to end it."""

    def __init__(
        self,
        metastore_uri: str,
        warehouse: Path,
        timeout_seconds: float = 300,
        settings: Mapping[str, str] | None = None,
        hadoop: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-hive-", ignore_cleanup_errors=True)
        home = Path(self._directory.name)
        conf = home / "conf"
        conf.mkdir()
        (conf / "hive-site.xml").write_text(
            _site({**_settings(metastore_uri, warehouse, home), **(settings or {})}), "utf-8"
        )
        (conf / "core-site.xml").write_text(_site(hadoop or {}), "utf-8")
        for name in ("log4j2.properties", "hive-log4j2.properties"):
            (conf / name).write_text(LOGGING, "utf-8")
        self.log = home / "stderr.log"
        options = (*JVM_OPTIONS, *java_options, f"-Djava.io.tmpdir={home}")
        command = ["java", *options, "-cp", f"{conf}:{hive_classpath()}", "HivePeer"]
        self._process = PeerProcess(command, self.log, timeout_seconds)

    def run(self, statement: str, user: str = "tester") -> HiveRows:
        """Return the result of one statement in the session of a user. Raises PeerError when Hive refuses it."""
        answer: dict[str, Any] = self._process.call("run", sql=statement, user=user)
        return HiveRows(
            names=tuple(column["name"].rpartition(".")[2] for column in answer["columns"]),
            types=tuple(column["type"] for column in answer["columns"]),
            rows=answer["rows"],
        )


def hive_jars() -> Path:
    """Return a directory of jars, as in tests/peers/hive/pom.xml."""
    pom = HIVE / "pom.xml"

    def build(directory: Path) -> None:
        run(
            "mvn",
            "-q",
            "-B",
            "-f",
            pom,
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={directory}",
        )

    return built_once(f"hive-4.0.1-{fingerprint(pom)}", build)


def hive_classpath() -> str:
    """Return the class path of HivePeer: its compiled classes, the connector adapted to Hive 4, and the jars."""
    jars = hive_jars()
    sources = sorted((HIVE / "java").glob("*.java"))

    def build(directory: Path) -> None:
        # -proc:none: the annotation processors in some jars would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", *sources)
        run("java", "-cp", f"{directory}:{jars}/*", "ConnectorBridge", directory)

    name = f"hive-peer-{fingerprint(HIVE / 'pom.xml', *sources)}"
    return f"{built_once(name, build)}:{jars}/*"


def _settings(metastore_uri: str, warehouse: Path, home: Path) -> dict[str, str]:
    return {
        "hive.metastore.uris": metastore_uri,
        "hive.metastore.warehouse.dir": f"file:{warehouse}",
        "fs.defaultFS": "file:///",
        # Statements that need more than a fetch task run as MapReduce inside the JVM.
        "hive.execution.engine": "mr",
        "mapreduce.framework.name": "local",
        "hive.exec.submit.local.task.via.child": "false",
        "hive.exec.scratchdir": f"{home}/scratch",
        "hive.exec.local.scratchdir": f"{home}/local-scratch",
        "hive.downloaded.resources.dir": f"{home}/resources",
        "hadoop.tmp.dir": f"{home}/hadoop",
        "mapreduce.jobtracker.staging.root.dir": f"{home}/staging",
        "mapreduce.task.io.sort.mb": "16",
        # Interval in which a client polls for the end of its job; the default is one second.
        "hive.exec.counters.pull.interval": "50",
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.thrift.port": "0",
        "hive.server2.authentication": "NOSASL",
        "hive.server2.enable.doAs": "false",
        "hive.server2.webui.port": "0",
        "hive.server2.logging.operation.enabled": "false",
        "hive.support.concurrency": "false",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager",
    }


def _site(settings: Mapping[str, str]) -> str:
    properties = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}</configuration>\n'
