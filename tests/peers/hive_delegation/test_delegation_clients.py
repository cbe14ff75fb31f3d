"""Delegation tokens of the server by the Java clients of Hive 2.3.10, 3.1.3 and 4.0.1."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from thrift.Thrift import TApplicationException

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken
from tests.catalog.server.auth.delegation.connected import RefusedError, delegated_client, plain_client
from tests.catalog.server.migration.commands import run
from tests.support.peers.hive_delegation import RELEASES, answers_of
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import wait_until

PROTECTIONS = ("authentication", "integrity", "privacy")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server that issues delegation tokens."""
    directory = tmp_path_factory.mktemp("delegation")
    settings = ("--authentication", "token,delegation-token", "--audit-log", str(directory / "audit.log"))
    access = ("--access-authorizer", "builtin", "--access-admins", "root")
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, *settings, *access) as running:
        yield running


@pytest.fixture(scope="module")
def secrets(server: MetastoreUnderTest) -> dict[str, str]:
    """Return tokens of the principals ann, hive and root."""
    return {user: run("token", "create", user, "--db", server.db).strip() for user in ("ann", "hive", "root")}


def issued(server: MetastoreUnderTest, secrets: dict[str, str]) -> str:
    """Return a delegation token of ann's, whose renewer is hive."""
    with plain_client(server.port, "ann", secrets["ann"]) as client:
        text = client.get_delegation_token("ann", "hive")
        assert isinstance(text, str)
        return text


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_a_job_connects_by_its_token(server: MetastoreUnderTest, secrets: dict[str, str], release: str) -> None:
    text, uri = issued(server, secrets), server.uri
    token = HadoopToken.from_text(text)
    other = HadoopToken(identifier=token.identifier, password=b"x" * 20).to_text()
    found = answers_of(
        release,
        ("identifier", text),
        *(("databases", uri, text, protection) for protection in PROTECTIONS),
        ("issue_by_token", uri, text),
        ("renew_by_token", uri, text),
        ("databases", uri, other, "authentication"),
        ("cancel_by_token", uri, text),
        ("databases", uri, text, "authentication"),
    )
    fields = token.identifier
    read = f"HIVE_DELEGATION_TOKEN ann hive [] {fields.issued_at} {fields.max_at} {fields.sequence} {fields.key_id}"
    assert found[0] == f"ok {read} true true"
    assert found[1:4] == ["ok [default]"] * 3
    assert "authenticated itself by another mechanism" in found[4]
    assert "authenticated itself by another mechanism" in found[5]
    assert found[6].startswith("refused")
    assert "The delegation token is not valid" in found[6]
    assert found[7] == "ok"
    assert found[8].startswith("refused")
    assert "it was cancelled" in found[8]


@pytest.mark.long
def test_a_client_asks_for_a_token_renews_and_cancels_it(server: MetastoreUnderTest, secrets: dict[str, str]) -> None:
    uri = server.uri
    (answer,) = answers_of("4.0.1", ("issue", uri, "ann", secrets["ann"], "ann", "hive"))
    text = answer.removeprefix("ok ")
    identifier = HadoopToken.from_text(text).identifier
    assert (identifier.owner, identifier.renewer) == ("ann", "hive")
    found = answers_of(
        "4.0.1",
        ("databases", uri, text, "privacy"),
        ("issue", uri, "ann", secrets["ann"], "bob", "hive"),
        ("renew", uri, "ann", secrets["ann"], text),
        ("renew", uri, "hive", secrets["hive"], text),
        ("cancel", uri, "root", secrets["root"], text),
        ("cancel", uri, "hive", secrets["hive"], text),
        ("cancel", uri, "hive", secrets["hive"], text),
        ("store", uri, "root", secrets["root"]),
        ("store", uri, "ann", secrets["ann"]),
    )
    assert found[0] == "ok [default]"
    assert "ann is not allowed to act for 'bob'" in found[1]
    assert "ann may not renew" in found[2]
    assert identifier.issued_at < int(found[3].removeprefix("ok ")) <= identifier.max_at
    assert "root may not cancel" in found[4]
    assert found[5] == "ok"
    assert "it was cancelled" in found[6]
    assert found[7].startswith("ok key ")
    assert found[7].endswith(" true false token, identifier true false true")
    assert "ann is not an administrator" in found[8]


@pytest.mark.long
def test_an_expired_token_is_refused(tmp_path: Path) -> None:
    settings = ("--authentication", "token,delegation-token", "--delegation-renew-seconds", "1s")
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as server:
        secret = run("token", "create", "ann", "--db", server.db).strip()
        text = issued(server, {"ann": secret})

        def has_expired() -> bool:
            try:
                with delegated_client(server.port, text) as client:
                    client.get_all_databases()
            except (RefusedError, TApplicationException):
                return True
            return False

        wait_until(has_expired, "the token expires")
        for release in RELEASES:
            (answer,) = answers_of(release, ("databases", server.uri, text, "authentication"))
            assert answer.startswith("refused")
            assert "it has expired" in answer
