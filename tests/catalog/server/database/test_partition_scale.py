"""A table of a hundred thousand partitions: answers are right and use indexes, and changes of all partitions are cheap.

The benchmark tests/benchmarks/partitions.py has a million partitions and prints times.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from interbed.catalog.server.database.partition_rows import FilterSql
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.ops.reaper import Reaper
from interbed.catalog.server.service.filters.expression import parse_filter
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated
from tests.support.partitions import HOURS, KEYS, days_and_regions, fill
from tests.support.servers.metastore import BACKENDS, migrated_database

PARTITIONS = 100_000
KEY = ("hive", "default", "t")
COLUMNS = tuple(MetastoreColumn(name=name, type=kind) for name, kind in KEYS)
DAYS, REGIONS = days_and_regions(PARTITIONS)

SELECTIVE = {
    f"dt = '{DAYS[5]}' and hour = 5 and region = 'region-07'": 1,
    f"dt >= '{DAYS[5]}' and dt < '{DAYS[15]}' and hour = 5 and region = 'region-07'": 10,
    f"dt between '{DAYS[5]}' and '{DAYS[6]}' and region = 'region-07' and hour > 21": 4,
    f"dt like '{DAYS[0][:8]}%' and hour = 5 and region = 'region-07'": 31,
    f"(dt) in ('{DAYS[1]}', '{DAYS[2]}') and (hour) in (3, 4, 5) and region = 'region-07'": 6,
    f"(dt = '{DAYS[1]}' and hour = 1 and region = 'region-01')"
    f" or (dt = '{DAYS[2]}' and hour = 2 and region like '%9')": 5,
    f"dt = '{DAYS[3]}' and hour <> 3 and not region = 'region-07' and hour >= 23": 41,
}
"""Filters, and the number of partitions that each selects."""


@pytest.fixture(scope="module", params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlRepository]:
    """Open the database of an empty metastore."""
    directory: Path = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        opened = open_migrated(f"sqlite:///{directory / 'metastore.db'}")
    else:
        opened = open_migrated(migrated_database(request.getfixturevalue("postgres_url")))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def metastore(store: SqlRepository, tmp_path_factory: pytest.TempPathFactory) -> Metastore:
    """Open a metastore with the table."""
    made = Metastore(store, f"file:{tmp_path_factory.mktemp('warehouse')}")
    made.databases.bootstrap()
    storage = StorageDescriptor(columns=(MetastoreColumn(name="id", type="int"),))
    made.tables.create(MetastoreTable(database="default", name="t", partition_keys=COLUMNS, storage=storage))
    assert fill(store, "default", "t", PARTITIONS) == len(DAYS) * HOURS * len(REGIONS) > 0.98 * PARTITIONS
    return made


def test_selective_filters_return_the_matching_partitions(metastore: Metastore) -> None:
    for filter_text, count in SELECTIVE.items():
        assert metastore.partitions.count_filter(KEY, filter_text) == count, filter_text
        table, found = metastore.partitions.select_filter(KEY, filter_text)
        assert len(found) == count
        assert table.location is not None
        for partition in found:
            assert partition.storage is not None
            assert partition.storage.location == table.location + "/dt={}/hour={}/region={}".format(*partition.values)


@pytest.mark.parametrize("filter_text", SELECTIVE)
@pytest.mark.usefixtures("metastore")
def test_filters_use_the_index_of_a_key(store: SqlRepository, filter_text: str) -> None:
    with store.engine.connect() as connection:
        sql = FilterSql(parse_filter(filter_text, COLUMNS), connection.dialect.name)
        explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
        statement = f"{explain} SELECT name FROM partitions WHERE set_id = :set_id AND {sql.condition} ORDER BY +name"
        if connection.dialect.name == "postgresql":
            statement = statement.replace("+name", "name")
        rows = connection.execute(text(statement), {"set_id": 1, **sql.parameters}).all()
    plan = "\n".join(str(row) for row in rows)
    assert "ix_partitions_key_" in plan, plan
    assert "Seq Scan" not in plan
    # The index is searched by more than the partition set alone.
    assert "(set_id=?)" not in plan


def test_lists_are_ordered_and_limited(metastore: Metastore) -> None:
    partitions = metastore.partitions
    names = partitions.names(KEY)
    assert len(names) == len(DAYS) * HOURS * len(REGIONS)
    assert names == sorted(names)
    assert partitions.names(KEY, 100) == names[:100]
    assert partitions.names_filter(KEY, "hour >= 0", 10) == names[:10]
    assert partitions.names_partial(KEY, [DAYS[2], "5"]) == [name for name in names if f"{DAYS[2]}/hour=5/" in name]
    late = [name for name in names if name > f"dt={DAYS[-2]}"]
    assert partitions.names_filter(KEY, f"dt >= '{DAYS[-2]}'", 7) == late[:7]
    few = names[::97]
    assert [each.values[0] for each in partitions.select_names(KEY, few)[1]] == [name[3:13] for name in few]
    assert sum(1 for _ in partitions.select(KEY)[1]) == len(names)


def test_a_rename_updates_one_row_and_a_drop_deletes_none(store: SqlRepository, metastore: Metastore) -> None:
    partitions = metastore.partitions
    table = metastore.tables.get(*KEY)
    metastore.tables.alter(*KEY, dataclasses.replace(table, name="renamed"))
    renamed = ("hive", "default", "renamed")
    moved, found = partitions.select(renamed, 1)
    storage = next(iter(found)).storage
    assert storage is not None
    assert storage.location is not None
    assert moved.location is not None
    assert storage.location.startswith(moved.location + "/dt=")
    assert "/renamed/" in storage.location
    metastore.tables.drop(*renamed, delete_data=False)
    metastore.tables.create(dataclasses.replace(table, name="renamed"))
    assert partitions.names(renamed) == []
    assert partitions.purge(30_000) == 30_000
    Reaper(store, metastore.locks, every_seconds=60, events_ttl_seconds=3600).look()
    assert partitions.purge() == 0
    with store.engine.connect() as connection:
        for name in ("partitions", "partition_storages", "partition_sets"):
            assert connection.execute(text(f"SELECT count(*) FROM {name}")).scalar() == 0
