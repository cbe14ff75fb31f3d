"""Delegation tokens for which Hive's clients ask by Kerberos, as drivers do, and by which jobs connect."""

from collections.abc import Iterator

import pytest

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken
from tests.catalog.server.auth.kerberos.served import KerberosServer, kerberos_server
from tests.support.peers.hive_delegation import RELEASES, answers_of
from tests.support.servers.kdc import REALM, KeyDistributionCenter

pytestmark = pytest.mark.long

SERVICE = f"hive/_HOST@{REALM}"


@pytest.fixture(scope="module")
def server(kdc: KeyDistributionCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosServer]:
    """Run a server that takes tickets and delegation tokens."""
    directory = tmp_path_factory.mktemp("tickets")
    settings = ("--proxy-users", "hive.hosts=127.0.0.1; hive.users=bob")
    with kerberos_server(kdc, directory, *settings, authentication="kerberos,delegation-token") as running:
        yield running


@pytest.mark.parametrize("release", RELEASES)
def test_a_driver_asks_by_its_ticket_and_its_job_connects(server: KerberosServer, release: str) -> None:
    ann = (server.uri, f"ann@{REALM}", str(server.kdc.keytab("ann")), SERVICE)
    hive = (server.uri, f"hive@{REALM}", str(server.kdc.keytab("hive")), SERVICE)
    asked = answers_of(
        release,
        ("issue_by_ticket", *ann, f"ann@{REALM}", SERVICE),
        ("issue_by_ticket", *ann, "bob", SERVICE),
        ("issue_by_ticket", *hive, "bob", SERVICE),
        java_options=server.kdc.java_options,
    )
    assert "ann is not allowed to act for 'bob'" in asked[1]
    own, acted_for = (answer.removeprefix("ok ") for answer in (asked[0], asked[2]))
    names = [HadoopToken.from_text(text).identifier for text in (own, acted_for)]
    assert [(each.owner, each.renewer, each.real_user) for each in names] == [
        ("ann", "hive", ""),
        ("bob", "hive", "hive"),
    ]
    found = answers_of(
        release,
        ("databases", server.uri, own, "privacy"),
        ("databases", server.uri, acted_for, "authentication"),
        ("renew_by_ticket", *ann, own),
        ("renew_by_ticket", *hive, own),
        java_options=server.kdc.java_options,
    )
    assert found[:2] == ["ok [default]"] * 2
    assert "ann may not renew" in found[2]
    assert found[3].startswith("ok ")
