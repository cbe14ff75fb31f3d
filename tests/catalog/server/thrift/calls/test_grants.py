"""The Thrift calls about roles and grants, with the built-in authorizer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.ops.logs import subject
from interbed.catalog.server.service.access.objects import Caller, catalog_object, column_object, table_object
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    InvalidObjectError,
    MetastoreError,
    NoSuchObjectError,
)
from interbed.catalog.server.thrift.calls.grants import GrantHandler, NoGrantHandler
from interbed.catalog.server.thrift.structs.requests import declared_exception
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.catalog.server.service.access.conftest import AccessLake, grantee, lake_on_sqlite

USER, ROLE, GROUP = ttypes.PrincipalType.USER, ttypes.PrincipalType.ROLE, ttypes.PrincipalType.GROUP
ORDERS = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.TABLE, dbName="sales", objectName="Orders")
EVERYTHING = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.GLOBAL)
SALES = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.DATABASE, dbName="@hive#Sales")
TABLE = table_object("hive", "sales", "orders")


class GrantCalls:
    """The handler of a lake, called by `root` unless a test sets another caller."""

    def __init__(self, lake: AccessLake) -> None:
        self.lake = lake
        self.handler = GrantHandler(lake.access, lambda: self.caller)
        self.caller = Caller("root")


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[GrantCalls]:
    """Yield the handler on a metastore with the table `sales.orders`, which belongs to `olga`."""
    for lake in lake_on_sqlite(tmp_path):
        lake.add_table("orders", owner="olga")
        yield GrantCalls(lake)


def bag(*privileges: str, on: Any = ORDERS, to: str = "ann", kind: int = USER, **info: Any) -> Any:
    """Return a bag of privileges."""
    return ttypes.PrivilegeBag(
        privileges=[
            ttypes.HiveObjectPrivilege(
                hiveObject=on,
                principalName=to,
                principalType=kind,
                grantInfo=ttypes.PrivilegeGrantInfo(privilege=privilege, **info),
            )
            for privilege in privileges
        ]
    )


def listed(
    calls: GrantCalls, name: str | None = None, kind: int | None = None, on: Any = None
) -> list[tuple[Any, ...]]:
    """Return the listed privileges."""
    return [
        (each.grantInfo.privilege, each.hiveObject.objectName or each.hiveObject.dbName, each.principalName)
        for each in calls.handler.list_privileges(name, kind, on)
    ]


def test_granted_privileges_are_listed_and_revoked(calls: GrantCalls) -> None:
    assert calls.handler.grant_privileges(bag("SELECT", "insert", grantor="hue", grantOption=True))
    assert calls.handler.grant_privileges(bag("ALL", on=SALES, to="etl", kind=GROUP))
    assert listed(calls, "ann", USER) == [("SELECT", "orders", "ann"), ("INSERT", "orders", "ann")]
    assert listed(calls, on=SALES) == [("ALL", "sales", "etl")]
    assert listed(calls, "ann", USER, SALES) == []
    [first, _] = calls.handler.list_privileges("ann", USER, ORDERS)
    assert (first.grantInfo.grantor, first.grantInfo.grantOption, first.grantInfo.createTime) == (
        "hue",
        True,
        int(calls.lake.clock.now),
    )
    assert calls.lake.may("ann", "SELECT", TABLE)
    assert calls.handler.revoke_privileges(bag("SELECT"))
    assert listed(calls, "ann", USER) == [("INSERT", "orders", "ann")]


def test_only_the_grant_option_is_revoked(calls: GrantCalls) -> None:
    grant, revoke = ttypes.GrantRevokeType.GRANT, ttypes.GrantRevokeType.REVOKE
    request = ttypes.GrantRevokePrivilegeRequest(requestType=grant, privileges=bag("SELECT", grantOption=True))
    assert calls.handler.grant_revoke_privileges(request).success
    request = ttypes.GrantRevokePrivilegeRequest(requestType=revoke, privileges=bag("SELECT"), revokeGrantOption=True)
    assert calls.handler.grant_revoke_privileges(request).success
    [left] = calls.handler.list_privileges("ann", USER, ORDERS)
    assert not left.grantInfo.grantOption


def test_refreshing_replaces_all_grants_on_an_object(calls: GrantCalls) -> None:
    calls.handler.grant_privileges(bag("SELECT", "INSERT"))
    request = ttypes.GrantRevokePrivilegeRequest(
        requestType=ttypes.GrantRevokeType.GRANT, privileges=bag("UPDATE", to="eve")
    )
    assert calls.handler.refresh_privileges(ORDERS, "ranger", request).success
    assert listed(calls, on=ORDERS) == [("UPDATE", "orders", "eve")]
    calls.caller = Caller("olga")
    with pytest.raises(AccessDeniedError, match="may not replace the grants"):
        calls.handler.refresh_privileges(ORDERS, "ranger", request)


def test_the_privilege_set_has_users_groups_and_roles(calls: GrantCalls) -> None:
    calls.lake.access.create_role("readers", None)
    calls.lake.access.add_member("readers", grantee("group:etl"), None)
    calls.handler.grant_privileges(bag("SELECT"))
    calls.handler.grant_privileges(bag("INSERT", to="etl", kind=GROUP))
    calls.handler.grant_privileges(bag("DELETE", to="Readers", kind=ROLE))
    calls.handler.grant_privileges(bag("DROP", to="eve"))
    for caller in (Caller("root"), Caller("ann", frozenset({"etl"}))):
        calls.caller = caller
        found = calls.handler.get_privilege_set(ORDERS, "ann", ["etl"])
        shown = [
            {name: [info.privilege for info in infos] for name, infos in held.items()}
            for held in (found.userPrivileges, found.groupPrivileges, found.rolePrivileges)
        ]
        assert shown == [{"ann": ["SELECT"]}, {"etl": ["INSERT"]}, {"readers": ["DELETE"]}]
    with pytest.raises(AccessDeniedError, match="ann may not list the privileges of eve"):
        calls.handler.get_privilege_set(ORDERS, "eve", [])


def test_a_privilege_set_names_a_user_and_groups_without_privileges(calls: GrantCalls) -> None:
    found = calls.handler.get_privilege_set(ORDERS, "Ben", ["etl"])
    assert (found.userPrivileges, found.groupPrivileges, found.rolePrivileges) == ({"Ben": []}, {"etl": []}, {})


def test_a_privilege_set_has_what_owners_and_containers_give(calls: GrantCalls) -> None:
    def held(user: str) -> dict[str, list[tuple[str, bool]]]:
        found = calls.handler.get_privilege_set(ORDERS, user, [])
        sets = {**found.userPrivileges, **found.rolePrivileges}
        return {name: [(info.privilege, info.grantOption) for info in infos] for name, infos in sets.items()}

    standard = ("SELECT", "INSERT", "UPDATE", "DELETE")
    assert held("olga") == {"olga": [(each, True) for each in standard]}
    # Hive's authorization by the SQL standard knows four privileges, and refuses a set with others.
    calls.handler.grant_privileges(bag("ALL", "ALTER", "DROP"))
    assert held("ann") == {"ann": [(each, False) for each in standard]}
    calls.handler.grant_privileges(bag("SELECT", "USAGE", on=SALES, to="ben", grantOption=True))
    assert held("ben") == {"ben": [("SELECT", True)]}
    calls.lake.access.create_role("readers", None)
    calls.handler.grant_privileges(bag("DELETE", on=EVERYTHING, to="readers", kind=ROLE))
    calls.lake.access.add_member("readers", grantee("user:eve"), None)
    assert held("eve") == {"eve": [], "readers": [("DELETE", False)]}


def test_the_life_of_a_role(calls: GrantCalls) -> None:
    handler = calls.handler
    assert handler.create_role(ttypes.Role(roleName="ETL", ownerName="root"))
    assert handler.get_role_names() == ["admin", "etl", "public"]
    assert handler.grant_role("etl", "ann", USER, "hue", USER, True)
    request = ttypes.GrantRevokeRoleRequest(
        requestType=ttypes.GrantRevokeType.GRANT, roleName="etl", principalName="bi", principalType=GROUP
    )
    assert handler.grant_revoke_role(request).success
    found = handler.get_principals_in_role(ttypes.GetPrincipalsInRoleRequest(roleName="etl")).principalGrants
    assert {(each.principalName, each.principalType, each.grantOption, each.grantorName) for each in found} == {
        ("ann", USER, True, "hue"),
        ("bi", GROUP, False, "root"),
    }
    calls.caller = Caller("ann")
    assert [role.roleName for role in handler.list_roles("ann", USER)] == ["etl", "public"]
    of_ann = ttypes.GetRoleGrantsForPrincipalRequest(principal_name="ann", principal_type=USER)
    assert [each.roleName for each in handler.get_role_grants_for_principal(of_ann).principalGrants] == [
        "etl",
        "public",
    ]
    request.requestType = ttypes.GrantRevokeType.REVOKE
    assert handler.grant_revoke_role(request).success
    assert handler.revoke_role("etl", "ann", USER)
    with pytest.raises(AccessDeniedError):
        handler.drop_role("etl")
    calls.caller = Caller("root")
    assert handler.drop_role("etl")
    assert handler.get_role_names() == ["admin", "public"]


def test_grantors_are_not_invented(calls: GrantCalls) -> None:
    calls.caller = Caller("olga")
    assert calls.handler.grant_privileges(bag("SELECT", grantor="olga"))
    with pytest.raises(AccessDeniedError, match="olga may not grant in the name of root"):
        calls.handler.grant_privileges(bag("SELECT", grantor="root"))


def test_what_has_no_form_in_hive_is_left_out_or_global(calls: GrantCalls) -> None:
    calls.lake.add_function("f")
    calls.lake.grant("ALL", catalog_object("hive"), "user:ann")
    everywhere = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.GLOBAL)
    calls.handler.grant_privileges(bag("SELECT", on=everywhere))
    found = calls.handler.list_privileges("ann", USER, None)
    kinds = [(each.hiveObject.objectType, each.hiveObject.catName) for each in found]
    assert kinds == [(ttypes.HiveObjectType.GLOBAL, "hive"), (ttypes.HiveObjectType.GLOBAL, None)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (bag("LOCK"), "there is no privilege LOCK; there are USAGE, SELECT"),
        (bag("SELECT", kind=9), "no type of principals with the number 9"),
        (
            bag("SELECT", on=ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.PARTITION, partValues=["1"])),
            "privileges on partitions are not kept: grant them on the table",
        ),
        (
            bag("SELECT", on=ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.DATACONNECTOR, objectName="a")),
            "privileges on objects of the type 6 are not kept",
        ),
    ],
)
def test_what_is_not_kept_is_refused_by_name(calls: GrantCalls, given: Any, message: str) -> None:
    with pytest.raises(InvalidObjectError, match=message):
        calls.handler.grant_privileges(given)


def test_errors_are_of_a_type_that_the_methods_declare() -> None:
    for name in dir(NoGrantHandler):
        if name.startswith("_"):
            continue
        fields = getattr(ThriftHiveMetastore, f"{name}_result").thrift_spec
        declared = {field[3][0]: field[2] for field in fields if field and field[0] > 0}
        for error in (AccessDeniedError("no"), NoSuchObjectError("no"), InvalidObjectError("no")):
            assert declared_exception(error, declared) == ("o1", ttypes.MetaException(message="no"))


def test_both_handlers_have_the_same_methods() -> None:
    names = [{name for name in vars(kind) if not name.startswith("_")} for kind in (GrantHandler, NoGrantHandler)]
    assert names[0] == names[1]
    with pytest.raises(MetastoreError, match="roles are not kept"):
        NoGrantHandler().create_role(None)


def test_the_audit_log_names_roles_and_grants() -> None:
    arguments = ThriftHiveMetastore.grant_privileges_args(privileges=bag("SELECT", "DROP", grantOption=True))
    assert subject("grant_privileges", arguments) == {
        "grants": [f"{name} on sales.Orders for user ann with grant option" for name in ("SELECT", "DROP")],
        "grant_count": 2,
    }
    request = ttypes.GrantRevokePrivilegeRequest(privileges=bag("ALL", on=SALES, to="r", kind=ROLE))
    for found in (
        subject("x", ThriftHiveMetastore.grant_revoke_privileges_args(request=request)),
        subject("x", ThriftHiveMetastore.refresh_privileges_args(objToRefresh=SALES, grantRequest=request)),
    ):
        assert found == {"grants": ["ALL on @hive#Sales for role r"], "grant_count": 1}
    arguments = ThriftHiveMetastore.grant_role_args(role_name="etl", principal_name="ann")
    assert subject("grant_role", arguments) == {"role": "etl", "principal": "ann"}


def column(*names: str | None) -> Any:
    """Return references to columns of the table."""
    return [
        ttypes.HiveObjectRef(
            objectType=ttypes.HiveObjectType.COLUMN, dbName="sales", objectName="Orders", partValues=[], columnName=name
        )
        for name in names
    ]


def columns_of(found: list[Any]) -> list[tuple[Any, ...]]:
    """Return privilege, type of object, column and principal of privileges."""
    return [
        (each.grantInfo.privilege, each.hiveObject.objectType, each.hiveObject.columnName, each.principalName)
        for each in found
    ]


def test_privileges_on_columns_are_granted_listed_and_revoked(calls: GrantCalls) -> None:
    of_id, of_all = column("ID", None)
    calls.handler.grant_privileges(bag("SELECT", on=of_id))
    calls.handler.grant_privileges(bag("INSERT"))
    kind = ttypes.HiveObjectType.COLUMN
    expected = [("SELECT", kind, "id", "ann")]
    for on in (of_id, of_all):
        assert columns_of(calls.handler.list_privileges("ann", USER, on)) == expected
    [found] = calls.handler.list_privileges("ann", USER, of_id)
    ref = found.hiveObject
    assert (ref.catName, ref.dbName, ref.objectName, ref.partValues) == ("hive", "sales", "orders", None)
    # Those on the table are apart from those on its columns, as in Hive.
    assert listed(calls, "ann", USER, ORDERS) == [("INSERT", "orders", "ann")]
    assert len(calls.handler.list_privileges("ann", USER, None)) == 2
    assert calls.lake.may("ann", "SELECT", column_object(TABLE, "id"))
    assert calls.handler.revoke_privileges(bag("SELECT", on=of_id))
    assert calls.handler.list_privileges("ann", USER, of_all) == []


def test_a_privilege_set_is_that_of_the_columns_of_the_reference(calls: GrantCalls) -> None:
    of_id, of_all = column("id", None)
    calls.handler.grant_privileges(bag("SELECT", on=of_id))
    calls.handler.grant_privileges(bag("DELETE"))
    for on in (of_id, of_all):
        found = calls.handler.get_privilege_set(on, "ann", [])
        assert [each.privilege for each in found.userPrivileges["ann"]] == ["SELECT"]
    found = calls.handler.get_privilege_set(ORDERS, "ann", [])
    assert [each.privilege for each in found.userPrivileges["ann"]] == ["DELETE"]


def test_refreshing_columns_replaces_the_grants_on_all_columns(calls: GrantCalls) -> None:
    of_id, of_all = column("id", None)
    calls.handler.grant_privileges(bag("SELECT", on=of_id))
    calls.handler.grant_privileges(bag("INSERT"))
    grant = ttypes.GrantRevokeType.GRANT
    request = ttypes.GrantRevokePrivilegeRequest(requestType=grant, privileges=bag("SELECT", on=of_id, to="eve"))
    assert calls.handler.refresh_privileges(of_all, "SQL", request).success
    assert columns_of(calls.handler.list_privileges(None, None, of_all)) == [
        ("SELECT", ttypes.HiveObjectType.COLUMN, "id", "eve")
    ]
    assert listed(calls, on=ORDERS) == [("INSERT", "orders", "ann")]
    with pytest.raises(InvalidObjectError, match="cannot be replaced by one on the table"):
        calls.handler.refresh_privileges(
            of_all, "SQL", ttypes.GrantRevokePrivilegeRequest(requestType=grant, privileges=bag("SELECT"))
        )
    assert calls.handler.refresh_privileges(of_all, "SQL", None).success
    assert calls.handler.list_privileges(None, None, of_all) == []


@pytest.mark.parametrize(
    ("on", "privilege", "message"),
    [
        (column("id")[0], "UPDATE", "UPDATE cannot be granted on the column id .* columns have SELECT alone"),
        (column(None)[0], "SELECT", "names no column"),
        (
            ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.DATABASE, dbName="sales", columnName="id"),
            "SELECT",
            "names the column id, and no table",
        ),
        (
            ttypes.HiveObjectRef(
                objectType=ttypes.HiveObjectType.COLUMN, dbName="sales", objectName="orders", partValues=["1"]
            ),
            "SELECT",
            "privileges on partitions are not kept",
        ),
    ],
)
def test_columns_are_refused_where_they_cannot_be(calls: GrantCalls, on: Any, privilege: str, message: str) -> None:
    with pytest.raises(InvalidObjectError, match=message):
        calls.handler.grant_privileges(bag(privilege, on=on))
    with pytest.raises(NoSuchObjectError, match="column size of the table"):
        calls.handler.grant_privileges(bag("SELECT", on=column("size")[0]))
