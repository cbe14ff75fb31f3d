"""Every route of REST and every method of Thrift, with credentials that name no principal: none is served."""

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import jwt
import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.server.auth.authentication import SaslStatus
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore
from tests.catalog.server.access.rest_interfaces import guarded_rest
from tests.catalog.server.access.test_thrift_matrix import OF_GRANTS, ROWS
from tests.catalog.server.access.thrift_calls import arguments_of
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, rsa_key, trusting
from tests.catalog.server.auth.test_sasl_plain import START, answered, is_ended, response
from tests.catalog.server.console.pages import console_pages
from tests.catalog.server.migration.commands import run, run_json
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.tally import Tally
from tests.support.waits import at_most

KEY, OTHER_KEY = rsa_key(), rsa_key()
EARLIER, LATER = 1_500_000_000, 4_102_444_800


@dataclass(frozen=True)
class StrangeClients:
    """A server, and tokens that it refuses, by what is wrong with them."""

    server: MetastoreUnderTest
    tokens: dict[str, str]

    @property
    def headers(self) -> dict[str, dict[str, str]]:
        """The headers of requests of strangers."""
        bearer = {name: {"authorization": f"Bearer {token}"} for name, token in self.tokens.items()}
        basic = {"authorization": "Basic YW5uOmFubg=="}
        return {"nothing": {}, "a name": {"x-actor-username": "ann"}, "a password": basic, **bearer}


def _signed(key: object, **changes: object) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": LATER, **changes}
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "k"})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrangeClients]:
    """Run a server that takes tokens and JWTs on both ports."""
    directory = tmp_path_factory.mktemp("strangers")
    with metastore_under_test(
        f"sqlite:///{directory / 'metastore.db'}",
        directory,
        *("--http-port", "0", "--authentication", "token,jwt"),
        *trusting(directory, KEY),
    ) as server:
        valid = run("token", "create", "ann", "--db", server.db).strip()
        revoked = run_json("token", "create", "ann", "--db", server.db)
        run("token", "revoke", revoked["id"], "--db", server.db)
        tokens = {
            "a changed token": valid[:-1] + ("A" if valid[-1] != "A" else "B"),
            "a revoked token": revoked["token"],
            "a JWT that has expired": _signed(KEY, exp=EARLIER),
            "a JWT of another key": _signed(OTHER_KEY),
            "a JWT for another audience": _signed(KEY, aud="another"),
        }
        yield StrangeClients(server, tokens)


def _each_answer(
    server: MetastoreUnderTest, requests: list[tuple[str, str, bytes]], headers: dict[str, str]
) -> Iterator[tuple[str, str, int, bytes]]:
    """Send requests over one connection; yield method, path, status and body of each answer."""
    parts = urlsplit(server.http)
    assert parts.hostname is not None
    with closing(HTTPConnection(parts.hostname, parts.port, timeout=at_most(30))) as connection:
        for method, path, body in requests:
            connection.request(method, path, body or None, {"content-type": "application/json", **headers})
            with connection.getresponse() as answer:
                yield method, path, answer.status, answer.read()


def _connected(strangers: StrangeClients) -> socket.socket:
    return socket.create_connection(("127.0.0.1", strangers.server.port), timeout=at_most(30))


def _message(method: str) -> bytes:
    """Return the call of a method about the table `orders`."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(method, TMessageType.CALL, 1)
    arguments_of(method, "orders").write(protocol)
    protocol.writeMessageEnd()
    return bytes(buffer.getvalue())


METHODS = sorted({*ROWS, *OF_GRANTS})
ONE_WAY = {each for each in METHODS if not hasattr(ThriftHiveMetastore, f"{each}_result")}
"""Methods without a reply."""


@pytest.mark.attack("forged tokens")
def test_no_route_is_served_to_a_stranger(strangers: StrangeClients, tmp_path: Path, tally: Tally) -> None:
    with guarded_rest(tmp_path) as rest:
        requests = [
            (
                route.method,
                f"/{name}/{route.template.replace('{', '').replace('}', '')}",
                b"{}" * (route.method == "POST"),
            )
            for name, interface in rest.interfaces.items()
            for route in interface.routes
        ]
    assert len(requests) > 100
    for wrong, headers in strangers.headers.items():
        for method, path, status, body in _each_answer(strangers.server, requests, headers):
            assert status == 401, (wrong, method, path, status, body)
            if method != "HEAD":
                assert json.loads(body)["code"] == 401
    tally("requests of strangers", len(requests) * len(strangers.headers))


@pytest.mark.attack("forged tokens")
def test_no_page_of_the_console_is_served_to_a_stranger(
    strangers: StrangeClients, tmp_path: Path, tally: Tally
) -> None:
    with console_pages(tmp_path) as pages:
        requests = [
            (
                route.method,
                f"/console/{route.template.replace('{', '').replace('}', '')}".rstrip("/"),
                b"form-token=0" * (route.method == "POST"),
            )
            for route in pages.interface.routes
        ]
    assert len(requests) >= 10
    cookies = {f"the cookie {name}": {"cookie": f"interbed-console={each}"} for name, each in strangers.tokens.items()}
    secrets = ["A" * 43, "A" * 42, "", "A" * 43 + "; interbed-console=" + "B" * 43]
    cookies |= {f"the cookie {each!r}": {"cookie": f"interbed-console={each}"} for each in secrets}
    for wrong, headers in {**strangers.headers, **cookies}.items():
        sent = {**headers, "content-type": "application/x-www-form-urlencoded"}
        for method, path, status, body in _each_answer(strangers.server, requests, sent):
            assert status == (403 if method == "POST" else 303), (wrong, method, path, status, body)
            assert method == "POST" or body == b""
    tally("requests of strangers", len(requests) * (len(strangers.headers) + len(cookies)))


@pytest.mark.attack("forged tokens")
def test_no_method_is_served_to_a_stranger_over_http(strangers: StrangeClients, tally: Tally) -> None:
    requests = [("POST", "/metastore", _message(method)) for method in METHODS]
    assert len(requests) > 150
    for wrong, headers in strangers.headers.items():
        sent = {**headers, "content-type": "application/x-thrift"}
        for method, (_, _, status, body) in zip(METHODS, _each_answer(strangers.server, requests, sent), strict=True):
            assert status == 401, (wrong, method, status, body)
    tally("calls of strangers", len(requests) * len(strangers.headers))


@pytest.mark.attack("SASL")
def test_no_method_is_served_to_a_stranger_on_the_port_of_thrift(strangers: StrangeClients, tally: Tally) -> None:
    for method in METHODS:
        message = _message(method)
        with _connected(strangers) as connection:
            connection.sendall(message)
            reply = connection.recv(4096)
            if method in ONE_WAY:
                assert reply == b""
            else:
                assert b"not authenticated; accepted: token, jwt" in reply, (method, reply)
        with _connected(strangers) as connection:
            connection.sendall(struct.pack("!I", len(message)) + message)
            assert is_ended(connection), method
    tally("calls of strangers", 2 * len(METHODS))


@pytest.mark.attack("SASL")
def test_no_negotiation_of_a_stranger_is_completed(strangers: StrangeClients) -> None:
    for wrong, token in strangers.tokens.items():
        with _connected(strangers) as connection:
            connection.sendall(START + response("ann", token))
            assert answered(connection)[0] == SaslStatus.BAD, wrong
            assert is_ended(connection), wrong
