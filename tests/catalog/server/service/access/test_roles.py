"""Roles: their members, nesting and the admin option, and those that are built in."""

import pytest

from interbed.catalog.server.service.access.objects import Caller
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchObjectError,
)
from tests.catalog.server.service.access.conftest import AccessLake, grantee

ANN = grantee("user:ann")


def test_a_member_has_the_grants_of_its_role_and_of_the_roles_above(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    for role in ("readers", "analysts"):
        lake.access.create_role(role, None)
    lake.grant("SELECT", orders, "role:readers")
    lake.access.add_member("readers", grantee("role:analysts"), None)
    lake.access.add_member("analysts", grantee("group:bi"), None)
    assert not lake.may("ann", "SELECT", orders)
    assert lake.may("ann", "SELECT", orders, "bi")
    lake.access.remove_member("readers", grantee("role:analysts"), None)
    assert not lake.may("ann", "SELECT", orders, "bi")


def test_everyone_is_in_public(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    lake.grant("SELECT", orders, "role:public")
    assert lake.may("anyone", "SELECT", orders)
    with pytest.raises(InvalidOperationError, match="it has no members"):
        lake.access.add_member("public", ANN, None)


def test_names_of_roles_are_in_lower_case_and_checked(lake: AccessLake) -> None:
    lake.access.create_role(" ETL ", None)
    with pytest.raises(AlreadyExistsError, match="etl already exists"):
        lake.access.create_role("Etl", None)
    for name in ("", "a b", "a:b", "none", "ALL", "default", "é", "a" * 129):
        with pytest.raises(InvalidObjectError, match="not a valid role name"):
            lake.access.create_role(name, None)
    assert [role.name for role in lake.access.roles(None)] == ["admin", "etl", "public"]


@pytest.mark.parametrize("name", ["admin", "public"])
def test_built_in_roles_stay(lake: AccessLake, name: str) -> None:
    with pytest.raises(AlreadyExistsError):
        lake.access.create_role(name, None)
    with pytest.raises(InvalidOperationError, match="built in"):
        lake.access.drop_role(name, None)


def test_a_role_is_never_its_own_member(lake: AccessLake) -> None:
    for role in ("a", "b", "c"):
        lake.access.create_role(role, None)
    lake.access.add_member("a", grantee("role:b"), None)
    lake.access.add_member("b", grantee("role:c"), None)
    for member in ("a", "b", "c"):
        with pytest.raises(InvalidOperationError, match="is in it already"):
            lake.access.add_member("c", grantee(f"role:{member}"), None)
    with pytest.raises(InvalidOperationError, match="everyone could do everything"):
        lake.access.add_member("admin", grantee("role:public"), None)


def test_unknown_roles_are_refused_by_name(lake: AccessLake) -> None:
    lake.access.create_role("etl", None)
    for work in (
        lambda: lake.access.add_member("no", ANN, None),
        lambda: lake.access.add_member("etl", grantee("role:no"), None),
        lambda: lake.access.drop_role("no", None),
        lambda: lake.access.members("no", None),
    ):
        with pytest.raises(NoSuchObjectError, match="the role no does not exist"):
            work()
    with pytest.raises(NoSuchObjectError, match="the user ann is not a member of the role etl"):
        lake.access.remove_member("etl", ANN, None)


def test_the_admin_option_permits_to_change_members(lake: AccessLake) -> None:
    lake.access.create_role("etl", None)
    ann = Caller("ann")
    with pytest.raises(AccessDeniedError, match="ann may not see or change the members of the role etl"):
        lake.access.add_member("etl", grantee("user:eve"), ann)
    with pytest.raises(AccessDeniedError):
        lake.access.members("etl", ann)
    lake.access.add_member("etl", ANN, None, admin_option=True)
    lake.access.add_member("etl", grantee("user:eve"), ann)
    found = {(each.member.key, each.admin_option, each.grantor) for each in lake.access.members("etl", ann)}
    assert found == {("user:ann", True, "operator"), ("user:eve", False, "ann")}
    lake.access.remove_member("etl", ANN, None, admin_option_only=True)
    with pytest.raises(AccessDeniedError):
        lake.access.remove_member("etl", grantee("user:eve"), ann)


def test_only_administrators_create_and_drop_roles(lake: AccessLake) -> None:
    with pytest.raises(AccessDeniedError, match="ann may not create the role etl: only members of the role admin"):
        lake.access.create_role("etl", Caller("ann"))
    lake.access.create_role("etl", Caller("root"))
    with pytest.raises(AccessDeniedError, match="ann may not drop the role etl"):
        lake.access.drop_role("etl", Caller("ann"))
    lake.access.add_member("admin", ANN, Caller("root"))
    lake.access.drop_role("etl", Caller("ann"))


def test_a_dropped_role_leaves_nothing_to_a_new_one(each_lake: AccessLake) -> None:
    orders = each_lake.add_table("orders")
    for role in ("etl", "upper"):
        each_lake.access.create_role(role, None)
    each_lake.access.add_member("etl", ANN, None)
    each_lake.access.add_member("upper", grantee("role:etl"), None)
    each_lake.grant("SELECT", orders, "role:etl")
    each_lake.grant("INSERT", orders, "role:upper")
    each_lake.access.drop_role("etl", None)
    each_lake.access.create_role("etl", None)
    each_lake.access.add_member("etl", grantee("user:eve"), None)
    for user in ("ann", "eve"):
        assert not each_lake.may(user, None, orders)


def test_a_role_that_owns_an_object_is_not_dropped(lake: AccessLake) -> None:
    lake.access.create_role("etl", None)
    lake.add_table("orders", owner="etl", kind=2)
    with pytest.raises(InvalidOperationError, match=r"owns the table hive\.sales\.orders: give it another owner"):
        lake.access.drop_role("etl", None)


def test_roles_are_listed_to_those_that_have_them(lake: AccessLake) -> None:
    for role in ("etl", "other"):
        lake.access.create_role(role, None)
    lake.access.add_member("etl", ANN, None)
    assert [role.name for role in lake.access.roles(Caller("ann"))] == ["etl", "public"]
    assert [each.role for each in lake.access.memberships(ANN, Caller("ann"))] == ["etl", "public"]
    assert [each.role for each in lake.access.memberships(grantee("user:root"), None)] == ["public", "admin"]
    with pytest.raises(AccessDeniedError, match="eve may not list the roles of the user ann"):
        lake.access.memberships(ANN, Caller("eve"))
