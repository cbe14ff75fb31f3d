"""Objects that are registered in a directory are found by an index, in any spelling of the location and after
migrations.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from interbed.catalog.server.database import databases, schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.directories.locations import KEY_LENGTH_MAX
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.databases import open_migrated
from tests.support.servers.metastore import (
    MetastoreUnderTest,
    metastore_under_test,
    plain_client,
    storage,
    table,
)

LONG = "s3://bucket/" + "/".join(["a" * 100] * 12)
COLUMN = ("id", "int")


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[SqlRepository]:
    """Open a repository with two tables; partitions of `t` lie in its directory, elsewhere in the warehouse, and
    outside it.
    """
    with metastore_under_test(database_url, tmp_path) as running:
        fill(running)
    opened = SqlRepository(database_url)
    yield opened
    opened.close()


def fill(running: MetastoreUnderTest) -> None:
    locations = {
        "1": None,
        "2": f"file:{running.warehouse}/t/odd",
        "3": f"file:{running.warehouse}/other/x",
        "4": "s3a://bucket/in/p",
        "5": f"{LONG}/p",
    }
    with plain_client(running.port) as client:
        client.create_table(table("default", "t", COLUMN, partition_keys=(("p", "int"),)))
        client.create_table(table("default", "u"))
        for value, location in locations.items():
            kept = storage(COLUMN, location=location) if location else storage(COLUMN)
            client.add_partition(ttypes.Partition(values=[value], dbName="default", tableName="t", sd=kept))


def stored(opened: SqlRepository) -> dict[str, list[Any]]:
    """Return the places of all rows of the tables with such a column."""
    names = ("databases", "tables", "partition_sets", "partitions")
    with opened.engine.connect() as connection:
        return {
            name: [tuple(row) for row in connection.execute(text(f"SELECT id, place FROM {name} ORDER BY id"))]
            for name in names
        }


def test_places_survive_a_downgrade_and_an_upgrade(store: SqlRepository) -> None:
    before = stored(store)
    assert [place is None for _, place in before["partitions"]] == [True, True, False, False, False]
    assert before["partitions"][3][1] == "s3://bucket/in/p"
    assert before["partitions"][4][1] == f"{LONG}/p"[:KEY_LENGTH_MAX]
    schema.downgrade(store.engine, "0008")
    schema.upgrade(store.engine)
    assert stored(store) == before


def test_partitions_in_and_around_a_directory_are_found(store: SqlRepository, tmp_path: Path) -> None:
    warehouse = f"file:{tmp_path}/warehouse"
    with store.engine.connect() as connection:
        own = connection.execute(text("SELECT id FROM tables WHERE name = 't'")).scalar_one()
        other = connection.execute(text("SELECT id FROM tables WHERE name = 'u'")).scalar_one()

    def conflict(at: str, *above: str, table_id: int = other) -> str | None:
        return store.read(lambda transaction: transaction.places.conflict([at], above, table_id=table_id))

    for at in (f"{warehouse}/other", f"{warehouse}/other/x", "s3://bucket/in", "s3://bucket/in/p", LONG):
        assert conflict(at) == "it holds partitions of the table default.t", at
        assert conflict(at, table_id=own) is None, at
    assert conflict("s3://bucket/in/p/deep", "s3://bucket/in/p") == "it lies in a partition of the table default.t"
    assert conflict(f"{LONG}/p/deep", f"{LONG}/p") is not None
    for at in (f"{warehouse}/othe", f"{warehouse}/other/y", "s3://bucket/i", "s3://bucket/in/p2"):
        assert conflict(at, "s3://bucket") is None, at
    # Partitions of a dropped table do not conflict, although their rows are deleted later.
    with store.engine.begin() as connection:
        connection.execute(text("DELETE FROM tables WHERE name = 't'"))
    assert conflict("s3://bucket/in") is None


def test_a_conflict_search_for_partitions_uses_an_index(tmp_path: Path) -> None:
    opened = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    with opened.engine.connect() as connection:
        for statement, index in (
            (databases._SET, "ix_partition_sets_place"),
            (databases._PARTITION, "ix_partitions_place"),
        ):
            for condition in (databases._IN, databases._AMONG_ON_SQLITE):
                plan = connection.execute(
                    text(f"EXPLAIN QUERY PLAN {statement.format(condition=condition)}"),
                    {"at": "a", "first": "b", "last": "c", "keys": "[]", "table_id": 1},
                )
                steps = [row.detail for row in plan]
                assert not [step for step in steps if step.startswith("SCAN p")], steps
                assert [step for step in steps if index in step], steps
        whole = connection.execute(
            text(f"EXPLAIN QUERY PLAN {databases._INSIDE.text}"), {"at": "a", "first": "b", "last": "c", "table_id": 1}
        )
        assert not [row.detail for row in whole if row.detail.startswith("SCAN p")]
    opened.close()


def test_all_holders_of_a_place_are_found_in_it_and_around_it(store: SqlRepository) -> None:
    t, u, default = ("hive", "default", "t"), ("hive", "default", "u"), ("hive", "default", None)
    ((_, warehouse),) = stored(store)["databases"]

    def holders(texts: list[str], above: list[str], limit: int = 10) -> set[tuple[str, str, str | None]]:
        return set(store.read(lambda transaction: transaction.places.holders(texts, above, limit)))

    assert holders([warehouse], []) == {t, u, default}
    assert len(holders([warehouse], [], 1)) > 1
    assert holders([f"{warehouse}/t/p=1"], [f"{warehouse}/t", warehouse]) == {t, default}
    assert holders([f"{warehouse}/other"], []) == {t}
    assert holders([f"{warehouse}/other/x/y"], [f"{warehouse}/other/x"]) == {t}
    assert holders(["s3://bucket"], []) == {t}
    assert holders([f"{warehouse}/none"], []) == set()
