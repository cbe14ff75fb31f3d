"""Catalog servers for tests, on SQLite and on PostgreSQL, and Thrift objects for several tests."""

import itertools
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psycopg
from hmsclient import hmsclient
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from interbed.catalog.server.process.command import MetastoreUri, RunningServer, start_server, stop_server
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.support.databases import open_migrated, prepare, renumber
from tests.support.servers.forked import start_python

BACKENDS = ("sqlite", "postgresql")

_database_numbers = itertools.count(1)

_TEMPLATE = "migrated_template"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreUnderTest:
    """Running server with its database and directory."""

    running: RunningServer
    db: str
    warehouse: Path

    @property
    def uri(self) -> str:
        """Thrift address for clients."""
        return self.running.uri

    @property
    def http(self) -> str:
        """Address of the HTTP interfaces, of a server that has `--http-port`."""
        assert self.running.http is not None
        return self.running.http

    @property
    def http_port(self) -> int:
        """Port of the HTTP interfaces on 127.0.0.1."""
        port = urlsplit(self.http).port
        assert port is not None
        return port

    @property
    def port(self) -> int:
        """Listening port on 127.0.0.1."""
        port = urlsplit(self.uri).port
        assert port is not None
        return port


@contextmanager
def metastore_under_test(
    db: str, directory: Path, *arguments: str, start: Callable[..., "subprocess.Popen[str]"] = start_python
) -> Iterator[MetastoreUnderTest]:
    """Run a server on this database, with its warehouse and log in the directory. Tests of its command line or its
    environment give subprocess.Popen as `start`.
    """
    prepare(db)
    log = directory / "server.log"
    running = start_server(db, f"file:{directory / 'warehouse'}", *arguments, log=log, start=start)
    try:
        yield MetastoreUnderTest(running=running, db=db, warehouse=directory / "warehouse")
    finally:
        stop_server(running)


def started_server(db: str, warehouse: str, *arguments: str, log: Path) -> RunningServer:
    """Start a server from the prepared process, on a migrated database."""
    prepare(db)
    return start_server(db, warehouse, *arguments, log=log, start=start_python)


@contextmanager
def metastore(db: str | None = None, warehouse: str | None = None) -> Iterator[MetastoreUri]:
    """Run a server as `interbed.testing.metastore` does, from the prepared process and on a migrated database."""
    with TemporaryDirectory(prefix="interbed-metastore-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        db = f"sqlite:///{directory / 'metastore.db'}" if db is None else db
        warehouse = f"file:{directory / 'warehouse'}" if warehouse is None else warehouse
        running = started_server(db, warehouse, "--http-port", "0", log=directory / "server.log")
        assert running.http is not None
        try:
            yield MetastoreUri(running.uri, running.http)
        finally:
            stop_server(running)


def new_database(postgres_url: str) -> str:
    """Create an empty database in a PostgreSQL server, and return its url."""
    name = f"metastore_{next(_database_numbers)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return _database_of(postgres_url, name)


def migrated_database(postgres_url: str) -> str:
    """Create a database with the current schema in a PostgreSQL server, and return its url. It is a copy: a migration
    takes longer than most tests.
    """
    url = _database_of(postgres_url, f"metastore_{next(_database_numbers)}")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (_TEMPLATE,)).rowcount:
            connection.execute(f"CREATE DATABASE {_TEMPLATE}".encode())
            open_migrated(_database_of(postgres_url, _TEMPLATE)).close()
        connection.execute(f"CREATE DATABASE {url.rpartition('/')[2]} TEMPLATE {_TEMPLATE}".encode())
    with psycopg.connect(url) as connection:
        renumber(lambda statement: connection.execute(statement.encode()))
    return url


def _database_of(postgres_url: str, name: str) -> str:
    return f"{postgres_url.rpartition('/')[0]}/{name}"


@contextmanager
def foreign_client(port: int) -> Iterator[hmsclient.HMSClient]:
    """Return hmsclient: a client that knows nothing of interbed."""
    with hmsclient.HMSClient(host="127.0.0.1", port=port) as client:
        yield client


def storage(
    *columns: tuple[str, str], location: str | None = None, serde: str = "org.example.SerDe"
) -> ttypes.StorageDescriptor:
    """Return a storage descriptor with these (name, type) columns, or one column `id int`."""
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name=name, type=kind, comment=None) for name, kind in columns or (("id", "int"),)],
        location=location,
        inputFormat="org.example.Input",
        outputFormat="org.example.Output",
        compressed=False,
        numBuckets=0,
        serdeInfo=ttypes.SerDeInfo(name=None, serializationLib=serde, parameters={"a": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def table(
    database: str,
    name: str,
    *columns: tuple[str, str],
    parameters: dict[str, str] | None = None,
    partition_keys: tuple[tuple[str, str], ...] = (),
    table_type: str = "MANAGED_TABLE",
    location: str | None = None,
) -> ttypes.Table:
    """Return a table with these (name, type) columns."""
    return ttypes.Table(
        dbName=database,
        tableName=name,
        owner="tester",
        tableType=table_type,
        sd=storage(*columns, location=location),
        partitionKeys=[ttypes.FieldSchema(name=key, type=kind, comment=None) for key, kind in partition_keys],
        parameters=dict(parameters or {}),
    )


def lock_request(*components: ttypes.LockComponent, user: str = "tester", host: str = "here") -> ttypes.LockRequest:
    """Return a lock request with these components."""
    return ttypes.LockRequest(component=list(components), user=user, hostname=host)


def lock_component(
    kind: int, database: str, table_name: str | None = None, partition: str | None = None
) -> ttypes.LockComponent:
    """Return a lock component on a database, a table or a partition: the most specific one that is named."""
    level = (
        ttypes.LockLevel.DB
        if table_name is None
        else ttypes.LockLevel.TABLE
        if partition is None
        else ttypes.LockLevel.PARTITION
    )
    return ttypes.LockComponent(type=kind, level=level, dbname=database, tablename=table_name, partitionname=partition)


@contextmanager
def plain_client(port: int) -> Iterator[ThriftHiveMetastore.Client]:
    """Return the generated client of our own interface definition, with all its methods and no wrapper."""
    socket = TSocket("127.0.0.1", port)
    socket.setTimeout(60_000)
    transport = TBufferedTransport(socket)
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocol(transport))
    finally:
        transport.close()
