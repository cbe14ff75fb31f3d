"""Thrift's own port by SASL PLAIN: a user and a token on every connection."""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from queue import Queue
from random import Random
from typing import Any

import jwt
import psutil
import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogAccessError, CatalogError, CatalogUnavailableError
from interbed.catalog.server.auth.attempts import address_of
from interbed.catalog.server.auth.authentication import NegotiationError, SaslStatus
from interbed.catalog.server.auth.principals import Credentials
from interbed.catalog.server.process.main import Server
from interbed.catalog.server.process.main import run as run_server
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.thrift.edge import authenticating
from interbed.catalog.server.thrift.edge.transport import packed
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, rsa_key, trusting
from tests.catalog.server.auth.test_authenticated_server import AuthenticatedServer
from tests.catalog.server.migration.commands import run
from tests.catalog.server.thrift.edge.test_sasl import PEER, negotiated
from tests.support.certificates import make_certificates
from tests.support.servers.metastore import metastore_under_test
from tests.support.servers.raw_thrift import call
from tests.support.waits import at_most, wait_until

KEY = rsa_key()
FAR = 4102444800
START = packed(SaslStatus.START, b"PLAIN")
GET_ALL = call("get_all_databases", b"\0")


def response(user: str, token: str) -> bytes:
    """Return the message with the response of PLAIN."""
    return packed(SaslStatus.COMPLETE, f"\0{user}\0{token}".encode())


@pytest.fixture(scope="module")
def authenticated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthenticatedServer]:
    """Run a server that takes tokens and JWTs, without a port for HTTP."""
    directory = tmp_path_factory.mktemp("sasl")
    with metastore_under_test(
        f"sqlite:///{directory / 'metastore.db'}",
        directory,
        *("--authentication", "token,jwt", "--audit-log", str(directory / "audit.log"), "--message-bytes-max", "1MB"),
        *trusting(directory, KEY),
    ) as server:
        token = run("token", "create", "ann", "--db", server.db).strip()
        yield AuthenticatedServer(server, token, directory / "audit.log")


def options(uri: str, user: str = "ann", **further: str) -> dict[str, Any]:
    """Return the options of a catalog that authenticates itself by PLAIN."""
    return {
        "metastore": "hive",
        "uri": uri,
        "hive.metastore.client.auth.mode": "PLAIN",
        "hive.metastore.client.plain.username": user,
        **further,
    }


def connected(authenticated: AuthenticatedServer) -> socket.socket:
    """Return a connection to the server."""
    return socket.create_connection(("127.0.0.1", authenticated.server.port), timeout=at_most(30))


def received(connection: socket.socket, count: int) -> bytes:
    """Return this many bytes, or fewer if the server closes the connection."""
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def answered(connection: socket.socket) -> tuple[int, str]:
    """Return status and text of the server's message."""
    status, length = struct.unpack("!BI", received(connection, 5))
    return status, received(connection, length).decode()


def is_ended(connection: socket.socket) -> bool:
    """Return whether the server closes the connection without a word; it may have left bytes unread."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def framed(connection: socket.socket, message: bytes) -> bytes:
    """Send a message in a frame, and return that of the reply."""
    connection.sendall(struct.pack("!I", len(message)) + message)
    (length,) = struct.unpack("!I", received(connection, 4))
    return received(connection, length)


def test_the_hive_catalog_works_by_plain(authenticated: AuthenticatedServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(authenticated.token)
    given = options(authenticated.server.uri, **{"token.provider.path": str(file)})
    with interbed.load_catalog("l", **given) as catalog:
        catalog.create_database("by_plain")
        table = catalog.create_table("by_plain.t", pa.schema([("id", pa.int64())]), options={"bucket": "-1"})
        table.append([{"id": 1}])
        assert catalog.get_table("by_plain.t").scan().to_arrow().to_pylist() == [{"id": 1}]
    web = jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "sub": "bob", "exp": FAR}, KEY, "RS256", headers={"kid": "k"})
    with interbed.load_catalog("l", **options(authenticated.server.uri, "bob", token=web)) as catalog:
        catalog.create_database("by_jwt")
    lines = [json.loads(line) for line in authenticated.audit.read_text().splitlines()]
    made = {line.get("database"): line for line in lines if line["method"].startswith("create_database")}
    assert (made["by_plain"]["user"], made["by_plain"]["mechanism"]) == ("ann", "token")
    assert (made["by_jwt"]["user"], made["by_jwt"]["mechanism"]) == ("bob", "jwt")
    # The file is read for each connection.
    file.write_text("wrong")
    with (
        pytest.raises(CatalogAccessError, match=r"does not accept the user ann .*token\.provider\.path"),
        interbed.load_catalog("l", **given) as catalog,
    ):
        catalog.list_databases()


@pytest.mark.parametrize(
    ("user", "changed", "reason"),
    [("ann", "~", "not valid"), ("bob", None, "another user"), ("ann", "x.y.z", "not valid"), ("ANN", None, "another")],
)
@pytest.mark.attack("SASL")
def test_wrong_tokens_and_users_are_refused(
    authenticated: AuthenticatedServer, user: str, changed: str | None, reason: str
) -> None:
    token = authenticated.token
    if changed is not None:
        token = changed if len(changed) > 1 else token[:-1] + changed
    # The second answer is the kept one.
    for _ in range(2):
        with connected(authenticated) as connection:
            connection.sendall(START + response(user, token))
            status, text = answered(connection)
            assert status == SaslStatus.BAD
            assert reason in text
            assert connection.recv(1) == b""
    with (
        pytest.raises(CatalogAccessError, match=reason) as refused,
        interbed.load_catalog("l", **options(authenticated.server.uri, user, token=token)) as catalog,
    ):
        catalog.list_databases()
    assert token not in str(refused.value)


def test_frames_follow_the_negotiation(authenticated: AuthenticatedServer) -> None:
    for _ in range(2):
        with connected(authenticated) as connection:
            whole = START + response("ann", authenticated.token)
            for begin in range(0, len(whole), 7):
                connection.sendall(whole[begin : begin + 7])
            assert answered(connection) == (SaslStatus.COMPLETE, "")
            # The second answer is that of the cache; set_ugi changes nothing.
            for _ in range(2):
                assert b"default" in framed(connection, GET_ALL)
            long = call("get_database", b"\x0b\0\1" + struct.pack("!i", 100_000) + b"x" * 100_000 + b"\0")
            assert b"get_database" in framed(connection, long)


@pytest.mark.attack("SASL")
def test_requests_before_the_end_of_the_negotiation_are_not_served(authenticated: AuthenticatedServer) -> None:
    frame = struct.pack("!I", len(GET_ALL)) + GET_ALL
    for begin in (START, START + response("ann", authenticated.token)):
        with connected(authenticated) as connection:
            connection.sendall(begin + frame)
            status, text = answered(connection)
            assert status == SaslStatus.ERROR
            assert "default" not in text


@pytest.mark.attack("SASL")
def test_a_replayed_negotiation_changes_nothing(authenticated: AuthenticatedServer) -> None:
    with connected(authenticated) as connection:
        connection.sendall(START + response("ann", authenticated.token))
        assert answered(connection) == (SaslStatus.COMPLETE, "")
        # It is the beginning of a frame that is too long.
        connection.sendall(START + response("ann", authenticated.token))
        assert is_ended(connection)


@pytest.mark.attack("SASL")
def test_a_client_without_negotiation_gets_the_reason_and_no_long_message(authenticated: AuthenticatedServer) -> None:
    with connected(authenticated) as connection:
        connection.sendall(GET_ALL)
        assert b"not authenticated; accepted: token, jwt" in connection.recv(4096)
        connection.sendall(call("get_database", b"\x0b\0\1" + struct.pack("!i", 1 << 20) + b"x" * 100_000))
        assert is_ended(connection)
    with (
        pytest.raises(CatalogError, match=r"auth\.mode=PLAIN"),
        interbed.load_catalog("l", metastore="hive", uri=authenticated.server.uri) as catalog,
    ):
        catalog.list_databases()


@contextmanager
def served(settings: ServerSettings) -> Iterator[int]:
    """Run a server on a thread of this process, and yield its port."""
    started: Queue[Server] = Queue()
    thread = threading.Thread(target=run_server, args=(settings,), kwargs={"on_ready": started.put})
    thread.start()
    server = started.get(timeout=at_most(60))
    try:
        yield server.address[1]
    finally:
        server.stop()
        thread.join(timeout=at_most(60))


@pytest.mark.parametrize("mechanisms", ["token", ""])
@pytest.mark.attack("SASL")
def test_connections_that_do_not_end_their_negotiation_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanisms: str
) -> None:
    monkeypatch.setattr(authenticating, "AUTHENTICATION_SECONDS_MAX", 0.1)
    settings = ServerSettings(
        port=0, db=f"sqlite:///{tmp_path / 'm.db'}", warehouse=f"file:{tmp_path / 'w'}", authentication=mechanisms
    )
    with served(settings) as port, ExitStack() as stack:
        silent, partial, plain = (
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=at_most(30))) for _ in range(3)
        )
        partial.sendall(START + response("ann", "secret")[:-1])
        plain.sendall(GET_ALL)
        assert (b"not authenticated" in plain.recv(4096)) == bool(mechanisms)
        assert partial.recv(1) == b""
        for each in (silent, plain):
            if mechanisms:
                assert each.recv(1) == b""
            else:
                each.sendall(GET_ALL)
                assert b"default" in each.recv(4096)


@pytest.mark.attack("SASL")
def test_many_negotiations_take_few_threads_and_little_memory(authenticated: AuthenticatedServer) -> None:
    process = psutil.Process(authenticated.server.running.process.pid)
    threads, memory = process.num_threads(), process.memory_info().rss
    begun = [connected(authenticated) for _ in range(200)]
    try:
        for number, each in enumerate(begun):
            each.sendall(START + packed(SaslStatus.OK, f"\0ann\0wrong{number}.".encode() + b"x" * 19_000)[:-1])
        for each in begun:
            each.sendall(b"x")
        assert process.num_threads() <= threads + 20
        refused = [answered(each) for each in begun]
    finally:
        for each in begun:
            each.close()
    assert {status for status, _ in refused} <= {SaslStatus.BAD, SaslStatus.ERROR}
    assert {text.count("try again") for status, text in refused if status == SaslStatus.ERROR} <= {1}
    assert process.memory_info().rss - memory < 64 << 20
    with interbed.load_catalog("l", **options(authenticated.server.uri, token=authenticated.token)) as catalog:
        assert "default" in catalog.list_databases()


def mutated(whole: bytes, chance: Random) -> bytes:
    """Return a negotiation with a byte changed, bytes left out, or bytes repeated."""
    begin = chance.randrange(len(whole))
    end = begin + chance.choice((1, 1, 2, 5, 20))
    match chance.randrange(3):
        case 0:
            return whole[:begin] + bytes((chance.randrange(256),)) + whole[begin + 1 :]
        case 1:
            return whole[:begin] + whole[end:]
        case _:
            return whole[:end] + whole[begin:]


@pytest.mark.attack("SASL")
def test_mutated_negotiations_admit_no_other_user(authenticated: AuthenticatedServer) -> None:
    right = Credentials(user="ann", password=authenticated.token, address=address_of(PEER))
    chance = Random(7)
    whole = START + response("ann", authenticated.token)
    admitted = 0
    for _ in range(300):
        data = mutated(whole, chance)
        try:
            expected = negotiated(data) == right
        except NegotiationError:
            expected = False
        with connected(authenticated) as connection:
            connection.sendall(data)
            # The server sees the end of incomplete ones.
            connection.shutdown(socket.SHUT_WR)
            try:
                answer = received(connection, 5)
            except ConnectionResetError:
                answer = b""
        assert (answer[:1] == bytes((SaslStatus.COMPLETE,))) == expected, data
        admitted += expected
    assert admitted < 30


def test_a_revoked_token_is_refused_on_its_connections(authenticated: AuthenticatedServer) -> None:
    token = run("token", "create", "eve", "--db", authenticated.server.db).strip()

    def is_refused() -> bool:
        with connected(authenticated) as other:
            other.sendall(START + response("eve", token))
            return answered(other)[0] == SaslStatus.BAD

    with connected(authenticated) as connection:
        connection.sendall(START + response("eve", token))
        assert answered(connection)[0] == SaslStatus.COMPLETE
        assert b"default" in framed(connection, GET_ALL)
        run("token", "revoke", token.split("_")[1], "--db", authenticated.server.db)
        wait_until(is_refused, "the token is refused")
        # What was read before is not verified again within a second.
        wait_until(lambda: b"default" not in framed(connection, GET_ALL), "the connection is refused")
        assert connection.recv(1) == b""


def test_a_server_without_authentication_says_so(tmp_path: Path) -> None:
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path) as server:
        with (
            pytest.raises(CatalogUnavailableError, match="does not authenticate its clients"),
            interbed.load_catalog("l", **options(server.uri, token="a-token-of-ann")) as catalog,
        ):
            catalog.list_databases()
        with interbed.load_catalog("l", metastore="hive", uri=server.uri) as catalog:
            assert catalog.list_databases() == ["default"]


def test_tokens_and_certificates_are_taken_by_one_port(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = ("--tls-certificate", str(made / "server.pem"), "--tls-key", str(made / "server.key"))
    mechanisms = ("--authentication", "certificate,token", "--tls-client-ca", str(made / "ca.pem"))
    settings = (*tls, *mechanisms, "--workers", "2", "--transport", "framed")
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as server:
        token = run("token", "create", "ann", "--db", server.db).strip()
        secure = {
            "hive.metastore.use.SSL": "true",
            "hive.metastore.truststore.path": str(made / "ca.pem"),
            "token": token,
        }
        uri = server.uri.replace("127.0.0.1", "localhost")
        with interbed.load_catalog("l", **options(uri, **secure)) as catalog:
            assert catalog.list_databases() == ["default"]
        context = ssl.create_default_context(cafile=str(made / "ca.pem"))
        context.load_cert_chain(made / "client.pem", made / "client.key")
        with (
            closing(socket.create_connection(("localhost", server.port), timeout=at_most(30))) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            assert b"default" in framed(connection, GET_ALL)
