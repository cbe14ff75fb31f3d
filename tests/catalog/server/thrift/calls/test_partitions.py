"""Partitions over the wire: every form of every call, on SQLite and PostgreSQL.

The expected answers are those of Hive's own metastore 2.3.10, unless a test states otherwise.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.catalog.server.thrift.calls.partition_tables import ALL, DEFAULT, KEYS, VALUES, partition, texts
from tests.support.servers.metastore import table


@pytest.mark.parametrize(("limit", "count"), [(-1, 7), (-5, 7), (0, 0), (2, 2), (100, 7)])
def test_the_number_of_partitions_can_be_limited(raw: Client, days: str, limit: int, count: int) -> None:
    assert texts(raw.get_partitions(days, "t", limit)) == ALL[:count]
    assert texts(raw.get_partitions_by_filter(days, "t", "n > -100", limit)) == ALL[:count]
    assert texts(raw.get_partitions_with_auth(days, "t", limit, "u", [])) == ALL[:count]
    request = ttypes.PartitionsRequest(dbName=days, tblName="t", maxParts=limit)
    assert texts(raw.get_partitions_req(request).partitions) == ALL[:count]
    assert len(raw.get_partition_names(days, "t", limit)) == len(ALL[:count])
    assert raw.fetch_partition_names_req(request) == raw.get_partition_names(days, "t", limit)


def test_partitions_are_selected_by_partial_values(raw: Client, days: str) -> None:
    for values, found in (
        (["x"], ["x/3"]),
        (["x", "3"], ["x/3"]),
        (["x", ""], ["x/3"]),
        (["", "3"], ["x/3", "z/3"]),
        (["", "7"], ["v/7", "w/7"]),
        (["", "007"], ["v1.2/007"]),
        (["", ""], ALL),
        (["nope"], []),
    ):
        assert texts(raw.get_partitions_ps(days, "t", values, -1)) == found
        names = ["dt={}/n={}".format(*each.split("/")) for each in found]
        assert raw.get_partition_names_ps(days, "t", values, -1) == names
        request = ttypes.GetPartitionsPsWithAuthRequest(dbName=days, tblName="t", partVals=values)
        assert texts(raw.get_partitions_ps_with_auth_req(request).partitions) == found
        names_request = ttypes.GetPartitionNamesPsRequest(dbName=days, tblName="t", partValues=values)
        assert raw.get_partition_names_ps_req(names_request).names == names
    with pytest.raises(ttypes.MetaException, match="numPartKeys=2, part_val=3"):
        raw.get_partitions_ps(days, "t", ["a", "b", "c"], -1)
    with pytest.raises(ttypes.MetaException, match=r"Invalid partition key & values; keys \[\], values \[\]"):
        raw.get_partition_names_ps(days, "t", [], -1)


def test_one_partition_is_found_by_values_and_by_name(raw: Client, days: str) -> None:
    found = raw.get_partition(days, "t", ["x", "3"])
    assert (found.dbName, found.tableName, found.sd.location.rsplit("/", 3)[1:]) == (days, "t", ["t", "dt=x", "n=3"])
    assert raw.get_partition_with_auth(days, "t", ["x", "3"], "u", []) == found
    assert raw.get_partition_by_name(days, "t", "n=3/dt=x") == found
    request = ttypes.GetPartitionRequest(dbName=days, tblName="t", partVals=["x", "3"])
    assert raw.get_partition_req(request).partition == found
    for values in (["x", "03"], ["nope", "3"]):
        with pytest.raises(ttypes.NoSuchObjectException):
            raw.get_partition(days, "t", values)
    with pytest.raises(ttypes.MetaException, match=r"Invalid partition key & values; keys \[dt, n, \], values \[x, \]"):
        raw.get_partition(days, "t", ["x"])
    with pytest.raises(ttypes.MetaException, match="Partition name is invalid"):
        raw.get_partition_by_name(days, "t", "")
    with pytest.raises(ttypes.NoSuchObjectException, match="table not found"):
        raw.get_partitions(days, "nope", -1)


def test_partitions_are_selected_by_names(raw: Client, days: str) -> None:
    names = ["dt=x/n=3", "dt=nope/n=3", "dt=x/n=3", "dt=broken", "", "dt=y/n=10"]
    assert texts(raw.get_partitions_by_names(days, "t", names)) == ["x/3", "y/10"]
    request = ttypes.GetPartitionsByNamesRequest(db_name=days, tbl_name="t", names=names)
    assert texts(raw.get_partitions_by_names_req(request).partitions) == ["x/3", "y/10"]
    assert raw.get_partitions_by_names(days, "t", []) == []


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('dt = "x"', ["x/3"]),
        ("n = 7", ["v/7", "v1.2/007", "w/7"]),
        ("n != 7", ["a_b/-5", "x/3", "y/10", "z/3"]),
        ("7 < n", ["y/10"]),
        ("n = -5", ["a_b/-5"]),
        ("n between 1 and 7", ["v/7", "v1.2/007", "w/7", "x/3", "z/3"]),
        ("n not between 1 and 7", ["a_b/-5", "y/10"]),
        ("(n) in (3, 7)", ["v/7", "v1.2/007", "w/7", "x/3", "z/3"]),
        ("(n) not in (3,7)", ["a_b/-5", "y/10"]),
        ('(struct(dt,n)) in (const struct("x",3), const struct("v",7))', ["v/7", "x/3"]),
        ('dt like "v.*"', ["v/7", "v1.2/007"]),
        ('dt > "v"', ["v1.2/007", "w/7", "x/3", "y/10", "z/3"]),
        ('dt >= "a" and n = 7 or n = 10', ["v/7", "v1.2/007", "w/7", "y/10"]),
        ('dt = "X"', []),
        # These are patterns of Hive 4; 2.3.10 knows only regular expressions.
        ('dt like "v%"', ["v/7", "v1.2/007"]),
        (r'dt like "a\_%"', ["a_b/-5"]),
        ("", ALL),
    ],
)
def test_filters_select_partitions(raw: Client, days: str, text: str, found: list[str]) -> None:
    assert texts(raw.get_partitions_by_filter(days, "t", text, -1)) == found
    assert raw.get_num_partitions_by_filter(days, "t", text) == len(found)
    request = ttypes.GetPartitionsByFilterRequest(dbName=days, tblName="t", filter=text)
    assert texts(raw.get_partitions_by_filter_req(request)) == found
    specs = raw.get_part_specs_by_filter(days, "t", text, -1)
    listed = [
        part for spec in specs for part in (spec.sharedSDPartitionSpec.partitions if spec.sharedSDPartitionSpec else [])
    ]
    assert texts(listed) == found


def test_invalid_filters_are_refused(raw: Client, days: str) -> None:
    with pytest.raises(ttypes.MetaException, match="Specified key <bogus> is not a partitioning key"):
        raw.get_partitions_by_filter(days, "t", "bogus = 1", -1)
    with pytest.raises(ttypes.MetaException, match="Error parsing partition filter"):
        raw.get_num_partitions_by_filter(days, "t", 'dt = "x" or')


def test_the_default_partition_is_stored_and_found(raw: Client, days: str) -> None:
    raw.add_partition(partition(days, ["", "4"]))
    raw.append_partition(days, "t", ["q", DEFAULT])
    assert raw.get_partition(days, "t", ["", "4"]).sd.location.endswith(f"/t/dt={DEFAULT}/n=4")
    assert raw.get_partition_names_ps(days, "t", [DEFAULT], -1) == [f"dt={DEFAULT}/n=4"]
    assert texts(raw.get_partitions_by_filter(days, "t", f'dt = "{DEFAULT}"', -1)) == ["/4"]
    assert texts(raw.get_partitions_by_filter(days, "t", f'n = "{DEFAULT}"', -1)) == [f"q/{DEFAULT}"]
    assert f"q/{DEFAULT}" not in texts(raw.get_partitions_by_filter(days, "t", "n < 0 or n >= 0", -1))


def test_expressions_select_partitions_and_unreadable_ones_select_all(raw: Client, days: str) -> None:
    def by_expression(expression: bytes) -> ttypes.PartitionsByExprResult:
        return raw.get_partitions_by_expr(ttypes.PartitionsByExprRequest(dbName=days, tblName="t", expr=expression))

    readable = by_expression(b"dt='x' AND n='3'")
    assert (texts(readable.partitions), readable.hasUnknownPartitions) == (["x/3"], False)
    opaque = by_expression(b"\x01\x00org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc\xff")
    assert (texts(opaque.partitions), opaque.hasUnknownPartitions) == (ALL, True)
    request = ttypes.PartitionsByExprRequest(dbName=days, tblName="t", expr=b"n=3", maxParts=1)
    assert raw.get_partition_names_req(request) == ["dt=x/n=3"]
    specs = raw.get_partitions_spec_by_expr(request)
    assert texts(specs.partitionsSpec[0].sharedSDPartitionSpec.partitions) == ["x/3"]


def test_values_of_keys_are_listed(raw: Client, days: str) -> None:
    def rows(*keys: str, **options: object) -> list[list[str]]:
        request = ttypes.PartitionValuesRequest(
            dbName=days, tblName="t", partitionKeys=[ttypes.FieldSchema(key, "string", None) for key in keys], **options
        )
        return [each.row for each in raw.get_partition_values(request).partitionValues]

    assert rows("n") == [["-5"], ["007"], ["10"], ["3"], ["7"]]
    assert rows("n", applyDistinct=False, ascending=False, maxParts=2) == [["7"], ["7"]]
    assert rows("n", "dt", filter='dt like "v%"') == [["007", "v1.2"], ["7", "v"]]
    order = [ttypes.FieldSchema("dt", "string", None)]
    assert rows("n", partitionOrder=order, applyDistinct=False)[:2] == [["-5"], ["7"]]


def test_projections_limit_the_returned_fields(raw: Client, days: str) -> None:
    raw.alter_partition(days, "t", partition(days, ["x", "3"], keep="1", drop="2"))
    request = ttypes.PartitionsRequest(
        dbName=days, tblName="t", skipColumnSchemaForPartition=True, includeParamKeyPattern="k%"
    )
    listed = raw.get_partitions_req(request).partitions
    assert all(each.sd.cols == [] for each in listed)
    assert next(each for each in listed if each.values[0] == "x").parameters == {"keep": "1"}
    for mode, filters in (
        (ttypes.PartitionFilterMode.BY_NAMES, ["dt=x/n=3"]),
        (ttypes.PartitionFilterMode.BY_VALUES, ["x"]),
        (ttypes.PartitionFilterMode.BY_EXPR, ['dt = "x" or dt = "y"', "n = 3"]),
    ):
        answer = raw.get_partitions_with_specs(
            ttypes.GetPartitionsRequest(
                dbName=days,
                tblName="t",
                projectionSpec=ttypes.GetProjectionsSpec(
                    fieldList=["values", "parameters"], excludeParamKeyPattern="t%"
                ),
                filterSpec=ttypes.GetPartitionsFilterSpec(filterMode=mode, filters=filters),
            )
        )
        (spec,) = answer.partitionSpec
        (member,) = spec.sharedSDPartitionSpec.partitions
        assert (member.values, member.parameters) == (["x", "3"], {"keep": "1", "drop": "2"})


def test_partition_specifications_share_their_storage_descriptor(raw: Client, days: str, tmp_path: Path) -> None:
    raw.add_partition(partition(days, ["far", "1"], location=f"file:{tmp_path}/far"))
    specs = raw.get_partitions_pspec(days, "t", -1)
    assert [spec.rootPath.rsplit("/", 1)[1] for spec in specs] == ["t", "t"]
    shared, listed = specs
    assert shared.sharedSDPartitionSpec.sd.location == shared.rootPath
    assert [each.relativePath for each in shared.sharedSDPartitionSpec.partitions][:2] == ["/dt=a_b/n=-5", "/dt=v/n=7"]
    assert texts(listed.partitionList.partitions) == ["far/1"]
    raw.create_table(table(days, "copy", partition_keys=KEYS))
    for spec in specs:
        spec.tableName = "copy"
        for each in spec.partitionList.partitions if spec.partitionList else []:
            each.tableName = "copy"
    assert raw.add_partitions_pspec(specs) == 8
    copied = raw.get_partition(days, "copy", ["x", "3"])
    assert copied.sd.location == raw.get_partition(days, "t", ["x", "3"]).sd.location


def test_partition_specifications_are_one_list_unless_the_table_asks_for_groups(raw: Client, database: str) -> None:
    raw.create_table(table(database, "t", partition_keys=KEYS))
    raw.add_partitions([partition(database, values) for values in VALUES])
    for specs in (
        raw.get_partitions_pspec(database, "t", -1),
        raw.get_part_specs_by_filter(database, "t", 'dt < "zz"', -1),
    ):
        [spec] = specs
        assert texts(spec.partitionList.partitions) == ALL


def test_a_nul_character_is_refused_in_partition_values(raw: Client, days: str) -> None:
    assert raw.get_partitions_by_names(days, "t", ["dt=\0/n=3"]) == []
    with pytest.raises(ttypes.NoSuchObjectException):
        raw.get_partition(days, "t", ["\0", "3"])
    calls: list[Callable[[], object]] = [
        lambda: raw.append_partition(days, "t", ["\0", "3"]),
        lambda: raw.get_partitions_ps(days, "t", ["\0"], -1),
        lambda: raw.get_partitions_by_filter(days, "t", "dt = '\0'", -1),
    ]
    for call in calls:
        with pytest.raises(ttypes.MetaException, match="NUL character"):
            call()


def test_partition_names_are_parsed(raw: Client, days: str) -> None:
    assert raw.partition_name_to_vals("n=3/dt=a%2Fb") == ["3", "a/b"]
    assert raw.partition_name_to_spec("n=3/dt=a%2Fb") == {"n": "3", "dt": "a/b"}
    assert raw.partition_name_to_vals("") == []
    assert raw.partition_name_has_valid_characters(["a", "ä\n"], True) is True
