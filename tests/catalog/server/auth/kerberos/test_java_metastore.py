"""interbed's Hive catalog logs in by Kerberos to Hive's own metastore 4.0.1."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogAccessError, CatalogError
from tests.support.servers.java_metastore import QUICK_START, running_java_metastore
from tests.support.servers.kdc import REALM, KeyDistributionCenter

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["authentication", "privacy"])
def metastore(
    request: pytest.FixtureRequest, kdc: KeyDistributionCenter, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Run Hive's metastore with Kerberos, and return the options of a catalog on it."""
    directory: Path = tmp_path_factory.mktemp("metastore")
    settings = {
        "metastore.sasl.enabled": "true",
        "metastore.kerberos.keytab.file": str(kdc.keytab("hive/localhost")),
        "metastore.kerberos.principal": f"hive/localhost@{REALM}",
    }
    # Hadoop's login reads its own file, which is found on the class path.
    core = directory / "hadoop"
    core.mkdir()
    values = {"hadoop.security.authentication": "kerberos", "hadoop.rpc.protection": request.param}
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in values.items()
    )
    (core / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    options = {
        "metastore": "hive",
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": f"hive/_HOST@{REALM}",
        "hadoop.rpc.protection": request.param,
        "security.kerberos.login.principal": f"ann@{REALM}",
        "security.kerberos.login.keytab": str(kdc.keytab("ann")),
    }

    def located(uri: str) -> dict[str, str]:
        return {**options, "uri": uri.replace("127.0.0.1", "localhost")}

    def is_ready(uri: str) -> bool:
        try:
            with interbed.load_catalog("l", **located(uri)) as catalog:
                return "default" in catalog.list_databases()
        except CatalogError:
            return False

    with running_java_metastore(
        "4.0.1",
        directory=directory,
        settings=settings,
        java_options=(*QUICK_START, *kdc.java_options),
        first_jars=[core],
        is_ready=is_ready,
    ) as running:
        yield {**located(running.uri), "warehouse": f"file:{running.warehouse}"}


def test_tables_are_made_and_read(metastore: dict[str, str]) -> None:
    with interbed.load_catalog("l", **metastore) as catalog:
        catalog.create_database("shop")
        table = catalog.create_table("shop.t", pa.schema([("id", pa.int64())]), options={"bucket": "-1"})
        table.append([{"id": 1}, {"id": 2}])
        assert catalog.get_table("shop.t").scan().to_arrow().num_rows == 2
        catalog.drop_database("shop", cascade=True)


def test_a_wrong_principal_of_the_server_is_reported(metastore: dict[str, str], kdc: KeyDistributionCenter) -> None:
    kdc.keytab("other/localhost")
    other = {**metastore, "hive.metastore.kerberos.principal": f"other/localhost@{REALM}"}
    with pytest.raises(interbed.InterbedError), interbed.load_catalog("l", **other) as catalog:
        catalog.list_databases()
    absent = {**metastore, "hive.metastore.kerberos.principal": f"absent/localhost@{REALM}"}
    with (
        pytest.raises(CatalogAccessError, match=r"no ticket of Kerberos for absent/localhost"),
        interbed.load_catalog("l", **absent) as catalog,
    ):
        catalog.list_databases()
