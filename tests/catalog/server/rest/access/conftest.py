"""The management interface of a metastore."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.server.rest.access.served import ManagedAccess, managed_access


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[ManagedAccess]:
    """Return the management interface of a metastore with the table `sales.orders`."""
    with managed_access(tmp_path) as made:
        yield made
