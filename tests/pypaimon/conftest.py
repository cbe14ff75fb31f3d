"""A catalog with a table of each kind."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from tests.pypaimon.tables import ORDERS


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    opened = interbed.CatalogFactory.create({"warehouse": str(tmp_path / "lake")})
    opened.create_database("shop", False)
    return opened


@pytest.fixture
def orders(catalog: interbed.Catalog) -> interbed.Table:
    """Table with a primary key and four buckets."""
    schema = interbed.Schema.from_pyarrow_schema(ORDERS, primary_keys=["id"], options={"bucket": "4"})
    catalog.create_table("shop.orders", schema, False)
    return catalog.get_table("shop.orders")


@pytest.fixture
def lines(catalog: interbed.Catalog) -> interbed.Table:
    """Append table of two files: the numbers 0 to 9, and 10 to 14."""
    table = catalog.create_table(
        "shop.lines", interbed.Schema.from_pyarrow_schema(pa.schema([("n", pa.int64())])), False
    )
    table.append(pa.table({"n": range(10)}))
    table.append(pa.table({"n": range(10, 15)}))
    return table
