"""Published tables are registered in a Hive metastore as Iceberg tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog as load_pyiceberg

import interbed
import interbed.testing
from interbed.catalog.client.api import Catalog
from interbed.iceberg.publish.place import PublishSettings
from interbed.iceberg.publish.registration import metastore_address
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.table.table import Table
from tests.iceberg.java_tables import ordered as in_order
from tests.iceberg.publish.tables import KEYED, ROWS, STORAGE, ordered, rows, shown
from tests.support.peers.iceberg import IcebergPeer

HIVE = {STORAGE: "hive-catalog", "metadata.iceberg.database": "ice"}


@pytest.fixture
def uri(tmp_path: Path) -> Iterator[str]:
    with interbed.testing.metastore(warehouse=f"file:{tmp_path}/lake") as running:
        yield running


@pytest.fixture
def catalog(uri: str) -> Iterator[Catalog]:
    """interbed's catalog over the metastore, with a database `shop`."""
    with interbed.load_catalog("lake", metastore="hive", uri=uri) as made:
        made.create_database("shop")
        yield made


def made(catalog: Catalog, options: dict[str, str], **schema: Any) -> Table:
    """Create a table in the metastore's database `shop`, published in that metastore."""
    own = {"metadata.iceberg.uri": catalog.options.raw["uri"], **options}
    return catalog.create_table("shop.orders", schema.pop("columns", ROWS), options=own, **schema)


def theirs(uri: str, name: str) -> Any:
    """Return the table that pyiceberg's catalog has under the name."""
    with load_pyiceberg("ice", type="hive", uri=uri) as catalog:
        return catalog.load_table(name)


def test_a_published_table_is_found_by_its_name(tmp_path: Path, catalog: Catalog, uri: str) -> None:
    table = made(catalog, HIVE)
    table.append(rows(1, 2))
    first = theirs(uri, "ice.orders")
    assert ordered(first.scan().to_arrow().to_pylist()) == shown(table)
    assert first.metadata_location.endswith("/iceberg/shop/orders/metadata/v1.metadata.json")
    table.append(rows(3))
    table.delete("id = 1")
    second = theirs(uri, "ice.orders")
    assert ordered(second.scan().to_arrow().to_pylist()) == shown(table)
    # The metastore's own catalog of interbed reads both.
    assert catalog.get_table("shop.orders").count() == 2
    found: Any = catalog.get_table("ice.orders")
    assert isinstance(found, interbed.IcebergTable)
    assert found.count() == 2


def test_the_entry_has_the_parameters_that_hive_readers_require(catalog: Catalog, uri: str) -> None:
    table = made(
        catalog, {**HIVE, "metadata.iceberg.table": "aliased", "metadata.iceberg.hive-skip-update-stats": "true"}
    )
    table.append(rows(1))
    table.append(rows(2))
    with load_pyiceberg("ice", type="hive", uri=uri) as of_hive, of_hive._client as thrift:  # type: ignore[attr-defined]
        entry = thrift.get_table("ice", "aliased")
    assert entry.tableType == "EXTERNAL_TABLE"
    parameters = entry.parameters
    assert parameters["table_type"] == "ICEBERG"
    assert parameters["EXTERNAL"] == "TRUE"
    assert parameters["DO_NOT_UPDATE_STATS"] == "true"
    assert parameters["metadata_location"].endswith("v2.metadata.json")
    assert parameters["previous_metadata_location"].endswith("v1.metadata.json")
    assert [(column.name, column.type) for column in entry.sd.cols] == [("id", "int"), ("v", "string"), ("p", "int")]


@pytest.mark.long
def test_a_table_may_be_registered_in_several_databases(catalog: Catalog, uri: str) -> None:
    table = made(catalog, {**HIVE, "metadata.iceberg.database": "one; two"})
    table.append(rows(1))
    for name in ("one.orders", "two.orders"):
        assert theirs(uri, name).scan().to_arrow().num_rows == 1


@pytest.mark.long
def test_the_entry_of_the_table_itself_is_left_alone(
    catalog: Catalog, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(catalog, {STORAGE: "hive-catalog"})
    table.append(rows(1))
    assert "The metastore's entry 'shop.orders' is no Iceberg table" in caplog.text
    with pytest.raises(interbed.InvalidOptionError, match=r"name another one .* 'metadata.iceberg.database'"):
        table.maintenance.publish_iceberg()
    assert catalog.get_table("shop.orders").count() == 1


def test_an_unavailable_metastore_gets_the_entry_later(
    catalog: Catalog, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(catalog, HIVE)
    away = table.copy({"metadata.iceberg.uri": "thrift://127.0.0.1:1"})
    away.append(rows(1))
    assert "The metastore at 127.0.0.1:1 does not take the entry" in caplog.text
    table.append(rows(2))
    assert ordered(theirs(uri, "ice.orders").scan().to_arrow().to_pylist()) == shown(table)
    away.append(rows(3))
    assert table.maintenance.publish_iceberg() == 3
    assert theirs(uri, "ice.orders").metadata.current_snapshot_id == 3


# The random changes of published tables end with Spark in each run, by the location of the table.
@pytest.mark.long
def test_spark_reads_a_published_table_by_its_name(tmp_path: Path, catalog: Catalog, uri: str) -> None:
    table = made(catalog, {**HIVE, "bucket": "1"}, columns=KEYED, primary_keys=["id"])
    table.upsert(rows(1, 2))
    table.upsert(rows(2, v="b"))
    table.compact()
    table.versions.rollback_to(table.store.snapshots.latest_id() or 0)
    with IcebergPeer(tmp_path, uri) as spark:
        assert in_order(spark.rows("ice.ice.orders")) == in_order(table.scan().to_arrow())


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({"metadata.iceberg.uri": "thrift://one:1,thrift://two:2"}, ("one", 1)),
        ({"metadata.iceberg.uri": "one"}, ("one", 9083)),
        ({"hive.metastore.uris": "thrift://three:3"}, ("three", 3)),
        ({"metadata.iceberg.hive-conf-dir": "{conf}"}, ("four", 4)),
        ({"metadata.iceberg.hadoop-conf-dir": "{conf}"}, ("four", 4)),
    ],
)
def test_the_metastore_is_found(tmp_path: Path, options: dict[str, str], address: tuple[str, int]) -> None:
    (tmp_path / "hive-site.xml").write_text(
        "<configuration><property><name>hive.metastore.uris</name><value>thrift://four:4</value></property>"
        "</configuration>"
    )
    given = {key: value.format(conf=tmp_path) for key, value in options.items()}
    assert metastore_address(PublishSettings.of(CoreOptions(given)), {}) == address


def test_the_metastore_address_is_taken_from_hive_configuration_or_options(tmp_path: Path) -> None:
    settings = PublishSettings.of(CoreOptions({STORAGE: "hive-catalog"}))
    with pytest.raises(interbed.InvalidOptionError, match=r"needs 'metadata.iceberg.uri'"):
        metastore_address(settings, {"HIVE_CONF_DIR": str(tmp_path)})
