"""Hive's own metastore, in Java: the peer of the catalog server.

Version 2.3.10 runs from the jars of PySpark, 3.1.3 and 4.0.1 from jars of Maven. All keep their data in an embedded
Derby. Creating all tables of a Derby database takes many seconds, so one database is prepared, kept in the tests'
cache, and copied for every server. A server then starts in two to three seconds, on a free port.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import psutil
import pyspark
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.support.peers.cache import BUILD_TIMEOUT_SECONDS, built_once, fingerprint, run
from tests.support.waits import at_most

PEERS = Path(__file__).resolve().parents[2] / "peers"
START_SECONDS_MAX = at_most(180.0)
STOP_SECONDS_MAX = at_most(30.0)
EVENT_LISTENER = "org.apache.hive.hcatalog.listener.DbNotificationListener"

DERBY_LOCK_SECONDS_MAX = 0
"""Seconds that a statement waits for a row lock.

In 4.0.1 a `check_lock` keeps the row of its lock while it waits for the one mutex that Hive has for Derby, and a `lock`
that holds the mutex waits for the row: by default 60 s, which is also the timeout of clients. When the wait ends, Hive
repeats the statement by itself.
"""

SQL_PAGES = 40_000
"""Pages of at least 4 kB that Derby caches while it runs statements."""

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for servers with few calls; a benchmark leaves them out."""

_LOGGING = """\
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1}: %m%n
"""

_COMMON_SETTINGS = {
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "NONE",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaMetastore:
    """Running server: `uri` for clients, its process, and the directory of its warehouse."""

    uri: str
    process: subprocess.Popen[bytes]
    warehouse: Path
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetastoreVersion:
    """Start parameters of one version of the metastore."""

    jars: Callable[[], list[Path]]
    site: str
    """Name of the configuration file."""
    logging: str
    """Name of the logging configuration."""
    settings: Mapping[str, str] = field(default_factory=dict)
    makes_lock_tables: bool
    """Whether it creates its lock tables by itself when the setting says that this is a test."""
    lock_tables: tuple[str, ...] = ()
    """Statements that create the lock tables if it does not."""
    first_objects: tuple[str, ...]
    """Tables with the objects that the first start creates, in an order in which their rows can be deleted."""


@contextmanager
def java_metastore(
    version: str = "2.3.10", settings: Mapping[str, str] | None = None, *, first_jars: Sequence[Path] = ()
) -> Iterator[str]:
    """Run an empty Java metastore, and yield its uri. Its data and warehouse are temporary.

    `settings` are further values of hive-site.xml; `first_jars` precede its own jars on the class path.
    """
    with running_java_metastore(version, settings=settings, java_options=QUICK_START, first_jars=first_jars) as running:
        yield running.uri


@contextmanager
def running_java_metastore(
    version: str = "2.3.10",
    *,
    directory: Path | None = None,
    settings: Mapping[str, str] | None = None,
    events: bool = False,
    java_options: tuple[str, ...] = (),
    first_jars: Sequence[Path] = (),
    is_ready: Callable[[str], bool] | None = None,
) -> Iterator[JavaMetastore]:
    """Run an empty Java metastore of this version (2.3.10, 3.1.3 or 4.0.1).

    `directory` gets the warehouse, and the database unless it has one; by default they are temporary. `settings` are
    further values of hive-site.xml; `first_jars` precede its own jars on the class path. `events` lets 2.3.10 write its
    notification log. `is_ready` says whether the server at an address answers, where it asks for authentication.
    Raises RuntimeError if the server does not start.
    """
    prepared = _prepared_database(version)
    with tempfile.TemporaryDirectory(prefix="interbed-java-metastore-", ignore_cleanup_errors=True) as temporary:
        home = directory or Path(temporary)
        if not (home / "derby").exists():
            shutil.copytree(prepared / "derby", home / "derby")
        with _server(
            version,
            home,
            dict(settings or {}),
            events=events,
            java_options=java_options,
            first_jars=first_jars,
            is_ready=is_ready,
        ) as running:
            yield running


def run_sql(
    derby: Path,
    statements: Iterable[str],
    *,
    java_options: tuple[str, ...] = (),
    timeout_seconds: float = BUILD_TIMEOUT_SECONDS,
) -> None:
    """Run statements in a Derby database that is not open in a server. Raises RuntimeError for a failed statement."""
    script = derby.parent / "statements.sql"
    script.write_text("\n".join(f"{each};" for each in [f"CONNECT 'jdbc:derby:{derby}'", *statements]))
    options = (f"-Dderby.stream.error.file={derby.parent / 'derby.log'}", f"-Dderby.storage.pageCacheSize={SQL_PAGES}")
    ij = "org.apache.derby.tools.ij"
    said = run("java", *java_options, *options, "-cp", pyspark_jars()[0], ij, script, timeout_seconds=timeout_seconds)
    # The tool continues after a failed statement and exits with 0.
    failed = [line for line in said.splitlines() if line.startswith("ERROR ")]
    if failed:
        raise RuntimeError("\n".join(failed))


def _prepared_database(version: str) -> Path:
    """Return a directory with an empty Derby database in which all tables exist."""

    def build(directory: Path) -> None:
        # Only this mode creates the lock tables; no server may run in it.
        settings = {"hive.in.test": "true"} if _VERSIONS[version].makes_lock_tables else {}
        with (
            tempfile.TemporaryDirectory(prefix="interbed-java-metastore-") as temporary,
            _server(version, Path(temporary), settings, events=False, java_options=QUICK_START) as running,
            metastore_client(running.uri) as client,
        ):
            _touch_everything(client, version, running.warehouse)
            # Derby writes its files at a checkpoint, which only an orderly shutdown triggers.
            running.process.terminate()
            running.process.wait(timeout=STOP_SECONDS_MAX)
            shutil.copytree(Path(temporary) / "derby", directory / "derby")
        # The objects of the first start contain the location of the warehouse.
        forget = [f"DELETE FROM APP.{table}" for table in _VERSIONS[version].first_objects]
        lock_tables = _VERSIONS[version].lock_tables
        run_sql(directory / "derby", [*forget, *lock_tables], java_options=QUICK_START)
        for lock in (directory / "derby").glob("*.lck"):
            lock.unlink()

    return built_once(f"java-metastore-derby-{version}-{fingerprint(Path(__file__))}", build)


def _touch_everything(client: Client, version: str, warehouse: Path) -> None:
    """Use each kind of object once, because its tables are created at the first use, and delete the objects again."""
    if _VERSIONS[version].makes_lock_tables:
        client.show_locks(ttypes.ShowLocksRequest())
        client.get_current_notificationEventId()
    database, name = "prepared", "prepared"
    client.create_database(ttypes.Database(name=database, locationUri=f"file:{warehouse / database}", parameters={}))
    column = ttypes.FieldSchema(name="a", type="bigint")
    storage = ttypes.StorageDescriptor(
        cols=[column],
        location=f"file:{warehouse / database / name}",
        inputFormat="i",
        outputFormat="o",
        serdeInfo=ttypes.SerDeInfo(serializationLib="s", parameters={"a": "b"}),
        bucketCols=["a"],
        sortCols=[ttypes.Order(col="a", order=1)],
        parameters={"a": "b"},
    )
    keys = [ttypes.FieldSchema(name="p", type="string")]
    table = ttypes.Table(dbName=database, tableName=name, sd=storage, partitionKeys=keys, parameters={"a": "b"})
    client.create_table(table)
    client.append_partition(database, name, ["1"])
    values = ttypes.ColumnStatisticsData(longStats=ttypes.LongColumnStatsData(numNulls=0, numDVs=1))
    objects = [ttypes.ColumnStatisticsObj(colName="a", colType="bigint", statsData=values)]
    whole = ttypes.ColumnStatisticsDesc(isTblLevel=True, dbName=database, tableName=name)
    part = ttypes.ColumnStatisticsDesc(isTblLevel=False, dbName=database, tableName=name, partName="p=1")
    if version.startswith("2."):
        client.update_table_column_statistics(ttypes.ColumnStatistics(statsDesc=whole, statsObj=objects))
        client.update_partition_column_statistics(ttypes.ColumnStatistics(statsDesc=part, statsObj=objects))
    client.create_function(
        ttypes.Function(functionName="f", dbName=database, className="c", ownerType=1, functionType=1, resourceUris=[])
    )
    client.drop_function(database, "f")
    client.drop_database(database, True, True)


@contextmanager
def _server(
    version: str,
    home: Path,
    settings: dict[str, str],
    *,
    events: bool,
    java_options: tuple[str, ...],
    first_jars: Sequence[Path] = (),
    is_ready: Callable[[str], bool] | None = None,
) -> Iterator[JavaMetastore]:
    about = _VERSIONS[version]
    warehouse = home / "warehouse"
    warehouse.mkdir(parents=True, exist_ok=True)
    configuration = home / "conf"
    configuration.mkdir(exist_ok=True)
    jars = [*first_jars, *about.jars()]
    values = {
        **_COMMON_SETTINGS,
        **about.settings,
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home / 'derby'};create=true",
        "hive.metastore.warehouse.dir": f"file:{warehouse}",
        **settings,
    }
    if events:
        values["hive.metastore.transactional.event.listeners"] = EVENT_LISTENER
        jars = [*jars, _maven_jars("metastore-2.3.10-events") / "*"]
    (configuration / about.site).write_text(_site(values))
    (configuration / about.logging).write_text(_LOGGING)
    log = home / "java-metastore.log"
    classpath = ":".join(str(entry) for entry in [configuration, *jars])
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                "java",
                *java_options,
                *("-cp", classpath),
                f"-Dderby.stream.error.file={home / 'derby.log'}",
                f"-Dderby.locks.waitTimeout={DERBY_LOCK_SECONDS_MAX}",
                "org.apache.hadoop.hive.metastore.HiveMetaStore",
                *("-p", "0"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=home,
            # Variables of the shell must not change the configuration.
            env={name: value for name, value in os.environ.items() if not name.startswith(("HIVE_", "HADOOP_"))},
        )
    try:
        uri = _uri_when_ready(process, log, is_ready or _answers)
        yield JavaMetastore(uri=uri, process=process, warehouse=warehouse, log=log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=STOP_SECONDS_MAX)


def _uri_when_ready(process: subprocess.Popen[bytes], log: Path, is_ready: Callable[[str], bool]) -> str:
    """Return the address of the server once it answers."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            listening = [c for c in psutil.Process(process.pid).net_connections("tcp") if c.status == "LISTEN"]
        except psutil.Error:
            listening = []
        for connection in listening:
            uri = f"thrift://127.0.0.1:{connection.laddr.port}"
            if is_ready(uri):
                return uri
        time.sleep(0.02)
    raise RuntimeError(f"the Java metastore did not start:\n{log.read_text(errors='replace')[-4000:]}")


def _answers(uri: str) -> bool:
    """Return whether a server without authentication answers."""
    try:
        with metastore_client(uri) as client:
            client.get_all_databases()
    except (TException, OSError):
        return False
    return True


@contextmanager
def metastore_client(uri: str, timeout_seconds: float = 120) -> Iterator[Client]:
    """Return a client of a metastore: the generated code over a buffered transport and the binary protocol."""
    host, _, port = uri.removeprefix("thrift://").partition(":")
    socket = TSocket(host, int(port))
    socket.setTimeout(timeout_seconds * 1000)
    transport = TBufferedTransport(socket)
    transport.open()
    try:
        yield Client(TBinaryProtocol(transport))
    finally:
        with suppress(TTransportException):
            transport.close()


def _site(values: Mapping[str, str]) -> str:
    properties = "\n".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in values.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}\n</configuration>\n'


def _maven_jars(peer: str) -> Path:
    """Return a directory with the jars that a pom.xml below tests/peers lists."""
    pom = PEERS / peer / "pom.xml"

    def build(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    return built_once(f"{peer}-{fingerprint(pom)}", build)


def jars_of_3_1_3() -> Path:
    """Return the directory with the jars of Hive's metastore 3.1.3, which include the client."""
    return _maven_jars("metastore-3.1.3")


def pyspark_jars() -> list[Path]:
    return [Path(pyspark.__file__).parent / "jars" / "*"]


_NAMES = "{0}_DATABASE VARCHAR(128) NOT NULL, {0}_TABLE VARCHAR(256), {0}_PARTITION VARCHAR(767)"

_LOCK_TABLES = (
    "CREATE TABLE TXNS (TXN_ID BIGINT PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, TXN_STATE CHAR(1) NOT NULL, "
    "TXN_STARTED BIGINT NOT NULL, TXN_LAST_HEARTBEAT BIGINT NOT NULL, TXN_USER VARCHAR(128) NOT NULL, "
    "TXN_HOST VARCHAR(128) NOT NULL, TXN_AGENT_INFO VARCHAR(128), TXN_META_INFO VARCHAR(128), "
    "TXN_HEARTBEAT_COUNT INTEGER, TXN_TYPE INTEGER)",
    f"CREATE TABLE TXN_COMPONENTS (TC_TXNID BIGINT NOT NULL, {_NAMES.format('TC')}, "
    "TC_OPERATION_TYPE CHAR(1) NOT NULL, TC_WRITEID BIGINT)",
    "CREATE TABLE HIVE_LOCKS (HL_LOCK_EXT_ID BIGINT NOT NULL, HL_LOCK_INT_ID BIGINT NOT NULL, "
    "HL_TXNID BIGINT NOT NULL, HL_DB VARCHAR(128) NOT NULL, "
    "HL_TABLE VARCHAR(256), HL_PARTITION VARCHAR(767), HL_LOCK_STATE CHAR(1) NOT NULL, "
    "HL_LOCK_TYPE CHAR(1) NOT NULL, HL_LAST_HEARTBEAT BIGINT NOT NULL, HL_ACQUIRED_AT BIGINT, "
    "HL_USER VARCHAR(128) NOT NULL, HL_HOST VARCHAR(128) NOT NULL, HL_HEARTBEAT_COUNT INTEGER, "
    "HL_AGENT_INFO VARCHAR(128), HL_BLOCKEDBY_EXT_ID BIGINT, HL_BLOCKEDBY_INT_ID BIGINT, HL_ERROR_MESSAGE CLOB, "
    "PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID))",
    "CREATE TABLE NEXT_LOCK_ID (NL_NEXT BIGINT NOT NULL)",
    "INSERT INTO NEXT_LOCK_ID VALUES (1)",
    "CREATE TABLE TXN_LOCK_TBL (TXN_LOCK BIGINT NOT NULL)",
    "INSERT INTO TXN_LOCK_TBL VALUES (1)",
)
"""Lock tables of Hive 4; its own script is in no jar."""

_VERSIONS: Mapping[str, _MetastoreVersion] = {
    "2.3.10": _MetastoreVersion(
        jars=pyspark_jars,
        site="hive-site.xml",
        logging="hive-log4j2.properties",
        makes_lock_tables=True,
        first_objects=("DATABASE_PARAMS", "DBS"),
    ),
    "3.1.3": _MetastoreVersion(
        jars=lambda: [jars_of_3_1_3() / "*"],
        site="metastore-site.xml",
        logging="metastore-log4j2.properties",
        settings={
            "metastore.client.capability.check": "false",
            # The defaults are classes of Hive itself.
            "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
            "metastore.metastore.event.db.notification.api.auth": "false",
        },
        makes_lock_tables=True,
        first_objects=("DATABASE_PARAMS", "DBS", "CTLGS"),
    ),
    "4.0.1": _MetastoreVersion(
        jars=lambda: [_maven_jars("metastore-4.0.1") / "*"],
        site="metastore-site.xml",
        logging="metastore-log4j2.properties",
        settings={
            "metastore.client.capability.check": "false",
            "metastore.hmshandler.retry.interval": "100ms",
        },
        makes_lock_tables=False,
        lock_tables=_LOCK_TABLES,
        first_objects=("DATABASE_PARAMS", "DBS", "CTLGS"),
    ),
}
