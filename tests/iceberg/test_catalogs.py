"""Tables of a REST catalog in Java, and tables in an object store with the S3 API: by location and by a metastore."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog as load_pyiceberg

import interbed
import interbed.testing
from interbed.iceberg.table import store_properties
from tests.support.servers.http_servers import running_rest_catalog, running_s3

BUCKET = "lake"
ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "v": [f"v{n}" for n in range(100)]})
KEPT = [f"v{n}" for n in range(100) if n != 7]


def filled(catalog: Any, location: str | None = None) -> Any:
    """Create a table in a catalog of pyiceberg, and delete one of its rows."""
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table("shop.orders", ROWS.schema, location=location)
    table.append(ROWS)
    table.delete("id = 7")
    return table


def texts(table: interbed.IcebergTable) -> list[str]:
    """Return the values of column `v` in sorted order."""
    return sorted(map(str, table.scan().to_arrow()["v"].to_pylist()))


def test_tables_of_a_rest_catalog_are_read(tmp_path: Path) -> None:
    with running_rest_catalog(tmp_path) as uri, load_pyiceberg("rest", type="rest", uri=uri) as theirs:
        filled(theirs)
        table = interbed.IcebergTable("shop.orders", theirs.load_table("shop.orders"))
        assert texts(table) == sorted(KEPT)
        assert table.scan(filter="id between 6 and 8", columns=["id"]).to_arrow()["id"].to_pylist() == [6, 8]
        before = table.snapshots()[0].snapshot_id
        assert table.scan(snapshot_id=before).count() == 100
        # A table that is opened later sees later commits.
        theirs.load_table("shop.orders").append(ROWS)
        assert table.count() == 99
        assert interbed.IcebergTable("shop.orders", theirs.load_table("shop.orders")).count() == 199


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """Options of the object store."""
    with running_s3(BUCKET) as options:
        yield options


@pytest.mark.long
def test_tables_in_s3_are_read_by_location(store: dict[str, str], tmp_path: Path) -> None:
    properties = store_properties(store)
    uri = f"sqlite:///{tmp_path}/ice.db"
    with load_pyiceberg("ice", type="sql", uri=uri, warehouse=f"s3://{BUCKET}/sql", **properties) as theirs:
        made = filled(theirs)
        table = interbed.load_iceberg_table(made.metadata_location, properties)
        assert table.location == f"s3://{BUCKET}/sql/shop/orders"
        assert texts(table) == sorted(KEPT)
        # The same bucket by Hadoop's scheme for the object store.
        named = interbed.load_iceberg_table(made.metadata_location.replace("s3://", "s3a://"), properties)
        assert named.count() == 99
        assert interbed.IcebergTable("shop.orders", theirs.load_table("shop.orders")).count() == 99
    with pytest.raises(interbed.StorageAccessError, match="nothing"):
        interbed.load_iceberg_table(f"s3://{BUCKET}/nothing/v1.metadata.json", properties)


def test_tables_in_s3_are_read_by_their_name_in_the_metastore(store: dict[str, str], tmp_path: Path) -> None:
    with interbed.testing.metastore(warehouse=f"file:{tmp_path}/lake") as uri:
        with load_pyiceberg(
            "ice", type="hive", uri=uri, warehouse=f"file:{tmp_path}/lake", **store_properties(store)
        ) as theirs:
            filled(theirs, f"s3://{BUCKET}/hive/orders")
        with interbed.load_catalog("lake", metastore="hive", uri=uri, **store) as catalog:
            found: Any = catalog.get_table("shop.orders")
            assert isinstance(found, interbed.IcebergTable)
            assert texts(found) == sorted(KEPT)
        with interbed.load_catalog("lake", metastore="hive", uri=uri) as blind:
            assert blind.list_iceberg_tables("shop") == ["orders"]
