"""The kinds of tables in their column: those of their documents after any changes, filled in databases of older
versions, and answered from the index.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from interbed.catalog.client.hive.registration import INPUT_FORMAT, OUTPUT_FORMAT
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.documents import table_from
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.ops.reaper import Reaper
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import (
    EXTERNAL_TABLE,
    ICEBERG_KINDS,
    MATERIALIZED_VIEW,
    PAIMON_FORMATS,
    PAIMON_KINDS,
    VIEW_KINDS,
    VIRTUAL_VIEW,
    MetastoreDatabase,
    MetastoreTable,
    StorageDescriptor,
    TableKind,
)
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import PointerChange
from tests.support.databases import open_migrated

EVERY_KIND = frozenset(TableKind)
LOCATION = {"metadata_location": "file:/x/00000-a.metadata.json"}
PAIMON = StorageDescriptor(input_format=PAIMON_FORMATS[0], output_format=PAIMON_FORMATS[1])
PLAIN = StorageDescriptor(input_format="i", output_format="o")

SHAPES: dict[str, tuple[str, dict[str, str], StorageDescriptor | None, TableKind]] = {
    "hive": (EXTERNAL_TABLE, {}, PLAIN, TableKind.HIVE),
    "half_paimon": (EXTERNAL_TABLE, {}, replace(PAIMON, output_format="o"), TableKind.HIVE),
    "iceberg": (EXTERNAL_TABLE, {"table_type": "iceberg", **LOCATION}, PLAIN, TableKind.ICEBERG),
    "no_pointer": (EXTERNAL_TABLE, {"table_type": "ICEBERG"}, PLAIN, TableKind.HIVE),
    "empty_pointer": (EXTERNAL_TABLE, {"table_type": "ICEBERG", "metadata_location": ""}, PLAIN, TableKind.HIVE),
    "iceberg_view_table": (EXTERNAL_TABLE, {"table_type": "ICEBERG-VIEW", **LOCATION}, PLAIN, TableKind.HIVE),
    "format": (EXTERNAL_TABLE, {"type": "format-table"}, PLAIN, TableKind.FORMAT),
    "paimon": (EXTERNAL_TABLE, {"table_type": "PAIMON"}, PAIMON, TableKind.PAIMON),
    "both": (EXTERNAL_TABLE, {"table_type": "ICEBERG", **LOCATION}, PAIMON, TableKind.PAIMON_AND_ICEBERG),
    "materialized": (MATERIALIZED_VIEW, {}, PLAIN, TableKind.HIVE),
    "view": (VIRTUAL_VIEW, {}, None, TableKind.VIEW),
    "table_view": (VIRTUAL_VIEW, {"table_type": "ICEBERG", **LOCATION}, None, TableKind.VIEW),
    "iceberg_view": (VIRTUAL_VIEW, {"table_type": "iceberg-view", **LOCATION}, PAIMON, TableKind.ICEBERG_VIEW),
}


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository on an empty database."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


@pytest.fixture
def metastore(store: SqlRepository, tmp_path: Any) -> Metastore:
    """Return the services on a database with two databases of tables."""
    services = Metastore(store, f"file:{tmp_path / 'warehouse'}", undrop_seconds=3600)
    services.databases.bootstrap()
    for name in ("d", "e"):
        services.databases.create(MetastoreDatabase(catalog="hive", name=name))
    return services


def entry(shape: str, name: str, database: str = "d") -> MetastoreTable:
    """Return a new table of a shape."""
    table_type, parameters, storage, _ = SHAPES[shape]
    if table_type == EXTERNAL_TABLE:
        parameters = {"EXTERNAL": "TRUE", **parameters}
    return MetastoreTable(
        catalog="hive", database=database, name=name, table_type=table_type, parameters=parameters, storage=storage
    )


def check(store: SqlRepository) -> None:
    """Compare the column with the documents, and the lists with both."""
    with store.engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT d.name AS database, t.name, t.kind, t.table_type, t.document FROM tables t "
                "JOIN databases d ON d.id = t.database_id"
            )
        ).all()
    for row in rows:
        assert row.kind == table_from("hive", row.database, row.name, row.table_type, row.document).kind, row
    for database in ("d", "e"):
        for kind in TableKind:
            expected = sorted(row.name for row in rows if (row.database, row.kind) == (database, kind))
            assert listed(store, database, {kind}) == expected


def listed(store: SqlRepository, database: str, kinds: Any, *paging: Any) -> list[str]:
    """Return the names of kinds."""
    return store.read(lambda transaction: transaction.tables.names_of_kinds("hive", database, kinds, *paging))


def test_each_shape_of_an_entry_has_its_kind(metastore: Metastore, store: SqlRepository) -> None:
    for shape in SHAPES:
        metastore.tables.create(entry(shape, shape))
    with store.engine.connect() as connection:
        found = {row.name: row.kind for row in connection.execute(text("SELECT name, kind FROM tables"))}
    assert found == {shape: int(kind) for shape, (*_, kind) in SHAPES.items()}
    check(store)
    assert metastore.tables.names_of_kinds("hive", "D", ICEBERG_KINDS) == ["both", "iceberg"]
    assert metastore.tables.names_of_kinds("hive", "d", PAIMON_KINDS) == ["both", "paimon"]
    assert metastore.tables.names_of_kinds("hive", "d", VIEW_KINDS) == ["iceberg_view", "table_view", "view"]
    assert metastore.tables.names_of_kinds("hive", "e", EVERY_KIND) == []
    assert metastore.tables.names_of_kinds("other", "d", EVERY_KIND) == []


def test_the_formats_of_paimon_are_those_that_its_catalogs_register() -> None:
    assert PAIMON_FORMATS == (INPUT_FORMAT, OUTPUT_FORMAT)


def test_the_kind_is_that_of_the_document_after_random_changes(metastore: Metastore, store: SqlRepository) -> None:
    source = random.Random(5)
    names = ("a", "b", "c", "d")
    done: set[str] = set()
    for step in range(80):
        database, name = source.choice("de"), source.choice(names)
        shape = source.choice(list(SHAPES))
        change = source.choice(("create", "alter", "rename", "swap", "drop", "undrop", "restore"))
        try:
            make_change(metastore, change, database, name, shape, source.choice(names))
            done.add(change)
        except MetastoreError:
            # Such a table exists already, or does not exist.
            continue
        if step % 20 == 0:
            check(store)
    check(store)
    assert done == {"create", "alter", "rename", "swap", "drop", "undrop", "restore"}


def make_change(metastore: Metastore, change: str, database: str, name: str, shape: str, other: str) -> None:
    """Make one change of a table; MetastoreError if it is refused."""
    wanted = entry(shape, name, database)
    if change == "create":
        metastore.tables.create(wanted)
    elif change == "drop":
        metastore.tables.drop("hive", database, name, delete_data=False)
    elif change == "undrop":
        for kept in metastore.dropped.select("hive", database)[:1]:
            metastore.dropped.undrop(kept)
    elif change == "restore":
        # The earliest entry of the history may have another kind.
        entries = metastore.history.of_table("hive", database, name).entries
        metastore.history.restore("hive", database, name, entries[0].time_millis)
    else:
        old = metastore.tables.get("hive", database, name)
        if change == "rename":
            metastore.tables.alter("hive", database, name, replace(old, name=other), {})
        elif change == "alter":
            storage = None if wanted.storage is None else replace(wanted.storage, location=old.location)
            new = replace(old, parameters=wanted.parameters, table_type=wanted.table_type, storage=storage)
            metastore.tables.alter("hive", database, name, new, {})
        else:
            swap(metastore, old, {**old.parameters, **wanted.parameters, **LOCATION})


def swap(metastore: Metastore, old: MetastoreTable, parameters: dict[str, str]) -> None:
    """Change the pointer of a table, as commits of Iceberg's tables do."""
    metastore.pointers.swap(
        [
            PointerChange(
                catalog="hive",
                database=old.database,
                name=old.name,
                parameter="metadata_location",
                expected=old.parameters.get("metadata_location"),
                change=lambda each: replace(each, parameters=parameters),
            )
        ]
    )


def test_pages_are_ranges_of_names_in_code_point_order(metastore: Metastore, store: SqlRepository) -> None:
    names = ["B", "_", "a", "a b", "a-b", "a_b", "ä", "z", "é", "日"]
    for number, name in enumerate(names):
        table = entry(("iceberg", "paimon", "hive")[number % 3], name)
        metastore.tables.create(table, has_any_name=True)
    wanted = ICEBERG_KINDS | PAIMON_KINDS
    whole = listed(store, "d", wanted)
    assert whole == sorted(name for number, name in enumerate(names) if number % 3 < 2)
    for size in (1, 2, 3, 100):
        found: list[str] = []
        while page := listed(store, "d", wanted, found[-1] if found else "", size):
            assert len(page) <= size
            found += page
        assert found == whole


def test_tables_of_an_older_version_are_listed_before_and_after_they_are_filled(
    metastore: Metastore, store: SqlRepository
) -> None:
    for shape in SHAPES:
        for number in range(3):
            metastore.tables.create(entry(shape, f"{shape}_{number}", "de"[number % 2]))
    before = {kind: listed(store, "d", {kind}) for kind in TableKind}
    assert sum(map(len, before.values())) == 2 * len(SHAPES)
    schema.downgrade(store.engine, "0013")
    schema.upgrade(store.engine)
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM tables WHERE kind IS NULL")).scalar() == 3 * len(SHAPES)
    assert {kind: listed(store, "d", {kind}) for kind in TableKind} == before
    everything = listed(store, "d", EVERY_KIND)
    assert listed(store, "d", EVERY_KIND, everything[2], 5) == everything[3:8]
    # A change fills its own row, and a kill in the middle leaves the others for later.
    changed = metastore.tables.get("hive", "d", "iceberg_0")
    metastore.tables.alter("hive", "d", "iceberg_0", replace(changed, owner="somebody"), {})
    assert store.write(lambda transaction: transaction.tables.fill_kinds(7)) == 7
    assert {kind: listed(store, "d", {kind}) for kind in TableKind} == before
    reaper = Reaper(store, metastore.locks, every_seconds=60, events_ttl_seconds=3600)
    reaper.fill_kinds()
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM tables WHERE kind IS NULL")).scalar() == 0
    check(store)


@pytest.mark.parametrize("filled", [True, False])
def test_names_with_a_prefix_are_a_range(metastore: Metastore, store: SqlRepository, filled: bool) -> None:
    names = ["a", "ab", "aba", "abb", "abc", "ac", "b", "ba", "a_b", "a0"]
    for name in names:
        metastore.tables.create(entry("paimon" if "b" in name else "hive", name))
    if not filled:
        with store.engine.execution_options(interbed_write=True).begin() as connection:
            connection.execute(text("UPDATE tables SET kind = NULL"))
    for prefix in ("", "a", "ab", "abc", "abd", "b", "z"):
        for after in ("", "a", "ab", "abb", "abz", "zz"):
            for limit in (1, 2, 100):
                wanted = sorted(name for name in names if name.startswith(prefix) and name > after)[:limit]
                assert listed(store, "d", EVERY_KIND, after, limit, prefix) == wanted, (prefix, after, limit)


def test_lists_are_answered_from_an_index(metastore: Metastore, store: SqlRepository) -> None:
    metastore.tables.create(entry("iceberg", "t"))
    with store.engine.connect() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        if not is_sqlite:
            # Otherwise a few rows are read faster without an index.
            connection.execute(text("SET enable_seqscan = off"))
            connection.execute(text("SET enable_bitmapscan = off"))
        name = "name" if is_sqlite else 'name COLLATE "C"'
        select = "SELECT name FROM tables WHERE database_id = (SELECT id FROM databases WHERE name = 'd') AND "
        explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
        for condition in (
            f"kind = 3 AND {name} > 'a' ORDER BY {name} LIMIT 5",
            f"kind = 3 AND {name} >= 'a' ORDER BY {name} LIMIT 5",
            "table_type = 'EXTERNAL_TABLE'",
        ):
            plan = "\n".join(str(row[-1]) for row in connection.execute(text(f"{explain}{select}{condition}")))
            index = "USING COVERING INDEX ix_tables_kind" if is_sqlite else "Index Only Scan using ix_tables_kind"
            assert index in plan, plan
            assert "TEMP B-TREE" not in plan, plan
            assert "Sort" not in plan, plan


def test_an_index_that_a_kill_left_unfinished_is_built_again(store: SqlRepository) -> None:
    if store.engine.dialect.name == "sqlite":
        # The index is a part of the migration's transaction.
        return
    with store.engine.execution_options(interbed_write=True).begin() as connection:
        connection.execute(text("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_tables_kind'::regclass"))
    schema.upgrade(store.engine)
    with store.engine.connect() as connection:
        valid = text("SELECT indisvalid FROM pg_index WHERE indexrelid = 'ix_tables_kind'::regclass")
        assert connection.execute(valid).scalar_one() is True
