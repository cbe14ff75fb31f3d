"""Iceberg tables of a metastore are read by their names, beside interbed's own tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog as load_pyiceberg

import interbed
import interbed.testing
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.hive.catalog import HiveCatalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog over a metastore with an Iceberg table created by pyiceberg, and a table of interbed."""
    with interbed.testing.metastore(warehouse=f"file:{tmp_path}/lake") as uri:
        made = interbed.load_catalog("lake", metastore="hive", uri=uri)
        made.create_database("shop")
        with load_pyiceberg("ice", type="hive", uri=uri, warehouse=f"file:{tmp_path}/lake") as theirs:
            rows = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
            theirs.create_table("shop.theirs", rows.schema).append(rows)
        made.create_table_as("shop.ours", pa.table({"id": [1]}))
        with made:
            yield made


def test_an_iceberg_table_is_read_by_its_name(catalog: Catalog) -> None:
    table: Any = catalog.get_table("shop.theirs")
    assert isinstance(table, interbed.IcebergTable)
    assert table.scan(filter="id > 1").to_arrow()["v"].to_pylist() == ["b", "c"]
    assert catalog.get_table("shop.ours").count() == 1


def test_operations_of_interbeds_own_tables_are_refused(catalog: Catalog) -> None:
    with pytest.raises(interbed.NotAnInterbedTableError, match="ICEBERG"):
        catalog.get_table("shop.theirs$files")
    with pytest.raises(interbed.NotAnInterbedTableError, match="ICEBERG"):
        catalog.drop_table("shop.theirs")
    assert catalog.get_table("shop.theirs").count() == 3


def test_a_table_whose_location_names_this_host_is_read_and_compacted(catalog: Catalog) -> None:
    client: Any = cast(HiveCatalog, catalog).client
    entry = client.get_table("shop", "theirs")
    location = entry.parameters["metadata_location"].replace("file:/", "file://localhost/")
    entry.parameters = {**entry.parameters, "metadata_location": location}
    client.alter_table("shop", "theirs", entry)
    table: Any = catalog.get_table("shop.theirs")
    table.metadata = table.home.load()
    assert table.metadata.metadata_location == location
    assert table.compact(order_strategy="order", order_by=["id"]).rewritten_rows == 3
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
