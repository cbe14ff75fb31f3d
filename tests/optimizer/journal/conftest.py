"""Journals in memory, on SQLite and on PostgreSQL. The databases are shared by all tests of a test worker."""

from collections.abc import Callable, Iterator

import pytest

from interbed.catalog.server.database.engine import open_engine
from interbed.optimizer.journal.api import Journal, MemoryJournal
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.journal.journals import Closing, JournalPlace, empty_database
from tests.support.servers.metastore import BACKENDS, new_database
from tests.support.servers.postgres import postgres_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a PostgreSQL server."""
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_journal_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """SQLite file with the tables of a journal."""
    url = f"sqlite:///{tmp_path_factory.mktemp('journal') / 'journal.db'}"
    SqlJournal.open(url).close()
    return url


@pytest.fixture(scope="session")
def postgres_journal_url(postgres_url: str) -> str:
    """PostgreSQL database with the tables of a journal."""
    url = new_database(postgres_url)
    SqlJournal.open(url).close()
    return url


def _place(kind: str, request: pytest.FixtureRequest) -> JournalPlace:
    if kind == "memory":
        return JournalPlace(url=None)
    fixture = "sqlite_journal_url" if kind == "sqlite" else "postgres_journal_url"
    return JournalPlace(url=request.getfixturevalue(fixture))


@pytest.fixture(scope="session", params=("memory", *BACKENDS))
def place(request: pytest.FixtureRequest) -> JournalPlace:
    """Location of journals, one of each kind."""
    return _place(request.param, request)


@pytest.fixture(scope="session", params=BACKENDS)
def database(request: pytest.FixtureRequest) -> str:
    """Url of a journal's database, one of each kind."""
    url = _place(request.param, request).url
    assert url is not None
    return url


@pytest.fixture
def closing() -> Iterator[Closing]:
    """Return a function that registers journals to be closed when the test ends."""
    opened: list[SqlJournal] = []

    def note(journal: SqlJournal) -> SqlJournal:
        opened.append(journal)
        return journal

    yield note
    for journal in opened:
        journal.close()


@pytest.fixture
def journal(place: JournalPlace, closing: Closing) -> Journal:
    """Empty journal of each kind."""
    return place.empty(closing)


@pytest.fixture
def another(place: JournalPlace, journal: Journal, closing: Closing) -> Journal:
    """The same journal, opened as another process would."""
    return place.another(journal, closing)


@pytest.fixture(scope="session")
def emptied(place: JournalPlace) -> Iterator[Callable[[], Journal]]:
    """Return a function that empties and opens the journal: for tests of many examples."""
    if place.url is None:
        yield MemoryJournal
        return
    engine = open_engine(place.url)
    kept = SqlJournal(engine)

    def empty() -> Journal:
        empty_database(engine)
        return kept

    yield empty
    kept.close()
    engine.dispose()
