"""A PostgreSQL with logical replication; each test has its own database."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.ingest.sources.postgres.database import Database
from tests.support.servers.postgres import postgres_server

SETTINGS = {"wal_level": "logical", "max_replication_slots": "100", "max_wal_senders": "50"}


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """One server for all tests of a process."""
    with postgres_server(SETTINGS) as url:
        yield url


@pytest.fixture
def database(server: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database. Its slots are dropped after the test, so that the server keeps no WAL for them."""
    name = f"db_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    found = Database(f"{server.rpartition('/')[0]}/{name}", slot=name)
    try:
        yield found
    finally:
        found.close()
