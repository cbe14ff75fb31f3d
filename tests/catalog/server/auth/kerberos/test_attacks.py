"""Hostile clients of a port with Kerberos: each attack is refused by name, and the server serves others after it."""

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import interbed
from interbed.catalog.server.auth.authentication import SaslStatus
from interbed.catalog.server.thrift.edge.transport import packed
from tests.catalog.server.auth.kerberos.served import (
    HIVE,
    HTTP,
    START,
    KerberosServer,
    RawClient,
    kerberos_server,
    raw_client,
)
from tests.catalog.server.auth.test_sasl_plain import GET_ALL, answered, is_ended, received
from tests.support.servers.kdc import REALM, KeyDistributionCenter
from tests.support.waits import at_most, wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(kdc: KeyDistributionCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosServer]:
    """Run a server whose frames have at most a megabyte, and check at the end that it still serves."""
    directory = tmp_path_factory.mktemp("attacked")
    settings = ("--message-bytes-max", "1MB", "--proxy-users", "hue.hosts=192.0.2.1;hue.users=*")
    with kerberos_server(kdc, directory, *settings) as running:
        yield running
        with interbed.load_catalog("l", **running.options("ann")) as catalog:
            assert catalog.list_databases() == ["default"]
        assert "an error of the server" not in (directory / "server.log").read_text()


def admitted(server: KerberosServer, stack: Any, **further: Any) -> RawClient:
    """Return a client that has negotiated."""
    client: RawClient = stack.enter_context(raw_client(server, **further))
    assert client.negotiate() == (SaslStatus.COMPLETE, b"")
    return client


def test_truncated_negotiations_admit_no_client(server: KerberosServer) -> None:
    with raw_client(server) as client:
        assert client.negotiate()[0] == SaslStatus.COMPLETE
    first = client.sent[0]
    for end in (1, 4, 5, 10, 11, 15, len(first) // 2, len(first) - 1):
        with socket.create_connection(("127.0.0.1", server.server.port), timeout=at_most(30)) as connection:
            connection.sendall(first[:end])
            connection.shutdown(socket.SHUT_WR)
            assert is_ended(connection)
    # The length says less than the token has.
    with raw_client(server) as other:
        token = other.exchange.respond(b"")
        status, payload = other.send(START + packed(SaslStatus.OK, token[:-1]))
        assert status == SaslStatus.BAD
        assert b"The ticket is not accepted" in payload


def test_a_replayed_negotiation_is_refused(server: KerberosServer) -> None:
    with raw_client(server) as client:
        assert client.negotiate()[0] == SaslStatus.COMPLETE
    with socket.create_connection(("127.0.0.1", server.server.port), timeout=at_most(30)) as connection:
        connection.sendall(client.sent[0])
        status, text = answered(connection)
        assert (status, "replay" in text) == (SaslStatus.BAD, True)
        assert is_ended(connection)
    # The choice of a layer is that of another context.
    with raw_client(server) as other:
        status, payload = other.send(START + packed(SaslStatus.OK, other.exchange.respond(b"")))
        assert status == SaslStatus.OK
        status, payload = other.send(packed(SaslStatus.OK, other.exchange.respond(payload)))
        assert status == SaslStatus.OK
        status, payload = other.send(packed(SaslStatus.COMPLETE, client.sent[-1][5:]))
        assert status == SaslStatus.BAD
        assert b"choice of a layer of protection is not authentic" in payload


@pytest.mark.parametrize("principal", [HTTP, f"other/localhost@{REALM}"])
def test_a_ticket_for_another_service_is_refused(server: KerberosServer, principal: str) -> None:
    server.kdc.keytab("other/localhost")
    with raw_client(server, principal=principal) as client:
        status, payload = client.negotiate()
        assert status == SaslStatus.BAD
        assert b"The ticket is not accepted" in payload


def test_a_ticket_of_an_older_key_is_refused(server: KerberosServer, kdc: KeyDistributionCenter) -> None:
    with raw_client(server) as client:
        token = client.exchange.respond(b"")
        broken = bytearray(token)
        # Within the encrypted part of the ticket.
        broken[len(token) // 2] ^= 0xFF
        status, payload = client.send(START + packed(SaslStatus.OK, bytes(broken)))
        assert status == SaslStatus.BAD
        assert b"The ticket is not accepted" in payload


def test_an_expired_ticket_is_refused_and_its_connection_ends(
    kdc: KeyDistributionCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.configuration("brief", ticket_lifetime="3s", clockskew="1")))
    with kerberos_server(kdc, tmp_path) as server, raw_client(server, "brief") as kept:
        assert kept.negotiate()[0] == SaslStatus.COMPLETE
        assert b"default" in kept.call(GET_ALL)
        with raw_client(server, "brief") as late:
            token = START + packed(SaslStatus.OK, late.exchange.respond(b""))
            # The ticket has 3 s, and clocks may differ by 1 s.
            ends = time.monotonic() + 5
            wait_until(lambda: time.monotonic() > ends, "the ticket has ended")
            assert late.send(token) == (SaslStatus.BAD, b"The ticket is not accepted: Ticket expired")
        # The server ends the connection whose ticket has ended.
        assert is_ended(kept.connection)
        assert "the authentication of its client has expired" in (tmp_path / "server.log").read_text()


@pytest.mark.parametrize("choice", [b"\0\0\0\0", b"\3\0\0\0", b"\x08\0\0\0", b"\xff\xff\xff\xff", b"\1\0\0", b""])
def test_a_choice_that_is_not_offered_is_refused(server: KerberosServer, choice: bytes) -> None:
    with raw_client(server) as client:
        status, payload = client.send(START + packed(SaslStatus.OK, client.exchange.respond(b"")))
        assert status == SaslStatus.OK
        status, payload = client.send(packed(SaslStatus.OK, client.exchange.respond(payload)))
        assert status == SaslStatus.OK
        status, payload = client.send(packed(SaslStatus.COMPLETE, client.exchange.wrap(choice)))
        assert status == SaslStatus.BAD
        assert b"layer of protection" in payload


def test_a_server_of_privacy_alone_takes_no_weaker_layer(kdc: KeyDistributionCenter, tmp_path: Path) -> None:
    with kerberos_server(kdc, tmp_path, "--kerberos-protection", "privacy") as server:
        with (
            pytest.raises(interbed.InterbedError, match="offers privacy"),
            interbed.load_catalog("l", **server.options("ann")) as catalog,
        ):
            catalog.list_databases()
        with raw_client(server) as client:
            _, payload = client.send(START + packed(SaslStatus.OK, client.exchange.respond(b"")))
            client.send(packed(SaslStatus.OK, client.exchange.respond(payload)))
            status, payload = client.send(packed(SaslStatus.OK, client.exchange.wrap(b"\1\0\0\0")))
            assert (status, b"offered is privacy" in payload) == (SaslStatus.BAD, True)


@pytest.mark.parametrize(
    ("user", "acts_for", "reason"),
    [
        ("ann", "root", b"proxy_users has no entry for ann"),
        ("ann", f"root@{REALM}", b"proxy_users has no entry for ann"),
        ("ann", "ann\0root", b"proxy_users has no entry for ann"),
        ("hue", "ann", b"hue.hosts of proxy_users has another address"),
        ("hue", "interbed-optimizer", b"the server's own optimizer"),
    ],
)
def test_a_user_without_the_right_acts_for_no_other(
    server: KerberosServer, user: str, acts_for: str, reason: bytes
) -> None:
    with raw_client(server, user, acts_for=acts_for) as client:
        status, payload = client.negotiate()
        assert status == SaslStatus.BAD
        assert reason in payload
    with raw_client(server, user, acts_for=user) as client:
        assert client.negotiate()[0] == SaslStatus.COMPLETE


def test_a_principal_that_no_rule_takes_is_refused_by_name(kdc: KeyDistributionCenter, tmp_path: Path) -> None:
    rules = "RULE:[1:$1](b.*)"
    with (
        kerberos_server(kdc, tmp_path, "--kerberos-auth-to-local", rules) as server,
        raw_client(server) as client,
        raw_client(server, "bob") as other,
    ):
        status, payload = client.negotiate()
        assert status == SaslStatus.BAD
        assert f"No rule of kerberos_auth_to_local takes the principal ann@{REALM}".encode() in payload
        assert other.negotiate()[0] == SaslStatus.COMPLETE


def test_frames_beyond_the_limit_end_the_connection(server: KerberosServer) -> None:
    for frame in (struct.pack("!I", (1 << 20) + 1) + b"x" * 100, struct.pack("!I", 0xFFFFFFFF)):
        with raw_client(server) as client:
            assert client.negotiate()[0] == SaslStatus.COMPLETE
            client.connection.sendall(frame)
            assert is_ended(client.connection)


def test_frames_that_are_not_the_clients_end_the_connection(server: KerberosServer) -> None:
    def repeated(client: RawClient) -> bytes:
        frame = client.exchange.wrap(GET_ALL)
        client.send_frame(frame)
        (length,) = struct.unpack("!I", received(client.connection, 4))
        assert b"default" in client.exchange.unwrap(received(client.connection, length))
        return frame

    def changed(client: RawClient) -> bytes:
        frame = bytearray(client.exchange.wrap(GET_ALL))
        frame[-1] ^= 1
        return bytes(frame)

    def skipping(client: RawClient) -> bytes:
        client.exchange.wrap(GET_ALL)
        return client.exchange.wrap(GET_ALL)

    def unprotected(client: RawClient) -> bytes:
        return GET_ALL

    def without_encryption(client: RawClient) -> bytes:
        return bytes(client.exchange._context.wrap(GET_ALL, False).message)

    for make in (repeated, changed, skipping, unprotected, without_encryption, lambda client: b""):
        for padding in (b"", b"x" * 100_000):
            with raw_client(server) as client:
                assert client.negotiate()[0] == SaslStatus.COMPLETE
                client.send_frame(make(client) + padding)
                assert is_ended(client.connection)


def test_requests_before_the_end_of_the_negotiation_are_not_served(server: KerberosServer) -> None:
    frame = struct.pack("!I", len(GET_ALL)) + GET_ALL
    with raw_client(server) as client:
        client.connection.sendall(START + packed(SaslStatus.OK, client.exchange.respond(b"")) + frame)
        status, text = answered(client.connection)
        assert (status, "default" in text) == (SaslStatus.ERROR, False)
    with raw_client(server) as client:
        assert client.send(START + packed(SaslStatus.OK, client.exchange.respond(b"")))[0] == SaslStatus.OK
        client.connection.sendall(frame)
        status, text = answered(client.connection)
        assert (status, "default" in text) == (SaslStatus.ERROR, False)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([b""] * 8, "sends no token"),
        ([b"\0ann\0secret"], "not accepted"),
        ([b"x" * 60_000], "not accepted"),
    ],
)
def test_other_tokens_are_refused(server: KerberosServer, messages: list[bytes], reason: str) -> None:
    with socket.create_connection(("127.0.0.1", server.server.port), timeout=at_most(30)) as connection:
        connection.sendall(START)
        status, text = SaslStatus.OK, ""
        for message in messages:
            if status == SaslStatus.OK:
                connection.sendall(packed(SaslStatus.OK, message))
                status, text = answered(connection)  # type: ignore[assignment]
        assert status == SaslStatus.BAD
        assert reason in text


def test_mutated_tokens_admit_no_client(server: KerberosServer) -> None:
    chance = Random(11)
    for _ in range(100):
        with raw_client(server) as client:
            token = bytearray(client.exchange.respond(b""))
            token[chance.randrange(len(token))] ^= 1 << chance.randrange(8)
            client.connection.sendall(START + packed(SaslStatus.OK, bytes(token)))
            status, _ = answered_bytes(client.connection)
            # A bit outside of what is encrypted may mean nothing; the client is the same one then.
            if status == SaslStatus.OK:
                continue
            assert status in (SaslStatus.BAD, SaslStatus.ERROR)


def answered_bytes(connection: socket.socket) -> tuple[int, bytes]:
    """Return status and payload of the server's message."""
    status, length = struct.unpack("!BI", received(connection, 5))
    return status, received(connection, length)


def test_the_keytab_is_checked_when_the_server_starts(kdc: KeyDistributionCenter, tmp_path: Path) -> None:
    missing = kdc.keytab("unrelated/localhost")
    for settings, reason in (
        (("--kerberos-principal", f"absent/localhost@{REALM}"), "has no key of absent/localhost"),
        (("--kerberos-keytab", str(missing)), f"has no key of {HIVE}"),
        (("--kerberos-keytab", str(tmp_path / "none")), "cannot read kerberos_keytab"),
        (("--http-port", "0", "--kerberos-http-principal", f"HTTP/other@{REALM}"), "has no key of HTTP/other"),
    ):
        with pytest.raises(Exception, match=reason), kerberos_server(kdc, tmp_path, *settings):
            pass
