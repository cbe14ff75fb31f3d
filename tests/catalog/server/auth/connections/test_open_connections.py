"""Open connections and streams after their client has lost its identity, or left the group that its rights come from.

One table: kinds of identity and what ends, each for an open connection of Thrift, one of HTTP, and a stream of rows.
The clock is injected: right before the time the rights are as they were, at the time they are gone. Kerberos is in
kerberos/test_directory_groups.py, because it has a clock of its own.
"""

import base64
import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import numpy as np
import pyarrow as pa
import pytest
from cryptography import x509
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport

import interbed
from interbed.catalog.client.hive.connection import NOT_ADMITTED
from interbed.catalog.client.hive.transports import SaslPlainTransport
from interbed.catalog.server.auth.issued_tokens import TokenService
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.main import Server
from interbed.catalog.server.settings import ServerSettings
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.catalog.server.auth.connections.clocked_server import Clock, clocked, connected, running
from tests.catalog.server.auth.delegation.connected import delegated_client
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, public_jwk, rsa_key
from tests.catalog.server.auth.test_ldap import GROUPS, PATTERN, SEARCH
from tests.catalog.server.migration.commands import run, run_json
from tests.support.certificates import make_certificates
from tests.support.servers.ldap_directory import PASSWORDS, LdapDirectory, ldap_directory
from tests.support.servers.relay import Relay
from tests.support.waits import at_most

USER, OF_CERTIFICATE = "bob", "client"
"""A user of the directory, and the common name of the certificate of tests."""

KEY = rsa_key()
COUNT, WIDTH = 60_000, 400
PATH = "/interbed/v1/hive/databases/sales/tables/wide/rows"
GROUPS_SECONDS, TOKEN_SECONDS, CERTIFICATE_SECONDS = 20.0, 3600.0, 100.0


@dataclass
class SharedLake:
    """The database of all servers, with the table `sales.wide` that the group `etl` may read, and a directory."""

    home: Path
    directory: LdapDirectory
    certificates: Path
    relay: Relay
    """The directory as servers reach it."""

    @property
    def settings(self) -> ServerSettings:
        """Settings of a server without authentication."""
        db = f"sqlite:///{self.home / 'metastore.db'}"
        return ServerSettings(port=0, http_port=0, db=db, warehouse=f"file:{self.home / 'warehouse'}")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedLake]:
    """Create the table, which is larger than what sockets buffer, and the grant."""
    home = tmp_path_factory.mktemp("lake")
    with ldap_directory() as directory, Relay(directory.port) as relay:
        made = SharedLake(home, directory, make_certificates(tmp_path_factory.mktemp("certificates")), relay)
        with running(made.settings) as server:
            assert server.http_address is not None
            uri = "http://{}:{}/paimon".format(*server.http_address)
            options = {"token.provider": "bear", "token": "not asked for"}
            with interbed.load_catalog("lake", metastore="rest", uri=uri, warehouse="hive", **options) as catalog:
                catalog.create_database("sales")
                text = np.random.default_rng(1).integers(97, 122, COUNT * WIDTH, dtype=np.uint8).tobytes().decode()
                rows = pa.table({"text": [text[at : at + WIDTH] for at in range(0, COUNT * WIDTH, WIDTH)]})
                catalog.create_table("sales.wide", rows.schema).append(rows)
        run("grant", "SELECT", "on", "table", "sales.wide", "to", "group", "etl", "--db", made.settings.db)
        directory.add_user(OF_CERTIFICATE)
        directory.join("etl", OF_CERTIFICATE)
        (home / "password").write_text(PASSWORDS["search"])
        (home / "keys.json").write_text(json.dumps({"keys": [public_jwk(KEY, "k")]}))
        yield made


@dataclass
class IdentifiedClient:
    """A client of a running server: its headers over HTTP, and how it connects to Thrift's port."""

    server: Server
    headers: Mapping[str, str]
    thrift: Callable[[ExitStack], Any]
    tls: ssl.SSLContext | None = None
    ends: Callable[[], object] = lambda: None
    undo: Callable[[], object] = lambda: None

    def http(self) -> http.client.HTTPConnection:
        """Open a connection of HTTP."""
        assert self.server.http_address is not None
        host, port = self.server.http_address
        if self.tls is not None:
            return http.client.HTTPSConnection(host, port, context=self.tls, timeout=at_most(60))
        return http.client.HTTPConnection(host, port, timeout=at_most(60))


@dataclass(frozen=True)
class IdentityCase:
    """A kind of identity, and what ends. `seconds` is the time until that is in force; `is_refused` says that the
    client is not authenticated any more, and not just without the rights of the group.
    """

    settings: Callable[[SharedLake], dict[str, Any]]
    identify: Callable[[SharedLake, Server, Clock], IdentifiedClient]
    seconds: float
    is_refused: bool
    has_http: bool = True
    takes_time: bool = field(default=True)
    """Whether the rights last up to the time, and do not end before."""
    status: int = 401
    """The status of a refusal over HTTP."""


def _by_password(lake: SharedLake, server: Server, secret: str, user: str = USER) -> IdentifiedClient:
    basic = base64.b64encode(f"{user}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}"}
    return IdentifiedClient(server, headers, lambda stack: connected(stack, server, user, secret))


def _token(lake: SharedLake, server: Server, clock: Clock) -> IdentifiedClient:
    with closing(SqlRepository(lake.settings.db)) as store:
        token, record = TokenService(store, clock=clock).create(USER, groups=["etl"], seconds=TOKEN_SECONDS)
    found = _by_password(lake, server, token)
    found.headers = {"Authorization": f"Bearer {token}"}
    found.ends = lambda: run("token", "revoke", record.token_id, "--db", lake.settings.db)
    return found


def _lasting_token(lake: SharedLake, server: Server, clock: Clock) -> IdentifiedClient:
    found = _token(lake, server, clock)
    found.ends = lambda: None
    return found


def _web_token(lake: SharedLake, server: Server, clock: Clock, seconds: float, **claims: Any) -> IdentifiedClient:
    now = int(clock.now)
    values = {"iss": ISSUER, "aud": AUDIENCE, "sub": USER, "exp": now + seconds, **claims}
    token = jwt.encode(values, KEY, algorithm="RS256", headers={"kid": "k"})
    found = _by_password(lake, server, token)
    found.headers = {"Authorization": f"Bearer {token}"}
    return found


def _leaving(lake: SharedLake, found: IdentifiedClient, user: str = USER) -> IdentifiedClient:
    found.ends = lambda: lake.directory.leave("etl", user)
    found.undo = lambda: lake.directory.join("etl", user)
    return found


def _removed(lake: SharedLake, found: IdentifiedClient) -> IdentifiedClient:
    found.ends, found.undo = lambda: lake.directory.remove_user(USER), lambda: lake.directory.add_user(USER)
    return found


def _certified(lake: SharedLake, server: Server, clock: Clock) -> IdentifiedClient:
    files = lake.certificates
    context = ssl.create_default_context(cafile=str(files / "ca.pem"))
    context.load_cert_chain(files / "client.pem", files / "client.key")

    def connect(stack: ExitStack) -> Any:
        transport = TBufferedTransport(TSSLSocket(*server.address, ssl_context=context))
        transport.open()
        stack.callback(transport.close)
        return ThriftHiveMetastore.Client(TBinaryProtocol(transport))

    return IdentifiedClient(server, {}, connect, context)


def _certified_with_token(lake: SharedLake, server: Server, clock: Clock) -> IdentifiedClient:
    found, by_token = _certified(lake, server, clock), _lasting_token(lake, server, clock)
    host, port = server.address

    def connect(stack: ExitStack) -> Any:
        socket = TSSLSocket(host, port, ssl_context=found.tls)
        password = by_token.headers["Authorization"].removeprefix("Bearer ")
        transport = SaslPlainTransport(socket, f"{host}:{port}", USER, token=password, token_file=None)
        transport.open()
        stack.callback(transport.close)
        return ThriftHiveMetastore.Client(TBinaryProtocol(transport))

    return IdentifiedClient(server, by_token.headers, connect, found.tls)


def _ending_soon(
    lake: SharedLake, server: Server, clock: Clock, identify: Callable[[SharedLake, Server, Clock], IdentifiedClient]
) -> IdentifiedClient:
    """Return a client with a certificate, at a time before the end of that."""
    pem = (lake.certificates / "client.pem").read_bytes()
    clock.now = x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp() - CERTIFICATE_SECONDS
    return identify(lake, server, clock)


def _without_directory(lake: SharedLake, found: IdentifiedClient) -> IdentifiedClient:
    found.ends, found.undo = lake.relay.stop, lake.relay.start
    return found


def _delegated(lake: SharedLake, server: Server, clock: Clock) -> IdentifiedClient:
    owner = _token(lake, server, clock)
    with ExitStack() as stack:
        text = owner.thrift(stack).get_delegation_token(USER, USER)
    found = IdentifiedClient(server, {}, lambda stack: stack.enter_context(delegated_client(server.address[1], text)))
    listed = [each for each in run_json("token", "list", "--db", lake.settings.db) if each.get("renewer") is not None]
    found.ends = lambda: run("token", "revoke", str(listed[-1]["id"]), "--db", lake.settings.db)
    return found


def _lasting_delegated(lake: SharedLake, server: Server, clock: Clock) -> IdentifiedClient:
    found = _delegated(lake, server, clock)
    found.ends = lambda: None
    return found


def _ldap(lake: SharedLake) -> dict[str, Any]:
    return {
        "ldap_url": f"ldap://127.0.0.1:{lake.relay.port}",
        "ldap_user_dn": PATTERN["user_dn"],
        "ldap_group_base": GROUPS["group_base"],
        "ldap_bind_dn": SEARCH["bind_dn"],
        "ldap_bind_password_file": lake.home / "password",
    }


def _directory(lake: SharedLake) -> dict[str, Any]:
    return {**_ldap(lake), "user_groups": "ldap", "user_groups_seconds": GROUPS_SECONDS}


def _jwt(lake: SharedLake) -> dict[str, Any]:
    return {
        "authentication": "jwt",
        "jwt_issuer": ISSUER,
        "jwt_audience": AUDIENCE,
        "jwt_keys": str(lake.home / "keys.json"),
    }


def _tls(lake: SharedLake) -> dict[str, Any]:
    files = lake.certificates
    return {
        "authentication": "certificate",
        "tls_certificate": files / "server.pem",
        "tls_key": files / "server.key",
        "tls_client_ca": files / "ca.pem",
    }


SKEW = 30.0
"""Seconds for which a JWT is accepted after its end."""

CASES = {
    "a token is revoked": IdentityCase(lambda lake: {"authentication": "token"}, _token, 1.0, True, takes_time=False),
    "a token expires": IdentityCase(lambda lake: {"authentication": "token"}, _lasting_token, TOKEN_SECONDS, True),
    "a JWT expires": IdentityCase(
        lambda lake: {**_jwt(lake), "jwt_groups": "roles"},
        lambda lake, server, clock: _web_token(lake, server, clock, 100, roles=["etl"]),
        100 + SKEW,
        True,
    ),
    "the user of a JWT leaves a group": IdentityCase(
        lambda lake: {**_jwt(lake), **_directory(lake)},
        lambda lake, server, clock: _leaving(lake, _web_token(lake, server, clock, 1000)),
        GROUPS_SECONDS,
        False,
    ),
    "the user of a password leaves a group": IdentityCase(
        lambda lake: {**_ldap(lake), "authentication": "ldap"},
        lambda lake, server, clock: _leaving(lake, _by_password(lake, server, PASSWORDS[USER])),
        60.0,
        False,
    ),
    "the user of a password is removed": IdentityCase(
        lambda lake: {**_ldap(lake), "authentication": "ldap"},
        lambda lake, server, clock: _removed(lake, _by_password(lake, server, PASSWORDS[USER])),
        60.0,
        True,
    ),
    "the user of a certificate leaves a group": IdentityCase(
        lambda lake: {**_tls(lake), **_directory(lake)},
        lambda lake, server, clock: _leaving(lake, _certified(lake, server, clock), OF_CERTIFICATE),
        GROUPS_SECONDS,
        False,
    ),
    "the directory of a certificate's groups does not answer": IdentityCase(
        # Other settings than those of the case above: servers of the same settings share the kept groups.
        lambda lake: {**_tls(lake), **_directory(lake), "user_groups_seconds": GROUPS_SECONDS + 1},
        lambda lake, server, clock: _without_directory(lake, _certified(lake, server, clock)),
        GROUPS_SECONDS + 1,
        True,
        status=503,
    ),
    "the directory of passwords does not answer": IdentityCase(
        lambda lake: {**_ldap(lake), "authentication": "ldap"},
        lambda lake, server, clock: _without_directory(lake, _by_password(lake, server, PASSWORDS[USER])),
        60.0,
        True,
        status=503,
    ),
    "a certificate ends": IdentityCase(
        lambda lake: {**_tls(lake), "access_admins": OF_CERTIFICATE},
        lambda lake, server, clock: _ending_soon(lake, server, clock, _certified),
        CERTIFICATE_SECONDS,
        True,
    ),
    "a certificate of a server without authentication ends": IdentityCase(
        lambda lake: {**_tls(lake), "authentication": "none", "access_authorizer": "none", "access_admins": None},
        lambda lake, server, clock: _ending_soon(lake, server, clock, _certified),
        CERTIFICATE_SECONDS,
        True,
    ),
    "a certificate with groups ends": IdentityCase(
        lambda lake: {**_tls(lake), **_directory(lake), "user_groups_seconds": 10 * CERTIFICATE_SECONDS},
        lambda lake, server, clock: _ending_soon(lake, server, clock, _certified),
        CERTIFICATE_SECONDS,
        True,
    ),
    "a certificate beside a token ends": IdentityCase(
        lambda lake: {**_tls(lake), "authentication": "token"},
        lambda lake, server, clock: _ending_soon(lake, server, clock, _certified_with_token),
        CERTIFICATE_SECONDS,
        True,
    ),
    "a delegation token is revoked": IdentityCase(
        lambda lake: {"authentication": "token,delegation-token"}, _delegated, 1.0, True, False, takes_time=False
    ),
    "a delegation token expires": IdentityCase(
        lambda lake: {"authentication": "token,delegation-token", "delegation_renew_seconds": 600.0},
        _lasting_delegated,
        600.0,
        True,
        False,
    ),
}


def sees(client: Any) -> str:
    """Return the outcome of a call of Thrift."""
    try:
        client.get_table("sales", "wide")
    except ttypes.NoSuchObjectException:
        return "missing"
    except TApplicationException as error:
        return "refused" if error.type == NOT_ADMITTED else str(error)
    return "seen"


def asked(connection: http.client.HTTPConnection, headers: Mapping[str, str], refusal: int = 401) -> str:
    """Return the outcome of a request on an open connection; `refusal` is the status of one that is refused."""
    connection.request("GET", "/paimon/v1/hive/databases/sales/tables/wide", headers=dict(headers))
    response = connection.getresponse()
    response.read()
    return {200: "seen", 404: "missing", refusal: "refused"}[response.status]


def reason_of(body: bytes) -> str:
    """Return the reason in the last batch of a stream that has failed; nothing for a complete one."""
    reader = pa.ipc.open_stream(body)
    while True:
        try:
            _, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return ""
        if metadata is not None and b"interbed.error" in metadata:
            return str(metadata[b"interbed.error"].decode())


def rest_of(response: http.client.HTTPResponse) -> bytes:
    """Return the rest of a body, whether it has its end or not."""
    try:
        return response.read()
    except http.client.IncompleteRead as error:
        return error.partial


@pytest.mark.parametrize("name", CASES)
def test_an_open_connection_loses_its_rights_in_time(lake: SharedLake, name: str) -> None:
    case = CASES[name]
    given = {"access_authorizer": "builtin", "access_admins": "root", **case.settings(lake)}
    settings = ServerSettings(port=0, http_port=0, db=lake.settings.db, warehouse=lake.settings.warehouse, **given)
    with ExitStack() as stack:
        clock = stack.enter_context(clocked())
        # The end of a JWT is a whole second.
        clock.now = float(int(clock.now))
        server = stack.enter_context(running(settings))
        client = case.identify(lake, server, clock)
        thrift = client.thrift(stack)
        assert sees(thrift) == "seen"
        over_http = stack.enter_context(closing(client.http()))
        stream = stack.enter_context(closing(client.http()))
        begun, response = b"", None
        if case.has_http:
            assert asked(over_http, client.headers) == "seen"
            stream.request("POST", PATH, b"{}", dict(client.headers))
            response = stream.getresponse()
            assert response.status == 200
            begun = response.read(1 << 16)
        started = clock.now
        client.ends()
        stack.callback(client.undo)
        if case.takes_time:
            clock.now = started + case.seconds - 0.6
            assert sees(thrift) == "seen"
            assert not case.has_http or asked(over_http, client.headers) == "seen"
        clock.now = started + case.seconds + 0.25
        lost = "refused" if case.is_refused else "missing"
        assert sees(thrift) == lost
        if response is not None:
            assert asked(over_http, client.headers, case.status) == lost
            body = begun + rest_of(response)
            assert len(body) < COUNT * WIDTH
            assert ("lacks the privilege" in reason_of(body)) != case.is_refused
            assert reason_of(body)
