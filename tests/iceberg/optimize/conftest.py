"""A catalog of pyiceberg for the tests of maintenance."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[SqlCatalog]:
    """Open pyiceberg's own catalog, with the namespace `n`."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    yield catalog
    catalog.close()
