"""Column statistics over the wire, on SQLite and PostgreSQL."""

import json

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.support.servers.metastore import storage, table

COLUMNS = (
    ("i", "int"),
    ("d", "double"),
    ("t", "string"),
    ("b", "boolean"),
    ("bin", "binary"),
    ("dec", "decimal(30,2)"),
    ("da", "date"),
    ("ts", "timestamp"),
)
NAMES = [name for name, _ in COLUMNS]


@pytest.fixture
def measured(raw: Client, database: str) -> str:
    """Create a database with the table `s`, which has every kind of column and the partitions 1 to 4."""
    raw.create_table(table(database, "s", *COLUMNS, partition_keys=(("p", "string"),)))
    raw.add_partitions(
        [
            ttypes.Partition(values=[each], dbName=database, tableName="s", sd=storage(*COLUMNS), parameters={})
            for each in "1234"
        ]
    )
    return database


def objects(k: int) -> list[ttypes.ColumnStatisticsObj]:
    """Return statistics of every kind that grow with `k`; bit vectors are opaque."""
    decimal = ttypes.Decimal
    big = (-(10**25) - k).to_bytes(11, "big", signed=True)
    data = {
        "i": {"longStats": ttypes.LongColumnStatsData(k, k + 99, 1, 10 * k, b"\x00HL\xff", b"h\xfe")},
        "d": {"doubleStats": ttypes.DoubleColumnStatsData(k + 0.5, k + 3.5, 2, 2 * k)},
        "t": {"stringStats": ttypes.StringColumnStatsData(10 * k, 2.5 * k, 3, 5 * k)},
        "b": {"booleanStats": ttypes.BooleanColumnStatsData(k, 2 * k, 1)},
        "bin": {"binaryStats": ttypes.BinaryColumnStatsData(10 * k, 2.5 * k, 3)},
        "dec": {
            "decimalStats": ttypes.DecimalColumnStatsData(
                decimal(unscaled=big, scale=2), decimal(unscaled=bytes([k]), scale=2), 1, 7 * k
            )
        },
        "da": {"dateStats": ttypes.DateColumnStatsData(ttypes.Date(100 * k), ttypes.Date(100 * k + 50), 1, 7 * k)},
        "ts": {
            "timestampStats": ttypes.TimestampColumnStatsData(ttypes.Timestamp(k), ttypes.Timestamp(k + 1000), 1, k)
        },
    }
    return [ttypes.ColumnStatisticsObj(name, kind, ttypes.ColumnStatisticsData(**data[name])) for name, kind in COLUMNS]


def statistics(
    database: str, k: int, partition: str | None = None, *, only: tuple[str, ...] = (), name: str = "s"
) -> ttypes.ColumnStatistics:
    """Build a structure of column statistics."""
    description = ttypes.ColumnStatisticsDesc(partition is None, database, name, partition)
    return ttypes.ColumnStatistics(description, [each for each in objects(k) if not only or each.colName in only])


def accurate(parameters: dict[str, str]) -> set[str]:
    """Return the columns whose statistics are marked as accurate."""
    return set(json.loads(parameters["COLUMN_STATS_ACCURATE"]).get("COLUMN_STATS", {}))


def of_table(raw: Client, database: str, *columns: str, name: str = "s") -> list[ttypes.ColumnStatisticsObj]:
    """Return the statistics of the table's columns."""
    request = ttypes.TableStatsRequest(database, name, list(columns or NAMES))
    found: list[ttypes.ColumnStatisticsObj] = raw.get_table_statistics_req(request).tableStats
    return found


def of_partitions(raw: Client, database: str, *names: str, columns: list[str] | None = None) -> dict[str, list[str]]:
    """Return the columns with statistics, by partition."""
    request = ttypes.PartitionsStatsRequest(database, "s", columns or NAMES, list(names))
    found = raw.get_partitions_statistics_req(request).partStats
    return {name: [each.colName for each in columns] for name, columns in found.items()}


def test_every_kind_of_statistics_is_stored_unchanged(raw: Client, measured: str) -> None:
    assert of_table(raw, measured) == []
    assert raw.update_table_column_statistics(statistics(measured, 3)) is True
    assert of_table(raw, measured) == objects(3)
    assert [each.colName for each in of_table(raw, measured, "t", "I", "nope")] == ["t", "i"]
    one = raw.get_table_column_statistics(measured, "s", "DEC")
    assert (one.statsDesc.isTblLevel, one.statsDesc.dbName, one.statsDesc.tableName) == (True, measured, "s")
    assert one.statsDesc.lastAnalyzed > 1_700_000_000
    assert one.statsObj == [each for each in objects(3) if each.colName == "dec"]
    assert accurate(raw.get_table(measured, "s").parameters) == set(NAMES)
    with pytest.raises(ttypes.NoSuchObjectException):
        raw.get_table_column_statistics(measured, "s", "nope")


def test_partitions_have_statistics_of_their_own(raw: Client, measured: str) -> None:
    assert raw.update_partition_column_statistics(statistics(measured, 2, "p=1")) is True
    request = ttypes.SetPartitionsStatsRequest([statistics(measured, 3, "p=2", only=("i", "t"))])
    assert raw.update_partition_column_statistics_req(request).result is True
    assert of_table(raw, measured) == []
    assert of_partitions(raw, measured, "p=1", "p=2", "p=3", "p=nope") == {"p=1": sorted(NAMES), "p=2": ["i", "t"]}
    one = raw.get_partition_column_statistics(measured, "s", "p=2", "i")
    assert (one.statsDesc.partName, one.statsObj) == ("p=2", objects(3)[:1])
    assert accurate(raw.get_partition(measured, "s", ["2"]).parameters) == {"i", "t"}
    for name, column in (("p=3", "i"), ("p=2", "d"), ("p=nope", "i")):
        with pytest.raises(ttypes.NoSuchObjectException):
            raw.get_partition_column_statistics(measured, "s", name, column)
    named = ttypes.GetPartitionsByNamesRequest(db_name=measured, tbl_name="s", names=["p=2", "p=3"], get_col_stats=True)
    with_statistics, without = raw.get_partitions_by_names_req(named).partitions
    assert [each.colName for each in with_statistics.colStats.statsObj] == ["i", "t"]
    assert without.colStats is None


def test_statistics_of_unknown_objects_are_refused(raw: Client, measured: str) -> None:
    with pytest.raises(ttypes.NoSuchObjectException, match="Specified database/table does not exist"):
        raw.update_table_column_statistics(statistics(measured, 1, name="nope"))
    with pytest.raises(ttypes.NoSuchObjectException, match="Partition for which stats is gathered doesn't exist"):
        raw.update_partition_column_statistics(statistics(measured, 1, "p=77"))
    wrong = statistics(measured, 1, only=("i",))
    wrong.statsObj[0].colName = "nope"
    with pytest.raises(ttypes.MetaException, match="Column nope doesn't exist in table s"):
        raw.update_table_column_statistics(wrong)
    with pytest.raises(ttypes.NoSuchObjectException, match="Column stats doesn't exist for db="):
        raw.delete_table_column_statistics(measured, "s", "i", "hive")
    with pytest.raises(ttypes.NoSuchObjectException, match="Partition p=77 for which stats deletion is requested"):
        raw.delete_partition_column_statistics(measured, "s", "p=77", "i", "hive")


def aggregated(raw: Client, database: str, *names: str, columns: list[str] | None = None) -> tuple[dict, int]:  # type: ignore[type-arg]
    """Return the aggregated statistics of partitions, by column, and the number of partitions found."""
    request = ttypes.PartitionsStatsRequest(database, "s", columns or NAMES, list(names))
    found = raw.get_aggr_stats_for(request)
    numbers = {}
    for each in found.colStats:
        (data,) = [value for value in vars_of(each.statsData).values() if value is not None]
        numbers[each.colName] = data
    return numbers, found.partsFound


def vars_of(structure: object) -> dict[str, object]:
    """Return the fields of a structure with slots."""
    return {name: getattr(structure, name) for name in structure.__slots__}  # type: ignore[attr-defined]


def test_statistics_of_partitions_are_aggregated(raw: Client, measured: str) -> None:
    for k in (1, 2, 3):
        raw.update_partition_column_statistics(statistics(measured, k, f"p={k}"))
    found, count = aggregated(raw, measured, "p=1", "p=2", "p=3")
    assert count == 3
    assert (found["i"].lowValue, found["i"].highValue, found["i"].numNulls, found["i"].numDVs) == (1, 102, 3, 30)
    assert (found["d"].lowValue, found["d"].highValue, found["d"].numNulls, found["d"].numDVs) == (1.5, 6.5, 6, 6)
    assert (found["t"].maxColLen, found["t"].avgColLen, found["t"].numNulls, found["t"].numDVs) == (30, 7.5, 9, 15)
    assert (found["b"].numTrues, found["b"].numFalses, found["b"].numNulls) == (6, 12, 3)
    assert (found["bin"].maxColLen, found["bin"].avgColLen, found["bin"].numNulls) == (30, 7.5, 9)
    assert int.from_bytes(found["dec"].lowValue.unscaled, "big", signed=True) == -(10**25) - 3
    assert (found["dec"].highValue.unscaled, found["dec"].highValue.scale) == (b"\x03", 2)
    assert (found["da"].lowValue.daysSinceEpoch, found["da"].highValue.daysSinceEpoch) == (100, 350)
    assert (found["ts"].lowValue.secondsSinceEpoch, found["ts"].highValue.secondsSinceEpoch) == (1, 1003)
    # There are no more distinct values than integers in the range.
    narrow = statistics(measured, 1, "p=4", only=("i",))
    narrow.statsObj[0].statsData.longStats = ttypes.LongColumnStatsData(5, 8, 0, 1000)
    raw.update_partition_column_statistics(narrow)
    assert aggregated(raw, measured, "p=4", columns=["i"])[0]["i"].numDVs == 4


def test_counts_are_extrapolated_to_partitions_without_statistics(raw: Client, measured: str) -> None:
    raw.update_partition_column_statistics(statistics(measured, 1, "p=1"))
    raw.update_partition_column_statistics(statistics(measured, 1, "p=2", only=("i",)))
    found, count = aggregated(raw, measured, "p=1", "p=2", "p=3", "p=4", columns=["i", "b"])
    assert count == 1
    assert found["i"].numNulls == 4
    assert (found["b"].numTrues, found["b"].numFalses) == (4, 8)
    assert aggregated(raw, measured, "p=3", "p=4") == ({}, 0)
    assert aggregated(raw, measured) == ({}, 0)


def test_aggregated_statistics_are_set_and_merged(raw: Client, measured: str) -> None:
    assert raw.set_aggr_stats_for(ttypes.SetPartitionsStatsRequest([statistics(measured, 5)])) is True
    both = [statistics(measured, 5, "p=1"), statistics(measured, 6, "p=2")]
    assert raw.set_aggr_stats_for(ttypes.SetPartitionsStatsRequest(both)) is True
    assert raw.set_aggr_stats_for(ttypes.SetPartitionsStatsRequest([])) is True
    merge = ttypes.SetPartitionsStatsRequest([statistics(measured, 2, only=("i", "b"))], needMerge=True)
    assert raw.set_aggr_stats_for(merge) is True
    (merged,) = of_table(raw, measured, "i")
    numbers = merged.statsData.longStats
    assert (numbers.lowValue, numbers.highValue, numbers.numNulls, numbers.numDVs) == (2, 104, 2, 50)
    merge = ttypes.SetPartitionsStatsRequest([statistics(measured, 2, "p=1", only=("b",))], needMerge=True)
    assert raw.update_partition_column_statistics_req(merge).result is True
    one = raw.get_partition_column_statistics(measured, "s", "p=1", "b").statsObj[0].statsData.booleanStats
    assert (one.numTrues, one.numFalses) == (7, 14)
    assert of_partitions(raw, measured, "p=1")["p=1"] == sorted(NAMES)


def test_statistics_of_different_engines_are_separate(raw: Client, measured: str) -> None:
    impala = statistics(measured, 9)
    impala.engine = "impala"
    raw.update_table_column_statistics(impala)
    assert of_table(raw, measured) == []
    request = ttypes.TableStatsRequest(measured, "s", ["i"], engine="impala")
    assert raw.get_table_statistics_req(request).tableStats == objects(9)[:1]
    raw.delete_table_column_statistics(measured, "s", None, "impala")
    assert raw.get_table_statistics_req(request).tableStats == []


def test_statistics_are_deleted_by_column(raw: Client, measured: str) -> None:
    raw.update_table_column_statistics(statistics(measured, 1))
    for name in ("p=1", "p=2"):
        raw.update_partition_column_statistics(statistics(measured, 1, name))
    assert raw.delete_table_column_statistics(measured, "s", "I", "hive") is True
    assert [each.colName for each in of_table(raw, measured)] == NAMES[1:]
    assert accurate(raw.get_table(measured, "s").parameters) == set(NAMES[1:])
    assert raw.delete_partition_column_statistics(measured, "s", "p=1", "i", "hive") is True
    assert "i" not in of_partitions(raw, measured, "p=1")["p=1"]
    request = ttypes.DeleteColumnStatisticsRequest(
        db_name=measured, tbl_name="s", part_names=["p=1", "p=2"], col_names=["t", "d"]
    )
    assert raw.delete_column_statistics_req(request) is True
    assert of_partitions(raw, measured, "p=2")["p=2"] == ["b", "bin", "da", "dec", "i", "ts"]
    assert (
        raw.delete_column_statistics_req(ttypes.DeleteColumnStatisticsRequest(db_name=measured, tbl_name="s")) is True
    )
    assert of_table(raw, measured) == []


def test_statistics_are_dropped_with_their_column(raw: Client, measured: str) -> None:
    raw.update_table_column_statistics(statistics(measured, 1))
    for name in ("p=1", "p=2"):
        raw.update_partition_column_statistics(statistics(measured, 1, name))
    renamed = raw.get_partition(measured, "s", ["1"])
    renamed.values = ["11"]
    raw.rename_partition(measured, "s", ["1"], renamed)
    assert of_partitions(raw, measured, "p=1", "p=11") == {"p=11": sorted(NAMES)}
    narrowed = raw.get_partition(measured, "s", ["2"])
    narrowed.sd.cols = narrowed.sd.cols[:2]
    raw.alter_partition(measured, "s", narrowed)
    assert of_partitions(raw, measured, "p=2") == {"p=2": ["d", "i"]}
    assert accurate(raw.get_partition(measured, "s", ["2"]).parameters) == {"d", "i"}
    changed = raw.get_table(measured, "s")
    changed.sd.cols = [ttypes.FieldSchema("i", "bigint", None), *changed.sd.cols[1:7]]
    raw.alter_table(measured, "s", changed)
    assert [each.colName for each in of_table(raw, measured)] == NAMES[1:7]
    assert accurate(raw.get_table(measured, "s").parameters) == set(NAMES[1:7])
    changed = raw.get_table(measured, "s")
    changed.tableName = "renamed"
    raw.alter_table(measured, "s", changed)
    assert [each.colName for each in of_table(raw, measured, name="renamed")] == NAMES[1:7]
    raw.drop_table(measured, "renamed", True)
    raw.create_table(table(measured, "renamed", *COLUMNS, partition_keys=(("p", "string"),)))
    assert of_table(raw, measured, name="renamed") == []


def test_each_change_is_in_the_notification_log(raw: Client, measured: str) -> None:
    before = raw.get_current_notificationEventId().eventId
    raw.update_table_column_statistics(statistics(measured, 1, only=("i",)))
    raw.update_partition_column_statistics(statistics(measured, 1, "p=1", only=("i",)))
    raw.delete_partition_column_statistics(measured, "s", "p=1", "i", "hive")
    raw.delete_table_column_statistics(measured, "s", "i", "hive")
    events = raw.get_next_notification(ttypes.NotificationEventRequest(lastEvent=before)).events
    assert [event.eventType for event in events if event.dbName == measured] == [
        "UPDATE_TABLE_COLUMN_STAT",
        "UPDATE_PARTITION_COLUMN_STAT",
        "DELETE_PARTITION_COLUMN_STAT",
        "DELETE_TABLE_COLUMN_STAT",
    ]


def test_a_cascading_change_of_columns_drops_their_statistics_of_partitions(raw: Client, measured: str) -> None:
    raw.update_table_column_statistics(statistics(measured, 1))
    raw.update_partition_column_statistics(statistics(measured, 1, "p=1"))
    without = [column for column in raw.get_table(measured, "s").sd.cols if column.name != "i"]
    for columns in (without, [*without, ttypes.FieldSchema("i", "string")]):
        altered = raw.get_table(measured, "s")
        altered.sd.cols = columns
        context = ttypes.EnvironmentContext({"CASCADE": "true"})
        raw.alter_table_with_environment_context(measured, "s", altered, context)
        left = sorted(set(NAMES) - {"i"})
        assert [each.colName for each in of_table(raw, measured, *NAMES)] == [name for name in NAMES if name != "i"]
        assert of_partitions(raw, measured, "p=1") == {"p=1": left}
        assert accurate(raw.get_table(measured, "s").parameters) == set(left)
        assert accurate(raw.get_partition(measured, "s", ["1"]).parameters) == set(left)
        assert "COLUMN_STATS_ACCURATE" not in raw.get_partition(measured, "s", ["2"]).parameters
    assert "i" not in aggregated(raw, measured, "p=1")[0]
