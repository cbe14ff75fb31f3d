"""Pages of a database's tables of all kinds: in the order of code points, complete, and from the index of kinds."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert, text

from interbed.catalog.server.database.models import TableRow
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.database.table_pages import above
from interbed.catalog.server.service.model import MetastoreDatabase, TableKind
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated

ALPHABET = ("a", "b", "_", "-", "$", "z", "é", "\ud7ff", "\ue000", "\uffff", "\U0010ffff", "%")
KINDS = (*TableKind, None)


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository on an empty database."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


@pytest.fixture
def filled(store: SqlRepository, tmp_path: Path) -> dict[str, TableKind | None]:
    """Fill the database `d`, and another one with the same names; return the kinds of its tables by their names."""
    metastore = Metastore(store, f"file:{tmp_path / 'warehouse'}")
    metastore.databases.bootstrap()
    for name in ("d", "e"):
        metastore.databases.create(MetastoreDatabase(name=name))
    chosen = random.Random(7)
    names = {"".join(chosen.choices(ALPHABET, k=chosen.randint(1, 4))) for _ in range(300)}
    kinds = {name: KINDS[number % len(KINDS)] for number, name in enumerate(sorted(names))}
    with store.engine.execution_options(interbed_write=True).begin() as connection:
        for database in ("d", "e"):
            found = connection.execute(
                text("SELECT id FROM databases WHERE name = :name"), {"name": database}
            ).scalar_one()
            rows = [
                {
                    "database_id": found,
                    "name": name,
                    "table_type": "VIRTUAL_VIEW" if kind is None else "MANAGED_TABLE",
                    "document": "{}",
                    "kind": None if kind is None else int(kind),
                    "owner": f"user:{database}",
                    "comment": name,
                }
                for name, kind in kinds.items()
            ]
            connection.execute(insert(TableRow), rows)
    return kinds


def test_pages_together_are_the_sorted_list(store: SqlRepository, filled: dict[str, TableKind | None]) -> None:
    chosen = random.Random(8)
    prefixes = ["", *("".join(chosen.choices(ALPHABET, k=chosen.randint(1, 2))) for _ in range(40)), *ALPHABET]
    for prefix in prefixes:
        expected = sorted(name for name in filled if name.startswith(prefix))
        limit = chosen.choice([1, 7, 50, 1000])
        found, after = [], ""
        while True:
            page = store.read(
                lambda transaction, last=after, begin=prefix, rows=limit: transaction.tables.page(  # type: ignore[misc]
                    "hive", "d", last, rows, begin
                )
            )
            found += page
            if len(page) < limit:
                break
            after = page[-1].name
        assert [each.name for each in found] == expected, prefix
        for each in found:
            assert each.kind == (filled[each.name] or TableKind.VIEW)
            assert (each.owner, each.comment) == ("user:d", each.name)
    assert store.read(lambda transaction: transaction.tables.page("hive", "none", "", 10, "")) == []
    after_all = store.read(lambda transaction: transaction.tables.page("hive", "d", "\U0010ffff" * 5, 10, "a"))
    assert after_all == []


@pytest.mark.parametrize(
    ("prefix", "bound"),
    [
        ("a", "b"),
        ("az", "a{"),
        ("a\ud7ff", "a\ue000"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("\uffff", "\U00010000"),
    ],
)
def test_a_prefix_is_a_range_of_names(prefix: str, bound: str | None) -> None:
    assert above(prefix) == bound


def test_a_page_reads_the_index_of_kinds_and_sorts_only_the_page(tmp_path: Path) -> None:
    opened = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    statements: list[str] = []

    def run(transaction: object) -> None:
        driver = transaction.tables._connection.connection.driver_connection  # type: ignore[attr-defined]
        driver.set_trace_callback(statements.append)
        transaction.tables.page("hive", "d", "a", 100, "")  # type: ignore[attr-defined]
        driver.set_trace_callback(None)
        plan = [row[3] for row in driver.execute(f"EXPLAIN QUERY PLAN {statements[-1]}")]
        of_tables = [step for step in plan if "tables USING" in step or step == "SCAN tables"]
        assert len(of_tables) == len(KINDS)
        assert all("INDEX ix_tables_kind (database_id=? AND kind=? AND name>?)" in step for step in of_tables), plan

    opened.read(run)
    opened.close()
