"""Partitions through the wire: every form of every call, on SQLite and PostgreSQL.

What is expected is what Hive's own metastore 2.3.10 answers to the same, but where a test says otherwise.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.catalog.server.raw_client import raw_client
from tests.support.servers.metastore import MetastoreUnderTest, storage, table

KEYS = (("dt", "string"), ("n", "int"))
VALUES = (["v", "7"], ["w", "7"], ["x", "3"], ["y", "10"], ["z", "3"], ["a_b", "-5"], ["v1.2", "007"])
DEFAULT = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def raw(metastore: MetastoreUnderTest) -> Iterator[Client]:
    """The generated client."""
    with raw_client(metastore.port) as client:
        yield client


@pytest.fixture
def days(raw: Client, database: str) -> str:
    """A database with the table `t` of seven partitions."""
    grouped = {"hive.hcatalog.partition.spec.grouping.enabled": "TRUE"}
    raw.create_table(table(database, "t", partition_keys=KEYS, parameters=grouped))
    raw.add_partitions([partition(database, values) for values in VALUES])
    return database


def partition(
    database: str, values: list[str], name: str = "t", location: str | None = None, **parameters: str
) -> ttypes.Partition:
    """A partition of `t`."""
    return ttypes.Partition(
        values=values, dbName=database, tableName=name, sd=storage(location=location), parameters=parameters
    )


def texts(partitions: list[ttypes.Partition]) -> list[str]:
    """The values of each, with a slash between them."""
    return ["/".join(each.values) for each in partitions]


ALL = ["a_b/-5", "v/7", "v1.2/007", "w/7", "x/3", "y/10", "z/3"]


@pytest.mark.parametrize(("limit", "count"), [(-1, 7), (-5, 7), (0, 0), (2, 2), (100, 7)])
def test_max_parts(raw: Client, days: str, limit: int, count: int) -> None:
    assert texts(raw.get_partitions(days, "t", limit)) == ALL[:count]
    assert texts(raw.get_partitions_by_filter(days, "t", "n > -100", limit)) == ALL[:count]
    assert texts(raw.get_partitions_with_auth(days, "t", limit, "u", [])) == ALL[:count]
    request = ttypes.PartitionsRequest(dbName=days, tblName="t", maxParts=limit)
    assert texts(raw.get_partitions_req(request).partitions) == ALL[:count]
    assert len(raw.get_partition_names(days, "t", limit)) == len(ALL[:count])
    assert raw.fetch_partition_names_req(request) == raw.get_partition_names(days, "t", limit)


def test_partial_values(raw: Client, days: str) -> None:
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


def test_one_partition(raw: Client, days: str) -> None:
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


def test_partitions_by_names(raw: Client, days: str) -> None:
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
        # Hive 4's patterns; 2.3.10 knows only regular expressions.
        ('dt like "v%"', ["v/7", "v1.2/007"]),
        (r'dt like "a\_%"', ["a_b/-5"]),
        ("", ALL),
    ],
)
def test_filters(raw: Client, days: str, text: str, found: list[str]) -> None:
    assert texts(raw.get_partitions_by_filter(days, "t", text, -1)) == found
    assert raw.get_num_partitions_by_filter(days, "t", text) == len(found)
    request = ttypes.GetPartitionsByFilterRequest(dbName=days, tblName="t", filter=text)
    assert texts(raw.get_partitions_by_filter_req(request)) == found
    specs = raw.get_part_specs_by_filter(days, "t", text, -1)
    listed = [
        part for spec in specs for part in (spec.sharedSDPartitionSpec.partitions if spec.sharedSDPartitionSpec else [])
    ]
    assert texts(listed) == found


def test_bad_filters(raw: Client, days: str) -> None:
    with pytest.raises(ttypes.MetaException, match="Specified key <bogus> is not a partitioning key"):
        raw.get_partitions_by_filter(days, "t", "bogus = 1", -1)
    with pytest.raises(ttypes.MetaException, match="Error parsing partition filter"):
        raw.get_num_partitions_by_filter(days, "t", 'dt = "x" or')


def test_the_default_partition(raw: Client, days: str) -> None:
    raw.add_partition(partition(days, ["", "4"]))
    raw.append_partition(days, "t", ["q", DEFAULT])
    assert raw.get_partition(days, "t", ["", "4"]).sd.location.endswith(f"/t/dt={DEFAULT}/n=4")
    assert raw.get_partition_names_ps(days, "t", [DEFAULT], -1) == [f"dt={DEFAULT}/n=4"]
    assert texts(raw.get_partitions_by_filter(days, "t", f'dt = "{DEFAULT}"', -1)) == ["/4"]
    assert texts(raw.get_partitions_by_filter(days, "t", f'n = "{DEFAULT}"', -1)) == [f"q/{DEFAULT}"]
    assert f"q/{DEFAULT}" not in texts(raw.get_partitions_by_filter(days, "t", "n < 0 or n >= 0", -1))


def test_expressions(raw: Client, days: str) -> None:
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


def test_values_of_keys(raw: Client, days: str) -> None:
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


def test_projections(raw: Client, days: str) -> None:
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


def test_specifications_share_their_storage(raw: Client, days: str, tmp_path: Path) -> None:
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


def test_specifications_are_one_list_unless_the_table_asks_for_groups(raw: Client, database: str) -> None:
    raw.create_table(table(database, "t", partition_keys=KEYS))
    raw.add_partitions([partition(database, values) for values in VALUES])
    for specs in (
        raw.get_partitions_pspec(database, "t", -1),
        raw.get_part_specs_by_filter(database, "t", 'dt < "zz"', -1),
    ):
        [spec] = specs
        assert texts(spec.partitionList.partitions) == ALL


def test_add_refuses(raw: Client, days: str) -> None:
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


def test_add_passes_over_what_is_there(raw: Client, days: str) -> None:
    request = ttypes.AddPartitionsRequest(
        dbName=days, tblName="t", parts=[partition(days, ["d", "1"]), partition(days, ["x", "3"])], ifNotExists=True
    )
    assert texts(raw.add_partitions_req(request).partitions) == ["d/1"]
    request.needResult = False
    assert raw.add_partitions_req(request).partitions is None


def test_append_in_all_forms(raw: Client, days: str) -> None:
    context = ttypes.EnvironmentContext(properties={})
    assert raw.append_partition(days, "t", ["a", "1"]).values == ["a", "1"]
    assert raw.append_partition_by_name(days, "t", "dt=b/n=1").values == ["b", "1"]
    assert raw.append_partition_with_environment_context(days, "t", ["c", "1"], context).values == ["c", "1"]
    assert raw.append_partition_by_name_with_environment_context(days, "t", "dt=d/n=1", context).values == ["d", "1"]
    request = ttypes.AppendPartitionsRequest(dbName=days, tableName="t", partVals=["e", "1"])
    assert raw.append_partition_req(request).sd.cols == raw.get_table(days, "t").sd.cols


def test_drop_in_all_forms(raw: Client, days: str, metastore: MetastoreUnderTest) -> None:
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


def test_drop_of_several(raw: Client, days: str) -> None:
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
    # As MSCK writes it: escaped as in a name.
    assert drop(expressions=(b"dt='a%2Fb%27c' AND n='1'",)) == ["a/b'c/1"]


def test_alter(raw: Client, days: str) -> None:
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


def test_rename(raw: Client, days: str) -> None:
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


def test_renaming_the_table_takes_its_partitions_along(raw: Client, days: str, tmp_path: Path) -> None:
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


def test_a_new_location_of_the_table_leaves_its_partitions(raw: Client, days: str, tmp_path: Path) -> None:
    changed = raw.get_table(days, "t")
    home = changed.sd.location
    changed.sd.location = f"file:{tmp_path}/elsewhere"
    raw.alter_table(days, "t", changed)
    raw.append_partition(days, "t", ["new", "1"])
    locations = {each.values[0]: each.sd.location for each in raw.get_partitions(days, "t", -1)}
    assert locations["x"] == f"{home}/dt=x/n=3"
    assert locations["new"] == f"file:{tmp_path}/elsewhere/dt=new/n=1"


def test_skew_is_kept(raw: Client, days: str) -> None:
    skewed = partition(days, ["skewed", "1"])
    skewed.sd.skewedInfo = ttypes.SkewedInfo(
        skewedColNames=["id"], skewedColValues=[["1"], ["2"]], skewedColValueLocationMaps={("1",): "file:/one"}
    )
    raw.add_partition(skewed)
    found = raw.get_partition(days, "t", ["skewed", "1"]).sd.skewedInfo
    assert found.skewedColValues == [["1"], ["2"]]
    assert found.skewedColValueLocationMaps == {("1",): "file:/one"}


def test_exchange(raw: Client, days: str) -> None:
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


def test_exchange_refuses(raw: Client, days: str) -> None:
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


def test_marks(raw: Client, days: str) -> None:
    spec, done = {"dt": "x", "n": "3"}, ttypes.PartitionEventType.LOAD_DONE
    assert raw.isPartitionMarkedForEvent(days, "t", spec, done) is False
    raw.markPartitionForEvent(days, "t", spec, done)
    raw.markPartitionForEvent(days, "t", spec, done)
    assert raw.isPartitionMarkedForEvent(days, "t", spec, done) is True
    with pytest.raises(ttypes.InvalidPartitionException, match="Number of partition columns in table: 2"):
        raw.markPartitionForEvent(days, "t", {"dt": "x"}, done)


def test_a_nul_character_is_in_no_partition(raw: Client, days: str) -> None:
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


def test_names(raw: Client, days: str) -> None:
    assert raw.partition_name_to_vals("n=3/dt=a%2Fb") == ["3", "a/b"]
    assert raw.partition_name_to_spec("n=3/dt=a%2Fb") == {"n": "3", "dt": "a/b"}
    assert raw.partition_name_to_vals("") == []
    assert raw.partition_name_has_valid_characters(["a", "ä\n"], True) is True


@pytest.mark.long
def test_many_partitions_at_once(raw: Client, days: str) -> None:
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


def test_each_change_is_in_the_log(raw: Client, days: str) -> None:
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
