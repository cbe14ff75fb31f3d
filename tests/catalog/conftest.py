"""Databases of a metastore: a PostgreSQL server for all modules, and an empty database for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.metastore import BACKENDS, new_database
from tests.support.servers.postgres import postgres_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Run a PostgreSQL server and yield its address."""
    with postgres_server() as url:
        yield url


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty database, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'metastore.db'}"
    return new_database(request.getfixturevalue("postgres_url"))
