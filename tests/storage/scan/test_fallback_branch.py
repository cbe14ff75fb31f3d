"""`scan.fallback-branch`: partitions that a table lacks are read from a branch, which may have other keys."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, SetOption
from interbed.storage.scan.split import Split
from interbed.storage.table.table import Table
from tests.support.waits import past_millisecond

COLUMNS = pa.schema((pa.field("dt", pa.string()), pa.field("name", pa.string()), pa.field("amount", pa.int64())))


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    catalog.create_database("db")
    return catalog


@pytest.fixture
def table(lake: interbed.Catalog) -> Table:
    """A table with batch results, and a branch with today's upserts."""
    lake.create_table("db.t", COLUMNS, partition_keys=["dt"])
    lake.get_table("db.t").versions.create_branch("live")
    keys = {"primary-key": "dt,name", "bucket": "2", "changelog-producer": "lookup"}
    lake.get_table("db.t$branch_live").store.alter([SetOption(key, value) for key, value in keys.items()])
    live = lake.get_table("db.t$branch_live")
    assert live.primary_keys == ["dt", "name"]
    live.upsert(rows(("25", "apple", 4), ("25", "peach", 10), ("26", "cherry", 3), ("26", "pear", 6)))
    live.upsert(rows(("26", "pear", 7)))
    lake.get_table("db.t").store.alter([SetOption("scan.fallback-branch", "live")])
    found = lake.get_table("db.t")
    found.append(rows(("25", "apple", 5), ("25", "banana", 7)))
    return found


def rows(*values: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in values])


def read(of: Table, filter: str | None = None) -> list[tuple[object, ...]]:  # noqa: A002 - as scan calls it
    return sorted(tuple(row.values()) for row in of.scan(filter=filter).to_arrow().to_pylist())


BATCH = [("25", "apple", 5), ("25", "banana", 7)]
LIVE = [("26", "cherry", 3), ("26", "pear", 7)]


def test_each_partition_is_read_from_the_table_or_the_branch(table: Table) -> None:
    assert read(table) == [*BATCH, *LIVE]
    assert table.scan().count() == 4
    assert table.scan(limit=3).to_arrow().num_rows == 3
    builder = table.new_read_builder()
    assert builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows == 4
    assert table.scan(columns=["amount"], filter="name = 'pear'").to_arrow().to_pylist() == [{"amount": 7}]


def test_a_partition_of_the_table_without_matching_rows_is_not_read_from_the_branch(table: Table) -> None:
    assert read(table, "name = 'peach'") == []
    assert read(table, "dt = '26' and amount > 5") == [("26", "pear", 7)]


def test_serialized_splits_include_their_branch(table: Table) -> None:
    splits = table.scan().plan.splits
    assert {split.branch for split in splits} == {None, "live"}
    assert [Split.from_bytes(split.to_bytes()) for split in splits] == list(splits)


def test_an_empty_table_is_read_from_the_branch(lake: interbed.Catalog) -> None:
    empty = lake.create_table("db.e", COLUMNS, partition_keys=["dt"])
    empty.versions.create_branch("later")
    empty = empty.copy({"scan.fallback-branch": "later"})
    assert read(empty) == []
    lake.get_table("db.e$branch_later").append(rows(("1", "a", 1)))
    assert read(empty) == [("1", "a", 1)]
    empty.versions.delete_branch("later")
    assert read(empty) == []


def test_a_missing_branch_is_refused(lake: interbed.Catalog) -> None:
    options = {"scan.fallback-branch": "nope"}
    with pytest.raises(InvalidOptionError, match="the branch 'nope', which does not exist; create it first"):
        lake.create_table("db.n", COLUMNS, partition_keys=["dt"], options=options)
    plain = lake.create_table("db.n", COLUMNS, partition_keys=["dt"])
    with pytest.raises(InvalidOptionError, match="the branch 'nope', which does not exist; create it first"):
        plain.store.alter([SetOption(*next(iter(options.items())))])


def test_an_older_snapshot_is_combined_with_the_branch_at_its_time(table: Table, lake: interbed.Catalog) -> None:
    lake.get_table("db.t$branch_live").upsert(rows(("27", "plum", 1)))
    table.append(rows(("26", "fig", 9)))
    assert read(table) == [*BATCH, ("26", "fig", 9), ("27", "plum", 1)]
    assert read(table.copy({"scan.snapshot-id": "1"})) == [*BATCH, *LIVE]
    assert read(table.copy({"scan.fallback-branch": ""})) == [*BATCH, ("26", "fig", 9)]


@pytest.mark.parametrize("later", [False, True])
def test_a_timestamp_is_applied_to_the_branch_as_well(table: Table, lake: interbed.Catalog, later: bool) -> None:
    live = lake.get_table("db.t$branch_live")
    newest = [of.store.snapshots.latest() for of in (table, live)]
    then = max(snapshot.time_millis for snapshot in newest if snapshot is not None)
    past_millisecond()
    live.upsert(rows(("27", "plum", 1)))
    if later:
        table.append(rows(("26", "fig", 9)))
    for of in (table, lake.get_table("db.t")):
        assert read(of.copy({"scan.timestamp-millis": str(then)})) == [*BATCH, *LIVE]


def test_changing_rows_of_the_branch_through_the_table_is_refused(table: Table, lake: interbed.Catalog) -> None:
    assert table.delete("name = 'pear'") is None
    assert table.delete("name = 'banana'") is not None
    assert read(table) == [BATCH[0], *LIVE]
    assert read(lake.get_table("db.t$branch_live"))[0] == ("25", "apple", 4)


def test_a_branch_with_other_columns_is_refused(table: Table, lake: interbed.Catalog) -> None:
    table.store.alter([AddColumn(("more",), AtomicType(TypeRoot.INT))])
    with pytest.raises(InvalidOptionError, match=r"'scan.fallback-branch'.*'live'.*Give both the same columns"):
        read(lake.get_table("db.t"))


def test_keys_are_looked_up_in_the_partitions_of_the_branch(lake: interbed.Catalog) -> None:
    keyed = lake.create_table("db.k", COLUMNS, primary_keys=["dt", "name"], partition_keys=["dt"])
    keyed.versions.create_branch("live")
    keyed = keyed.copy({"scan.fallback-branch": "live"})
    assert keyed.get(("26", "pear")) is None
    live = lake.get_table("db.k$branch_live")
    live.upsert(rows(("25", "apple", 4), ("25", "peach", 10), ("26", "cherry", 3), ("26", "pear", 6)))
    live.upsert(rows(("26", "pear", 7)))
    assert keyed.get(("25", "peach")) == {"dt": "25", "name": "peach", "amount": 10}
    keyed.upsert(rows(*BATCH))
    assert keyed.get(("25", "peach")) is None
    assert keyed.get(("26", "pear"), ["amount"]) == {"amount": 7}
    keys = [("26", "pear"), ("25", "apple"), ("26", "apple"), ("26", "cherry"), ("26", "pear")]
    found = keyed.get_many(keys, ["amount", "name"])
    assert found.column_names == ["amount", "name"]
    assert found["amount"].to_pylist() == [7, 5, 3, 7]
    assert keyed.get_many([]).num_rows == 0
    assert keyed.copy({"scan.fallback-branch": ""}).get(("26", "pear")) is None


@pytest.fixture
def keyed(lake: interbed.Catalog) -> Table:
    """A table with rows of one day, and a branch with those of another."""
    made = lake.create_table("db.k", COLUMNS, primary_keys=["dt", "name"], partition_keys=["dt"])
    made.versions.create_branch("live")
    lake.get_table("db.k$branch_live").upsert(rows(*LIVE, ("25", "apple", 4)))
    made.upsert(rows(*BATCH))
    made.store.alter([SetOption("scan.fallback-branch", "live")])
    return lake.get_table("db.k")


def data_files(of: Table) -> int:
    return sum(1 for path in Path(of.location.removeprefix("file:")).rglob("data-*") if path.is_file())


def test_a_partial_upsert_into_a_partition_of_the_branch_is_refused(keyed: Table) -> None:
    before, files = read(keyed), data_files(keyed)
    part = [{"dt": "25", "name": "apple", "amount": 6}, {"dt": "26", "name": "plum"}]
    with pytest.raises(NotSupportedError, match=r"partition dt=26 .*branch 'live'.*'scan.fallback-branch' = ''"):
        keyed.upsert(part, columns="present")
    assert (read(keyed), data_files(keyed)) == (before, files)
    assert keyed.upsert(part[:1], columns="present") is not None
    assert read(keyed) == [("25", "apple", 6), BATCH[1], *LIVE]
    alone = keyed.copy({"scan.fallback-branch": ""})
    assert alone.upsert([{"dt": "26", "name": "cherry"}], columns="present") is not None
    assert read(keyed)[2:] == [("26", "cherry", None)]
    assert keyed.upsert([{"dt": "26", "name": "fig"}], columns="present") is not None


def test_a_whole_row_takes_a_partition_from_the_branch(keyed: Table) -> None:
    assert keyed.upsert(rows(("26", "fig", 1))) is not None
    assert read(keyed) == [*BATCH, ("26", "fig", 1)]


@pytest.mark.parametrize("engine", ["partial-update", "deduplicate"])
def test_a_partial_upsert_into_an_empty_table_is_refused(lake: interbed.Catalog, engine: str) -> None:
    options = {"merge-engine": engine}
    empty = lake.create_table("db.e", COLUMNS, primary_keys=["dt", "name"], partition_keys=["dt"], options=options)
    empty.versions.create_branch("live")
    empty = empty.copy({"scan.fallback-branch": "live"})
    lake.get_table("db.e$branch_live").upsert(rows(*LIVE))
    with pytest.raises(NotSupportedError, match="partition dt=26"):
        empty.upsert([{"dt": "26", "name": "pear"}], columns="present")
    assert read(empty) == LIVE


@pytest.mark.parametrize("by", ["delete", "delete_partitions", "truncate"])
def test_deletions_warn_of_rows_of_the_branch(keyed: Table, by: str, caplog: pytest.LogCaptureFixture) -> None:
    def delete(day: str) -> object:
        return keyed.truncate({"dt": day}) if by == "truncate" else getattr(keyed, by)(f"dt = '{day}'")

    delete("27")
    assert caplog.messages == []
    delete("26")
    [warning] = caplog.messages
    assert "the branch 'live'" in warning
    assert "dt=26" in warning
    assert read(keyed) == [*BATCH, *LIVE]
    caplog.clear()
    delete("25")
    if by == "delete":
        # The deleted keys stay in files until a compaction, and with them the partition.
        assert read(keyed) == LIVE
        assert caplog.messages == []
    else:
        assert read(keyed) == [("25", "apple", 4), *LIVE]
        [warning] = caplog.messages
        assert "dt=25" in warning


def test_a_deletion_of_no_row_of_the_branch_does_not_warn(keyed: Table, caplog: pytest.LogCaptureFixture) -> None:
    assert keyed.delete("name = 'banana' and dt = '25'") is not None
    assert keyed.copy({"scan.fallback-branch": ""}).delete("dt = '26'") is None
    assert caplog.messages == []
