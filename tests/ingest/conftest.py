"""A schema registry, for the tests of sources and of jobs that read from Kafka."""

from collections.abc import Iterator

import pytest

from tests.support.servers.schema_registry import SchemaRegistryServer, running_schema_registry


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistryServer]:
    """One schema registry for all tests of a process; each test uses its own subjects."""
    with running_schema_registry() as server:
        yield server
