"""hmsclient, a client of Hive's metastores generated from Hive 2.3's interface: databases, tables, functions,
constraints, locks, events, and the service itself. test_hmsclient_partitions.py has the rest of its methods.
"""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from hmsclient.hmsclient import HMSClient
from thrift.Thrift import TApplicationException

from tests.support.servers.hmsclient_shapes import schema, table
from tests.support.servers.metastore import MetastoreUnderTest, foreign_client
from tests.support.source_trees import source_tree

CONTEXT = ttypes.EnvironmentContext(properties={})

OUTSIDE = (
    *("abort_txn", "abort_txns", "add_dynamic_partitions", "commit_txn", "compact", "compact2", "get_open_txns"),
    *("get_open_txns_info", "heartbeat_txn_range", "open_txns", "show_compact"),
    *("add_index", "alter_index", "drop_index_by_name", "get_index_by_name", "get_index_names", "get_indexes"),
    *("cache_file_metadata", "clear_file_metadata", "get_file_metadata", "get_file_metadata_by_expr"),
    "put_file_metadata",
)
"""Transactions, indexes, and the cache of file metadata: intentionally unknown to the server."""


def offered() -> set[str]:
    """Return the methods of the interface that hmsclient has."""
    return {name for name in dir(ThriftHiveMetastore.Iface) if not name.startswith("_")}


def test_every_method_of_the_client_is_called_or_listed_as_unsupported() -> None:
    called = set()
    for file in ("test_hmsclient.py", "test_hmsclient_partitions.py"):
        for node in ast.walk(source_tree(Path(__file__).with_name(file))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hms":
                called.add(node.attr)
    assert offered() - called == set(OUTSIDE)


@pytest.mark.parametrize("method", OUTSIDE)
def test_unsupported_methods_are_unknown_and_leave_the_connection_open(hms: HMSClient, method: str) -> None:
    call = getattr(hms, method)
    arguments = [None] * (call.__func__.__code__.co_argcount - 1)
    with pytest.raises(TApplicationException) as refused:
        call(*arguments)
    assert refused.value.type == TApplicationException.UNKNOWN_METHOD
    assert "default" in hms.get_all_databases()


def test_a_server_without_authentication_has_no_delegation_tokens(hms: HMSClient) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: hms.get_delegation_token("ann", "hive"),
        lambda: hms.renew_delegation_token("token"),
        lambda: hms.cancel_delegation_token("token"),
    ]
    for call in calls:
        with pytest.raises(ttypes.MetaException) as refused:
            call()
        assert "issues no delegation tokens" in refused.value.message
    for call in (lambda: hms.add_master_key("key"), lambda: hms.update_master_key(1, "key")):
        with pytest.raises(ttypes.MetaException) as refused:
            call()
        assert "keeps no tokens of HiveServer2" in refused.value.message
    for call in (
        lambda: hms.add_token("identifier", "token"),
        lambda: hms.remove_token("identifier"),
        lambda: hms.get_token("identifier"),
        lambda: hms.get_all_token_identifiers(),
        lambda: hms.remove_master_key(1),
        lambda: hms.get_master_keys(),
    ):
        with pytest.raises(TApplicationException) as undeclared:
            call()
        assert "keeps no tokens of HiveServer2" in str(undeclared.value)


def test_the_service_names_itself_and_survives_a_shutdown(hms: HMSClient, metastore: MetastoreUnderTest) -> None:
    assert hms.getStatus() == 2
    assert hms.getName() == "interbed catalog server"
    assert hms.getVersion() == "3.0"
    assert hms.getStatusDetails() == ""
    assert hms.aliveSince() > 1_600_000_000
    assert hms.getCounters() == {}
    assert hms.getCounter("any") == 0
    hms.setOption("k", "v")
    assert hms.getOption("k") == ""
    assert hms.getOptions() == {}
    assert hms.getCpuProfile(1) == ""
    assert hms.set_ugi("alice", ["users"]) == ["alice", "users"]
    assert hms.get_config_value("hive.metastore.warehouse.dir", "x") == f"file:{metastore.warehouse}"
    assert hms.get_config_value("hive.not.known", "the default") == "the default"
    conf = hms.getMetaConf("hive.metastore.try.direct.sql")
    hms.setMetaConf("hive.metastore.try.direct.sql", conf)
    with pytest.raises(ttypes.MetaException):
        hms.getMetaConf("not.a.setting")
    hms.flushCache()
    hms.reinitialize()
    hms.shutdown()
    with foreign_client(metastore.port) as other:
        assert "default" in other.get_all_databases()


def test_databases(hms: HMSClient, metastore: MetastoreUnderTest) -> None:
    hms.create_database(ttypes.Database(name="Shop", description="d", parameters={"k": "v"}))
    with pytest.raises(ttypes.AlreadyExistsException):
        hms.create_database(ttypes.Database(name="shop"))
    found = hms.get_database("SHOP")
    assert (found.name, found.description, found.parameters) == ("shop", "d", {"k": "v"})
    assert found.locationUri == f"file:{metastore.warehouse}/shop.db"
    found.parameters = {"k": "w"}
    hms.alter_database("shop", found)
    assert hms.get_database("shop").parameters == {"k": "w"}
    assert hms.get_databases("s*|nothing") == ["shop"]
    assert {"default", "shop"} <= set(hms.get_all_databases())
    hms.create_table(table("shop", "t"))
    with pytest.raises(ttypes.InvalidOperationException):
        hms.drop_database("shop", True, False)
    hms.drop_database("shop", True, True)
    with pytest.raises(ttypes.NoSuchObjectException):
        hms.get_database("shop")


def test_tables(hms: HMSClient, database: str) -> None:
    hms.create_table(table(database, "Plain", "a:int", "b:string", keys=("p:string",)))
    hms.create_table_with_environment_context(table(database, "other"), CONTEXT)
    with pytest.raises(ttypes.AlreadyExistsException):
        hms.create_table(table(database, "plain"))
    with pytest.raises(ttypes.InvalidObjectException):
        hms.create_table(table("nowhere_at_all", "t"))
    found = hms.get_table(database, "PLAIN")
    assert (found.tableName, found.owner, found.tableType) == ("plain", "tester", "MANAGED_TABLE")
    assert found.parameters["made"] == "here"
    assert hms.get_table_req(ttypes.GetTableRequest(dbName=database, tblName="plain")).table.tableName == "plain"
    named = hms.get_table_objects_by_name(database, ["plain", "missing", "other"])
    assert sorted(each.tableName for each in named) == ["other", "plain"]
    request = ttypes.GetTablesRequest(dbName=database, tblNames=["plain"])
    assert [each.tableName for each in hms.get_table_objects_by_name_req(request).tables] == ["plain"]
    assert hms.get_all_tables(database) == ["other", "plain"]
    assert hms.get_tables(database, "p*|x") == ["plain"]
    assert hms.get_tables_by_type(database, "*", "MANAGED_TABLE") == ["other", "plain"]
    assert hms.get_tables_by_type(database, "*", "VIRTUAL_VIEW") == []
    assert [each.tableName for each in hms.get_table_meta(database, "p*", ["MANAGED_TABLE"])] == ["plain"]
    names = hms.get_table_names_by_filter(database, 'hive_filter_field_owner__ = "tester"', 10)
    assert sorted(names) == ["other", "plain"]
    assert [each.name for each in hms.get_fields(database, "plain")] == ["a", "b"]
    assert [each.name for each in hms.get_fields_with_environment_context(database, "plain", CONTEXT)] == ["a", "b"]
    assert [each.name for each in hms.get_schema(database, "plain")] == ["a", "b", "p"]
    assert [each.name for each in hms.get_schema_with_environment_context(database, "plain", CONTEXT)][-1] == "p"

    found.parameters["made"] = "again"
    hms.alter_table(database, "plain", found)
    found.sd.cols = [*found.sd.cols, *schema("c:date")]
    hms.alter_table_with_cascade(database, "plain", found, True)
    found.parameters["pointer"] = "1"
    hms.alter_table_with_environment_context(database, "plain", found, CONTEXT)
    compared = ttypes.EnvironmentContext(
        properties={"expected_parameter_key": "pointer", "expected_parameter_value": "0"}
    )
    with pytest.raises(ttypes.MetaException, match="The table has been modified"):
        hms.alter_table_with_environment_context(database, "plain", found, compared)
    found.tableName = "renamed"
    hms.alter_table(database, "plain", found)
    found = hms.get_table(database, "renamed")
    assert (found.parameters["made"], found.sd.cols[-1].name) == ("again", "c")
    hms.drop_table(database, "renamed", True)
    hms.drop_table_with_environment_context(database, "other", True, CONTEXT)
    with pytest.raises(ttypes.NoSuchObjectException):
        hms.drop_table(database, "renamed", True)
    assert hms.get_all_tables(database) == []


def test_functions(hms: HMSClient, database: str) -> None:
    function = ttypes.Function(
        functionName="twice",
        dbName=database,
        className="org.example.Twice",
        ownerName="tester",
        ownerType=1,
        functionType=1,
        resourceUris=[ttypes.ResourceUri(resourceType=1, uri="file:/a.jar")],
    )
    hms.create_function(function)
    with pytest.raises(ttypes.AlreadyExistsException):
        hms.create_function(function)
    found = hms.get_function(database, "twice")
    assert (found.className, found.resourceUris[0].uri) == ("org.example.Twice", "file:/a.jar")
    function.className = "org.example.Thrice"
    hms.alter_function(database, "twice", function)
    assert hms.get_functions(database, "t*") == ["twice"]
    assert "org.example.Thrice" in [each.className for each in hms.get_all_functions().functions]
    hms.drop_function(database, "twice")
    with pytest.raises(ttypes.NoSuchObjectException):
        hms.get_function(database, "twice")


def test_constraints(hms: HMSClient, database: str) -> None:
    primary = ttypes.SQLPrimaryKey(table_db=database, table_name="parent", column_name="id", key_seq=1, pk_name="pk")
    hms.create_table_with_constraints(table(database, "parent", "id:int", "b:int"), [primary], [])
    hms.create_table(table(database, "child", "ref:int", "own:int"))
    foreign = ttypes.SQLForeignKey(
        pktable_db=database,
        pktable_name="parent",
        pkcolumn_name="id",
        fktable_db=database,
        fktable_name="child",
        fkcolumn_name="ref",
        key_seq=1,
        fk_name="fk",
        pk_name="pk",
    )
    hms.add_foreign_key(ttypes.AddForeignKeyRequest(foreignKeyCols=[foreign]))
    own = ttypes.SQLPrimaryKey(table_db=database, table_name="child", column_name="own", key_seq=1, pk_name="own_pk")
    hms.add_primary_key(ttypes.AddPrimaryKeyRequest(primaryKeyCols=[own]))
    of_parent = hms.get_primary_keys(ttypes.PrimaryKeysRequest(db_name=database, tbl_name="parent"))
    assert [(each.column_name, each.pk_name) for each in of_parent.primaryKeys] == [("id", "pk")]
    request = ttypes.ForeignKeysRequest(
        parent_db_name=database, parent_tbl_name="parent", foreign_db_name=database, foreign_tbl_name="child"
    )
    assert [each.fkcolumn_name for each in hms.get_foreign_keys(request).foreignKeys] == ["ref"]
    hms.drop_constraint(ttypes.DropConstraintRequest(dbname=database, tablename="child", constraintname="fk"))
    assert hms.get_foreign_keys(request).foreignKeys == []


def test_locks(hms: HMSClient, database: str) -> None:
    component = ttypes.LockComponent(
        type=ttypes.LockType.EXCLUSIVE, level=ttypes.LockLevel.TABLE, dbname=database, tablename="t"
    )
    request = ttypes.LockRequest(component=[component], user="tester", hostname="here")
    held, waiting = hms.lock(request), hms.lock(request)
    assert (held.state, waiting.state) == (ttypes.LockState.ACQUIRED, ttypes.LockState.WAITING)
    shown = hms.show_locks(ttypes.ShowLocksRequest(dbname=database)).locks
    assert sorted(each.lockid for each in shown) == [held.lockid, waiting.lockid]
    hms.heartbeat(ttypes.HeartbeatRequest(lockid=held.lockid))
    hms.unlock(ttypes.UnlockRequest(lockid=held.lockid))
    assert hms.check_lock(ttypes.CheckLockRequest(lockid=waiting.lockid)).state == ttypes.LockState.ACQUIRED
    hms.unlock(ttypes.UnlockRequest(lockid=waiting.lockid))
    with pytest.raises(ttypes.NoSuchLockException):
        hms.check_lock(ttypes.CheckLockRequest(lockid=waiting.lockid))


def test_events(hms: HMSClient, database: str) -> None:
    before = hms.get_current_notificationEventId().eventId
    assert hms.get_current_notification_id() == before
    hms.create_table(table(database, "watched"))
    inserted = ttypes.InsertEventRequestData(filesAdded=["file:/a"])
    hms.fire_listener_event(
        ttypes.FireEventRequest(
            successful=True,
            data=ttypes.FireEventRequestData(insertData=inserted),
            dbName=database,
            tableName="watched",
        )
    )
    hms.drop_table(database, "watched", True)
    events = hms.get_next_notification(ttypes.NotificationEventRequest(lastEvent=before, maxEvents=10)).events
    assert [each.eventType for each in events] == ["CREATE_TABLE", "INSERT", "DROP_TABLE"]
    assert [each.eventId for each in events] == [before + 1, before + 2, before + 3]


def test_roles_privileges_and_types_are_not_stored(hms: HMSClient, database: str) -> None:
    user = ttypes.PrincipalType.USER
    about = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.DATABASE, dbName=database)
    assert hms.get_role_names() == ["admin", "public"]
    assert hms.list_roles("alice", user) == []
    assert hms.get_principals_in_role(ttypes.GetPrincipalsInRoleRequest(roleName="x")).principalGrants == []
    request = ttypes.GetRoleGrantsForPrincipalRequest(principal_name="alice", principal_type=user)
    assert hms.get_role_grants_for_principal(request).principalGrants == []
    assert hms.get_privilege_set(about, "alice", []).userPrivileges == {"alice": []}
    assert hms.list_privileges("alice", user, about) == []
    bag = ttypes.PrivilegeBag(privileges=[])
    assert hms.grant_privileges(bag) is True
    assert hms.revoke_privileges(bag) is True
    assert hms.grant_revoke_privileges(ttypes.GrantRevokePrivilegeRequest(requestType=1, privileges=bag)).success
    refusals: list[Callable[[], object]] = [
        lambda: hms.create_role(ttypes.Role(roleName="r")),
        lambda: hms.drop_role("r"),
        lambda: hms.grant_role("r", "alice", user, "bob", user, False),
        lambda: hms.revoke_role("r", "alice", user),
        lambda: hms.grant_revoke_role(ttypes.GrantRevokeRoleRequest(roleName="r")),
        lambda: hms.create_type(ttypes.Type(name="point")),
    ]
    for call in refusals:
        with pytest.raises(ttypes.MetaException, match="not kept"):
            call()
    assert hms.get_type_all("point") == {}
    with pytest.raises(ttypes.NoSuchObjectException):
        hms.get_type("point")
    with pytest.raises(ttypes.NoSuchObjectException):
        hms.drop_type("point")


def test_the_client_reads_schemas() -> None:
    fields = HMSClient.make_schema(["a:int", "b"])
    assert list(HMSClient.parse_schema(fields)) == ["a\tint", "b\tstring"]
