"""interbed's catalogs log in by Kerberos: on Thrift's port with each layer of protection, and over HTTP."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.credentials import gssapi
from interbed.catalog.client.errors import CatalogAccessError
from interbed.storage.base.errors import InvalidOptionError
from tests.catalog.server.auth.kerberos.served import KerberosServer, kerberos_server
from tests.catalog.server.migration.commands import run
from tests.support.servers.kdc import REALM, KeyDistributionCenter
from tests.support.waits import wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(kdc: KeyDistributionCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosServer]:
    """Run a server for the tests of this module."""
    directory = tmp_path_factory.mktemp("kerberos")
    proxies = ("--proxy-users", "hue.hosts=127.0.0.1;hue.users=ann")
    with kerberos_server(kdc, directory, "--http-port", "0", *proxies, authentication="kerberos,token") as running:
        yield running


@pytest.mark.parametrize("protection", ["authentication", "integrity", "privacy", "privacy,authentication"])
def test_the_hive_catalog_works_by_a_keytab(server: KerberosServer, protection: str) -> None:
    name = f"by_{protection.replace(',', '_')}"
    given = server.options("ann", **{"hadoop.rpc.protection": protection})
    with interbed.load_catalog("l", **given) as catalog:
        catalog.create_database(name)
        table = catalog.create_table(f"{name}.t", pa.schema([("id", pa.int64())]), options={"bucket": "-1"})
        table.append([{"id": 1}])
        assert catalog.get_table(f"{name}.t").scan().to_arrow().to_pylist() == [{"id": 1}]
    (line,) = [each for each in server.audited() if each["method"] == "create_database" and each["database"] == name]
    assert (line["user"], line["mechanism"]) == ("ann", "kerberos")
    assert "real_user" not in line


def test_long_messages_are_protected(server: KerberosServer) -> None:
    columns = pa.schema([(f"column_{number}", pa.string()) for number in range(3000)])
    with interbed.load_catalog("l", **server.options("ann", **{"hadoop.rpc.protection": "privacy"})) as catalog:
        catalog.create_database("long")
        catalog.create_table("long.t", columns, options={"bucket": "-1"})
        for _ in range(3):
            assert len(catalog.get_table("long.t").schema.fields) == 3000


def test_tickets_of_a_cache_are_used(server: KerberosServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = server.options("ann")
    del given["security.kerberos.login.keytab"], given["security.kerberos.login.principal"]
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    with (
        pytest.raises(CatalogAccessError, match=r"there is no ticket of Kerberos.*Run kinit"),
        interbed.load_catalog("l", **given) as catalog,
    ):
        catalog.list_databases()
    gssapi().Credentials(
        name=gssapi().Name(f"ann@{REALM}", gssapi().NameType.kerberos_principal),
        usage="initiate",
        store={"client_keytab": str(server.kdc.keytab("ann")), "ccache": f"FILE:{tmp_path / 'tickets'}"},
    ).inquire()
    with interbed.load_catalog("l", **given) as catalog:
        assert "default" in catalog.list_databases()


def test_a_keytab_renews_tickets(server: KerberosServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(server.kdc.configuration("short", ticket_lifetime="4s", clockskew="1")))
    ends = time.monotonic() + 6
    # Each call opens a connection.
    with interbed.load_catalog("l", **server.options("renewing", **{"client-pool-size": "0"})) as catalog:
        assert "default" in catalog.list_databases()
        wait_until(lambda: "default" in catalog.list_databases() and time.monotonic() > ends, "the ticket has ended")


def test_thrift_over_http_and_rest_take_tickets(server: KerberosServer) -> None:
    over_http = server.options(
        "ann", uri=server.http.replace("http:", "thrift:"), **{"hive.metastore.client.thrift.transport.mode": "http"}
    )
    with interbed.load_catalog("l", **over_http) as catalog:
        catalog.create_database("over_http")
    rest = {
        "metastore": "rest",
        "uri": f"{server.http}/paimon",
        "warehouse": "hive",
        "token.provider": "spnego",
        "security.kerberos.login.principal": f"ann@{REALM}",
        "security.kerberos.login.keytab": str(server.kdc.keytab("ann")),
    }
    for further in ({}, {"token.provider.principal": f"HTTP/_HOST@{REALM}"}):
        with interbed.load_catalog("l", **rest, **further) as catalog:
            assert "over_http" in catalog.list_databases()
    with interbed.load_catalog("l", **rest) as catalog:
        catalog.create_database("by_rest")
    made = {line.get("database"): line for line in server.audited() if line["outcome"] == "ok"}
    for name in ("over_http", "by_rest"):
        assert (made[name]["user"], made[name]["mechanism"]) == ("ann", "kerberos")


def test_tokens_are_taken_beside_tickets(server: KerberosServer) -> None:
    token = run("token", "create", "eve", "--db", server.server.db).strip()
    given = {
        "hive.metastore.client.auth.mode": "PLAIN",
        "hive.metastore.client.plain.username": "eve",
        "token": token,
    }
    with interbed.load_catalog("l", metastore="hive", uri=server.uri, **given) as catalog:
        assert "default" in catalog.list_databases()


@pytest.mark.parametrize("mode", ["binary", "http"])
def test_a_service_acts_for_its_users(server: KerberosServer, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("HADOOP_PROXY_USER", "ann")
    uri = server.uri if mode == "binary" else server.http.replace("http:", "thrift:")
    further = {"uri": uri, "hive.metastore.client.thrift.transport.mode": mode}
    with interbed.load_catalog("l", **server.options("hue", **further)) as catalog:
        catalog.create_database(f"for_ann_{mode}")
    (line,) = [each for each in server.audited() if each.get("database") == f"for_ann_{mode}"]
    assert (line["user"], line["real_user"], line["mechanism"]) == ("ann", "hue", "kerberos")
    for user, acted_for, message in (
        ("hue", "bob", "The user hue is not allowed to act for bob"),
        ("bob", "ann", "The user bob is not allowed to act for 'ann': proxy_users has no entry for bob"),
    ):
        monkeypatch.setenv("HADOOP_PROXY_USER", acted_for)
        with (
            pytest.raises(CatalogAccessError, match=message),
            interbed.load_catalog("l", **server.options(user, **further)) as catalog,
        ):
            catalog.list_databases()


def test_a_client_without_kerberos_gets_the_reason(kdc: KeyDistributionCenter, tmp_path: Path) -> None:
    with kerberos_server(kdc, tmp_path) as server:
        with (
            pytest.raises(interbed.InterbedError, match=r"accepted: kerberos.*sasl\.enabled"),
            interbed.load_catalog("l", metastore="hive", uri=server.uri) as catalog,
        ):
            catalog.list_databases()
        with (
            pytest.raises(InvalidOptionError, match=r"needs 'security\.kerberos\.login\.principal'"),
            interbed.load_catalog("l", **{**server.options("ann"), "security.kerberos.login.principal": ""}) as catalog,
        ):
            catalog.list_databases()
