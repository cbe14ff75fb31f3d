"""Revoked tokens and grants on two servers of one database: in force everywhere within a second, by the servers' clock.

The clock is injected, and moves only when a test moves it.
"""

import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TBufferedTransport

from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.client.hive.connection import NOT_ADMITTED
from interbed.catalog.client.hive.transports import HttpTransport
from interbed.catalog.server.process.main import Server
from interbed.catalog.server.settings import ServerSettings
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.catalog.server.auth.connections.clocked_server import Clock, clocked, connected, running
from tests.catalog.server.migration.commands import run as command
from tests.support.servers.metastore import table
from tests.support.servers.raw_thrift import call
from tests.support.waits import at_most

GET_ALL = call("get_all_databases", b"\0")
REFUSED = 401


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Give the servers of this process a clock that the test moves."""
    with clocked() as found:
        yield found


@dataclass
class TwoServers:
    """Two servers of one database, with a connection of `eve` to each."""

    db: str
    servers: list[Server]
    token: str
    clients: list[ThriftHiveMetastore.Client]
    root: ThriftHiveMetastore.Client

    def revoke_token(self) -> None:
        """Revoke the token of eve, as the command does."""
        command("token", "revoke", self.token.split("_")[1], "--db", self.db)

    @contextmanager
    def over_http(self) -> Iterator[ThriftHiveMetastore.Client]:
        """Yield a client of Thrift over HTTP of eve."""
        assert self.servers[0].http_address is not None
        transport = HttpTransport(*self.servers[0].http_address, "/metastore", token=self.token)
        transport.open()
        try:
            yield ThriftHiveMetastore.Client(TBinaryProtocol(TBufferedTransport(transport)))
        finally:
            transport.close()

    def by_http(self, server: Server) -> int:
        """Return the status of a request of eve."""
        assert server.http_address is not None
        host, port = server.http_address
        request = urllib.request.Request(
            f"http://{host}:{port}/iceberg/v1/config", headers={"authorization": f"Bearer {self.token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=at_most(30)) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code


@pytest.fixture
def two(database_url: str, tmp_path: Path, clock: Clock) -> Iterator[TwoServers]:
    """Run two servers on SQLite, then on PostgreSQL, with the table `sales.orders` that eve may read."""
    settings = ServerSettings(
        port=0,
        http_port=0,
        db=database_url,
        warehouse=f"file:{tmp_path / 'warehouse'}",
        authentication="token",
        access_authorizer="builtin",
        access_admins="root",
    )
    with ExitStack() as stack:
        servers = [stack.enter_context(running(settings)) for _ in range(2)]
        tokens = {name: command("token", "create", name, "--db", database_url).strip() for name in ("root", "eve")}
        root = connected(stack, servers[0], "root", tokens["root"])
        root.create_database(ttypes.Database(name="sales"))
        root.create_table(table("sales", "orders"))
        command("grant", "SELECT", "on", "table", "sales.orders", "to", "user", "eve", "--db", database_url)
        clock.now += 1
        clients = [connected(stack, server, "eve", tokens["eve"]) for server in servers]
        yield TwoServers(database_url, servers, tokens["eve"], clients, root)


def is_served(client: ThriftHiveMetastore.Client) -> bool:
    """Return whether a call is answered, False if its client is not authenticated any more."""
    try:
        client.get_all_databases()
    except TApplicationException as error:
        if error.type != NOT_ADMITTED:
            raise
        return False
    return True


def sees(client: ThriftHiveMetastore.Client) -> bool:
    """Return whether a client may read the table."""
    try:
        return bool(client.get_table("sales", "orders").tableName == "orders")
    except ttypes.NoSuchObjectException:
        return False


LOOKS: list[list[float]] = [[], [0.49], [0.24, 0.48, 0.72, 0.96]]
"""Seconds after a revocation at which the client uses its connection before the second is over."""


@pytest.mark.parametrize("looks", LOOKS, ids=str)
def test_a_revoked_token_ends_the_rights_of_open_connections(two: TwoServers, clock: Clock, looks: list[float]) -> None:
    assert [is_served(client) for client in two.clients] == [True, True]
    assert [two.by_http(server) for server in two.servers] == [200, 200]
    two.revoke_token()
    revoked_at = clock.now
    for seconds in looks:
        clock.now = revoked_at + seconds
        for client in two.clients:
            if not is_served(client):
                # It was ended before the time; another one is refused as well.
                return
        for server in two.servers:
            two.by_http(server)
    clock.now = revoked_at + 1.0
    assert [is_served(client) for client in two.clients] == [False, False]
    assert [two.by_http(server) for server in two.servers] == [REFUSED, REFUSED]


@pytest.mark.parametrize("looks", LOOKS, ids=str)
def test_a_revoked_grant_is_in_force_on_open_connections(two: TwoServers, clock: Clock, looks: list[float]) -> None:
    # The second answer is that of the cache.
    for _ in range(2):
        assert [sees(client) for client in two.clients] == [True, True]
    command("revoke", "SELECT", "on", "table", "sales.orders", "from", "user", "eve", "--db", two.db)
    revoked_at = clock.now
    for seconds in looks:
        clock.now = revoked_at + seconds
        for client in two.clients:
            sees(client)
    clock.now = revoked_at + 1.0
    assert [sees(client) for client in two.clients] == [False, False]


def test_requests_that_were_sent_at_once_are_not_all_served(two: TwoServers, clock: Clock) -> None:
    """A client sends many requests before the revocation; those that are begun later are refused."""
    transport: Any = two.clients[0]._iprot.trans
    frame = struct.pack("!I", len(GET_ALL)) + GET_ALL
    assert is_served(two.clients[0])
    two.revoke_token()
    clock.step = 0.05
    transport._connected.write(frame * 200)
    replies = []
    for _ in range(200):
        (length,) = struct.unpack("!I", transport._connected.readAll(4))
        replies.append(b"sales" in transport._connected.readAll(length))
    # No request is served after one that is refused.
    assert replies == sorted(replies, reverse=True)
    assert replies.count(True) < 60
    assert not replies[-1]


@pytest.mark.parametrize("way", ["sasl", "http"])
def test_a_lock_that_waits_is_not_granted_after_the_revocation(two: TwoServers, clock: Clock, way: str) -> None:
    orders = partial(
        ttypes.LockComponent, level=ttypes.LockLevel.TABLE, dbname="sales", tablename="orders", isTransactional=False
    )
    held = two.root.lock(
        ttypes.LockRequest(component=[orders(type=ttypes.LockType.EXCLUSIVE)], user="root", hostname="h")
    )
    with ExitStack() as stack:
        client = two.clients[0] if way == "sasl" else stack.enter_context(two.over_http())
        asked = client.lock(
            ttypes.LockRequest(component=[orders(type=ttypes.LockType.SHARED_READ)], user="eve", hostname="h")
        )
        assert asked.state == ttypes.LockState.WAITING
        found: Queue[str] = Queue()

        def check() -> None:
            try:
                found.put(str(client.check_lock(ttypes.CheckLockRequest(lockid=asked.lockid)).state))
            except (TApplicationException, CatalogAccessError) as error:
                found.put(str(error))

        thread = threading.Thread(target=check)
        thread.start()
        two.revoke_token()
        clock.now += 1.0
        two.root.unlock(ttypes.UnlockRequest(lockid=held.lockid))
        shown = found.get(timeout=at_most(30))
        thread.join(timeout=at_most(30))
    assert "it was revoked" in shown
