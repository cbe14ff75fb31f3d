"""The requests of Hive 3 and 4 about tables: selections, projections, filters, cascades, changes of
type and location.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, table


def some_tables(wire: Any, request: Any) -> list[Any]:
    """Return the tables that a request selects."""
    return list(wire.get_table_objects_by_name_req(request).tables)


def projected(wire: Any, database: str, *fields: str) -> list[Any]:
    """Return the tables whose names begin with `a`, with these fields."""
    spec = ttypes.GetProjectionsSpec(list(fields), None, None)
    request = ttypes.GetTablesRequest(dbName=database, catName="hive", tablesPattern="a*", projectionSpec=spec)
    return some_tables(wire, request)


def test_a_projection_returns_the_requested_fields_and_the_times(wire: Any, database: str) -> None:
    for name in ("a1", "a2", "b"):
        wire.create_table(table(database, name))
    found = projected(wire, database, "dbName", "tableName", "owner", "sd.location")
    assert [(each.dbName, each.tableName, each.owner) for each in found] == [
        (database, "a1", "tester"),
        (database, "a2", "tester"),
    ]
    assert (found[0].tableType, found[0].parameters, found[0].sd.inputFormat, found[0].sd.cols) == (None,) * 4
    assert found[0].sd.location.endswith("/a1")
    assert found[0].createTime > 0
    assert (found[0].lastAccessTime, found[0].retention) == (0, 0)


@pytest.mark.parametrize("field", ["parameters", "sd.cols.name", "partitionKeys.type", "sd.serdeInfo.parameters"])
def test_a_projection_of_a_field_with_many_values_returns_all_fields(wire: Any, database: str, field: str) -> None:
    wire.create_table(table(database, "a"))
    assert projected(wire, database, "owner", field) == [wire.get_table(database, "a")]


def test_a_projection_applies_its_parameter_patterns_to_parameters_only(wire: Any, database: str) -> None:
    wire.create_table(table(database, "b", parameters={"keep.x": "1", "keep.y": "2", "drop": "3"}))
    spec = ttypes.GetProjectionsSpec(["parameters"], "keep%", "%_y")
    request = ttypes.GetTablesRequest(dbName=database, tblNames=["b"], projectionSpec=spec)
    assert [each.parameters for each in some_tables(wire, request)] == [{"keep.x": "1"}]
    for patterns in (("keep%", None), (None, "foo")):
        request.projectionSpec = ttypes.GetProjectionsSpec(None, *patterns)
        with pytest.raises(ttypes.InvalidOperationException, match="Include and Exclude Param key are not supported"):
            wire.get_table_objects_by_name_req(request)


@pytest.mark.parametrize("field", ["nope", "sd.nope", "sd.cols.nope"])
def test_a_projection_of_an_unknown_field_is_refused(wire: Any, database: str, field: str) -> None:
    wire.create_table(table(database, "a"))
    with pytest.raises(ttypes.MetaException, match="Invalid field name: nope"):
        projected(wire, database, "parameters", field)


def test_a_request_selects_tables_by_name_or_pattern(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t"))
    with pytest.raises(ttypes.InvalidOperationException, match="cannot find null tables"):
        wire.get_table_objects_by_name_req(ttypes.GetTablesRequest(dbName=database))
    with pytest.raises(ttypes.UnknownDBException, match="Could not find database"):
        wire.get_table_objects_by_name_req(ttypes.GetTablesRequest(dbName="nowhere", tablesPattern="*"))
    with pytest.raises(ttypes.UnknownDBException, match="DB name is null or empty"):
        wire.get_table_objects_by_name_req(ttypes.GetTablesRequest(dbName="", tablesPattern="*"))
    assert len(some_tables(wire, ttypes.GetTablesRequest(dbName=database, tablesPattern="T|x"))) == 1
    assert some_tables(wire, ttypes.GetTablesRequest(dbName=database, tblNames=[])) == []


def test_the_database_of_a_table_pattern_is_a_pattern_too(wire: Any, database: str) -> None:
    for name in ("t1", "t2"):
        wire.create_table(table(database, name))
    wire.create_table(table("default", "t3" + database))
    for databases in (f"{database[:-1]}*", database.upper(), f"nowhere|{database}"):
        request = ttypes.GetTablesRequest(dbName=databases, tablesPattern="t*")
        assert {"t1", "t2"} <= {each.tableName for each in some_tables(wire, request)}
    request = ttypes.GetTablesRequest(dbName=f"default|{database}", tablesPattern="t2|t3*")
    assert [(each.dbName, each.tableName) for each in some_tables(wire, request)] == sorted(
        [("default", "t3" + database), (database, "t2")]
    )


def test_tables_are_found_by_a_filter(wire: Any, database: str) -> None:
    for number, name in enumerate(("a", "b", "c")):
        made = table(database, name, parameters={"level": str(number)})
        made.owner, made.lastAccessTime = f"user{number}", number
        wire.create_table(made)
    filters = {
        'hive_filter_field_owner__ like ".*user[1]*.*"': [],
        'hive_filter_field_owner__ like "user.*" and hive_filter_field_last_access__ > 0': ["b", "c"],
        'hive_filter_field_params__level = "0" or hive_filter_field_params__level = "2"': ["a", "c"],
    }
    for text, expected in filters.items():
        assert wire.get_table_names_by_filter(database, text, -1) == expected
    assert wire.get_table_names_by_filter(database, 'hive_filter_field_owner__ like "user.*"', 2) == ["a", "b"]
    with pytest.raises(ttypes.MetaException, match="Invalid key name"):
        wire.get_table_names_by_filter(database, 'owner = "x"', -1)
    assert wire.get_table_names_by_filter("nowhere", 'hive_filter_field_owner__ = "x"', -1) == []
    with pytest.raises(ttypes.UnknownDBException, match="catalog is empty"):
        wire.get_table_names_by_filter("@#default", 'hive_filter_field_owner__ = "x"', -1)


def test_table_listings_have_access_type_and_capabilities(wire: Any, database: str) -> None:
    made = table(database, "t")
    made.requiredReadCapabilities = ["READ"]
    made.accessType = 4
    wire.create_table(made)
    wire.create_table(table(database, "u"))
    request = ttypes.GetTablesExtRequest(catalog="hive", database=database, tableNamePattern="*", requestedFields=3)
    found = wire.get_tables_ext(request)
    assert [(each.tblName, each.accessType, each.requiredReadCapabilities) for each in found] == [
        ("t", 4, ["READ"]),
        ("u", None, None),
    ]
    request.requestedFields, request.limit = 0, 1
    assert [(each.tblName, each.accessType) for each in wire.get_tables_ext(request)] == [("t", None)]


def test_changed_columns_are_copied_to_partitions_with_cascade(wire: Any, database: str) -> None:
    made = table(database, "t", ("id", "int"), partition_keys=(("dt", "string"),))
    wire.create_table(made)
    wire.append_partition(database, "t", ["1"])
    wider: Any = table(database, "t", ("id", "bigint"), ("n", "int"), partition_keys=(("dt", "string"),))
    wider.sd.location = wire.get_table(database, "t").sd.location

    def columns() -> list[str]:
        return [column.type for column in wire.get_partition(database, "t", ["1"]).sd.cols]

    wire.alter_table_with_environment_context(
        database, "t", wider, ttypes.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
    )
    assert columns() == ["int"]
    wider.sd.cols[0].type = "string"
    wire.alter_table_with_environment_context(database, "t", wider, ttypes.EnvironmentContext({"CASCADE": "true"}))
    assert columns() == ["string", "int"]
    wider.sd.cols[0].type = "double"
    wire.alter_table_with_cascade(database, "t", wider, True)
    assert columns() == ["double", "int"]
    wider.sd.cols[0].type = "float"
    wire.alter_table_req(
        ttypes.AlterTableRequest(
            dbName=database,
            tableName="t",
            table=wider,
            environmentContext=ttypes.EnvironmentContext({"CASCADE": "true"}),
        )
    )
    assert columns() == ["float", "int"]


def test_a_managed_table_can_become_external_and_managed_again(
    wire: Any, database: str, metastore: MetastoreUnderTest
) -> None:
    wire.create_table(table(database, "t"))
    changed = wire.get_table(database, "t")
    changed.parameters["EXTERNAL"] = "TRUE"
    wire.alter_table(database, "t", changed)
    assert wire.get_table(database, "t").tableType == "EXTERNAL_TABLE"
    changed.parameters["EXTERNAL"] = "FALSE"
    wire.alter_table(database, "t", changed)
    assert wire.get_table(database, "t").tableType == "MANAGED_TABLE"
    changed.parameters.update({"EXTERNAL": "TRUE", "external.table.purge": "true"})
    wire.alter_table(database, "t", changed)
    wire.truncate_table(database, "t", [])
    wire.drop_table(database, "t", True)
    assert not (metastore.warehouse / f"{database}.db" / "t").exists()


def test_a_truncated_table_has_a_row_count_of_zero(wire: Any, database: str) -> None:
    parameters = {"numRows": "7", "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}'}
    wire.create_table(table(database, "t", parameters=parameters))
    wire.truncate_table(database, "t", [])
    found = wire.get_table(database, "t").parameters
    assert found["numRows"] == "0"
    assert json.loads(found["COLUMN_STATS_ACCURATE"]) == {"BASIC_STATS": "true"}


def test_a_table_can_change_its_location_and_bare_paths_are_local(wire: Any, database: str, tmp_path: Path) -> None:
    wire.create_table(table(database, "t", location=str(tmp_path / "first")))
    changed = wire.get_table(database, "t")
    assert changed.sd.location == f"file:{tmp_path}/first"
    changed.sd.location = f"file://{tmp_path}/second/"
    wire.alter_table(database, "t", changed)
    assert wire.get_table(database, "t").sd.location == f"file:{tmp_path}/second"
    assert (tmp_path / "first").is_dir()


def test_managed_tables_are_created_in_the_managed_location_of_their_database(
    wire: Any, database: str, tmp_path: Path
) -> None:
    name = f"{database}_m"
    wire.create_database(
        ttypes.Database(name=name, locationUri=f"file:{tmp_path}/ext", managedLocationUri=f"file:{tmp_path}/own")
    )
    wire.create_table(table(name, "m"))
    wire.create_table(table(name, "e", parameters={"EXTERNAL": "TRUE"}, table_type="EXTERNAL_TABLE"))
    assert wire.get_table(name, "m").sd.location == f"file:{tmp_path}/own/m"
    assert wire.get_table(name, "e").sd.location == f"file:{tmp_path}/ext/e"
    moved = wire.get_table(name, "m")
    moved.tableName = "n"
    wire.alter_table(name, "m", moved)
    assert wire.get_table(name, "n").sd.location == f"file:{tmp_path}/own/n"
    wire.drop_database(name, True, True)


def test_a_table_is_moved_to_another_database_with_its_directory(
    wire: Any, database: str, metastore: MetastoreUnderTest
) -> None:
    other = f"{database}_o"
    wire.create_database(ttypes.Database(name=other))
    wire.create_table(table(database, "t", partition_keys=(("dt", "string"),)))
    wire.append_partition(database, "t", ["1"])
    changed = wire.get_table(database, "t")
    changed.dbName = other.upper()
    wire.alter_table(database, "t", changed)
    assert wire.get_table(other, "t").sd.location == f"file:{metastore.warehouse}/{other}.db/t"
    assert wire.get_partition(other, "t", ["1"]).sd.location == f"file:{metastore.warehouse}/{other}.db/t/dt=1"
    assert (metastore.warehouse / f"{other}.db" / "t" / "dt=1").is_dir()
    with pytest.raises(ttypes.InvalidOperationException, match="One or more tables exist"):
        wire.drop_database(other, True, False)
    wire.drop_database_req(
        ttypes.DropDatabaseRequest(name=other, ignoreUnknownDb=False, deleteData=True, cascade=True, softDelete=True)
    )
    assert not (metastore.warehouse / f"{other}.db").exists()
    wire.drop_database_req(ttypes.DropDatabaseRequest(name=other, ignoreUnknownDb=True, deleteData=True, cascade=True))


def test_a_dry_run_returns_the_table_that_would_be_stored(
    wire: Any, database: str, metastore: MetastoreUnderTest
) -> None:
    found = wire.translate_table_dryrun(ttypes.CreateTableRequest(table=table(database, "T")))
    assert (found.tableName, found.tableType) == ("t", "MANAGED_TABLE")
    assert found.sd.location == f"file:{metastore.warehouse}/{database}.db/t"
    assert wire.get_all_tables(database) == []
    with pytest.raises(ttypes.InvalidObjectException, match="nowhere"):
        wire.translate_table_dryrun(ttypes.CreateTableRequest(table=table("nowhere", "t")))


def test_views_have_no_location_and_are_listed_by_type(wire: Any, database: str) -> None:
    view = table(database, "v", table_type="VIRTUAL_VIEW")
    view.viewOriginalText = view.viewExpandedText = "select 1"
    wire.create_table(view)
    wire.create_table(table(database, "t"))
    assert wire.get_table(database, "v").sd.location is None
    assert wire.get_tables_by_type(database, "*", "VIRTUAL_VIEW") == ["v"]
    renamed = wire.get_table(database, "v")
    renamed.tableName = "w"
    wire.alter_table(database, "v", renamed)
    assert wire.get_table(database, "w").viewExpandedText == "select 1"
    with pytest.raises(ttypes.MetaException, match="Cannot truncate"):
        wire.truncate_table(database, "w", [])
    wire.drop_table(database, "w", True)


def test_a_table_that_becomes_a_view_has_the_location_that_is_sent(wire: Any, database: str) -> None:
    # As Java's metastore 2.3.10.
    wire.create_table(table(database, "t"))
    changed = wire.get_table(database, "t")
    changed.tableType, changed.sd.location = "VIRTUAL_VIEW", None
    changed.viewOriginalText = changed.viewExpandedText = "select 1"
    wire.alter_table(database, "t", changed)
    assert wire.get_table(database, "t").sd.location is None


def test_fields_and_schema_in_all_forms(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", ("id", "int"), partition_keys=(("dt", "string"),)))

    def names(fields: list[Any]) -> list[str]:
        return [field.name for field in fields]

    assert names(wire.get_fields(f"@hive#{database}", "t")) == ["id"]
    assert names(wire.get_fields_with_environment_context(database, "t", None)) == ["id"]
    request = ttypes.GetFieldsRequest(catName="hive", dbName=database, tblName="t")
    assert names(wire.get_fields_req(request).fields) == ["id"]
    assert names(wire.get_schema(database, "t")) == ["id", "dt"]
    assert names(wire.get_schema_with_environment_context(database, "t", None)) == ["id", "dt"]
    schema_request = ttypes.GetSchemaRequest(catName="hive", dbName=database, tblName="t")
    assert names(wire.get_schema_req(schema_request).fields) == ["id", "dt"]


def test_privileges_are_refused_because_they_are_not_stored(wire: Any, database: str) -> None:
    about = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.DATABASE, dbName=database)
    info = ttypes.PrivilegeGrantInfo(privilege="SELECT", grantor="me", grantorType=ttypes.PrincipalType.USER)
    alice = ttypes.PrincipalType.USER
    bag = ttypes.PrivilegeBag(
        privileges=[
            ttypes.HiveObjectPrivilege(hiveObject=about, principalName="alice", principalType=alice, grantInfo=info)
        ]
    )
    for kind in (ttypes.GrantRevokeType.GRANT, ttypes.GrantRevokeType.REVOKE):
        request = ttypes.GrantRevokePrivilegeRequest(requestType=kind, privileges=bag)
        with pytest.raises(ttypes.MetaException, match="privileges are not kept"):
            wire.grant_revoke_privileges(request)
        with pytest.raises(ttypes.MetaException, match="privileges are not kept"):
            wire.refresh_privileges(about, "authorizer", request)
    for call in (wire.grant_privileges, wire.revoke_privileges):
        with pytest.raises(ttypes.MetaException, match="privileges are not kept"):
            call(bag)
    assert wire.list_privileges("alice", alice, about) == []
    found = wire.get_privilege_set(about, "alice", ["etl"])
    assert (found.userPrivileges, found.groupPrivileges) == ({"alice": []}, {"etl": []})


TRANSACTIONAL = [
    {"transactional": "true"},
    {"TRANSACTIONAL": "TRUE"},
    {"transactional": "true", "transactional_properties": "insert_only"},
    {"transactional_properties": "default"},
]


@pytest.mark.parametrize("parameters", TRANSACTIONAL, ids=str)
def test_a_transactional_table_is_refused_by_name(wire: Any, database: str, parameters: dict[str, str]) -> None:
    with pytest.raises(ttypes.MetaException, match=rf"{database}\.acid asks for transactions"):
        wire.create_table(table(database, "acid", parameters=parameters))
    with pytest.raises(ttypes.NoSuchObjectException):
        wire.get_table(database, "acid")
    wire.create_table(table(database, "plain", parameters={"transactional": "false"}))
    plain = wire.get_table(database, "plain")
    plain.parameters |= parameters
    with pytest.raises(ttypes.MetaException, match=rf"{database}\.plain asks for transactions"):
        wire.alter_table(database, "plain", plain)
    assert wire.get_table(database, "plain").parameters["transactional"] == "false"


def test_unsupported_features_are_answered_empty_or_refused(wire: Any, database: str) -> None:
    assert wire.get_role_names() == ["admin", "public"]
    assert wire.grant_privileges(ttypes.PrivilegeBag(privileges=[])) is True
    granted = ttypes.GrantRevokePrivilegeRequest(
        requestType=ttypes.GrantRevokeType.GRANT, privileges=ttypes.PrivilegeBag(privileges=[])
    )
    assert wire.grant_revoke_privileges(granted).success is True
    with pytest.raises(ttypes.MetaException, match="roles are not kept"):
        wire.create_role(ttypes.Role(roleName="r", createTime=0, ownerName="me"))
    assert wire.get_all_materialized_view_objects_for_rewriting() == []
    assert wire.get_materialized_views_for_rewriting(database) == []
    assert wire.get_runtime_stats(ttypes.GetRuntimeStatsRequest(maxWeight=1, maxCreateTime=1)) == []
    assert wire.scheduled_query_poll(ttypes.ScheduledQueryPollRequest(clusterNamespace="x")).query is None
    assert wire.get_type_all("x") == {}
    with pytest.raises(ttypes.NoSuchObjectException):
        wire.get_type("x")


@pytest.mark.parametrize("kind", ["xyz", "intt", "<int>", "(int)", "?"])
def test_a_column_of_an_unknown_type_is_refused(wire: Any, database: str, kind: str) -> None:
    with pytest.raises(ttypes.InvalidObjectException, match="has the unknown type"):
        wire.create_table(table(database, "bad", ("c", kind)))
    with pytest.raises(ttypes.InvalidObjectException, match="has the unknown type"):
        wire.create_table(table(database, "bad", partition_keys=(("p", kind),)))
    wire.create_table(table(database, "t", ("c", "int")))
    with pytest.raises(ttypes.InvalidOperationException, match="Column c of table t has the unknown type"):
        wire.alter_table(database, "t", table(database, "t", ("c", kind)))
    assert wire.get_all_tables(database) == ["t"]


@pytest.mark.parametrize(
    "kind",
    ["INT", "decimal(10,2)", "array<map<string,x>>", "timestamp with local time zone", "<derived from deserializer>"],
)
def test_the_first_word_of_a_type_decides_whether_it_is_known(wire: Any, database: str, kind: str) -> None:
    wire.create_table(table(database, "t", ("c", kind)))
    assert wire.get_table(database, "t").sd.cols[0].type == kind
