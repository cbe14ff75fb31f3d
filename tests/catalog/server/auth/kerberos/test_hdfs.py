"""Warehouses in an HDFS with Kerberos: by keytabs, ticket caches and delegation tokens, beside Java Paimon."""

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.credentials import gssapi
from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.io.hdfs.settings import UMASK
from interbed.storage.io.resolve import file_io_for
from tests.support.peers.java import JavaPaimon
from tests.support.servers.hdfs import HDFS_PRINCIPAL, NAMESERVICE, HdfsServer, running_hdfs
from tests.support.servers.kdc import REALM, KeyDistributionCenter
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most, wait_until

pytestmark = pytest.mark.long

FIELDS: "list[pa.Field[Any]]" = [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]
SCHEMA = pa.schema(FIELDS)
QUICK = {"dfs.client.failover.max.attempts": "2", "dfs.client.failover.sleep.base.millis": "10"}
HOME = "/lake"


def keytab_login(kdc: KeyDistributionCenter, user: str = "ann") -> dict[str, str]:
    """Return the options of a login by the keytab of a user."""
    return {
        "security.kerberos.login.principal": f"{user}@{REALM}",
        "security.kerberos.login.keytab": str(kdc.keytab(user)),
    }


def ticket_cache(kdc: KeyDistributionCenter, user: str, path: Path) -> str:
    """Write a ticket cache, as kinit does, and return its name."""
    gssapi().Credentials(
        name=gssapi().Name(f"{user}@{REALM}", gssapi().NameType.kerberos_principal),
        usage="initiate",
        store={"client_keytab": str(kdc.keytab(user)), "ccache": f"FILE:{path}"},
    ).inquire()
    return f"FILE:{path}"


def opened_to_all(hdfs: HdfsServer, kdc: KeyDistributionCenter) -> HdfsServer:
    """Create a directory in which each user creates its own."""
    login = {
        "security.kerberos.login.principal": HDFS_PRINCIPAL,
        "security.kerberos.login.keytab": str(kdc.keytab("hdfs/localhost")),
    }
    io, root = file_io_for(f"{hdfs.uri}{HOME}", {**hdfs.security, **login, UMASK: "000"})
    io.make_directories(root)
    return hdfs


@pytest.fixture(scope="module")
def secure(kdc: KeyDistributionCenter) -> Iterator[HdfsServer]:
    """Run an HDFS that asks for Kerberos and encrypts calls and blocks."""
    with running_hdfs(kdc, "privacy") as running:
        yield opened_to_all(running, kdc)


@pytest.fixture
def warehouse(secure: HdfsServer) -> str:
    """A warehouse of the test, which does not exist yet."""
    return f"{secure.uri}{HOME}/{uuid.uuid4()}"


def written_site(path: Path, settings: Mapping[str, str]) -> None:
    """Write a file of Hadoop's configuration."""
    properties = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    path.write_text(f"<configuration>{''.join(properties)}</configuration>")


def rows_of(table: interbed.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def lives(options: Mapping[str, str]) -> None:
    """Create a table, change, compact, read and drop it."""
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("shop")
        table = catalog.create_table("shop.items", SCHEMA, primary_keys=["id"], options={"bucket": "2"})
        # Several blocks of encrypted packets.
        table.upsert([{"id": number, "name": "n" * 1000 + str(number)} for number in range(2000)])
        table.upsert([{"id": 1, "name": "one"}])
        table.delete("id > 2")
        table.compact()
        assert rows_of(table)[1:] == [{"id": 1, "name": "one"}, {"id": 2, "name": "n" * 1000 + "2"}]
        io, place = table.store.file_io, table.location
        catalog.drop_table("shop.items")
        assert not io.exists(place)


@pytest.mark.parametrize("protection", ["authentication", "integrity", "privacy"])
def test_a_keytab_opens_a_warehouse_with_each_layer_of_protection(kdc: KeyDistributionCenter, protection: str) -> None:
    with running_hdfs(kdc, protection) as running:
        hdfs = opened_to_all(running, kdc)
        path = f"{HOME}/{uuid.uuid4()}"
        lives({"warehouse": f"{hdfs.uri}{path}", **hdfs.security, **keytab_login(kdc)})
        hdfs.send("fail over")
        lives({"warehouse": f"hdfs://{NAMESERVICE}{path}/2", **hdfs.settings, **keytab_login(kdc)})


def test_a_ticket_cache_opens_a_warehouse(
    secure: HdfsServer, warehouse: str, kdc: KeyDistributionCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"warehouse": warehouse, **secure.security, **QUICK}
    with pytest.raises(StorageAccessError, match=r"no ticket of Kerberos.*Run kinit, or give the options"):
        lives(given)
    monkeypatch.setenv("KRB5CCNAME", ticket_cache(kdc, "ann", tmp_path / "tickets"))
    lives(given)
    assert [entry.name for entry in file_io_for(warehouse, given)[0].list(warehouse)] == ["shop.db"]
    lives({**given, "warehouse": f"{warehouse}/named", "security.kerberos.login.principal": f"ann@{REALM}"})
    with pytest.raises(StorageAccessError, match=r"no ticket of Kerberos"):
        lives({**given, "security.kerberos.login.principal": f"bob@{REALM}"})
    with pytest.raises(StorageAccessError, match=r"closes the connection.*authentication to kerberos"):
        lives({"warehouse": warehouse, **QUICK})


def test_a_user_writes_where_hdfs_permits_it(secure: HdfsServer, warehouse: str, kdc: KeyDistributionCenter) -> None:
    lives({"warehouse": warehouse, **secure.security, **keytab_login(kdc)})
    with pytest.raises(StorageAccessError, match=r"permission denied: user=bob.*or let the owner grant it"):
        lives({"warehouse": f"{warehouse}/of_bob", **secure.security, **keytab_login(kdc, "bob")})


def test_a_login_that_is_not_complete_is_refused_by_name(
    secure: HdfsServer, warehouse: str, kdc: KeyDistributionCenter, tmp_path: Path
) -> None:
    given = {"warehouse": warehouse, **secure.security, **QUICK}
    keytab = str(kdc.keytab("ann"))
    with pytest.raises(InvalidOptionError, match=r"login\.keytab' needs 'security\.kerberos\.login\.principal'"):
        interbed.load_catalog("l", **given, **{"security.kerberos.login.keytab": keytab})
    with pytest.raises(InvalidOptionError, match=r"use-ticket-cache' is false; give the options"):
        interbed.load_catalog("l", **given, **{"security.kerberos.login.use-ticket-cache": "false"})
    with pytest.raises(InvalidOptionError, match=r"names a file that can't be read"):
        interbed.load_catalog(
            "l", **given, **{**keytab_login(kdc), "security.kerberos.login.keytab": str(tmp_path / "absent")}
        )
    with pytest.raises(StorageAccessError, match="no ticket of Kerberos"):
        lives({**given, "security.kerberos.login.principal": f"eve@{REALM}", "security.kerberos.login.keytab": keytab})


def test_a_keytab_gets_new_tickets(
    secure: HdfsServer, warehouse: str, kdc: KeyDistributionCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.configuration("short-hdfs", ticket_lifetime="4s", clockskew="1")))
    given = {"warehouse": warehouse, **secure.security, **keytab_login(kdc)}
    with interbed.CatalogFactory.create(given) as catalog:
        catalog.create_database("shop")
        table = catalog.create_table("shop.items", SCHEMA, primary_keys=["id"])
        ends = time.monotonic() + 6

        def written_after_the_first_ticket() -> bool:
            table.upsert([{"id": 1, "name": "one"}])
            # Another setting makes another client, which connects again.
            lives({**given, "warehouse": f"{warehouse}/{uuid.uuid4()}", "fs.trash.interval": str(time.monotonic_ns())})
            return time.monotonic() > ends

        wait_until(written_after_the_first_ticket, "the first ticket has ended")
        assert rows_of(table) == [{"id": 1, "name": "one"}]


_READS = """
import interbed, sys
with interbed.load_catalog("l", **dict(each.split("=", 1) for each in sys.argv[1:])) as catalog:
    table = catalog.get_table("shop.items")
    table.upsert([{"id": 2, "name": "two"}])
    print(table.count())
"""


def test_a_process_without_tickets_has_delegation_tokens(
    secure: HdfsServer, warehouse: str, kdc: KeyDistributionCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"warehouse": warehouse, **secure.security}
    with interbed.CatalogFactory.create({**given, **keytab_login(kdc)}) as catalog:
        catalog.create_database("shop")
        table = catalog.create_table("shop.items", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        table.upsert([{"id": 1, "name": "one"}])
    secure.send(f"token ann {tmp_path / 'tokens'}")
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
    arguments = [f"{name}={value}" for name, value in given.items()]
    ran = subprocess.run(
        [sys.executable, "-c", _READS, *arguments],
        capture_output=True,
        text=True,
        timeout=at_most(60),
        check=False,
    )
    assert (ran.stdout, ran.returncode) == ("2\n", 0), ran.stderr


def test_java_paimon_and_interbed_share_tables(
    secure: HdfsServer, warehouse: str, kdc: KeyDistributionCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ticket_cache(kdc, "ann", tmp_path / "tickets")
    monkeypatch.setenv("KRB5CCNAME", cache.removeprefix("FILE:"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", kdc.java_options[0])
    with (
        JavaPaimon(timeout_seconds=at_most(120), hadoop={**secure.security, "fs.defaultFS": secure.uri}) as java,
        interbed.CatalogFactory.create({"warehouse": warehouse, **secure.security, **keytab_login(kdc)}) as catalog,
    ):
        catalog.create_database("shop")
        ours = catalog.create_table("shop.items", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        ours.upsert([{"id": 1, "name": "python"}])
        theirs = java.table(warehouse, "shop.items")
        assert theirs.read().rows == [[1, "python"]]
        theirs.write([[1, "java"], [2, "java"]])
        assert rows_of(catalog.get_table("shop.items")) == [{"id": 1, "name": "java"}, {"id": 2, "name": "java"}]


def test_the_server_deletes_in_hdfs_with_a_keytab(
    secure: HdfsServer, warehouse: str, kdc: KeyDistributionCenter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    written_site(conf / "core-site.xml", secure.security)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{kdc.keytab('hive/localhost')}")
    monkeypatch.setenv("KRB5CCNAME", "MEMORY:")
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path) as server:
        monkeypatch.delenv("KRB5_CLIENT_KTNAME")
        given = {"metastore": "hive", "uri": server.uri, "warehouse": warehouse, **keytab_login(kdc, "hive/localhost")}
        with interbed.CatalogFactory.create(given) as catalog:
            catalog.create_database("shop")
            table = catalog.create_table("shop.items", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
            table.upsert([{"id": 1, "name": "one"}])
            io, place = table.store.file_io, table.location
            assert place.startswith("hdfs://")
            # The metastore deletes the files of its tables and databases.
            assert isinstance(catalog, interbed.HiveCatalog)
            catalog.client.drop_table("shop", "items", delete_data=True)
            assert not io.exists(place)
    assert "Kerberos" not in (tmp_path / "server.log").read_text()
