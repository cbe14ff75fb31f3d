"""Changes of partitions over the wire: added, dropped, altered, renamed, exchanged and marked, by every call."""

from pathlib import Path

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.catalog.server.thrift.calls.partition_tables import ALL, KEYS, VALUES, partition, texts
from tests.support.servers.metastore import MetastoreUnderTest, table


def test_adding_an_existing_or_invalid_partition_is_refused(raw: Client, days: str) -> None:
    with pytest.raises(ttypes.AlreadyExistsException, match="Partition already exists"):
        raw.add_partition(partition(days, ["x", "3"]))
    with pytest.raises(ttypes.MetaException, match="Duplicate partitions in the list"):
        raw.add_partitions([partition(days, ["d", "1"]), partition(days, ["d", "1"])])
    with pytest.raises(ttypes.MetaException, match="Partition does not belong to target table"):
        raw.add_partitions([partition(days, ["d", "1"]), partition(days, ["d", "1"], name="u")])
    with pytest.raises(ttypes.AlreadyExistsException):
        raw.add_partitions([partition(days, ["d", "1"]), partition(days, ["x", "3"])])
    with pytest.raises(ttypes.InvalidObjectException, match="table or database do not exist"):
        raw.append_partition(days, "nope", ["a", "1"])
    with pytest.raises(ttypes.InvalidObjectException, match="incomplete partition name - missing n"):
        raw.append_partition_by_name(days, "t", "dt=q")
    with pytest.raises(ttypes.MetaException, match="Partition name is invalid"):
        raw.append_partition_by_name(days, "t", "")
    with pytest.raises(ttypes.MetaException, match="more than 2000 bytes"):
        raw.append_partition(days, "t", ["a" * 3000, "1"])
    assert raw.add_partitions([]) == 0
    assert texts(raw.get_partitions(days, "t", -1)) == ALL


def test_add_skips_existing_partitions_if_requested(raw: Client, days: str) -> None:
    request = ttypes.AddPartitionsRequest(
        dbName=days, tblName="t", parts=[partition(days, ["d", "1"]), partition(days, ["x", "3"])], ifNotExists=True
    )
    assert texts(raw.add_partitions_req(request).partitions) == ["d/1"]
    request.needResult = False
    assert raw.add_partitions_req(request).partitions is None


def test_partitions_are_appended_by_every_call(raw: Client, days: str) -> None:
    context = ttypes.EnvironmentContext(properties={})
    assert raw.append_partition(days, "t", ["a", "1"]).values == ["a", "1"]
    assert raw.append_partition_by_name(days, "t", "dt=b/n=1").values == ["b", "1"]
    assert raw.append_partition_with_environment_context(days, "t", ["c", "1"], context).values == ["c", "1"]
    assert raw.append_partition_by_name_with_environment_context(days, "t", "dt=d/n=1", context).values == ["d", "1"]
    request = ttypes.AppendPartitionsRequest(dbName=days, tableName="t", partVals=["e", "1"])
    assert raw.append_partition_req(request).sd.cols == raw.get_table(days, "t").sd.cols


def test_partitions_are_dropped_by_every_call(raw: Client, days: str, metastore: MetastoreUnderTest) -> None:
    context = ttypes.EnvironmentContext(properties={"ifPurge": "TRUE"})
    directory = Path(raw.get_partition(days, "t", ["v", "7"]).sd.location.removeprefix("file:"))
    assert raw.drop_partition(days, "t", ["v", "7"], True) is True
    assert not directory.exists()
    kept = Path(raw.get_partition(days, "t", ["w", "7"]).sd.location.removeprefix("file:"))
    assert raw.drop_partition_by_name(days, "t", "dt=w/n=7", False) is True
    assert kept.exists()
    assert raw.drop_partition_with_environment_context(days, "t", ["x", "3"], True, context) is True
    assert raw.drop_partition_by_name_with_environment_context(days, "t", "dt=y/n=10", True, context) is True
    request = ttypes.DropPartitionRequest(dbName=days, tblName="t", partName="dt=z/n=3", deleteData=True)
    assert raw.drop_partition_req(request) is True
    assert len(raw.get_partitions(days, "t", -1)) == 2
    with pytest.raises(ttypes.NoSuchObjectException, match=r"partition values=\[z, 3\]"):
        raw.drop_partition(days, "t", ["z", "3"], True)


def test_several_partitions_are_dropped_by_one_call(raw: Client, days: str) -> None:
    def drop(*names: str, if_exists: bool = True, expressions: tuple[bytes, ...] = ()) -> list[str]:
        parts = ttypes.RequestPartsSpec(names=list(names)) if names else None
        if expressions:
            parts = ttypes.RequestPartsSpec(exprs=[ttypes.DropPartitionsExpr(expr=each) for each in expressions])
        request = ttypes.DropPartitionsRequest(
            dbName=days, tblName="t", parts=parts, deleteData=True, ifExists=if_exists
        )
        return texts(raw.drop_partitions_req(request).partitions)

    with pytest.raises(ttypes.NoSuchObjectException, match="Some partitions to drop are missing"):
        drop("dt=x/n=3", "dt=nope/n=3", if_exists=False)
    assert drop("dt=x/n=3", "dt=nope/n=3") == ["x/3"]
    assert drop(expressions=(b"dt='y' AND n='10'", b"dt='a_b' AND n='-5'")) == ["y/10", "a_b/-5"]
    with pytest.raises(ttypes.NoSuchObjectException):
        drop(expressions=(b"dt='y' AND n='10'",), if_exists=False)
    with pytest.raises(ttypes.MetaException, match="serialized Java expression"):
        drop(expressions=(b"\x01\x02\xff",))
    raw.append_partition(days, "t", ["a/b'c", "1"])
    # As MSCK sends it: escaped as in a partition name.
    assert drop(expressions=(b"dt='a%2Fb%27c' AND n='1'",)) == ["a/b'c/1"]


def test_partitions_are_altered(raw: Client, days: str) -> None:
    created = raw.get_partition(days, "t", ["x", "3"])
    changed = partition(days, ["x", "3"], k="v")
    changed.lastAccessTime = 5
    raw.alter_partition_with_environment_context(days, "t", changed, ttypes.EnvironmentContext(properties={}))
    found = raw.get_partition(days, "t", ["x", "3"])
    assert (found.parameters["k"], found.lastAccessTime, found.createTime) == ("v", 5, created.createTime)
    assert found.sd.location == created.sd.location
    raw.alter_partitions(days, "t", [partition(days, values, every="1") for values in VALUES])
    assert all(each.parameters["every"] == "1" for each in raw.get_partitions(days, "t", -1))
    request = ttypes.AlterPartitionsRequest(dbName=days, tableName="t", partitions=[partition(days, ["x", "3"], r="1")])
    assert raw.alter_partitions_req(request) == ttypes.AlterPartitionsResponse()
    with pytest.raises(ttypes.InvalidOperationException, match="alter is not possible"):
        raw.alter_partitions(days, "t", [partition(days, ["x", "3"], z="1"), partition(days, ["nope", "9"])])
    assert "z" not in raw.get_partition(days, "t", ["x", "3"]).parameters


def test_a_partition_is_renamed_with_its_directory(raw: Client, days: str) -> None:
    old = raw.get_partition(days, "t", ["x", "3"])
    (Path(old.sd.location.removeprefix("file:")) / "data").write_text("rows")
    raw.rename_partition(
        days, "t", ["x", "3"], ttypes.Partition(values=["x2", "3"], dbName=days, tableName="t", sd=old.sd)
    )
    new = raw.get_partition(days, "t", ["x2", "3"])
    assert new.sd.location.endswith("/t/dt=x2/n=3")
    assert (Path(new.sd.location.removeprefix("file:")) / "data").read_text() == "rows"
    assert texts(raw.get_partitions_by_filter(days, "t", 'dt = "x2" or dt = "x"', -1)) == ["x2/3"]
    taken = ttypes.Partition(values=["y", "10"], dbName=days, tableName="t", sd=new.sd)
    with pytest.raises(ttypes.InvalidOperationException, match=r"Partition already exists:.*\.t\.\[y, 10\]"):
        raw.rename_partition(days, "t", ["x2", "3"], taken)
    with pytest.raises(ttypes.InvalidOperationException, match="old partition does not exist"):
        raw.rename_partition(days, "t", ["nope", "3"], taken)
    with pytest.raises(ttypes.InvalidOperationException, match="table or database does not exist"):
        raw.rename_partition(days, "nope", ["nope", "3"], taken)
    request = ttypes.RenamePartitionRequest(
        dbName=days,
        tableName="t",
        partVals=["x2", "3"],
        newPart=ttypes.Partition(values=["x3", "4"], dbName=days, tableName="t", sd=new.sd),
    )
    assert raw.rename_partition_req(request) == ttypes.RenamePartitionResponse()
    assert raw.get_partition(days, "t", ["x3", "4"]).sd.location.endswith("/t/dt=x3/n=4")


def test_renaming_the_table_moves_its_partitions(raw: Client, days: str, tmp_path: Path) -> None:
    raw.add_partition(partition(days, ["far", "1"], location=f"file:{tmp_path}/far"))
    home = raw.get_table(days, "t").sd.location
    raw.add_partition(partition(days, ["odd", "1"], location=f"{home}/somewhere"))
    changed = raw.get_table(days, "t")
    changed.tableName = "renamed"
    raw.alter_table(days, "t", changed)
    locations = {each.values[0]: each.sd.location for each in raw.get_partitions(days, "renamed", -1)}
    new_home = raw.get_table(days, "renamed").sd.location
    assert new_home != home
    assert locations["x"] == f"{new_home}/dt=x/n=3"
    assert locations["odd"] == f"{new_home}/somewhere"
    assert locations["far"] == f"file:{tmp_path}/far"


def test_a_new_location_of_the_table_does_not_move_its_partitions(raw: Client, days: str, tmp_path: Path) -> None:
    changed = raw.get_table(days, "t")
    home = changed.sd.location
    changed.sd.location = f"file:{tmp_path}/elsewhere"
    raw.alter_table(days, "t", changed)
    raw.append_partition(days, "t", ["new", "1"])
    locations = {each.values[0]: each.sd.location for each in raw.get_partitions(days, "t", -1)}
    assert locations["x"] == f"{home}/dt=x/n=3"
    assert locations["new"] == f"file:{tmp_path}/elsewhere/dt=new/n=1"


def test_skewed_info_is_kept(raw: Client, days: str) -> None:
    skewed = partition(days, ["skewed", "1"])
    skewed.sd.skewedInfo = ttypes.SkewedInfo(
        skewedColNames=["id"], skewedColValues=[["1"], ["2"]], skewedColValueLocationMaps={("1",): "file:/one"}
    )
    raw.add_partition(skewed)
    found = raw.get_partition(days, "t", ["skewed", "1"]).sd.skewedInfo
    assert found.skewedColValues == [["1"], ["2"]]
    assert found.skewedColValueLocationMaps == {("1",): "file:/one"}


def test_partitions_are_exchanged_with_their_directories(raw: Client, days: str) -> None:
    raw.create_table(table(days, "other", partition_keys=KEYS))
    raw.append_partition(days, "t", ["x", "4"])
    (Path(raw.get_partition(days, "t", ["x", "3"]).sd.location.removeprefix("file:")) / "data").write_text("rows")
    moved = raw.exchange_partitions({"dt": "x"}, days, "t", days, "other")
    assert texts(moved) == ["x/3", "x/4"]
    assert {each.tableName for each in moved} == {"other"}
    found = raw.get_partition(days, "other", ["x", "3"])
    assert found.sd.location.endswith("/other/dt=x/n=3")
    assert (Path(found.sd.location.removeprefix("file:")) / "data").read_text() == "rows"
    assert "dt=x/n=3" not in raw.get_partition_names(days, "t", -1)
    assert raw.exchange_partition({"dt": "y", "n": "10"}, days, "t", days, "other") == ttypes.Partition()
    assert raw.get_partition_names(days, "other", -1) == ["dt=x/n=3", "dt=x/n=4", "dt=y/n=10"]


def test_invalid_exchanges_are_refused(raw: Client, days: str) -> None:
    raw.create_table(table(days, "other", partition_keys=KEYS))
    raw.create_table(table(days, "columns", ("x", "int"), partition_keys=KEYS))
    raw.create_table(table(days, "keys", partition_keys=(("dt", "string"),)))
    raw.append_partition(days, "other", ["x", "3"])
    raw.append_partition(days, "other", ["v", "9"])
    for spec, target, message in (
        ({"dt": "nope"}, "other", "No partition is found with the values"),
        ({"dt": "x"}, "other", "already exists in the table other"),
        ({"dt": "v"}, "other", "already exists"),
        ({"dt": "x"}, "columns", "different schemas"),
        ({"dt": "x"}, "keys", "different schemas"),
        ({"dt": "x"}, "nope", "destination table"),
        ({"n": "3"}, "other", "begin with the first partition key"),
        ({"bogus": "3"}, "other", "Invalid partition key & values"),
        ({}, "other", "Invalid partition key & values"),
    ):
        with pytest.raises((ttypes.MetaException, ttypes.InvalidObjectException), match=message):
            raw.exchange_partitions(spec, days, "t", days, target)
    assert texts(raw.get_partitions(days, "t", -1)) == ALL
    assert Path(raw.get_partition(days, "t", ["v", "7"]).sd.location.removeprefix("file:")).is_dir()


def test_a_partition_is_marked_for_an_event(raw: Client, days: str) -> None:
    spec, done = {"dt": "x", "n": "3"}, ttypes.PartitionEventType.LOAD_DONE
    assert raw.isPartitionMarkedForEvent(days, "t", spec, done) is False
    raw.markPartitionForEvent(days, "t", spec, done)
    raw.markPartitionForEvent(days, "t", spec, done)
    assert raw.isPartitionMarkedForEvent(days, "t", spec, done) is True
    with pytest.raises(ttypes.InvalidPartitionException, match="Number of partition columns in table: 2"):
        raw.markPartitionForEvent(days, "t", {"dt": "x"}, done)


@pytest.mark.long
def test_thousands_of_partitions_are_added_selected_and_dropped_by_one_call(raw: Client, days: str) -> None:
    raw.create_table(table(days, "many", partition_keys=KEYS))
    parts = [partition(days, [f"d{number % 100}", str(number)], name="many") for number in range(3000)]
    assert raw.add_partitions(parts) == 3000
    names = [f"dt=d{number % 100}/n={number}" for number in range(3000)]
    assert len(raw.get_partitions_by_names(days, "many", names)) == 3000
    assert raw.get_partition_names(days, "many", -1) == sorted(names)
    assert (
        raw.get_num_partitions_by_filter(days, "many", " or ".join(f"n = {number}" for number in range(2000))) == 2000
    )
    request = ttypes.DropPartitionsRequest(
        dbName=days,
        tblName="many",
        parts=ttypes.RequestPartsSpec(names=names[:2990]),
        deleteData=True,
        needResult=False,
    )
    raw.drop_partitions_req(request)
    assert len(raw.get_partitions(days, "many", -1)) == 10


def test_each_change_is_in_the_notification_log(raw: Client, days: str) -> None:
    raw.create_table(table(days, "other", partition_keys=KEYS))
    before = raw.get_current_notificationEventId().eventId
    raw.append_partition(days, "t", ["e", "1"])
    raw.alter_partition(days, "t", partition(days, ["e", "1"], k="v"))
    raw.exchange_partitions({"dt": "e"}, days, "t", days, "other")
    raw.drop_partition(days, "other", ["e", "1"], True)
    events = raw.get_next_notification(ttypes.NotificationEventRequest(lastEvent=before)).events
    ours = [(event.eventType, event.tableName) for event in events if event.dbName == days]
    assert ours == [
        ("ADD_PARTITION", "t"),
        ("ALTER_PARTITION", "t"),
        ("ADD_PARTITION", "other"),
        ("DROP_PARTITION", "t"),
        ("DROP_PARTITION", "other"),
    ]
