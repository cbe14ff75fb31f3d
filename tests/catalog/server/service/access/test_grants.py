"""Grants: their effect, the rules by which they are given and revoked, and their way with their objects."""

import dataclasses

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.service.access.builtin import CHECKED_SECONDS, BuiltinAuthorizer
from interbed.catalog.server.service.access.granting import GrantRequest
from interbed.catalog.server.service.access.objects import (
    SERVER,
    Access,
    AuthorizerUnavailableError,
    Caller,
    Privilege,
    SecuredObject,
    catalog_object,
    database_object,
    function_object,
    table_object,
)
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    InvalidObjectError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.history.shown import changed_fields
from interbed.catalog.server.service.model import MetastoreCatalog
from tests.catalog.server.service.access.conftest import AccessLake, grantee

SALES = database_object("hive", "sales")
DEFAULT = database_object("hive", "default")


def test_a_grant_permits_its_privilege_on_its_object_and_no_more(lake: AccessLake) -> None:
    orders, other = lake.add_table("orders"), lake.add_table("orders_old")
    assert not lake.may("ann", None, orders)
    lake.grant("SELECT", orders, "user:ann")
    assert lake.may("ann", "SELECT", orders)
    assert lake.may("ann", None, orders)
    assert not lake.may("ann", "INSERT", orders)
    assert not lake.may("ann", None, other)
    assert not lake.may("Ann", "SELECT", orders)
    assert not lake.may("ann2", "SELECT", orders)


def test_a_privilege_on_a_container_holds_for_everything_in_it(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    lake.grant("INSERT", SALES, "user:ann")
    lake.grant("ALL", catalog_object("hive"), "group:lords")
    lake.grant("SELECT", SERVER, "user:auditor")
    assert lake.may("ann", "INSERT", orders)
    assert lake.may("ann", None, orders)
    assert not lake.may("ann", "SELECT", orders)
    assert lake.may("eve", "DROP", orders, "lords")
    assert not lake.may("eve", "DROP", orders, "lord")
    assert lake.may("auditor", "SELECT", orders)


def test_usage_and_create_show_only_the_container(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    lake.grant("USAGE", SALES, "user:ann")
    lake.grant("CREATE", SALES, "user:ann")
    assert lake.may("ann", None, SALES)
    assert lake.may("ann", "CREATE", SALES)
    assert not lake.may("ann", None, orders)


def test_the_containers_of_an_object_are_seen(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    lake.grant("SELECT", orders, "user:ann")
    for container in (SALES, catalog_object("hive"), SERVER):
        assert lake.may("ann", None, container)
        assert not lake.may("ann", "USAGE", container)
        assert not lake.may("eve", None, SALES)


def test_an_owner_has_all_privileges_on_the_object_and_in_it(each_lake: AccessLake) -> None:
    orders = each_lake.add_table("orders", owner="ann")
    each_lake.add_table("of_group", owner="lords", kind=3)
    each_lake.add_function("f", owner="ann")
    assert each_lake.may("ann", "DROP", orders)
    assert each_lake.may("ann", None, SALES)
    assert each_lake.may("ann", "DROP", function_object("hive", "sales", "f"))
    assert each_lake.may("boss", "DROP", orders)
    assert each_lake.may("boss", "CREATE", SALES)
    assert each_lake.may("boss", "DROP", function_object("hive", "sales", "f"))
    assert not each_lake.may("ann", "DROP", SALES)
    assert each_lake.may("eve", "ALTER", table_object("hive", "sales", "of_group"), "lords")
    assert not each_lake.may("lords", "ALTER", table_object("hive", "sales", "of_group"))


def test_owned_objects_of_many_databases_are_found(each_lake: AccessLake) -> None:
    each_lake.add_function("f", owner="ann")
    questions = [Access(Privilege.DROP, function_object("hive", "sales", "f"))]
    for number in range(12):
        each_lake.add_database(f"d{number}", owner="ann" if number == 3 else "boss")
        table = each_lake.add_table("t", database=f"d{number}", owner="ann" if number % 2 else "boss")
        questions.append(Access(Privilege.DROP, table))
    answers = each_lake.authorizer.decide(Caller("ann"), questions)
    assert list(answers) == [True, *(number % 2 == 1 for number in range(12))]


def test_a_new_owner_replaces_the_old_one(lake: AccessLake) -> None:
    orders = lake.add_table("orders", owner="ann")
    table = lake.metastore.tables.get("hive", "sales", "orders")
    lake.metastore.tables.alter("hive", "sales", "orders", dataclasses.replace(table, owner="eve"))
    assert not lake.may("ann", "SELECT", orders)
    assert lake.may("eve", "SELECT", orders)


def test_everyone_may_use_and_create_in_the_database_of_public_and_no_more(lake: AccessLake) -> None:
    table = lake.add_table("t", database="default", owner="ann")
    assert lake.may("eve", "CREATE", DEFAULT)
    assert lake.may("eve", None, DEFAULT)
    assert not lake.may("eve", "SELECT", table)
    assert not lake.may("eve", None, table)
    assert not lake.may("eve", "DROP", DEFAULT)


def test_administrators_may_do_everything(lake: AccessLake) -> None:
    assert lake.may("root", "DROP", SALES)
    assert not lake.may("ann", "DROP", SALES)
    lake.access.add_member("admin", grantee("group:ops"), None)
    assert lake.may("ann", "DROP", SALES, "ops")
    assert lake.may("ann", None, table_object("hive", "no", "where"), "ops")


# -- objects change ----------------------------------------------------------------------------------------------------


def test_a_rename_keeps_grants_and_leaves_none_at_the_old_name(each_lake: AccessLake) -> None:
    each_lake.add_database("archive")
    orders = each_lake.add_table("orders")
    each_lake.grant("SELECT", orders, "user:ann")
    table = each_lake.metastore.tables.get("hive", "sales", "orders")
    moved = dataclasses.replace(table, database="archive", name="orders_2025")
    each_lake.metastore.tables.alter("hive", "sales", "orders", moved)
    assert each_lake.may("ann", "SELECT", table_object("hive", "archive", "orders_2025"))
    each_lake.add_table("orders")
    assert not each_lake.may("ann", None, orders)


def test_names_that_two_tables_exchange_keep_their_grants_apart(each_lake: AccessLake) -> None:
    first, second = each_lake.add_table("a"), each_lake.add_table("b")
    each_lake.grant("SELECT", first, "user:ann")
    each_lake.grant("SELECT", second, "user:eve")
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        table = each_lake.metastore.tables.get("hive", "sales", old)
        each_lake.metastore.tables.alter("hive", "sales", old, dataclasses.replace(table, name=new))
    assert (each_lake.may("ann", "SELECT", first), each_lake.may("ann", "SELECT", second)) == (False, True)
    assert (each_lake.may("eve", "SELECT", first), each_lake.may("eve", "SELECT", second)) == (True, False)


def test_a_change_without_a_rename_is_no_change_of_grants(each_lake: AccessLake) -> None:
    orders = each_lake.add_table("orders")
    each_lake.grant("SELECT", orders, "user:ann")
    before = each_lake.store.read(lambda transaction: transaction.access.generation())
    table = each_lake.metastore.tables.get("hive", "sales", "orders")
    each_lake.metastore.tables.alter("hive", "sales", "orders", dataclasses.replace(table, parameters={"a": "b"}))
    assert each_lake.store.read(lambda transaction: transaction.access.generation()) == before


def test_a_new_object_under_the_name_of_a_dropped_one_has_no_grants(each_lake: AccessLake) -> None:
    orders = each_lake.add_table("orders")
    each_lake.add_function("f")
    function = function_object("hive", "sales", "f")
    for on in (orders, function, SALES):
        each_lake.grant("ALL", on, "user:ann")
    each_lake.metastore.tables.drop("hive", "sales", "orders", delete_data=True)
    each_lake.add_table("orders")
    each_lake.metastore.functions.drop("hive", "sales", "f")
    each_lake.add_function("f")
    each_lake.access.revoke([_all_of_ann(SALES)], None)
    for on in (orders, function):
        assert not each_lake.may("ann", None, on)
    each_lake.grant("ALL", SALES, "user:ann")
    each_lake.metastore.databases.drop("hive", "sales", delete_data=True, cascade=True)
    each_lake.add_database("sales")
    each_lake.add_table("orders")
    assert not each_lake.may("ann", None, SALES)
    assert not each_lake.may("ann", None, orders)


def test_an_undrop_brings_grants_back_but_for_roles_that_were_dropped(each_lake: AccessLake) -> None:
    orders = each_lake.add_table("orders")
    each_lake.add_function("f")
    for role in ("kept", "lost"):
        each_lake.access.create_role(role, None)
    for to in ("user:ann", "role:kept", "role:lost"):
        each_lake.grant("SELECT", orders, to, grant_option=True)
    each_lake.grant("CREATE", SALES, "user:ann")
    each_lake.grant("ALL", function_object("hive", "sales", "f"), "user:ann")
    each_lake.metastore.databases.drop("hive", "sales", delete_data=True, cascade=True)
    each_lake.access.drop_role("lost", None)
    assert not each_lake.may("ann", "SELECT", orders)
    each_lake.metastore.dropped.undrop(each_lake.metastore.dropped.find("hive", "sales", None))
    assert each_lake.may("ann", "SELECT", orders)
    assert each_lake.may("ann", "CREATE", SALES)
    assert each_lake.may("ann", "DROP", function_object("hive", "sales", "f"))
    found = [(each.to.key, each.grant_option) for each in each_lake.access.grants(None, on=orders)]
    assert found == [("user:ann", True), ("role:kept", True)]


def test_a_dropped_catalog_leaves_no_grants(each_lake: AccessLake, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = MetastoreCatalog(name="other", location=f"file:{tmp_path_factory.mktemp('other')}/c")
    each_lake.metastore.catalogs.create(other)
    each_lake.grant("ALL", catalog_object("other"), "user:ann")
    assert each_lake.may("ann", "DROP", table_object("other", "default", "t"))
    each_lake.metastore.catalogs.drop("other")
    each_lake.metastore.catalogs.create(other)
    assert not each_lake.may("ann", None, catalog_object("other"))


# -- rules -------------------------------------------------------------------------------------------------------------


def test_a_grant_needs_the_grant_option_ownership_or_the_role_admin(lake: AccessLake) -> None:
    orders = lake.add_table("orders", owner="olga")
    lake.grant("SELECT", orders, "user:ann")
    with pytest.raises(AccessDeniedError, match="ann may not grant SELECT on the table"):
        lake.grant("SELECT", orders, "user:eve", by="ann")
    lake.grant("SELECT", orders, "user:ann", grant_option=True)
    lake.grant("SELECT", orders, "user:eve", by="ann")
    with pytest.raises(AccessDeniedError, match="INSERT"):
        lake.grant("INSERT", orders, "user:eve", by="ann")
    with pytest.raises(AccessDeniedError, match="ALL"):
        lake.grant("ALL", orders, "user:eve", by="ann")
    lake.grant("ALL", orders, "user:eve", by="olga")
    lake.grant("DROP", orders, "user:eve", by="boss")
    lake.grant("DROP", SALES, "user:eve", by="root")
    assert lake.may("eve", "DROP", SALES)


def test_what_an_actor_does_not_see_does_not_exist_for_it(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    missing = table_object("hive", "sales", "missing")
    for on in (orders, missing):
        for work in (lake.grant, lake.revoke):
            with pytest.raises(NoSuchObjectError, match=f"^the {on} does not exist$"):
                work("SELECT", on, "user:eve", by="ann")
        with pytest.raises(NoSuchObjectError, match=f"^the {on} does not exist$"):
            lake.access.grants(Caller("ann"), on=on)
    with pytest.raises(NoSuchObjectError, match="missing does not exist"):
        lake.grant("SELECT", missing, "user:eve")


def test_grantees_that_cannot_be_are_refused(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    with pytest.raises(NoSuchObjectError, match="the role missing does not exist"):
        lake.grant("SELECT", orders, "role:missing")
    for name in ("", " ", "a ", "a\nb", "a" * 257):
        with pytest.raises(InvalidObjectError, match="not the name of a user"):
            lake.grant("SELECT", orders, f"user:{name}")


def test_grants_are_made_all_or_none(lake: AccessLake) -> None:
    orders = lake.add_table("orders", owner="olga")
    requests = [dataclasses.replace(_all_of_ann(orders), privilege=Privilege.SELECT), _all_of_ann(SALES)]
    with pytest.raises(AccessDeniedError):
        lake.access.grant(requests, Caller("olga"))
    assert lake.access.grants(None, on=orders) == []


def test_a_repeated_grant_changes_nothing_but_a_new_grant_option(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    for option in (False, False, True, True, False):
        lake.grant("SELECT", orders, "user:ann", grant_option=option)
    [found] = lake.access.grants(None, on=orders)
    assert (found.grant_option, found.grantor) == (True, "operator")


def test_grantors_revoke_what_they_gave_and_owners_everything(lake: AccessLake) -> None:
    orders = lake.add_table("orders", owner="olga")
    for user in ("ann", "bob"):
        lake.grant("SELECT", orders, f"user:{user}", grant_option=True)
        lake.grant("SELECT", orders, "user:eve", by=user)
    with pytest.raises(NoSuchObjectError, match=r"no grant of SELECT .* that bob gave"):
        lake.revoke("SELECT", orders, "user:ann", by="bob")
    assert lake.revoke("SELECT", orders, "user:eve", by="bob") == ["user:eve"]
    assert lake.may("eve", "SELECT", orders)
    assert lake.revoke("SELECT", orders, "user:eve", by="olga") == ["user:eve"]
    assert not lake.may("eve", "SELECT", orders)
    assert lake.revoke("SELECT", orders, "user:ann", by="boss") == ["user:ann"]
    assert lake.revoke("SELECT", orders, "user:bob", by="root") == ["user:bob"]


def test_a_part_of_all_cannot_be_revoked(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    lake.grant("ALL", orders, "user:ann")
    with pytest.raises(NoSuchObjectError, match=r"no grant of SELECT .*: revoke ALL, and grant what shall stay"):
        lake.revoke("SELECT", orders, "user:ann")
    lake.grant("SELECT", orders, "user:ann")
    assert lake.revoke("ALL", orders, "user:ann") == ["user:ann", "user:ann"]
    with pytest.raises(NoSuchObjectError, match="has no grant of ALL"):
        lake.revoke("ALL", orders, "user:ann")


def _chain(lake: AccessLake) -> SecuredObject:
    orders = lake.add_table("orders")
    lake.grant("ALL", SALES, "user:ann", grant_option=True)
    lake.grant("SELECT", orders, "user:bob", by="ann", grant_option=True)
    lake.grant("SELECT", orders, "user:eve", by="bob")
    lake.grant("INSERT", orders, "user:eve", by="boss")
    return orders


def test_a_revocation_leaves_dependent_grants(lake: AccessLake) -> None:
    orders = _chain(lake)
    assert lake.revoke("ALL", SALES, "user:ann") == ["user:ann"]
    assert lake.may("eve", "SELECT", orders)
    with pytest.raises(NoSuchObjectError):
        lake.grant("SELECT", orders, "user:jim", by="ann")


def test_a_revocation_with_cascade_revokes_dependent_grants(each_lake: AccessLake) -> None:
    orders = _chain(each_lake)
    assert each_lake.revoke("ALL", SALES, "user:ann", cascade=True) == ["user:ann", "user:bob", "user:eve"]
    assert not each_lake.may("eve", "SELECT", orders)
    assert each_lake.may("eve", "INSERT", orders)


def test_a_cascade_keeps_what_another_grant_option_still_permits(lake: AccessLake) -> None:
    orders = _chain(lake)
    lake.grant("SELECT", orders, "user:ann", grant_option=True)
    assert lake.revoke("ALL", SALES, "user:ann", cascade=True) == ["user:ann"]
    assert lake.may("eve", "SELECT", orders)


def test_the_grant_option_is_revoked_alone(lake: AccessLake) -> None:
    orders = _chain(lake)
    lake.revoke("SELECT", orders, "user:bob", grant_option_only=True, cascade=True)
    assert lake.may("bob", "SELECT", orders)
    assert not lake.may("eve", "SELECT", orders)
    with pytest.raises(AccessDeniedError):
        lake.grant("SELECT", orders, "user:eve", by="bob")


def test_grants_are_listed_to_administrators_owners_and_their_grantees(lake: AccessLake) -> None:
    orders = lake.add_table("orders", owner="olga")
    lake.grant("SELECT", orders, "user:ann")
    lake.grant("SELECT", orders, "group:etl")
    assert len(lake.access.grants(None, on=orders)) == 2
    for actor in ("root", "olga", "boss"):
        assert len(lake.access.grants(Caller(actor), on=orders)) == 2
    assert [each.to.key for each in lake.access.grants(Caller("ann"), on=orders)] == ["user:ann"]
    assert lake.access.grants(Caller("ann"), to=grantee("group:etl")) == []
    assert len(lake.access.grants(Caller("ann", frozenset({"etl"})), to=grantee("group:etl"))) == 1


def test_changes_are_in_the_history(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    lake.access.create_role("etl", None)
    lake.access.add_member("etl", grantee("user:ann"), None)
    lake.grant("SELECT", orders, "role:etl")
    lake.revoke("SELECT", orders, "role:etl")
    found = [(each.change, str(each.kind), each.name) for each in lake.access.changes(None)]
    assert found == [
        ("CREATE_ROLE", "role", "etl"),
        ("GRANT_ROLE", "role", "etl"),
        ("GRANT", "grant", "orders"),
        ("REVOKE", "grant", "orders"),
    ]
    granted = lake.access.changes(Caller("root"), limit=2)[0]
    assert changed_fields(granted) == [
        "kind: table",
        f"object id: {granted.object_id}",
        "privilege: SELECT",
        "to: role etl",
        "grant option: False",
    ]
    # The grants of others are not for all readers of a table's history.
    with pytest.raises(AccessDeniedError, match="ann may not see the changes of roles and grants"):
        lake.access.changes(Caller("ann"))
    of_table = lake.metastore.history.of_table("hive", "sales", "orders").entries
    of_database = lake.metastore.history.of_database("hive", "sales")
    assert [each.change for each in of_table] == ["CREATE_TABLE"]
    assert [each.change for each in of_database] == ["CREATE_DATABASE", "CREATE_TABLE"]


# -- other processes ---------------------------------------------------------------------------------------------------


def test_another_process_sees_grants_at_once_and_revocations_soon(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    elsewhere = BuiltinAuthorizer(lake.store, clock=lake.clock)
    question = [Access(Privilege.SELECT, orders)]
    assert list(elsewhere.decide(Caller("ann"), question)) == [False]
    lake.grant("SELECT", orders, "user:ann")
    assert list(elsewhere.decide(Caller("ann"), question)) == [True]
    lake.revoke("SELECT", orders, "user:ann")
    lake.clock.now += CHECKED_SECONDS
    assert list(elsewhere.decide(Caller("ann"), question)) == [False]


def test_nothing_is_decided_without_the_database(lake: AccessLake) -> None:
    orders = lake.add_table("orders", owner="ann")
    assert lake.may("ann", "DROP", orders)
    schema.downgrade(lake.store.engine, "0016")
    lake.clock.now += CHECKED_SECONDS
    with pytest.raises(AuthorizerUnavailableError, match="the grants cannot be read"):
        lake.authorizer.decide(Caller("ann"), [Access(None, orders)])
    with pytest.raises(AccessUnavailableError, match=r"the grants cannot be read: .*try again"):
        lake.grant("SELECT", orders, "user:eve", by="ann")


def test_grants_of_a_restored_database_are_read_again(lake: AccessLake) -> None:
    orders = lake.add_table("orders")
    lake.grant("SELECT", orders, "user:ann")
    for _ in range(3):
        lake.grant("INSERT", orders, "user:ann")
        lake.revoke("INSERT", orders, "user:ann")
    assert lake.may("ann", "SELECT", orders)
    schema.downgrade(lake.store.engine, "0016")
    schema.upgrade(lake.store.engine)
    assert not lake.may("ann", "SELECT", orders)
    for _ in range(9):
        lake.store.write(lambda transaction: transaction.access.advance())
        assert not lake.may("ann", "SELECT", orders)


def _all_of_ann(on: SecuredObject) -> GrantRequest:
    return GrantRequest(privilege=Privilege.ALL, on=on, to=grantee("user:ann"))
