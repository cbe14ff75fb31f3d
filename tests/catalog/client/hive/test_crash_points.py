"""Operations on a catalog over a metastore are killed before each call to the disk or the server.

The next process sees each table as before or as after the operation. It can repeat the operation, write, and recreate
tables.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, SetOption
from tests.catalog.client.hive.crash_points import (
    SCHEMA,
    Operation,
    RestorableMetastore,
    new_metastore,
    new_table,
    run_campaign,
)
from tests.storage.version.crash_points import NAME, put, unsynced
from tests.support.shares import LONG
from tests.support.tally import Tally

OTHER = "d.other"
PARTITIONED = {"metastore.partitioned-table": "true"}
IN_PROPERTIES = {"location-in-properties": "true"}
STEP = 1 if LONG else 24


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestorableMetastore]:
    """Run one server for all campaigns."""
    with new_metastore(tmp_path_factory.mktemp("crashes")) as running:
        yield running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced(monkeypatch)


def history(catalog: HiveCatalog) -> None:
    put(new_table(catalog), 1, 2)


def partitioned(catalog: HiveCatalog) -> None:
    put(new_table(catalog, **PARTITIONED), 1, 2)


def with_branch(catalog: HiveCatalog) -> None:
    """Create a branch from a tag, with one snapshot on the branch and two on the table."""
    table = new_table(catalog)
    put(table, 1, 2)
    table.versions.create_tag("early", 2)
    put(table, 3, 4)
    table.versions.create_branch("work", "early")
    put(table.branch("work"), 33)


def external(catalog: HiveCatalog) -> None:
    put(new_table(catalog, path=f"{catalog.warehouse}/elsewhere"), 1)


def two_tables(catalog: HiveCatalog) -> None:
    history(catalog)
    put(new_table(catalog, OTHER), 1)


def table_without_entry(catalog: HiveCatalog) -> None:
    """Create a table and remove its entry."""
    partitioned(catalog)
    catalog.client.drop_table("d", "t", delete_data=False)


def another_database(catalog: HiveCatalog) -> None:
    catalog.create_database("e")
    partitioned(catalog)


ROWS = pa.table({"id": [1], "v": [9]}, schema=SCHEMA)

OPERATIONS: dict[str, Operation] = {
    "create_table": Operation(act=lambda c: new_table(c)),
    "create_table, partitioned": Operation(act=lambda c: new_table(c, **PARTITIONED)),
    "create_table, external": Operation(act=lambda c: new_table(c, path=f"{c.warehouse}/elsewhere"), names=(NAME,)),
    "create_table_as": Operation(
        act=lambda c: c.create_table_as(NAME, ROWS, primary_keys=["id"], options={"bucket": "1"})
    ),
    "replace_table": Operation(
        prepare=history,
        act=lambda c: c.replace_table(NAME, ROWS, ROWS, primary_keys=["id"], options={"bucket": "1"}),
        repeated_is_more=True,
    ),
    "drop_table": Operation(prepare=with_branch, act=lambda c: c.drop_table(NAME)),
    "drop_table, partitioned": Operation(prepare=partitioned, act=lambda c: c.drop_table(NAME)),
    "drop_table, external": Operation(prepare=external, act=lambda c: c.drop_table(NAME), names=(OTHER,)),
    "rename_table": Operation(prepare=with_branch, act=lambda c: c.rename_table(NAME, OTHER)),
    "rename_table to another database": Operation(
        prepare=another_database, act=lambda c: c.rename_table(NAME, "e.other"), names=(NAME, "e.other")
    ),
    "rename_table that the metastore does not move": Operation(
        prepare=partitioned, act=lambda c: c.rename_table(NAME, OTHER), options={**IN_PROPERTIES, "warehouse": "far"}
    ),
    "rename_table with its location in the properties": Operation(
        prepare=partitioned, act=lambda c: c.rename_table(NAME, OTHER), options=IN_PROPERTIES
    ),
    "rename_table, external": Operation(prepare=external, act=lambda c: c.rename_table(NAME, OTHER)),
    "alter_table, a column": Operation(
        prepare=partitioned, act=lambda c: c.alter_table(NAME, AddColumn("w", AtomicType(TypeRoot.INT)))
    ),
    "alter_table, an option": Operation(
        prepare=history,
        act=lambda c: c.alter_table(NAME, SetOption("snapshot.num-retained.max", "50")),
        repeated_is_more=True,
    ),
    "create_database": Operation(act=lambda c: c.create_database("e"), names=("e.t",)),
    "alter_database": Operation(act=lambda c: c.alter_database("d", {"a": "1"})),
    "drop_database": Operation(
        prepare=history, act=lambda c: c.drop_database("d", ignore_if_not_exists=True, cascade=True), names=(NAME,)
    ),
    "upsert": Operation(prepare=history, act=lambda c: put(c.get_table(NAME), 6), repeated_is_more=True),
    "upsert into new partitions": Operation(
        prepare=partitioned, act=lambda c: put(c.get_table(NAME), 6), repeated_is_more=True
    ),
    "overwrite": Operation(prepare=partitioned, act=lambda c: c.get_table(NAME).overwrite(ROWS), repeated_is_more=True),
    "compact": Operation(prepare=partitioned, act=lambda c: c.get_table(NAME).compact()),
    "create_partitions": Operation(prepare=partitioned, act=lambda c: c.create_partitions(NAME, [{"v": "50"}])),
    "drop_partitions": Operation(
        prepare=partitioned, act=lambda c: c.drop_partitions(NAME, [{"v": "1"}]), repeated_is_more=True
    ),
    "create_tag": Operation(prepare=history, act=lambda c: c.create_tag(NAME, "new", 1)),
    "create_branch": Operation(prepare=history, act=lambda c: c.create_branch(NAME, "new")),
    "rollback_to": Operation(prepare=history, act=lambda c: c.rollback_to(NAME, 1)),
    "fast_forward": Operation(prepare=with_branch, act=lambda c: c.fast_forward(NAME, "work")),
    "repair_table": Operation(prepare=table_without_entry, act=lambda c: c.repair_table(NAME)),
    "repair_catalog": Operation(prepare=table_without_entry, act=lambda c: c.repair_catalog()),
}


@pytest.mark.sample(8)
@pytest.mark.longer
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_killed_operation_is_either_completed_or_has_no_effect(
    name: str, metastore: RestorableMetastore, tally: Tally
) -> None:
    campaign = run_campaign(metastore, OPERATIONS[name], step=STEP)
    tally("crash points of changes of a Hive catalog", campaign.points)
    assert not campaign.failures, "\n".join(campaign.failures[:5])
