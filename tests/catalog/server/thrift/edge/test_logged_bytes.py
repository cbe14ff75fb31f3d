"""Hostile bytes and texts that clients send to a running server: its log names the peer, and has no forged line, no
traceback and no secret; neither have its replies and its audit log.
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.process.command import stop_server
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, plain_client, started_server
from tests.support.servers.raw_thrift import call
from tests.support.waits import at_most, wait_until

FRAMES = {
    "text of a negative length": "800100010000000c6765745f6461746162617365000000010b0063ffffffff",
    "framed compact": "0000000782210001781f00",
    "compact without a frame": "82210001781f00",
    "null structure": call("update_table_column_statistics", b"\x0c\x00\x01\x00\x00").hex(),
    "no arguments": call("update_table_column_statistics", b"\x00").hex(),
}
FORGED = "\n2026-01-01 00:00:00 ERROR forged: all is lost\r\x1b[31m\x85\u2028"
SECRETS = ("s3a://KEY:SECRET@b/x", "s3a://KEY:SECRET@b/x\nforged", "abfs://a:SECRET@b/x", "https://u:SECRET@h/x")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the server and its logs."""
    return tmp_path_factory.mktemp("logged")


@pytest.fixture(scope="module", params=["text", "json"])
def server(request: pytest.FixtureRequest, directory: Path) -> Iterator[MetastoreUnderTest]:
    """Run a server with a log of each format, and an audit log."""
    place = directory / request.param
    place.mkdir()
    db, warehouse = f"sqlite:///{place / 'metastore.db'}", place / "warehouse"
    arguments = ("--log-format", request.param, "--audit-log", str(place / "audit.log"))
    running = started_server(db, f"file:{warehouse}", *arguments, log=place / "server.log")
    try:
        yield MetastoreUnderTest(running=running, db=db, warehouse=warehouse)
    finally:
        stop_server(running)


def log_of(server: MetastoreUnderTest, name: str = "server.log") -> str:
    """Return the content of a log."""
    return (server.warehouse.parent / name).read_text()


def sent(server: MetastoreUnderTest, data: bytes) -> tuple[str, bytes]:
    """Send bytes; return the own address, and what the server sends until it closes or the client has ended."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=at_most(30)) as connection:
        own = connection.getsockname()
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while part := connection.recv(1 << 16):
            received += part
        return f"{own[0]}:{own[1]}", received


@pytest.mark.parametrize("frame", FRAMES)
def test_a_bad_frame_is_logged_at_info_with_its_peer(server: MetastoreUnderTest, frame: str) -> None:
    peer, _ = sent(server, bytes.fromhex(FRAMES[frame]))
    wait_until(lambda: peer in log_of(server))
    lines = [line for line in log_of(server).splitlines() if peer in line]
    assert [line for line in lines if "INFO" not in line] == []
    assert "Traceback" not in log_of(server)


@pytest.mark.parametrize("method", [f"get_all{FORGED}", f"{FORGED}", "a" * 5000])
def test_the_name_of_a_method_forges_no_line(server: MetastoreUnderTest, method: str) -> None:
    _, answer = sent(server, call(method, b"\x00"))
    assert answer
    with plain_client(server.port) as client:
        client.get_all_databases()
    check_lines(server)


def test_names_of_users_and_locations_forge_no_line(server: MetastoreUnderTest) -> None:
    with plain_client(server.port) as client:
        client.set_ugi(f"ann{FORGED}", [f"staff{FORGED}"])
        for location in (f"file:/tmp/x{FORGED}", f"ftp://h/{FORGED}"):
            with pytest.raises((ttypes.MetaException, ttypes.InvalidObjectException)):
                client.create_database(ttypes.Database(name="forged", locationUri=location))
        client.get_all_databases()
    check_lines(server)


def check_lines(server: MetastoreUnderTest) -> None:
    """Check that each line of the logs is one that the server has begun."""
    for name in ("server.log", "audit.log"):
        content = log_of(server, name)
        assert "\x1b" not in content
        assert "\x85" not in content
        assert [line for line in content.split("\n") if line.startswith("2026-01-01 00:00:00 ERROR forged")] == []
    for line in log_of(server, "audit.log").splitlines():
        assert isinstance(json.loads(line), dict)


@pytest.mark.parametrize("location", SECRETS)
def test_the_secret_of_a_refused_location_is_in_no_reply_and_no_log(server: MetastoreUnderTest, location: str) -> None:
    with plain_client(server.port) as client:
        with pytest.raises((ttypes.MetaException, ttypes.InvalidObjectException)) as refused:
            client.create_database(ttypes.Database(name="secret", locationUri=location))
        assert "SECRET" not in str(refused.value)
        assert "secret" not in client.get_all_databases()
    wait_until(lambda: "create_database" in log_of(server, "audit.log"))
    assert "SECRET" not in log_of(server) + log_of(server, "audit.log")
