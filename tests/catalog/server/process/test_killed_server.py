"""The server is killed by SIGKILL many times while clients change metadata, and restarted on the same database.

Each client has tables of its own and records the acknowledged changes. After each kill its tables are as acknowledged,
with or without the one call in progress. Directories of tables agree with the metadata. Left over may be the empty
directory of a table that was being created, and the data of a table that was being dropped.
"""

import copy
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from interbed.catalog.server.process.command import RunningServer, stop_server
from interbed.catalog.server.service.errors import MetastoreError
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.support.servers.killed import DEADLINE_SECONDS, run_until_killed
from tests.support.servers.metastore import BACKENDS, lock_component, lock_request, started_server, storage, table
from tests.support.shares import LONG, each_run

CLIENTS = 4
KILLS = {"sqlite": 50, "postgresql": 20 if LONG else 5}
ACKNOWLEDGED_MAX = 60
"""Maximum number of calls that are acknowledged before the next kill."""

TABLES_MAX = 6
LEASE_SECONDS = 1.0
DATABASE = "load"


@dataclass(slots=True)
class TableState:
    """Acknowledged state of a table."""

    value: str = "0"
    partitions: set[str] = field(default_factory=set)


State = dict[str, TableState]


@dataclass(slots=True)
class Worker:
    """Client with tables of its own."""

    number: int
    random: random.Random
    state: State = field(default_factory=dict)
    next_state: State | None = None
    """State after the call in progress."""
    made: int = 0
    last_event: int = 0
    leftovers: set[str] = field(default_factory=set)
    """Directories that an interrupted call may have left."""
    failure: BaseException | None = None

    def new_name(self) -> str:
        """Return a name that was never used."""
        self.made += 1
        return f"c{self.number}_t{self.made}"


class PendingChange:
    """Next state of a client; it becomes the state when the call in the block is acknowledged.

    It is a class and not a generator, because the exceptions of the interface do not accept the traceback that
    contextlib would set.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __enter__(self) -> State:
        self._worker.next_state = copy.deepcopy(self._worker.state)
        return self._worker.next_state

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            assert self._worker.next_state is not None
            self._worker.state, self._worker.next_state = self._worker.next_state, None


class ClientLoad:
    """Clients and the server that they call."""

    def __init__(self, warehouse: Path, seed: int) -> None:
        self.directory = warehouse / f"{DATABASE}.db"
        self.random = random.Random(seed)
        self.workers = [Worker(number=number, random=random.Random(seed * 100 + number)) for number in range(CLIENTS)]
        self._acknowledged = 0
        self._wanted = 0
        self._guard = threading.Lock()
        self._enough = threading.Event()

    def run_until_killed(self, server: RunningServer) -> None:
        """Let all clients call until a random number of calls is acknowledged, then kill the server."""
        self._acknowledged, self._wanted = 0, self.random.randrange(1, ACKNOWLEDGED_MAX)
        self._enough.clear()
        run_until_killed(server, self.workers, lambda worker: self._work(worker, server.uri), self._enough)

    def check(self, uri: str) -> None:
        """Check that the tables of each client are as acknowledged, or as after the interrupted call."""
        with connected(uri) as client:
            names = client.get_all_tables(DATABASE)
            found = {each.tableName: each for each in client.get_table_objects_by_name(DATABASE, names)}
            assert sorted(found) == sorted(names)
            for worker in self.workers:
                own = {name: each for name, each in found.items() if name.startswith(f"c{worker.number}_")}
                actual = {
                    name: TableState(
                        value=each.parameters["value"],
                        partitions=set(client.get_partition_names(DATABASE, name, -1)),
                    )
                    for name, each in own.items()
                }
                possible = [worker.state, *([] if worker.next_state is None else [worker.next_state])]
                assert actual in possible
                # Name of a table that was being created or dropped; a rename changes two names.
                cut_off = set(possible[0]) ^ set(possible[-1])
                worker.state, worker.next_state = actual, None
                self._check_directories(own, cut_off if len(cut_off) == 1 else set())
                if len(cut_off) == 1:
                    worker.leftovers |= cut_off
                last = client.get_current_notificationEventId().eventId
                assert last >= worker.last_event
                events = client.get_next_notification(ttypes.NotificationEventRequest(lastEvent=worker.last_event))
                ids = [event.eventId for event in events.events]
                assert ids == list(range(worker.last_event + 1, last + 1))
                worker.last_event = last

    def check_directories_at_the_end(self) -> None:
        """Check that no other directories are left over."""
        known = {name for worker in self.workers for name in worker.state}
        allowed = known | {name for worker in self.workers for name in worker.leftovers}
        assert {path.name for path in self.directory.iterdir()} <= allowed

    def _check_directories(self, tables: dict[str, Any], new: set[str]) -> None:
        for name, each in tables.items():
            location = Path(each.sd.location.removeprefix("file:"))
            assert location == self.directory / name
            # The client creates this file when its table is acknowledged; a rename moves it.
            assert (location / "data").is_file() or (location.is_dir() and name in new)
            (location / "data").touch()

    def _work(self, worker: Worker, uri: str) -> None:
        try:
            with connected(uri) as client:
                while True:
                    self._one_call(worker, client)
                    with self._guard:
                        self._acknowledged += 1
                        if self._acknowledged >= self._wanted:
                            self._enough.set()
        except (TTransportException, OSError, EOFError):
            # The server was killed, as intended. It must not close the connection before that.
            if not self._enough.is_set():
                worker.failure = AssertionError("the server hung up before it was killed")
        except BaseException as error:
            worker.failure = error
            self._enough.set()
            raise

    def _one_call(self, worker: Worker, client: Any) -> None:
        choice = worker.random
        known = sorted(worker.state)
        if len(known) < 2:
            self._create(worker, client)
            return
        calls: list[tuple[int, Callable[[], None]]] = [
            (2, lambda: self._alter(worker, client, choice.choice(known))),
            (2, lambda: self._rename(worker, client, choice.choice(known))),
            (2, lambda: self._add_partitions(worker, client, choice.choice(known))),
            (1, lambda: self._drop_partition(worker, client, choice.choice(known))),
            (1, lambda: self._lock(worker, client)),
            (3, lambda: self._create(worker, client))
            if len(known) < TABLES_MAX
            else (3, lambda: self._drop(worker, client, choice.choice(known))),
        ]
        choice.choices([call for _, call in calls], [weight for weight, _ in calls])[0]()

    def _create(self, worker: Worker, client: Any) -> None:
        name = worker.new_name()
        wanted = table(DATABASE, name, parameters={"value": "0"}, partition_keys=(("dt", "string"),))
        with PendingChange(worker) as state:
            state[name] = TableState()
            client.create_table(wanted)
        (self.directory / name / "data").touch()

    def _alter(self, worker: Worker, client: Any, name: str) -> None:
        changed = client.get_table(DATABASE, name)
        changed.parameters["value"] = str(int(worker.state[name].value) + 1)
        with PendingChange(worker) as state:
            state[name].value = changed.parameters["value"]
            client.alter_table(DATABASE, name, changed)

    def _rename(self, worker: Worker, client: Any, name: str) -> None:
        changed = client.get_table(DATABASE, name)
        changed.tableName = worker.new_name()
        with PendingChange(worker) as state:
            state[changed.tableName] = state.pop(name)
            client.alter_table(DATABASE, name, changed)

    def _drop(self, worker: Worker, client: Any, name: str) -> None:
        with PendingChange(worker) as state:
            del state[name]
            client.drop_table(DATABASE, name, True)

    def _add_partitions(self, worker: Worker, client: Any, name: str) -> None:
        worker.made += 1
        values = [f"{worker.made}-{number}" for number in range(worker.random.randrange(1, 5))]
        location = f"file:{self.directory / name}"
        new = [
            ttypes.Partition(
                dbName=DATABASE,
                tableName=name,
                values=[value],
                sd=storage(location=f"{location}/dt={value}"),
                parameters={},
            )
            for value in values
        ]
        with PendingChange(worker) as state:
            state[name].partitions |= {f"dt={value}" for value in values}
            client.add_partitions(new)

    def _drop_partition(self, worker: Worker, client: Any, name: str) -> None:
        partitions = sorted(worker.state[name].partitions)
        if not partitions:
            return
        chosen = worker.random.choice(partitions)
        with PendingChange(worker) as state:
            state[name].partitions.remove(chosen)
            client.drop_partition(DATABASE, name, [chosen.removeprefix("dt=")], True)

    def _lock(self, worker: Worker, client: Any) -> None:
        """Two clients share a lock: the lock that an interrupted call leaves behind expires with its lease."""
        component = lock_component(ttypes.LockType.EXCLUSIVE, DATABASE, f"shared_{worker.number % 2}")
        response = client.lock(lock_request(component))
        deadline = time.monotonic() + DEADLINE_SECONDS
        while response.state == ttypes.LockState.WAITING and time.monotonic() < deadline:
            response = client.check_lock(ttypes.CheckLockRequest(lockid=response.lockid))
        assert response.state == ttypes.LockState.ACQUIRED
        client.unlock(ttypes.UnlockRequest(lockid=response.lockid))


@pytest.mark.longer
@pytest.mark.parametrize("database_url", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_a_server_killed_under_load_restarts_with_all_acknowledged_changes(database_url: str, tmp_path: Path) -> None:
    kills = KILLS[database_url.partition(":")[0]]
    load = ClientLoad(tmp_path / "warehouse", seed=20261121)
    server = started(database_url, tmp_path, port=0)
    try:
        port = int(server.uri.rpartition(":")[2])
        with connected(server.uri) as client:
            client.create_database(ttypes.Database(name=DATABASE, parameters={}))
        for _ in range(kills):
            load.run_until_killed(server)
            server = started(database_url, tmp_path, port=port)
            load.check(server.uri)
        load.check_directories_at_the_end()
        with connected(server.uri) as client:
            for number in range(2):
                check_lock_can_be_acquired(client, f"shared_{number}")
            assert client.show_locks(ttypes.ShowLocksRequest()).locks == []
    finally:
        stop_server(server)
    assert min(worker.last_event for worker in load.workers) > kills
    assert "Traceback" not in (tmp_path / "server.log").read_text()


def check_lock_can_be_acquired(client: Any, name: str) -> None:
    """Check that locks of interrupted calls expire with their lease."""
    response = client.lock(lock_request(lock_component(ttypes.LockType.EXCLUSIVE, DATABASE, name)))
    deadline = time.monotonic() + DEADLINE_SECONDS
    while response.state == ttypes.LockState.WAITING and time.monotonic() < deadline:
        response = client.check_lock(ttypes.CheckLockRequest(lockid=response.lockid))
    assert response.state == ttypes.LockState.ACQUIRED
    client.unlock(ttypes.UnlockRequest(lockid=response.lockid))


def started(db: str, directory: Path, *, port: int) -> RunningServer:
    """Start a server on the database, on this port unless another process has taken it since the last kill."""
    for candidate in (port, 0):
        try:
            own = ("--port", str(candidate), "--lock-lease-seconds", str(LEASE_SECONDS))
            return started_server(db, f"file:{directory / 'warehouse'}", *own, log=directory / "server.log")
        except MetastoreError:
            if candidate == 0 or "cannot listen" not in (directory / "server.log").read_text():
                raise
    raise AssertionError("the loop returns or raises")


@contextmanager
def connected(uri: str) -> Iterator[Any]:
    """Connect the generated client, which never repeats a call."""
    host, _, port = uri.removeprefix("thrift://").partition(":")
    socket = TSocket(host, int(port))
    socket.setTimeout(DEADLINE_SECONDS * 1000)
    transport = TBufferedTransport(socket)
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
    finally:
        transport.close()
