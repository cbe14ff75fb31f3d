"""Methods of hmsclient for partitions and statistics."""

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from hmsclient.hmsclient import HMSClient

from tests.support.servers.hmsclient_shapes import column_statistics, long_statistics, table

CONTEXT = ttypes.EnvironmentContext(properties={})


@pytest.fixture
def days(hms: HMSClient, database: str) -> ttypes.Table:
    """Table with the keys dt and n, and no partitions."""
    hms.create_table(table(database, "days", "id:int", keys=("dt:string", "n:int")))
    return hms.get_table(database, "days")


def names(hms: HMSClient, days: ttypes.Table) -> list[str]:
    """Return the names of the partitions."""
    found: list[str] = hms.get_partition_names(days.dbName, "days", -1)
    return found


def test_partitions_are_added_and_appended_in_every_way(hms: HMSClient, days: ttypes.Table) -> None:
    def made(*values: str) -> ttypes.Partition:
        return HMSClient.make_partition(days, list(values))

    database = days.dbName
    hms.add_partition(days, ["a", "1"])
    with pytest.raises(ttypes.AlreadyExistsException):
        hms.add_partition(days, ["a", "1"])
    hms.add_partition_with_environment_context(made("a", "2"), CONTEXT)
    assert hms.add_partitions([made("b", "1"), made("b", "2")]) == 2
    request = ttypes.AddPartitionsRequest(
        dbName=database, tblName="days", parts=[made("b", "2"), made("c", "1")], ifNotExists=True, needResult=True
    )
    assert [each.values for each in hms.add_partitions_req(request).partitions] == [["c", "1"]]
    listed = ttypes.PartitionListComposingSpec(partitions=[made("d", "1")])
    spec = ttypes.PartitionSpec(dbName=database, tableName="days", rootPath=days.sd.location, partitionList=listed)
    assert hms.add_partitions_pspec([spec]) == 1
    assert hms.append_partition(database, "days", ["e", "1"]).values == ["e", "1"]
    assert hms.append_partition_by_name(database, "days", "dt=e/n=2").values == ["e", "2"]
    hms.append_partition_with_environment_context(database, "days", ["e/f", "3"], CONTEXT)
    hms.append_partition_by_name_with_environment_context(database, "days", "dt=e%3Df/n=4", CONTEXT)
    assert set(names(hms, days)) == {
        *("dt=a/n=1", "dt=a/n=2", "dt=b/n=1", "dt=b/n=2", "dt=c/n=1", "dt=d/n=1", "dt=e/n=1", "dt=e/n=2"),
        *("dt=e%2Ff/n=3", "dt=e%3Df/n=4"),
    }


def test_partitions_are_read_in_every_way(hms: HMSClient, days: ttypes.Table) -> None:
    database = days.dbName
    for each in (["a", "1"], ["a", "2"], ["b", "10"]):
        hms.add_partition(days, each)

    def values(found: list[ttypes.Partition]) -> list[list[str]]:
        return [each.values for each in found]

    everything = [["a", "1"], ["a", "2"], ["b", "10"]]
    assert hms.get_partition(database, "days", ["a", "2"]).sd.location == f"{days.sd.location}/dt=a/n=2"
    assert hms.get_partition_by_name(database, "days", "dt=b/n=10").values == ["b", "10"]
    assert hms.get_partition_with_auth(database, "days", ["a", "1"], "alice", []).values == ["a", "1"]
    with pytest.raises(ttypes.NoSuchObjectException):
        hms.get_partition(database, "days", ["z", "1"])
    assert hms.check_for_named_partition(database, "days", "dt=a/n=1")
    assert not hms.check_for_named_partition(database, "days", "dt=a/n=9")
    assert values(hms.get_partitions(database, "days", -1)) == everything
    assert len(hms.get_partitions(database, "days", 2)) == 2
    assert values(hms.get_partitions_with_auth(database, "days", -1, "alice", [])) == everything
    assert names(hms, days) == ["dt=a/n=1", "dt=a/n=2", "dt=b/n=10"]
    assert values(hms.get_partitions_ps(database, "days", ["a"], -1)) == everything[:2]
    assert values(hms.get_partitions_ps_with_auth(database, "days", ["", "2"], -1, "alice", [])) == [["a", "2"]]
    assert hms.get_partition_names_ps(database, "days", ["a", ""], -1) == ["dt=a/n=1", "dt=a/n=2"]
    assert values(hms.get_partitions_by_names(database, "days", ["dt=b/n=10", "dt=x/n=1"])) == [["b", "10"]]
    assert values(hms.get_partitions_by_filter(database, "days", 'dt = "a" and n > 1', -1)) == [["a", "2"]]
    assert hms.get_num_partitions_by_filter(database, "days", "n >= 2") == 2
    with pytest.raises(ttypes.MetaException):
        hms.get_partitions_by_filter(database, "days", "dt = ", -1)

    def of_specs(specs: list[ttypes.PartitionSpec]) -> list[list[str]]:
        found = []
        for spec in specs:
            inner = spec.sharedSDPartitionSpec or spec.partitionList
            found += [each.values for each in inner.partitions]
        return sorted(found)

    assert of_specs(hms.get_partitions_pspec(database, "days", -1)) == sorted(everything)
    assert of_specs(hms.get_part_specs_by_filter(database, "days", 'dt = "b"', -1)) == [["b", "10"]]
    # Hive's clients send a serialised Java expression. The server cannot read it, so any partition may match.
    request = ttypes.PartitionsByExprRequest(dbName=database, tblName="days", expr=b"an expression", maxParts=-1)
    answer = hms.get_partitions_by_expr(request)
    assert (answer.hasUnknownPartitions, values(answer.partitions)) == (True, everything)
    assert hms.partition_name_to_vals("dt=a%2Fb/n=1") == ["a/b", "1"]
    assert hms.partition_name_to_spec("dt=a%2Fb/n=1") == {"dt": "a/b", "n": "1"}
    assert hms.partition_name_has_valid_characters(["a", "1"], True) is True


def test_partitions_are_altered_renamed_marked_and_dropped(hms: HMSClient, days: ttypes.Table) -> None:
    database = days.dbName
    for number in range(1, 8):
        hms.add_partition(days, ["a", str(number)])
    found = hms.get_partition(database, "days", ["a", "1"])
    found.parameters = {"k": "1"}
    hms.alter_partition(database, "days", found)
    found.parameters = {"k": "2"}
    hms.alter_partition_with_environment_context(database, "days", found, CONTEXT)
    assert hms.get_partition(database, "days", ["a", "1"]).parameters["k"] == "2"
    found.parameters = {"k": "3"}
    hms.alter_partitions(database, "days", [found])
    found.parameters = {"k": "4"}
    hms.alter_partitions_with_environment_context(database, "days", [found], CONTEXT)
    assert hms.get_partition(database, "days", ["a", "1"]).parameters["k"] == "4"
    found.values = ["z", "26"]
    hms.rename_partition(database, "days", ["a", "1"], found)
    assert hms.get_partition(database, "days", ["z", "26"]).parameters["k"] == "4"

    done = ttypes.PartitionEventType.LOAD_DONE
    spec = {"dt": "a", "n": "2"}
    assert hms.isPartitionMarkedForEvent(database, "days", spec, done) is False
    hms.markPartitionForEvent(database, "days", spec, done)
    assert hms.isPartitionMarkedForEvent(database, "days", spec, done) is True

    assert hms.drop_partition(database, "days", ["z", "26"], True) is True
    with pytest.raises(ttypes.NoSuchObjectException):
        hms.drop_partition(database, "days", ["z", "26"], True)
    hms.drop_partition_by_name(database, "days", "dt=a/n=2", True)
    hms.drop_partition_with_environment_context(database, "days", ["a", "3"], True, CONTEXT)
    hms.drop_partition_by_name_with_environment_context(database, "days", "dt=a/n=4", True, CONTEXT)
    hms.drop_partitions(database, "days", ["dt=a/n=5"], False)
    request = ttypes.DropPartitionsRequest(
        dbName=database, tblName="days", parts=ttypes.RequestPartsSpec(names=["dt=a/n=6"]), needResult=True
    )
    assert [each.values for each in hms.drop_partitions_req(request).partitions] == [["a", "6"]]
    assert names(hms, days) == ["dt=a/n=7"]


def test_partitions_are_exchanged_between_tables(hms: HMSClient, days: ttypes.Table) -> None:
    database = days.dbName
    hms.create_table(table(database, "nights", "id:int", keys=("dt:string", "n:int")))
    for values in (["a", "1"], ["b", "1"], ["b", "2"]):
        hms.append_partition(database, "days", values)
    moved = hms.exchange_partition({"dt": "a", "n": "1"}, database, "days", database, "nights")
    assert moved.values is None, "as in Hive, the answer is a partition without anything"
    several = hms.exchange_partitions({"dt": "b", "n": ""}, database, "days", database, "nights")
    assert sorted(each.values for each in several) == [["b", "1"], ["b", "2"]]
    assert names(hms, days) == []
    assert hms.get_partition_names(database, "nights", -1) == ["dt=a/n=1", "dt=b/n=1", "dt=b/n=2"]


def test_statistics_of_tables_and_partitions(hms: HMSClient, days: ttypes.Table) -> None:
    database = days.dbName
    hms.create_table(table(database, "plain", "a:int", "b:int"))
    hms.update_table_column_statistics(
        column_statistics(database, "plain", long_statistics("a", 1, 9, 2, 5), long_statistics("b", 0, 1, 0, 2))
    )
    found = hms.get_table_column_statistics(database, "plain", "a").statsObj[0].statsData.longStats
    assert (found.lowValue, found.highValue, found.numNulls, found.numDVs) == (1, 9, 2, 5)
    request = ttypes.TableStatsRequest(dbName=database, tblName="plain", colNames=["a", "b"])
    assert sorted(each.colName for each in hms.get_table_statistics_req(request).tableStats) == ["a", "b"]
    assert hms.delete_table_column_statistics(database, "plain", "a") is True
    with pytest.raises(ttypes.NoSuchObjectException):
        hms.get_table_column_statistics(database, "plain", "a")

    parts = ["dt=a/n=1", "dt=a/n=2"]
    for name in parts:
        hms.append_partition_by_name(database, "days", name)
    hms.update_partition_column_statistics(
        column_statistics(database, "days", long_statistics("id", 1, 5, 1, 3), partition=parts[0])
    )
    merged = column_statistics(database, "days", long_statistics("id", 4, 20, 2, 7), partition=parts[1])
    assert hms.set_aggr_stats_for(ttypes.SetPartitionsStatsRequest(colStats=[merged])) is True
    one = hms.get_partition_column_statistics(database, "days", parts[0], "id").statsObj[0].statsData.longStats
    assert (one.lowValue, one.highValue) == (1, 5)
    request = ttypes.PartitionsStatsRequest(dbName=database, tblName="days", colNames=["id"], partNames=parts)
    assert sorted(hms.get_partitions_statistics_req(request).partStats) == parts
    together = hms.get_aggr_stats_for(request)
    total = together.colStats[0].statsData.longStats
    assert (together.partsFound, total.lowValue, total.highValue, total.numNulls) == (2, 1, 20, 3)
    assert hms.delete_partition_column_statistics(database, "days", parts[0], "id") is True
    assert list(hms.get_partitions_statistics_req(request).partStats) == parts[1:]
