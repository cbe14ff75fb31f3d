"""A table with three rows, which bad input must leave unchanged."""

from pathlib import Path

import pytest

import interbed
from tests.bad_input.tables import GOOD, SCHEMA


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    """Catalog with the database `shop`."""
    opened = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}/lake")
    opened.create_database("shop")
    return opened


@pytest.fixture
def orders(catalog: interbed.Catalog) -> interbed.Table:
    """Primary-key table with two snapshots."""
    table = catalog.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    table.upsert(GOOD)
    table.upsert(GOOD.slice(0, 1))
    return table
