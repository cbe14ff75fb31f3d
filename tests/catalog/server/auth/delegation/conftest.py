"""Delegation tokens on a database, with a clock that tests set."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.database.session import SqlRepository
from tests.catalog.server.auth.delegation.issued import SetClock, migrated


@pytest.fixture
def clock() -> SetClock:
    """Return a clock that tests set."""
    return SetClock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlRepository]:
    """Yield a migrated database on SQLite."""
    yield from migrated(f"sqlite:///{tmp_path / 'metastore.db'}")


@pytest.fixture
def each_store(database_url: str) -> Iterator[SqlRepository]:
    """Yield a migrated database on SQLite, and one on PostgreSQL."""
    yield from migrated(database_url)


@pytest.fixture
def tokens(store: SqlRepository, clock: SetClock) -> DelegationTokenService:
    """Return the service on the database."""
    return DelegationTokenService(store, clock=clock)


@pytest.fixture
def stored_tokens(each_store: SqlRepository, clock: SetClock) -> DelegationTokenService:
    """Return the service on each kind of database."""
    return DelegationTokenService(each_store, clock=clock)
