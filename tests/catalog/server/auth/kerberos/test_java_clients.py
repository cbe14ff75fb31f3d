"""Hive's Java clients of three versions log in by Kerberos; their calls are those of its users."""

from collections.abc import Iterator

import pytest

from tests.catalog.server.auth.kerberos.served import HTTP, KerberosServer, kerberos_server
from tests.support.peers.kerberos_client import VERSIONS, answers
from tests.support.servers.kdc import REALM, KeyDistributionCenter

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(kdc: KeyDistributionCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosServer]:
    """Run a server for the tests of this module."""
    with kerberos_server(kdc, tmp_path_factory.mktemp("java"), "--message-bytes-max", "1MB") as running:
        yield running


@pytest.mark.parametrize("version", VERSIONS)
def test_hives_clients_log_in_with_each_layer_of_protection(server: KerberosServer, version: str) -> None:
    user, keytab = f"java@{REALM}", str(server.kdc.keytab("java"))
    name = f"by_{version.replace('.', '_')}"
    layers = ("authentication", "integrity", "privacy")
    lines = [
        *([server.uri, f"hive/_HOST@{REALM}", layer, user, keytab, f"{name}_{layer}"] for layer in layers),
        [server.uri, HTTP, "privacy", user, keytab, "refused"],
    ]
    said = answers(version, server.kdc, lines)
    for layer, answer in zip(layers, said, strict=False):
        assert answer.startswith("databases ")
        assert f"{name}_{layer}" in answer.split()[1].split(",")
    assert said[-1].startswith("refused ")
    assert "The ticket is not accepted" in said[-1]
    made = [line for line in server.audited() if line.get("database", "").startswith(name)]
    assert [(line["user"], line["mechanism"]) for line in made] == [("java", "kerberos")] * 3
