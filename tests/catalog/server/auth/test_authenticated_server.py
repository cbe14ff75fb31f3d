"""A server that authenticates its clients: by tokens and JWTs over HTTP, by certificates on both ports."""

import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import UnauthorizedError
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport

import interbed
from interbed.catalog.client.errors import CatalogAccessError, CatalogError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, rsa_key, trusting
from tests.catalog.server.migration.commands import run, run_json
from tests.support.certificates import make_certificates
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import at_most, wait_until

KEY = rsa_key()

PATHS = [
    "/iceberg/v1/config",
    "/iceberg/v1/hive/namespaces",
    "/paimon/v1/config?warehouse=hive",
    "/paimon/v1/hive/databases",
    "/interbed/v1/hive/dropped",
    "/metastore",
    "/",
    "/console",
    "/health/ready",
]


@dataclass(frozen=True)
class AuthenticatedServer:
    """A server with authentication, and a token of the principal `ann`."""

    server: MetastoreUnderTest
    token: str
    audit: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create certificates of a server and a client."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def web_token(**changes: Any) -> str:
    """Return a JWT of the issuer, valid now."""
    now = int(time.time())
    values = {"iss": ISSUER, "aud": AUDIENCE, "sub": "bob", "exp": now + 300, "roles": ["etl"], **changes}
    return jwt.encode(values, KEY, algorithm="RS256", headers={"kid": "k"})


@pytest.fixture(scope="module")
def authenticated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthenticatedServer]:
    """Run a server that takes tokens and JWTs."""
    directory = tmp_path_factory.mktemp("authenticated")
    with metastore_under_test(
        f"sqlite:///{directory / 'metastore.db'}",
        directory,
        *("--http-port", "0", "--authentication", "token,jwt", "--audit-log", str(directory / "audit.log")),
        *(*trusting(directory, KEY), "--jwt-groups", "roles"),
    ) as server:
        token = run("token", "create", "ann", "--db", server.db).strip()
        yield AuthenticatedServer(server, token, directory / "audit.log")


def asked(server: MetastoreUnderTest, path: str, authorization: str | None, body: bytes | None = None) -> Any:
    """Return status, headers and body of a request."""
    headers = {} if authorization is None else {"authorization": authorization}
    request = urllib.request.Request(server.http + path, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=at_most(30)) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


@contextmanager
def thrift_over_http(
    server: MetastoreUnderTest, headers: dict[str, str], context: ssl.SSLContext | None = None
) -> Iterator[ThriftHiveMetastore.Client]:
    """Yield a client of Thrift over HTTP with these headers."""
    transport = THttpClient(server.http.replace("127.0.0.1", "localhost") + "/metastore", ssl_context=context)
    transport.setCustomHeaders(headers)
    with closing(transport):
        yield ThriftHiveMetastore.Client(TBinaryProtocol(transport))


@contextmanager
def thrift_over_tls(port: int, context: ssl.SSLContext) -> Iterator[ThriftHiveMetastore.Client]:
    """Yield a client of Thrift's port with TLS."""
    with closing(TBufferedTransport(TSSLSocket("localhost", port, ssl_context=context))) as transport:
        transport.open()
        yield ThriftHiveMetastore.Client(TBinaryProtocol(transport))


def bearer(token: str, **further: str) -> dict[str, str]:
    """Return the headers of a request with a token."""
    return {"authorization": f"Bearer {token}", **further}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.attack("forged tokens")
def test_nothing_is_served_without_credentials(authenticated: AuthenticatedServer, path: str) -> None:
    for authorization in (
        None,
        "Bearer ",
        "Bearer wrong",
        "Basic YW5uOmFubg==",
        "Bearer ibt_0123",
        authenticated.token,
    ):
        status, headers, body = asked(authenticated.server, path, authorization)
        assert status == 401, (path, authorization)
        assert headers["www-authenticate"] == 'Bearer realm="interbed"'
        assert json.loads(body)["error"]["type"] == "NotAuthorizedException"
        assert json.loads(body)["code"] == 401


def test_a_body_is_not_read_before_authentication(authenticated: AuthenticatedServer) -> None:
    host, _, port = authenticated.server.http.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=at_most(30)) as connection:
        connection.sendall(b"POST /metastore HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\n" + b"x" * 1000)
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.attack("forged tokens")
def test_two_authorization_headers_are_refused(authenticated: AuthenticatedServer) -> None:
    host, _, port = authenticated.server.http.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=at_most(30)) as connection:
        header = f"authorization: Bearer {authenticated.token}\r\n"
        connection.sendall(f"GET /iceberg/v1/config HTTP/1.1\r\nhost: x\r\n{header}{header}\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("path", ["/iceberg/v1/config", "/paimon/v1/config?warehouse=hive"])
def test_a_token_and_a_jwt_are_accepted(authenticated: AuthenticatedServer, path: str) -> None:
    for token in (authenticated.token, web_token()):
        for _ in range(2):
            assert asked(authenticated.server, path, f"Bearer {token}")[0] == 200
        assert asked(authenticated.server, path, f"bearer  {token}")[0] == 200


def test_clients_of_both_catalogs_and_of_thrift_work_by_tokens(authenticated: AuthenticatedServer) -> None:
    server, token = authenticated.server, authenticated.token
    with closing(RestCatalog("ours", uri=f"{server.http}/iceberg", token=token)) as iceberg:
        iceberg.create_namespace("shop")
        iceberg.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    rest: dict[str, Any] = {"token.provider": "bear", "token": web_token()}
    with interbed.load_catalog("l", metastore="rest", uri=f"{server.http}/paimon", warehouse="hive", **rest) as paimon:
        paimon.create_table("shop.t", pa.schema([("id", pa.int64())]), options={"bucket": "-1"}).append([{"id": 1}])
        assert paimon.get_table("shop.t").scan().to_arrow().to_pylist() == [{"id": 1}]
    with thrift_over_http(server, bearer(token, **{"x-actor-username": "root"})) as thrift:
        # The second answer is that of the cache.
        for _ in range(2):
            assert thrift.get_all_tables("shop") == ["orders", "t"]
    with pytest.raises(UnauthorizedError):
        RestCatalog("ours", uri=f"{server.http}/iceberg", token=token[:-1] + "~")


def test_the_hive_catalog_works_by_tokens(authenticated: AuthenticatedServer, tmp_path: Path) -> None:
    server, file = authenticated.server, tmp_path / "token"
    file.write_text(authenticated.token)
    http = {
        "metastore": "hive",
        "uri": server.http.replace("http://", "thrift://"),
        "hive.metastore.client.thrift.transport.mode": "http",
    }
    with interbed.load_catalog("l", **http, **{"token.provider.path": str(file)}) as catalog:
        catalog.create_database("by_http")
        table = catalog.create_table("by_http.t", pa.schema([("id", pa.int64())]), options={"bucket": "-1"})
        table.append([{"id": 1}])
        table.append([{"id": 2}])
        file.write_text(web_token())
        assert sorted(each["id"] for each in catalog.get_table("by_http.t").scan().to_arrow().to_pylist()) == [1, 2]
        file.write_text("wrong")
        with pytest.raises(CatalogAccessError, match=r"answers 401: .*token\.provider\.path"):
            catalog.list_tables("by_http")
    with pytest.raises(CatalogAccessError), interbed.load_catalog("l", **http) as catalog:
        catalog.list_databases()


def test_the_principal_is_in_the_audit_log_and_the_history(authenticated: AuthenticatedServer) -> None:
    server = authenticated.server
    with thrift_over_http(server, bearer(authenticated.token, **{"x-actor-username": "root"})) as thrift:
        thrift.set_ugi("root", ["wheel"])
        thrift.create_database(ttypes.Database(name="audited"))
    with thrift_over_http(server, bearer(web_token(jti="j-7"))) as thrift:
        thrift.create_database(ttypes.Database(name="audited2"))
    lines = [json.loads(line) for line in authenticated.audit.read_text().splitlines()]
    made = {line.get("database"): line for line in lines if line["method"] == "create_database"}
    token_id = authenticated.token.split("_")[1]
    assert (made["audited"]["user"], made["audited"]["mechanism"], made["audited"]["mechanism_id"]) == (
        "ann",
        "token",
        token_id,
    )
    by_jwt = made["audited2"]
    assert (by_jwt["user"], by_jwt["mechanism"], by_jwt["mechanism_id"]) == ("bob", "jwt", "j-7")
    for name, principal in (("audited", "ann"), ("audited2", "bob")):
        (entry,) = run_json("history", "--database", name, "--db", server.db)
        assert entry["principal"] == principal


def test_requests_of_one_connection_have_their_own_principals(authenticated: AuthenticatedServer) -> None:
    transport = THttpClient(authenticated.server.http + "/metastore")
    with closing(transport):
        client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
        for name, token in (("turn1", authenticated.token), ("turn2", web_token()), ("turn3", authenticated.token)):
            transport.setCustomHeaders(bearer(token))
            client.create_database(ttypes.Database(name=name))
    lines = [json.loads(line) for line in authenticated.audit.read_text().splitlines()]
    users = [line["user"] for line in lines if str(line.get("database")).startswith("turn")]
    assert users == ["ann", "bob", "ann"]


def test_thrift_without_http_gets_the_reason(authenticated: AuthenticatedServer) -> None:
    with (
        HiveMetastoreClient(authenticated.server.uri, timeout_seconds=at_most(30)) as client,
        pytest.raises(CatalogError, match=r"not authenticated; accepted: token, jwt.*over HTTP"),
    ):
        client.get_all_databases()


def test_a_revoked_token_is_refused_soon(authenticated: AuthenticatedServer) -> None:
    server = authenticated.server
    made = run_json("token", "create", "eve", "--group", "etl", "--db", server.db)
    header = f"Bearer {made['token']}"
    assert asked(server, "/iceberg/v1/config", header)[0] == 200
    assert "is revoked" in run("token", "revoke", made["id"], "--db", server.db)
    wait_until(lambda: asked(server, "/iceberg/v1/config", header)[0] == 401, "the token is refused")
    listed = {each["id"]: each for each in run_json("token", "list", "--db", server.db)}
    assert listed[made["id"]]["revoked_at"] is not None
    assert made["token"] not in run("token", "list", "--db", server.db)


def test_a_token_is_refused_on_the_connection_that_it_was_accepted_on(authenticated: AuthenticatedServer) -> None:
    server = authenticated.server
    made = run_json("token", "create", "kim", "--db", server.db)
    parts = urlsplit(server.http)
    assert parts.hostname is not None

    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=at_most(30))) as connection:

        def status(token: str | None) -> int:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            connection.request("GET", "/iceberg/v1/config", headers=headers)
            with connection.getresponse() as response:
                response.read()
                return response.status

        assert [status(made["token"]) for _ in range(3)] == [200, 200, 200]
        run("token", "revoke", made["id"], "--db", server.db)
        wait_until(lambda: status(made["token"]) == 401, "the token is refused")
        other = authenticated.token
        asked_in_turn = [status(each) for each in (other, made["token"], other, None, other, other[:-1], other)]
    assert asked_in_turn == [200, 401, 200, 401, 200, 401, 200]


def test_certificates_name_principals_on_both_ports(tmp_path: Path, certificates: Path) -> None:
    arguments = ["--tls-certificate", f"{certificates}/server.pem", "--tls-key", f"{certificates}/server.key"]
    arguments += ["--tls-client-ca", f"{certificates}/ca.pem", "--authentication", "certificate,token"]
    arguments += ["--http-port", "0", "--audit-log", str(tmp_path / "audit.log"), "--workers", "2"]
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *arguments) as server:
        nobody = ssl.create_default_context(cafile=certificates / "ca.pem")
        client = ssl.create_default_context(cafile=certificates / "ca.pem")
        client.load_cert_chain(certificates / "client.pem", certificates / "client.key")
        token = run("token", "create", "ann", "--db", server.db).strip()
        for context, headers, name in ((client, {}, "one"), (nobody, bearer(token), "two")):
            with thrift_over_http(server, headers, context) as thrift:
                thrift.create_database(ttypes.Database(name=name))
        with thrift_over_tls(server.port, client) as thrift:
            thrift.create_database(ttypes.Database(name="three"))
        with (
            thrift_over_tls(server.port, nobody) as thrift,
            pytest.raises(TApplicationException, match="not authenticated; accepted: token, certificate"),
        ):
            thrift.create_database(ttypes.Database(name="four"))
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    done = [
        (each.get("database"), each.get("user"), each.get("mechanism")) for each in lines if each["outcome"] == "ok"
    ]
    assert done == [("one", "client", "certificate"), ("two", "ann", "token"), ("three", "client", "certificate")]
