"""Requests about tables in an object store that the server cannot use: every interface names the store and the way out.

The store has no keys for the server, refuses them, has no listener at its address, or never answers.
"""

import http.client
import json
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlsplit

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.server.process.command import RunningServer, stop_server
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.catalog.server.rest.fuzzed_targets import BODIES, fuzzed_target
from tests.support.fuzzed_requests import FuzzedRoute, RequestGenerator
from tests.support.servers.enforcing_store import EnforcingStore, enforcing_store
from tests.support.servers.metastore import plain_client, started_server
from tests.support.servers.metastore import table as hive_table
from tests.support.servers.paimon_rest import rest_options
from tests.support.servers.ports import free_port
from tests.support.waits import at_most

BUCKET = "lake"
STORE = f"s3://{BUCKET}"
STATES = ("without keys", "refused", "without a listener", "silent")
TABLES = {"iceberg": "ice", "paimon": "own", "directory": "own", "interbed": "own"}
READING = {
    "paimon": {"getTable", "authTableQuery", "commitTable", "listBranches", "alterTable", "listTags"},
    "directory": {"getTable", "listTables", "listDatabases", "commitTable", "createDatabase"},
    "iceberg": {"loadTable", "updateTable", "planTableScan", "createTable"},
    "interbed": {"readRows"},
}
"""Operations that need the files of a table, or write some."""


@dataclass(frozen=True, slots=True)
class _HttpAnswer:
    status: int
    text: str


@dataclass(frozen=True, slots=True)
class _StoredLake:
    """The database of a metastore with tables in a store, and its store."""

    directory: Path
    store: EnforcingStore

    @property
    def db(self) -> Path:
        """The database of the first server, to which it has written all tables."""
        return self.directory / "metastore.db"

    def start(self, environment: Mapping[str, str], name: str) -> RunningServer:
        """Start a server with an environment, on a copy of the database."""
        db = shutil.copyfile(self.db, self.directory / f"{name}.db") if self.db.exists() else self.db
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            for key, value in environment.items():
                patch.setenv(key, value)
            return started_server(
                f"sqlite:///{db}",
                f"{STORE}/warehouse",
                *("--http-port", "0", "--store-seconds", "0.5"),
                *("--paimon-warehouses", f"directory={STORE}/directory"),
                log=self.directory / f"{name}.log",
            )


def _call(server: RunningServer, method: str, path: str, body: object = None) -> _HttpAnswer:
    address = urlsplit(server.http or "")
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=at_most(120))
    try:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, content or None)
        response = connection.getresponse()
        return _HttpAnswer(response.status, response.read().decode())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_StoredLake]:
    """Create tables of each interface in a store."""
    directory = tmp_path_factory.mktemp("refused")
    with enforcing_store(BUCKET) as store:
        made = _StoredLake(directory, store)
        server = made.start(store.environment, "first")
        try:
            keys = {
                "s3.endpoint": store.endpoint,
                "s3.access-key": store.access_key,
                "s3.secret-key": store.secret_key,
                "s3.region": "us-east-1",
            }
            with plain_client(int(server.uri.rpartition(":")[2])) as client:
                client.create_database(ttypes.Database(name="d"))
            for prefix in ("hive", "directory"):
                options = {**rest_options(f"{server.http}/paimon", prefix), **keys}
                with interbed.load_catalog("lake", **options) as catalog:
                    if prefix == "directory":
                        catalog.create_database("d")
                    key: pa.Field[Any] = pa.field("id", pa.int64(), nullable=False)
                    schema = pa.schema([key, pa.field("v", pa.string())])
                    table = catalog.create_table("d.own", schema, primary_keys=["id"], options={"bucket": "1"})
                    table.upsert([{"id": 1, "v": "a"}])
            column = {"id": 1, "name": "id", "required": True, "type": "long"}
            body = {"name": "ice", "schema": {"type": "struct", "schema-id": 0, "fields": [column]}}
            answer = _call(server, "POST", "/iceberg/v1/hive/namespaces/d/tables", body)
            assert answer.status == 200, answer
        finally:
            stop_server(server)
        yield made


@pytest.fixture(scope="module", params=STATES)
def refused(request: pytest.FixtureRequest, lake: _StoredLake) -> Iterator[RunningServer]:
    """Run a server that cannot use the store."""
    environment = {"AWS_ENDPOINT_URL": lake.store.endpoint, "AWS_REGION": "us-east-1"}
    with socket.socket() as silent:
        if request.param != "without keys":
            environment |= {"AWS_ACCESS_KEY_ID": "AKIAOFASTRANGER00000", "AWS_SECRET_ACCESS_KEY": "of-a-stranger"}
        if request.param == "without a listener":
            environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{free_port()}"
        if request.param == "silent":
            silent.bind(("127.0.0.1", 0))
            silent.listen(1000)
            environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        server = lake.start(environment, request.param.replace(" ", "-"))
        try:
            yield server
        finally:
            stop_server(server)


def _path(kind: str, route: FuzzedRoute) -> str:
    prefix = "directory" if kind == "directory" else "hive"
    parts = {"prefix": prefix, "database": "d", "namespace": "d", "table": TABLES[kind], "view": "v", "function": "f"}
    encoded = [
        quote_plus(parts.get(part[1:-1], "1")) if part.startswith("{") else part for part in route.template.split("/")
    ]
    root = "paimon" if kind == "directory" else kind
    return f"/{root}/{'/'.join(encoded)}"


@pytest.mark.longer
@pytest.mark.parametrize("kind", list(TABLES))
def test_every_route_names_the_store_and_the_way_out(
    lake: _StoredLake, refused: RunningServer, kind: str, tmp_path: Path
) -> None:
    interface = "paimon" if kind == "directory" else kind
    with fuzzed_target(interface, tmp_path) as target:
        routes = target.routes
    unavailable = set()
    for route in sorted(routes, key=lambda each: (each.method == "DELETE", each.operation.startswith("rename"))):
        body = RequestGenerator(1, tmp_path, [route], BODIES[interface]).plain(route).body
        if route.operation == "createTable" and kind == "iceberg":
            body = body.replace(b'"t"', b'"t2"')
        answer = _call(refused, route.method, _path(kind, route), body)
        where = (route.operation, answer)
        assert answer.status < 500 or answer.status in (501, 503), where
        assert "Traceback" not in answer.text, where
        if answer.status == 503:
            assert STORE in answer.text, where
            unavailable.add(route.operation)
    assert unavailable >= READING[kind], READING[kind] - unavailable
    log = "".join(each.read_text() for each in lake.directory.glob("*.log"))
    assert "Traceback" not in log


@pytest.mark.longer
def test_calls_of_thrift_name_the_store_too(lake: _StoredLake, refused: RunningServer) -> None:
    port = int(refused.uri.rpartition(":")[2])
    place = f"{STORE}/warehouse/d.db/calls"
    parted = hive_table("d", "calls", ("id", "bigint"), partition_keys=(("dt", "string"),), location=place)
    external = hive_table("d", "own2", ("id", "bigint"), table_type="EXTERNAL_TABLE", location=f"{STORE}/other")
    day = ttypes.Partition(values=["a"], dbName="d", tableName="calls", sd=parted.sd)
    calls: Sequence[Callable[[ThriftHiveMetastore.Client], object]] = (
        lambda client: client.create_database(ttypes.Database(name="e", locationUri=f"{STORE}/e")),
        lambda client: client.create_table(parted),
        lambda client: client.create_table(external),
        lambda client: client.add_partition(day),
        lambda client: client.append_partition("d", "calls", ["b"]),
        lambda client: client.drop_partition("d", "calls", ["a"], True),
        lambda client: client.truncate_table("d", "calls", []),
        lambda client: client.alter_table("d", "calls", hive_table("d", "calls2", ("id", "bigint"), location=place)),
        lambda client: client.drop_table("d", "own", True),
        lambda client: client.drop_database("e", True, True),
        lambda client: client.drop_database("d", True, True),
    )
    refusals = []
    for call in calls:
        with (
            plain_client(port) as client,
            suppress(ttypes.NoSuchObjectException, ttypes.InvalidOperationException, ttypes.InvalidObjectException),
        ):
            try:
                call(client)
            except ttypes.MetaException as error:
                refusals.append(str(error.message))
    assert all(STORE in message for message in refusals), refusals
    log = "".join(each.read_text() for each in lake.directory.glob("*.log"))
    assert "Traceback" not in log
