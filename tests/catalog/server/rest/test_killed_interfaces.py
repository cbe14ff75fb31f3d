"""The server is killed by SIGKILL many times while clients of both REST interfaces and of Thrift change metadata.

Each client has tables of its own and records the acknowledged changes. After each kill its tables are as acknowledged,
with or without the one request in progress. All clients also set a property of one shared Iceberg table, each its own,
so that no commit may lose the properties of the others.
"""

import copy
import http.client
import json
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
from thrift.transport.TTransport import TTransportException

from interbed.catalog.server.process.command import RunningServer, stop_server
from interbed.catalog.server.service.errors import MetastoreError
from tests.catalog.server.process.test_killed_server import connected
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA
from tests.support.servers.killed import DEADLINE_SECONDS, run_until_killed
from tests.support.servers.metastore import BACKENDS, started_server, table
from tests.support.shares import LONG, each_run

KILLS = 25 if LONG else 4
ACKNOWLEDGED_MAX = 40
TABLES_MAX = 5
DATABASE = "load"
SHARED = "shared"
FIELDS = [{"id": 0, "name": "a", "type": "INT"}]
ENDED = (OSError, EOFError, http.client.HTTPException, TTransportException)
"""What a client sees of a server that was killed."""


class ChangingClient(Protocol):
    """A client of an interface that changes tables. Tables have one property `value`."""

    def create(self, name: str) -> None:
        """Create a table whose value is 0."""
        ...

    def change(self, name: str, value: str) -> None:
        """Set the value of a table."""
        ...

    def rename(self, name: str, new: str) -> None:
        """Rename a table there and back."""
        ...

    def drop(self, name: str) -> None:
        """Drop a table of the database."""
        ...

    def values(self) -> dict[str, str]:
        """Return the values of all tables of the interface, by their names."""
        ...


class JsonConnection:
    """A connection that never repeats a request."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=DEADLINE_SECONDS)
        # http.client connects again by itself: a killed server has to be noticed.
        self._connection.connect()
        self._connection.auto_open = 0

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()

    def call(self, method: str, path: str, body: object = None, *, conflicts: bool = False) -> Any:
        """Return the JSON of the answer. AssertionError for an error; `conflicts` allows status 409: then None."""
        try:
            content = None if body is None else json.dumps(body).encode()
            self._connection.request(method, f"{self._path}/v1/hive/{path}", content)
            response = self._connection.getresponse()
            text = response.read()
        except http.client.NotConnected as error:
            raise EOFError("the server has closed the connection") from error
        if conflicts and response.status == 409:
            return None
        assert response.status in (200, 204), (method, path, response.status, text)
        return json.loads(text) if text else {}


class IcebergClient:
    """A client of Iceberg's REST interface."""

    def __init__(self, calls: JsonConnection) -> None:
        self._calls = calls

    def create(self, name: str) -> None:
        body = {"name": name, "schema": SCHEMA, "properties": {"value": "0"}}
        self._calls.call("POST", f"namespaces/{DATABASE}/tables", body)

    def change(self, name: str, value: str) -> None:
        self.set(name, {"value": value})

    def set(self, name: str, properties: Mapping[str, str]) -> None:
        """Set properties of a table; a commit that loses races is repeated."""
        update = {"action": "set-properties", "updates": dict(properties)}
        path = f"namespaces/{DATABASE}/tables/{name}"
        while self._calls.call("POST", path, {"requirements": [], "updates": [update]}, conflicts=True) is None:
            pass

    def rename(self, name: str, new: str) -> None:
        source, destination = ({"namespace": [DATABASE], "name": each} for each in (name, new))
        self._calls.call("POST", "tables/rename", {"source": source, "destination": destination})

    def drop(self, name: str) -> None:
        self._calls.call("DELETE", f"namespaces/{DATABASE}/tables/{name}")

    def properties(self, name: str) -> dict[str, str]:
        """Return the properties of a table."""
        found = self._calls.call("GET", f"namespaces/{DATABASE}/tables/{name}")["metadata"]["properties"]
        return {str(key): str(value) for key, value in found.items()}

    def values(self) -> dict[str, str]:
        found = self._calls.call("GET", f"namespaces/{DATABASE}/tables")["identifiers"]
        names = [each["name"] for each in found if each["name"].startswith("iceberg")]
        return {name: self.properties(name)["value"] for name in names}


class PaimonClient:
    """A client of Paimon's REST interface."""

    def __init__(self, calls: JsonConnection) -> None:
        self._calls = calls
        self._tables = f"databases/{DATABASE}/tables"

    def create(self, name: str) -> None:
        schema = {"fields": FIELDS, "partitionKeys": [], "primaryKeys": [], "options": {"value": "0"}}
        self._calls.call("POST", self._tables, {"identifier": {"database": DATABASE, "object": name}, "schema": schema})

    def change(self, name: str, value: str) -> None:
        change = {"action": "setOption", "key": "value", "value": value}
        self._calls.call("POST", f"{self._tables}/{name}", {"changes": [change]})

    def rename(self, name: str, new: str) -> None:
        source, destination = ({"database": DATABASE, "object": each} for each in (name, new))
        self._calls.call("POST", "tables/rename", {"source": source, "destination": destination})

    def drop(self, name: str) -> None:
        self._calls.call("DELETE", f"{self._tables}/{name}")

    def values(self) -> dict[str, str]:
        names = [each for each in self._calls.call("GET", self._tables)["tables"] if each.startswith("paimon")]
        found = {name: self._calls.call("GET", f"{self._tables}/{name}")["schema"]["options"] for name in names}
        return {name: options["value"] for name, options in found.items()}


class ThriftClient:
    """A client of Thrift."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def create(self, name: str) -> None:
        self._client.create_table(table(DATABASE, name, parameters={"value": "0"}))

    def change(self, name: str, value: str) -> None:
        found = self._client.get_table(DATABASE, name)
        found.parameters["value"] = value
        self._client.alter_table(DATABASE, name, found)

    def rename(self, name: str, new: str) -> None:
        found = self._client.get_table(DATABASE, name)
        found.tableName = new
        self._client.alter_table(DATABASE, name, found)

    def drop(self, name: str) -> None:
        self._client.drop_table(DATABASE, name, True)

    def values(self) -> dict[str, str]:
        names = [name for name in self._client.get_all_tables(DATABASE) if name.startswith("thrift")]
        return {name: self._client.get_table(DATABASE, name).parameters["value"] for name in names}


@dataclass(frozen=True, slots=True)
class ConnectedClients:
    """A client of each interface."""

    iceberg: IcebergClient
    paimon: PaimonClient
    thrift: ThriftClient

    def of(self, kind: str) -> ChangingClient:
        """Return the client of a kind."""
        clients: dict[str, ChangingClient] = {
            "iceberg": self.iceberg,
            "paimon": self.paimon,
            "thrift": self.thrift,
        }
        return clients[kind]


@contextmanager
def connected_clients(server: RunningServer) -> Iterator[ConnectedClients]:
    """Connect a client of each interface, and close them at the end."""
    with (
        closing(JsonConnection(f"{server.http}/iceberg")) as iceberg,
        closing(JsonConnection(f"{server.http}/paimon")) as paimon,
        connected(server.uri) as thrift,
    ):
        yield ConnectedClients(IcebergClient(iceberg), PaimonClient(paimon), ThriftClient(thrift))


@dataclass(slots=True)
class Worker:
    """A client of the `kind` of interface, with the acknowledged values of its tables."""

    kind: str
    random: random.Random
    state: dict[str, str] = field(default_factory=dict)
    next_state: dict[str, str] | None = None
    """State after the request in progress."""
    made: int = 0
    shared: int = 0
    """Acknowledged number of changes of the shared table."""
    failure: BaseException | None = None

    def new_name(self) -> str:
        """Return a name that was never used."""
        self.made += 1
        return f"{self.kind}_{self.made}"

    def change(self, client: ChangingClient) -> None:
        """Send one random change."""
        known = sorted(self.state)
        choice = self.random.randrange(4) if known else 0
        self.next_state = after = copy.copy(self.state)
        name = self.random.choice(known) if known else ""
        if choice == 0 and len(known) < TABLES_MAX:
            new = self.new_name()
            after[new] = "0"
            client.create(new)
        elif choice == 1:
            new = self.new_name()
            after[new] = after.pop(name)
            client.rename(name, new)
        elif choice == 2 and len(known) > 2:
            del after[name]
            client.drop(name)
        else:
            after[name] = str(int(after[name]) + 1)
            client.change(name, after[name])
        self.state, self.next_state = after, None

    def change_shared(self, client: IcebergClient) -> None:
        """Set the worker's property of the shared table to the next number."""
        client.set(SHARED, {self.kind: str(self.shared + 1)})
        self.shared += 1

    def check(self, client: ChangingClient, shared: Mapping[str, str]) -> None:
        """Check that the tables are as acknowledged, or as after the interrupted request."""
        actual = client.values()
        assert actual in [self.state, *([] if self.next_state is None else [self.next_state])]
        self.state, self.next_state = actual, None
        found = int(shared.get(self.kind, "0"))
        assert found in (self.shared, self.shared + 1)
        self.shared = found


class InterfaceLoad:
    """Clients of all interfaces, and the server that they change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.workers = [Worker(kind, random.Random(f"{seed} {kind}")) for kind in ("iceberg", "paimon", "thrift")]
        self._guard = threading.Lock()
        self._enough = threading.Event()
        self._wanted = 0

    def run_until_killed(self, server: RunningServer) -> None:
        """Let the clients work until a random number of requests is acknowledged, then kill the server."""
        self._wanted = self._random.randrange(1, ACKNOWLEDGED_MAX)
        self._enough.clear()
        run_until_killed(server, self.workers, lambda worker: self._work(worker, server), self._enough)

    def check(self, server: RunningServer) -> None:
        """Check the tables of all workers."""
        with connected_clients(server) as clients:
            shared = clients.iceberg.properties(SHARED)
            for worker in self.workers:
                worker.check(clients.of(worker.kind), shared)

    def _work(self, worker: Worker, server: RunningServer) -> None:
        try:
            with connected_clients(server) as clients:
                self._change_on(worker, clients)
        except ENDED:
            if not self._enough.is_set():
                worker.failure = AssertionError("the server hung up before it was killed")
        except BaseException as error:
            worker.failure = error
            raise
        finally:
            self._enough.set()

    def _change_on(self, worker: Worker, clients: ConnectedClients) -> None:
        while True:
            worker.change(clients.of(worker.kind))
            worker.change_shared(clients.iceberg)
            with self._guard:
                self._wanted -= 1
                if self._wanted <= 0:
                    self._enough.set()


def _started(db: str, directory: Path) -> RunningServer:
    return started_server(
        db,
        f"file:{directory / 'warehouse'}",
        *("--http-port", "0", "--lock-lease-seconds", "1"),
        log=directory / "server.log",
    )


@pytest.mark.longer
@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_a_killed_server_has_all_acknowledged_changes_of_each_interface(database_url: str, tmp_path: Path) -> None:
    load = InterfaceLoad(seed=20261129)
    server = _started(database_url, tmp_path)
    try:
        with closing(JsonConnection(f"{server.http}/iceberg")) as calls:
            calls.call("POST", "namespaces", {"namespace": [DATABASE]})
            IcebergClient(calls).create(SHARED)
        for _ in range(KILLS):
            load.run_until_killed(server)
            server = _started(database_url, tmp_path)
            load.check(server)
    except MetastoreError as error:
        raise AssertionError((tmp_path / "server.log").read_text()[-3000:]) from error
    finally:
        stop_server(server)
    assert all(worker.shared for worker in load.workers)
    assert "Traceback" not in (tmp_path / "server.log").read_text()
