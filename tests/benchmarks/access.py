"""Cost of authentication and grants: the same load on servers without them, with issued tokens, with JWTs, and with
Kerberos.

    python -m tests.benchmarks.access [--calls 20000] [--turns 3] [--tables 100000] [--grants 10000] [--only list]
        [--kerberos authentication|integrity|privacy]... [--json] [-- SERVER ARGUMENTS]

The servers share a database on SQLite. Those that authenticate their clients decide by the grants of 100 roles, of
which the reader is a member. `thrift` is get_table, `rest` is the load of an Iceberg table, both of eight clients, each
on its connection; each `--kerberos` measures `thrift` also by Kerberos, with a layer of protection: none (auth), a
checksum (auth-int) or encryption (auth-conf) of each message. `list` is the list of all tables, without the cache, of
which the reader sees a tenth. The servers take turns. A figure is the CPU time of the server's process for one call,
which depends least on other load, and the best turn counts. Arguments after `--` go to the servers:
`-- --cache-bytes 0` measures calls that are not answered from the cache.
"""

import argparse
import http.client
import json
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import psutil
from cryptography.hazmat.primitives.asymmetric import rsa
from rich.console import Console
from rich.table import Table

from interbed.catalog.client.credentials import GssapiLogin, KerberosLogin
from interbed.catalog.server.auth.authentication import SaslStatus
from interbed.catalog.server.auth.issued_tokens import TokenService
from interbed.catalog.server.database.engine import open_engine
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.command import start_server, stop_server
from interbed.catalog.server.thrift.edge.transport import packed
from tests.benchmarks.iceberg_rest import SCHEMA, copy_tables
from tests.support.servers.kdc import REALM, running_kdc
from tests.support.servers.raw_thrift import call, text

OFF, TOKEN, JWT, KERBEROS = "off", "token", "jwt", "kerberos"
OPERATIONS = ("thrift", "rest", "list")
LAYERS = ("authentication", "integrity", "privacy")
WITHOUT_GOAL = LAYERS[1:]
"""Layers whose work on each message has no goal."""
LOADED = 100
"""Tables that are loaded in turn."""
ROLES = 100
CLIENTS = 8
READER = "ann"
LISTS = 5
SEEN = 10
"""One of this number of tables is in the reader's list."""
ISSUER, AUDIENCE = "https://id.example.org", "interbed"
TIMEOUT_SECONDS = 300
WARM_UP_CALLS = 500

GOAL_RATIO = 0.85
"""Rate of loads with access, over that without."""
GOAL_LIST_RATIO = 1.3
"""Time of a list with access, over that without."""

_FRAME_HEAD = struct.Struct("!I")
_SASL_HEAD = struct.Struct("!BI")
_COMPLETE = 5


class ThriftReader:
    """A client on a framed connection, which authenticates itself if it has a token or an exchange of Kerberos."""

    def __init__(self, uri: str, token: str | None, exchange: GssapiLogin | None = None) -> None:
        self._exchange = exchange
        host, _, port = uri.removeprefix("thrift://").partition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if exchange is not None:
            self._negotiate(exchange)
        if token is None:
            return
        response = f"\0{READER}\0{token}".encode()
        begin = _SASL_HEAD.pack(1, 5) + b"PLAIN" + _SASL_HEAD.pack(_COMPLETE, len(response)) + response
        self._connection.sendall(begin)
        if self._received(_SASL_HEAD.size)[0] != _COMPLETE:
            raise RuntimeError("the server does not accept the token")

    def ask(self, message: bytes) -> bytes:
        """Return the reply to a message. RuntimeError for an exception."""
        exchange = self._exchange
        sent = exchange.wrap(message) if exchange is not None and exchange.is_protected else message
        self._connection.sendall(_FRAME_HEAD.pack(len(sent)) + sent)
        reply = self._received(_FRAME_HEAD.unpack(self._received(_FRAME_HEAD.size))[0])
        if exchange is not None and exchange.is_protected:
            reply = exchange.unwrap(reply)
        if reply[3] != 2:
            raise RuntimeError(f"an exception: {reply[:300]!r}")
        return reply

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()

    def _negotiate(self, exchange: GssapiLogin) -> None:
        first = packed(SaslStatus.START, b"GSSAPI") + packed(SaslStatus.OK, exchange.respond(b""))
        status, payload = self._exchanged(first)
        while status == SaslStatus.OK:
            status, payload = self._exchanged(packed(SaslStatus.OK, exchange.respond(payload)))
        if status != SaslStatus.COMPLETE:
            raise RuntimeError(f"the server does not accept the ticket: {payload!r}")

    def _exchanged(self, message: bytes) -> tuple[int, bytes]:
        self._connection.sendall(message)
        status, length = _SASL_HEAD.unpack(self._received(_SASL_HEAD.size))
        return status, self._received(length)

    def _received(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = self._connection.recv(count - len(data))
            if not more:
                raise RuntimeError("the server has closed the connection")
            data += more
        return bytes(data)


class RestReader:
    """A client of the Iceberg REST catalog, on one connection."""

    def __init__(self, address: str, token: str | None) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def ask(self, path: str, body: object = None) -> bytes:
        """Return the content of an answer. RuntimeError for an error."""
        content = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        self._connection.request("GET" if body is None else "POST", f"/iceberg/v1/{path}", content, headers)
        response = self._connection.getresponse()
        said = response.read()
        if response.status >= 400:
            raise RuntimeError(f"{path}: {response.status} {said[:300]!r}")
        return said

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()


@dataclass(slots=True, kw_only=True)
class MeasuredServer:
    """A server under load. `figures` are CPU milliseconds and milliseconds for a call, by operation."""

    name: str
    process: psutil.Process
    clients: list[tuple[ThriftReader, RestReader]]
    figures: dict[str, dict[str, float]] = field(default_factory=dict)

    def run(self, operation: str, calls: int) -> dict[str, float]:
        """Make calls, and return CPU milliseconds and milliseconds for each."""
        clients = self.clients[:1] if operation == "list" else self.clients
        each = min(calls, LISTS) if operation == "list" else calls // len(clients)
        cpu, began = self._cpu_seconds(), time.monotonic()
        with ThreadPoolExecutor(len(clients)) as threads:
            for done in [threads.submit(_call, *client, operation, each) for client in clients]:
                done.result()
        seconds, count = time.monotonic() - began, each * len(clients)
        return {"cpu_ms": (self._cpu_seconds() - cpu) / count * 1000, "ms": seconds / count * 1000}

    def _cpu_seconds(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


def _call(thrift: ThriftReader, rest: RestReader, operation: str, calls: int) -> None:
    """Make calls of one client, one after another."""
    for number in range(calls):
        name = f"t{number % LOADED:04}"
        if operation == "thrift":
            thrift.ask(call("get_table", text(1, "load") + text(2, name) + b"\0"))
        elif operation == "rest":
            rest.ask(f"hive/namespaces/load/tables/{name}")
        else:
            # A changing pattern makes each call a cache miss.
            thrift.ask(call("get_tables", text(1, "race") + text(2, f"c*|x{time.time_ns()}") + b"\0"))


def measure(
    *,
    calls: int,
    turns: int,
    tables: int,
    grants: int,
    operations: Sequence[str],
    layers: Sequence[str] = (),
    arguments: Sequence[str] = (),
) -> list[MeasuredServer]:
    """Put the load on all servers, and return them with their figures, the one without access first."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interbed-access-")))
        db = f"sqlite:///{directory / 'metastore.db'}"
        off = stack.enter_context(_running(OFF, db, directory, arguments, None))
        _fill(off.clients[0][1])
        copy_tables(db, tables, is_peer=False)
        _grant(db, grants)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        tokens = {TOKEN: _issued(db), JWT: _web_token(key)}
        settings = {TOKEN: (), JWT: _jwt_settings(key, directory)}
        servers = [off]
        for name in (TOKEN, JWT):
            access = ("--authentication", name, "--access-authorizer", "builtin", *settings[name])
            servers.append(stack.enter_context(_running(name, db, directory, (*arguments, *access), tokens[name])))
        if layers:
            servers.extend(stack.enter_context(_running_by_kerberos(db, directory, arguments, layers)))
        for operation in operations:
            measured = [each for each in servers if operation == "thrift" or not each.name.startswith(KERBEROS)]
            for server in measured:
                server.run(operation, WARM_UP_CALLS)
            for turn in range(turns):
                for server in measured if turn % 2 else reversed(measured):
                    found = server.run(operation, calls)
                    print(operation, server.name, found, file=sys.stderr, flush=True)
                    best = server.figures.get(operation)
                    if best is None or found["cpu_ms"] < best["cpu_ms"]:
                        server.figures[operation] = found
        return servers


@contextmanager
def _running(
    name: str,
    db: str,
    directory: Path,
    arguments: Sequence[str],
    token: str | None,
    login: Callable[[], GssapiLogin | None] = lambda: None,
) -> Iterator[MeasuredServer]:
    log = directory / f"{name}.log"
    http_port = ("--http-port", "0", "--transport", "framed")
    running = start_server(db, f"file:{directory / 'warehouse'}", *http_port, *arguments, log=log)
    try:
        assert running.http is not None
        clients = [(ThriftReader(running.uri, token, login()), RestReader(running.http, token)) for _ in range(CLIENTS)]
        yield MeasuredServer(name=name, process=psutil.Process(running.process.pid), clients=clients)
        for thrift, rest in clients:
            thrift.close()
            rest.close()
    finally:
        stop_server(running)


@contextmanager
def _running_by_kerberos(
    db: str, directory: Path, arguments: Sequence[str], layers: Sequence[str]
) -> Iterator[list[MeasuredServer]]:
    """Run servers with Kerberos, and their KDC; the clients of each have one layer of protection."""
    principal = f"hive/localhost@{REALM}"
    with running_kdc() as kdc, ExitStack() as stack:
        for name, value in kdc.environment.items():
            stack.callback(_restore, name, os.environ.get(name))
            os.environ[name] = value
        settings = (
            *("--authentication", KERBEROS, "--access-authorizer", "builtin", "--kerberos-principal", principal),
            *("--kerberos-keytab", str(kdc.keytab("hive/localhost", "HTTP/localhost"))),
        )
        login = KerberosLogin(principal=f"{READER}@{REALM}", keytab=str(kdc.keytab(READER)))
        servers = []
        for layer in layers:
            exchange = partial(GssapiLogin, login, principal, layers=(layer,))
            name, given = f"{KERBEROS}-{layer}", (*arguments, *settings)
            servers.append(stack.enter_context(_running(name, db, directory, given, None, exchange)))
        yield servers


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _fill(rest: RestReader) -> None:
    """Create the tables that are loaded, and the one whose copies are listed."""
    for namespace, names in (("load", [f"t{number:04}" for number in range(LOADED)]), ("race", ["t"])):
        rest.ask("hive/namespaces", {"namespace": [namespace], "properties": {}})
        for name in names:
            rest.ask(f"hive/namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA})


def _grant(db: str, grants: int) -> None:
    """Make the reader a member of all roles, and grant the roles what it loads and sees, and further tables."""
    engine = open_engine(db)
    now = int(time.time())
    roles = [(f"r{number}", "root", now) for number in range(ROLES)]
    members = [(name, f"user:{READER}", False, "root", now) for name, _, _ in roles]
    with engine.execution_options(interbed_write=True).begin() as connection:
        listed = connection.exec_driver_sql(
            "SELECT t.id, d.name FROM tables t JOIN databases d ON d.id = t.database_id ORDER BY t.id"
        ).all()
        loaded = [table_id for table_id, database in listed if database == "load"]
        chosen = [table_id for table_id, database in listed if database == "race"][::SEEN]
        given = [*loaded, *chosen][:grants]
        rows = [
            (privilege, table_id, f"role:r{number % ROLES}", False, "user:root", now)
            for number, (privilege, table_id) in enumerate(
                [("SELECT", each) for each in given] + [("ALTER", given[0])] * (grants - len(given))
            )
        ]
        for statement, values in (
            ("INSERT INTO access_roles (name, created_by, created_at) VALUES (?, ?, ?)", roles),
            (
                "INSERT INTO access_members (role, member, admin_option, grantor, granted_at) VALUES (?, ?, ?, ?, ?)",
                members,
            ),
            (
                "INSERT INTO access_grants (privilege, table_id, grantee, grant_option, grantor, granted_at) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            ),
        ):
            connection.exec_driver_sql(statement, values)
    engine.dispose()


def _issued(db: str) -> str:
    store = SqlRepository(db)
    token, _ = TokenService(store).create(READER)
    store.close()
    return token


def _web_token(key: rsa.RSAPrivateKey) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": READER, "exp": int(time.time()) + 86_400}
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "k"})


def _jwt_settings(key: rsa.RSAPrivateKey, directory: Path) -> tuple[str, ...]:
    algorithm: Any = jwt.get_algorithm_by_name("RS256")
    keys = directory / "keys.json"
    keys.write_text(json.dumps({"keys": [{**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": "k"}]}))
    return ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-keys", str(keys))


def ratio(operation: str, off: Mapping[str, float], found: Mapping[str, float]) -> float:
    """Return the rate with access over that without, for a list the time with access over that without; by CPU time."""
    return found["cpu_ms"] / off["cpu_ms"] if operation == "list" else off["cpu_ms"] / found["cpu_ms"]


def shown(servers: Sequence[MeasuredServer]) -> Table:
    """Return the figures as a table."""
    off, *others = servers
    found = Table("operation", *(f"{each.name}: CPU ms (ms)" for each in servers), *(each.name for each in others))
    for operation, figures in off.figures.items():
        cells = [
            f"{each.figures[operation]['cpu_ms']:.4f} ({each.figures[operation]['ms']:.4f})"
            if operation in each.figures
            else ""
            for each in servers
        ]
        ratios = []
        for each in others:
            if operation not in each.figures:
                ratios.append("")
                continue
            value = ratio(operation, figures, each.figures[operation])
            is_met = value <= GOAL_LIST_RATIO if operation == "list" else value >= GOAL_RATIO
            goal = f"goal ≤ {GOAL_LIST_RATIO}x" if operation == "list" else f"goal ≥ {GOAL_RATIO}x"
            if each.name.endswith(WITHOUT_GOAL):
                ratios.append(f"{value:.2f}x")
            else:
                ratios.append(f"[{'green' if is_met else 'red'}]{value:.2f}x[/] ({goal})")
        found.add_row(operation, *cells, *ratios)
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--grants", type=int, default=10_000)
    parser.add_argument("--only", choices=OPERATIONS, action="append")
    parser.add_argument(
        "--kerberos", choices=LAYERS, action="append", help="a further server, whose clients have this protection"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("arguments", nargs="*", help="arguments of the servers, after --")
    given = parser.parse_args()
    servers = measure(
        calls=given.calls,
        turns=given.turns,
        tables=given.tables,
        grants=given.grants,
        operations=given.only or OPERATIONS,
        layers=given.kerberos or (),
        arguments=given.arguments,
    )
    if given.json:
        print(json.dumps({each.name: each.figures for each in servers}, indent=2))
    else:
        Console(width=180).print(shown(servers))


if __name__ == "__main__":
    main()
