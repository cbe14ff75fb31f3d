"""Requests that lack fields which Hive 4's metastore requires are refused, and nothing is stored."""

from collections.abc import Callable
from typing import Any

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import table

KEY = (("p", "string"),)


def partition(database: str, name: str, value: str, **fields: Any) -> Any:
    """Return a partition with the storage descriptor of its table."""
    sd = fields.pop("sd", table(database, name).sd)
    return ttypes.Partition(values=[value], dbName=database, tableName=name, sd=sd, parameters={}, **fields)


def view(database: str, name: str) -> Any:
    """Return a view with partition keys."""
    made: Any = table(database, name, table_type="VIRTUAL_VIEW", partition_keys=KEY)
    made.viewOriginalText = made.viewExpandedText = "SELECT 1"
    return made


def test_requests_without_names_are_refused(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=KEY))
    calls: list[Callable[[], Any]] = [
        lambda: wire.get_partition(None, "t", ["1"]),
        lambda: wire.get_partition(database, None, ["1"]),
        lambda: wire.get_partitions_by_filter(None, "t", 'p = "1"', -1),
        lambda: wire.get_partitions_by_names(database, "t", None),
        lambda: wire.get_all_tables(None),
        lambda: wire.get_functions(None, "*"),
        lambda: wire.get_function(database, None),
        lambda: wire.get_database("@hive#"),
        lambda: wire.create_table(ttypes.Table(dbName=database, tableName=None, sd=table(database, "x").sd)),
        lambda: wire.alter_function(database, "f", None),
    ]
    for call in calls:
        with pytest.raises(ttypes.MetaException, match="the request has no "):
            call()


def test_a_storage_descriptor_without_columns_or_serde_is_refused(wire: Any, database: str) -> None:
    for part in ("cols", "serdeInfo"):
        made: Any = table(database, "t")
        setattr(made.sd, part, None)
        with pytest.raises(ttypes.MetaException, match="the storage descriptor has no"):
            wire.create_table(made)
    made = table(database, "t")
    made.sd = None
    with pytest.raises(ttypes.MetaException, match="has no storage descriptor"):
        wire.create_table(made)
    made = table(database, "t")
    made.sd.cols[0].type = None
    with pytest.raises(ttypes.MetaException, match="a column has no type"):
        wire.create_table(made)
    with pytest.raises(ttypes.InvalidObjectException, match="location must not be root path"):
        wire.create_table(table(database, "t", location="file:///"))
    assert wire.get_all_tables(database) == []


def test_a_table_cannot_be_altered_to_have_no_storage_descriptor(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t"))
    changed = wire.get_table(database, "t")
    stored, changed.sd = changed.sd, None
    with pytest.raises(ttypes.MetaException, match="has no storage descriptor"):
        wire.alter_table(database, "t", changed)
    assert wire.get_table(database, "t").sd == stored


def test_a_partition_without_a_storage_descriptor_or_serde_is_refused(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=KEY))
    with pytest.raises(ttypes.MetaException, match=r"the partition \[1\] of table t has no storage descriptor"):
        wire.add_partition(partition(database, "t", "1", sd=None))
    bare = partition(database, "t", "1")
    bare.sd.serdeInfo = None
    with pytest.raises(ttypes.MetaException, match=r"the partition \[1\] of table t has no SerDe"):
        wire.add_partition(bare)
    lost = partition(database, "t", "1")
    lost.sd.location = "somewhere"
    with pytest.raises(ttypes.MetaException, match="neither an absolute path nor a URI"):
        wire.add_partition(lost)
    assert wire.get_partition_names(database, "t", -1) == []
    with pytest.raises(ttypes.InvalidOperationException, match="the request has no partitions"):
        wire.alter_partitions(database, "t", [])


def test_a_list_of_new_partitions_needs_the_exact_name_of_the_table(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=KEY))
    upper = partition(database.upper(), "T", "2")
    with pytest.raises(ttypes.MetaException, match="does not belong to target table"):
        wire.add_partitions([partition(database, "t", "1"), upper])
    assert wire.add_partitions([upper]) == 1
    wire.add_partition(partition(database, "T", "3"))
    assert wire.get_partition_names(database, "t", -1) == ["p=2", "p=3"]


def test_a_partition_without_a_list_of_columns_is_returned_without_one(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=KEY))
    bare = partition(database, "t", "1")
    bare.sd.cols = None
    wire.add_partitions([bare, partition(database, "t", "2")])
    empty = partition(database, "t", "3")
    empty.sd.cols = []
    wire.add_partition(empty)
    found = [wire.get_partition(database, "t", [value]).sd.cols for value in "123"]
    assert (found[0], len(found[1]), found[2]) == (None, 1, [])
    listed = wire.get_partitions(database, "t", -1)
    assert [each.sd.cols for each in listed] == found
    assert [names for spec in wire.get_partitions_pspec(database, "t", -1) for names in spec.partitionList.partitions]
    place = wire.get_table(database, "t").sd.location
    changed = table(database, "t", ("id", "int"), ("more", "int"), partition_keys=KEY, location=place)
    wire.alter_table_with_cascade(database, "t", changed, True)
    assert [len(each.sd.cols) for each in wire.get_partitions(database, "t", -1)] == [2, 2, 2]


def test_a_changed_partition_needs_the_name_of_its_table(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=KEY))
    wire.add_partition(partition(database, "t", "1"))
    for stray in (partition(database, "other", "1"), partition("elsewhere", "t", "1")):
        with pytest.raises(ttypes.MetaException, match="does not belong to target table"):
            wire.alter_partition(database, "t", stray)
        with pytest.raises(ttypes.MetaException, match="does not belong to target table"):
            wire.rename_partition(database, "t", ["1"], stray)


def test_partitions_of_a_view_have_no_location(wire: Any, database: str) -> None:
    made = view(database, "v")
    made.sd.location = None
    wire.create_table(made)
    placed = partition(database, "v", "1")
    placed.sd.location = "file:/somewhere"
    with pytest.raises(ttypes.MetaException, match="is a view: a partition of it has no location"):
        wire.add_partition(placed)
    with pytest.raises(ttypes.MetaException, match="is a view"):
        wire.append_partition(database, "v", ["1"])
    wire.add_partition(partition(database, "v", "2", sd=None))
    assert wire.get_partition(database, "v", ["2"]).sd is None


def test_partition_names_are_case_sensitive(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=KEY))
    wire.append_partition(database, "t", ["1"])
    assert wire.get_partition_by_name(database, "t", "p=1").values == ["1"]
    with pytest.raises(ttypes.NoSuchObjectException, match="P=1"):
        wire.get_partition_by_name(database, "t", "P=1")
    assert wire.get_partitions_by_names(database, "t", ["P=1"]) == []
    assert wire.get_partition_names(database, "t", 0) == []
    assert wire.get_partition_names(database, "nowhere", -1) == []


def test_partitions_are_returned_with_empty_privileges_if_the_table_asks_for_them(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", partition_keys=KEY, parameters={"PARTITION_LEVEL_PRIVILEGE": "TRUE"}))
    wire.append_partition(database, "t", ["1"])
    expected = ttypes.PrincipalPrivilegeSet(
        userPrivileges={"me": []}, groupPrivileges={"us": []}, rolePrivileges={"public": []}
    )
    assert wire.get_partition_with_auth(database, "t", ["1"], "me", ["us"]).privileges == expected
    assert [each.privileges for each in wire.get_partitions_with_auth(database, "t", -1, "me", ["us"])] == [expected]
    assert wire.get_partition(database, "t", ["1"]).privileges is None


def test_a_function_needs_a_class_an_owner_and_a_type(wire: Any, database: str) -> None:
    whole = {"functionName": "f", "dbName": database, "className": "c", "ownerType": 1, "functionType": 1}
    for missing in ("functionName", "dbName", "ownerType", "functionType"):
        with pytest.raises(ttypes.MetaException, match=f"the function has no {missing}"):
            wire.create_function(ttypes.Function(**{**whole, missing: None}))
    with pytest.raises(ttypes.InvalidObjectException, match="Function f has no class"):
        wire.create_function(ttypes.Function(**{**whole, "className": None}))
    wire.create_function(ttypes.Function(**whole))
    for change in ({"className": None}, {"functionName": "a-b"}, {"dbName": "nowhere"}):
        with pytest.raises(ttypes.MetaException):
            wire.alter_function(database, "f", ttypes.Function(**{**whole, **change}))
    assert wire.get_function(database, "f").className == "c"


def test_table_metadata_has_the_owner_of_the_table(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t"))
    [line] = wire.get_table_meta(database, "*", [])
    assert (line.tableName, line.catName, line.ownerName, line.ownerType) == (
        "t",
        "hive",
        "tester",
        ttypes.PrincipalType.USER,
    )


def test_the_creation_time_of_a_database_is_set_by_the_server(wire: Any, database: str) -> None:
    wire.create_database(ttypes.Database(name=f"{database}_new", createTime=5))
    try:
        assert wire.get_database(f"{database}_new").createTime > 5
    finally:
        wire.drop_database(f"{database}_new", True, False)
