"""Properties of SQL journals only: their tables, statements and errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import open_engine
from interbed.optimizer.flow.process import JournalError
from interbed.optimizer.flow.tables import RequestKind, TableRequest, TableState
from interbed.optimizer.journal.api import JournalChanges
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.journal.journals import Closing, empty_database, ended, process, scheduler, task
from tests.support.servers.metastore import BACKENDS, new_database

MANY = 10_000


@pytest.fixture(params=BACKENDS)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Url of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    return new_database(request.getfixturevalue("postgres_url"))


@contextmanager
def statements(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements that the engine runs in the block, with their parameters."""
    seen: list[tuple[str, Any]] = []

    def record(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", record)
    yield seen
    event.remove(engine, "before_cursor_execute", record)


def test_a_journal_on_an_empty_database_creates_its_tables_once(new_url: str, closing: Closing) -> None:
    with pytest.raises(JournalError, match="optimizer_lease"):
        closing(SqlJournal(new_url)).holder()
    first = closing(SqlJournal.open(new_url))
    lease = scheduler(first)
    first.store(lease, JournalChanges(tables=[TableState(name="db.t")]))
    second = closing(SqlJournal.open(new_url))
    assert second.holder() == lease
    assert second.tables() == [TableState(name="db.t")]


def test_a_database_of_an_older_version_is_migrated(new_url: str, closing: Closing) -> None:
    engine = open_engine(new_url)
    schema.upgrade(engine, "0006")
    journal = closing(SqlJournal.open(engine))
    assert journal.holder() is None
    assert schema.is_current(engine)
    engine.dispose()


def test_a_database_of_a_newer_version_is_refused_and_named(new_url: str) -> None:
    engine = open_engine(new_url)
    SqlJournal.open(engine).close()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(
        JournalError, match=r"/(journal.db|metastore_\d+) is of a newer version of interbed.* at revision 9999"
    ):
        SqlJournal.open(new_url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:////nowhere/at/all.db", "/nowhere/at/all.db cannot be used: unable to open"),
        ("mysql://host/db", "mysql is not supported"),
        ("catalog", "is not a database url"),
        ("postgresql://postgres@127.0.0.1:1/x", "127.0.0.1:1/x cannot be used: connection"),
    ],
)
def test_an_unreachable_database_is_named(url: str, why: str) -> None:
    with pytest.raises(JournalError, match=why):
        SqlJournal.open(url)


def test_failed_calls_raise_journal_errors(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    journal = SqlJournal.open(f"sqlite:///{file}")
    lease = scheduler(journal)
    journal.close()
    file.write_bytes(b"no database" * 1000)
    for call in (
        lambda: journal.acquire("a", 0, 1),
        lambda: journal.renew(lease, 1),
        lambda: journal.release(lease),
        lambda: journal.load(lease),
        lambda: journal.store(lease, JournalChanges()),
        journal.requests,
        lambda: journal.ask(TableRequest(table="db.t", kind=RequestKind.PAUSE)),
        journal.holder,
        journal.tables,
        journal.processes,
        journal.workers,
        journal.groups,
        lambda: journal.expire(lease, 1),
    ):
        with pytest.raises(JournalError, match="journal can't be reached: its database failed: file is not a"):
            call()
    journal.close()


def test_many_values_are_stored_by_multi_row_statements(database: str) -> None:
    engine = open_engine(database)
    empty_database(engine)
    journal = SqlJournal(engine)
    lease = scheduler(journal)
    names = [f"db.t{number:05}" for number in range(MANY)]
    with statements(engine) as seen:
        journal.store(lease, JournalChanges(tables=[TableState(name=name) for name in names]))
        journal.store(lease, JournalChanges(tables=[TableState(name=name, failures=1) for name in names]))
    assert len(seen) < 2 * MANY / 500
    assert [state.failures for state in journal.tables(names)] == [1] * MANY
    with statements(engine) as seen:
        journal.store(lease, JournalChanges(removed=names))
    assert len(seen) < MANY / 500
    assert journal.tables(names) == []
    journal.close()
    engine.dispose()


def test_queries_over_processes_use_an_index(sqlite_journal_url: str) -> None:
    engine = open_engine(sqlite_journal_url)
    empty_database(engine)
    journal = SqlJournal(engine)
    lease = scheduler(journal)
    journal.store(lease, JournalChanges(processes=[process("p"), ended("q", 5)], tasks=[task("p", 0)]))
    with statements(engine) as seen:
        journal.processes("db.t")
        journal.processes()
        journal.load(lease)
        journal.expire(lease, 3)
    plans = []
    with engine.connect() as connection:
        for statement, parameters in seen:
            if "FROM optimizer_processes" in statement:
                explained = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                plans.append(" ".join(row[-1] for row in explained))
    used = ("table_name (table_name=?)", "created", "state (state=?)", "ended (ended_millis<?)")
    assert len(plans) == len(used)
    for plan, index in zip(plans, used, strict=True):
        assert f"optimizer_processes USING INDEX ix_optimizer_processes_{index}" in plan
    journal.close()
    engine.dispose()


def test_closing_a_journal_leaves_a_passed_engine_open(new_url: str) -> None:
    engine = open_engine(new_url)
    journal = SqlJournal.open(engine)
    journal.close()
    assert journal.holder() is None
    journal.close()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT number FROM optimizer_lease")).scalar_one() == 0
    engine.dispose()
