"""Servers that issue delegation tokens and accept them on Thrift's port by SASL DIGEST-MD5."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.auth.delegation.connected import (
    BAD,
    COMPLETE,
    ERROR,
    OK,
    START,
    RefusedError,
    answered,
    by_digest,
    challenged,
    connection_to,
    delegated_client,
    message,
    plain_client,
    received,
    thrift_on,
)
from tests.catalog.server.auth.delegation.digest_client import token_client
from tests.catalog.server.auth.test_ldap import GROUPS, PATTERN, SEARCH
from tests.catalog.server.migration.commands import run, run_json
from tests.support.servers.ldap_directory import PASSWORDS, ldap_directory
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import wait_until

QUALITIES = [("auth", None), ("auth-int", None), ("auth-conf", "rc4"), ("auth-conf", "3des")]


@dataclass(frozen=True)
class IssuingServers:
    """Two servers on one database, with tokens of the principals `ann`, `hive` and `root`."""

    one: MetastoreUnderTest
    other: MetastoreUnderTest
    secrets: dict[str, str]
    audit: Path

    def issued(self, owner: str = "ann", renewer: str = "hive") -> str:
        """Return a delegation token of the first server."""
        with plain_client(self.one.port, owner, self.secrets[owner]) as client:
            text = client.get_delegation_token(owner, renewer)
            assert isinstance(text, str)
            return text

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IssuingServers]:
    """Run two servers on one database."""
    directory = tmp_path_factory.mktemp("delegation")
    db, audit = f"sqlite:///{directory / 'metastore.db'}", directory / "audit.log"
    settings = ("--authentication", "token,delegation-token", "--audit-log", str(audit))
    access = ("--access-authorizer", "builtin", "--access-admins", "root")
    with (
        metastore_under_test(db, directory, *settings, *access) as one,
        metastore_under_test(db, directory, *settings, *access, "--workers", "2") as other,
    ):
        secrets = {}
        for user in ("ann", "hive", "root"):
            secrets[user] = run("token", "create", user, "--group", "etl", "--db", db).strip()
        yield IssuingServers(one, other, secrets, audit)


@pytest.mark.parametrize(("quality", "cipher"), QUALITIES)
def test_a_token_of_one_server_connects_to_both(servers: IssuingServers, quality: str, cipher: str | None) -> None:
    text = servers.issued()
    for server in (servers.one, servers.other):
        with delegated_client(server.port, text, quality, cipher) as client:
            for _ in range(3):
                assert "default" in client.get_all_databases()
            with pytest.raises(ttypes.NoSuchObjectException):
                client.get_database("missing")
            # A reply of several reads, and a long request.
            client.setMetaConf("hive.metastore.try.direct.sql", "true")
            with pytest.raises(ttypes.MetaException):
                client.getMetaConf("x" * 200_000)


def test_the_owner_is_the_caller_and_the_token_in_the_audit_log(servers: IssuingServers) -> None:
    text = servers.issued()
    sequence = str(HadoopToken.from_text(text).identifier.sequence)
    with delegated_client(servers.one.port, text) as client, pytest.raises(ttypes.MetaException, match="ann lacks"):
        client.create_database(ttypes.Database(name="by_token"))
    with plain_client(servers.one.port, "hive", servers.secrets["hive"]) as client:
        client.renew_delegation_token(text)
        client.cancel_delegation_token(text)
    made = [line for line in servers.lines() if line.get("mechanism_id") == sequence]
    assert [(line["method"], line["user"], line["mechanism"]) for line in made] == [
        ("create_database", "ann", "delegation-token")
    ]
    asked = [line for line in servers.lines() if line["method"] == "get_delegation_token"][-1]
    assert (asked["principal"], asked["renewer"], asked["user"], asked["outcome"]) == ("ann", "hive", "ann", "ok")
    ended = [line for line in servers.lines() if line.get("sequence") == sequence]
    assert [(line["method"], line["user"]) for line in ended] == [
        ("renew_delegation_token", "hive"),
        ("cancel_delegation_token", "hive"),
    ]
    assert text not in servers.audit.read_text()


def test_the_owners_groups_decide(servers: IssuingServers) -> None:
    text = servers.issued()
    with plain_client(servers.one.port, "root", servers.secrets["root"]) as client:
        client.create_database(ttypes.Database(name="of_groups"))
    run("grant", "USAGE", "on", "database", "of_groups", "to", "group", "etl", "--db", servers.one.db)

    def is_permitted() -> bool:
        with delegated_client(servers.one.port, text) as client:
            try:
                assert client.get_database("of_groups").name == "of_groups"
            except ttypes.NoSuchObjectException:
                return False
            return True

    wait_until(is_permitted, "the grant is in force")


def test_only_other_mechanisms_ask_and_only_the_renewer_renews(servers: IssuingServers) -> None:
    text = servers.issued()
    with delegated_client(servers.one.port, text) as client:
        with pytest.raises(ttypes.MetaException, match="authenticated itself by another mechanism"):
            client.get_delegation_token("ann", "hive")
        with pytest.raises(ttypes.MetaException, match="authenticated itself by another mechanism"):
            client.renew_delegation_token(text)
    with plain_client(servers.one.port, "ann", servers.secrets["ann"]) as client:
        with pytest.raises(ttypes.MetaException, match="ann may not renew"):
            client.renew_delegation_token(text)
        with pytest.raises(ttypes.MetaException, match="ann is not allowed to act for 'bob'"):
            client.get_delegation_token("bob", "hive")
    with (
        plain_client(servers.one.port, "root", servers.secrets["root"]) as client,
        pytest.raises(ttypes.MetaException, match="root may not cancel"),
    ):
        client.cancel_delegation_token(text)
    with plain_client(servers.other.port, "hive", servers.secrets["hive"]) as client:
        assert client.renew_delegation_token(text) >= HadoopToken.from_text(text).identifier.issued_at
    with delegated_client(servers.other.port, text) as client:
        assert "default" in client.get_all_databases()


def refusal_of(port: int, text: str, **changes: Any) -> RefusedError:
    """Return the error of a connection by a token."""
    with connection_to(port) as connection, pytest.raises(RefusedError) as refused:
        by_digest(connection, token_client(text, **changes))
    return refused.value


def test_a_cancelled_token_is_refused_by_both_servers_also_on_open_connections(servers: IssuingServers) -> None:
    text = servers.issued()
    with delegated_client(servers.other.port, text) as client:
        assert "default" in client.get_all_databases()
        with delegated_client(servers.one.port, text) as canceller:
            canceller.cancel_delegation_token(text)
        assert "it was cancelled" in str(refusal_of(servers.one.port, text))

        def is_refused() -> bool:
            try:
                client.get_all_databases()
            except TApplicationException as error:
                return "it was cancelled" in str(error)
            return False

        wait_until(is_refused, "the connection is refused")
    wait_until(lambda: "it was cancelled" in str(refusal_of(servers.other.port, text)), "the token is refused")


def test_operators_list_and_revoke_tokens(servers: IssuingServers) -> None:
    text = servers.issued()
    token = HadoopToken.from_text(text)
    sequence = str(token.identifier.sequence)
    shown = {each["id"]: each for each in run_json("token", "list", "--db", servers.one.db)}[sequence]
    assert (shown["kind"], shown["principal"], shown["renewer"]) == ("delegation-token", "ann", "hive")
    table = run("token", "list", "--db", servers.one.db)
    assert "delegation token, renewer hive" in table
    assert text not in table
    assert "is revoked" in run("token", "revoke", sequence, "--db", servers.one.db)
    assert "was revoked before" in run("token", "revoke", sequence, "--db", servers.one.db)
    assert "it was cancelled" in str(refusal_of(servers.one.port, text))


def test_a_token_that_is_not_renewed_expires(tmp_path: Path) -> None:
    settings = ("--authentication", "token,delegation-token", "--delegation-renew-seconds", "1s")
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as server:
        secret = run("token", "create", "ann", "--db", server.db).strip()
        with plain_client(server.port, "ann", secret) as client:
            text = client.get_delegation_token("ann", "ann")

            def has_expired() -> bool:
                try:
                    with delegated_client(server.port, text) as connected:
                        connected.get_all_databases()
                except (RefusedError, TApplicationException) as error:
                    return "it has expired" in str(error)
                return False

            wait_until(has_expired, "the token expires")
            with pytest.raises(ttypes.MetaException, match="it has expired"):
                client.renew_delegation_token(text)


def test_forged_and_replayed_responses_are_refused(servers: IssuingServers) -> None:
    text = servers.issued()
    token = HadoopToken.from_text(text)
    other = HadoopToken(identifier=token.identifier, password=b"x" * 20).to_text()
    refused = refusal_of(servers.one.port, other)
    assert (refused.status, str(refused)) == (BAD, "The delegation token is not valid")
    client = token_client(text)
    with connection_to(servers.one.port) as connection:
        response = client.respond(challenged(connection))
        connection.sendall(message(OK, response))
        assert answered(connection)[0] == COMPLETE
        # A further message of the negotiation is the beginning of a frame that is too long.
        connection.sendall(message(OK, response) + b"\xff" * 100)
        assert b"default" not in received(connection, 100)
    with connection_to(servers.one.port) as connection:
        challenged(connection)
        connection.sendall(message(OK, response))
        status, reason = answered(connection)
        assert (status, b"not to the challenge" in reason) == (BAD, True)
    for changes in ({"nc": "00000002"}, {"realm": '"x"'}, {"qop": "auth-none"}):
        assert refusal_of(servers.one.port, text, **changes).status == BAD


def test_truncated_negotiations_are_refused(servers: IssuingServers) -> None:
    text, chance = servers.issued(), Random(11)
    for _ in range(60):
        with connection_to(servers.one.port) as connection:
            whole = message(OK, token_client(text).respond(challenged(connection)))
            cut = whole[: chance.randrange(len(whole))]
            connection.sendall(cut)
            connection.shutdown(1)
            assert received(connection, 1) != bytes((COMPLETE,))
    with connection_to(servers.one.port) as connection:
        challenged(connection)
        connection.sendall(message(OK, b"x" * 5000))
        assert answered(connection)[0] in (BAD, ERROR)
    with connection_to(servers.one.port) as connection:
        connection.sendall(message(START, b"DIGEST-MD5") + message(OK, b'username="x"'))
        assert answered(connection)[0] == BAD


@pytest.mark.parametrize(("quality", "cipher"), QUALITIES[1:])
def test_unprotected_changed_and_repeated_frames_end_the_connection(
    servers: IssuingServers, quality: str, cipher: str | None
) -> None:
    text = servers.issued()
    for attack in ("unprotected", "changed", "repeated"):
        with connection_to(servers.one.port) as connection:
            layer = by_digest(connection, token_client(text, quality, cipher))
            assert layer is not None
            client = thrift_on(connection, layer)
            assert "default" in client.get_all_databases()
            call = b"\x80\x01\0\1\0\0\0\x11get_all_databases\0\0\0\1\0"
            sealed = layer.wrap(call)
            content = {
                "unprotected": call,
                "changed": sealed[:-8] + bytes([sealed[-8] ^ 1]) + sealed[-7:],
                "repeated": sealed,
            }[attack]
            connection.sendall(len(content).to_bytes(4, "big") + content)
            if attack == "repeated":
                assert len(received(connection, 4)) == 4
                connection.sendall(len(content).to_bytes(4, "big") + content)
                connection.shutdown(1)
                data = received(connection, 1 << 20)
                assert layer.unwrap(data[: len(data)]).count(b"default") == 1
            else:
                assert is_ended(connection)


def is_ended(connection: Any) -> bool:
    """Return whether the server closes the connection without a word."""
    try:
        return received(connection, 1) == b""
    except ConnectionResetError:
        return True


def test_servers_permit_the_protection_of_their_setting(tmp_path: Path) -> None:
    settings = ("--authentication", "token,delegation-token", "--delegation-protection", "integrity")
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as server:
        secret = run("token", "create", "ann", "--db", server.db).strip()
        with plain_client(server.port, "ann", secret) as client:
            text = client.get_delegation_token("ann", "")
        assert "offered are auth-int" in str(refusal_of(server.port, text))
        with delegated_client(server.port, text, "auth-int") as client:
            assert client.get_all_databases() == ["default"]


def test_a_server_without_the_mechanism_has_no_delegation_tokens(servers: IssuingServers, tmp_path: Path) -> None:
    text = servers.issued()
    with metastore_under_test(servers.one.db, tmp_path, "--authentication", "token") as server:
        with ExitStack() as stack:
            connection = stack.enter_context(connection_to(server.port))
            with pytest.raises(RefusedError, match="'DIGEST-MD5' is not offered"):
                by_digest(connection, token_client(text))
        with (
            plain_client(server.port, "ann", servers.secrets["ann"]) as client,
            pytest.raises(ttypes.MetaException, match="issues no delegation tokens"),
        ):
            client.get_delegation_token("ann", "hive")


def test_the_token_store_of_hiveserver2_is_for_administrators(servers: IssuingServers) -> None:
    with plain_client(servers.one.port, "root", servers.secrets["root"]) as client:
        key = client.add_master_key("first")
        client.update_master_key(key, f"key {key}")
        with pytest.raises(ttypes.NoSuchObjectException, match="Key is not found"):
            client.update_master_key(key + 1, "x")
        assert client.get_master_keys() == [f"key {key}"]
        assert client.add_token("identifier", "token")
        assert not client.add_token("identifier", "other")
        assert client.get_token("identifier") == "token"
        assert client.get_token("missing") == ""
        assert client.get_all_token_identifiers() == ["identifier"]
        with pytest.raises(TApplicationException, match="has 1001 characters"):
            client.add_token("x" * 1001, "token")
    text = servers.issued()
    with plain_client(servers.one.port, "ann", servers.secrets["ann"]) as client:
        # Its tokens are not those of the server.
        with pytest.raises(ttypes.MetaException, match="not valid"):
            client.renew_delegation_token("token")
        denied: list[tuple[str, tuple[object, ...]]] = [
            ("get_master_keys", ()),
            ("get_token", ("identifier",)),
            ("get_all_token_identifiers", ()),
            ("add_token", ("other", "token")),
            ("remove_token", ("identifier",)),
            ("remove_master_key", (key,)),
        ]
        for method, arguments in denied:
            with pytest.raises(TApplicationException, match="ann is not an administrator"):
                getattr(client, method)(*arguments)
        with pytest.raises(ttypes.MetaException, match="ann is not an administrator"):
            client.add_master_key("mine")
    with plain_client(servers.one.port, "root", servers.secrets["root"]) as client:
        assert text not in client.get_all_token_identifiers()
        assert client.remove_token("identifier")
        assert not client.remove_token("identifier")
        assert client.remove_master_key(key)
        assert not client.remove_master_key(key)


def test_an_open_connection_by_a_token_loses_the_rights_of_a_group_that_its_owner_leaves(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORDS["search"])
    with ldap_directory() as directory:
        settings = (
            *("--authentication", "ldap,delegation-token", "--user-groups", "ldap", "--user-groups-seconds", "1"),
            *("--ldap-url", directory.url, "--ldap-user-dn", PATTERN["user_dn"]),
            *("--ldap-group-base", GROUPS["group_base"], "--ldap-bind-dn", SEARCH["bind_dn"]),
            *("--ldap-bind-password-file", str(tmp_path / "password")),
            *("--access-authorizer", "builtin", "--access-admins", "ann"),
        )
        with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as server:
            with plain_client(server.port, "ann", PASSWORDS["ann"]) as client:
                client.create_database(ttypes.Database(name="of_groups"))
            run("grant", "USAGE", "on", "database", "of_groups", "to", "group", "etl", "--db", server.db)
            with plain_client(server.port, "bob", PASSWORDS["bob"]) as client:
                text = client.get_delegation_token("bob", "")
            with delegated_client(server.port, text) as client:
                wait_until(lambda: "of_groups" in client.get_all_databases(), "bob has the rights of the group")
                directory.leave("etl", "bob")
                wait_until(lambda: "of_groups" not in client.get_all_databases(), "bob has lost them")
                directory.join("etl", "bob")
                wait_until(lambda: "of_groups" in client.get_all_databases(), "bob is in the group again")
