"""Grants on columns: what they permit, how they are given, and their way with their columns."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

import pytest

from interbed.catalog.client.hive import registration
from interbed.catalog.server.database import schema
from interbed.catalog.server.service.access.objects import (
    Access,
    Caller,
    Privilege,
    SecuredObject,
    catalog_object,
    column_object,
    database_object,
    table_object,
)
from interbed.catalog.server.service.errors import InvalidObjectError, NoSuchObjectError
from interbed.catalog.server.service.history.shown import changed_fields
from interbed.catalog.server.service.model import PAIMON_FORMATS, MetastoreColumn, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.tables import rules
from tests.catalog.server.service.access.conftest import AccessLake

ORDERS = table_object("hive", "sales", "orders")
ANY = column_object(ORDERS, None)
ID, CITY, PHONE = (column_object(ORDERS, name) for name in ("id", "city", "phone"))


def add_orders(lake: AccessLake, *, of_paimon: bool = False, owner: str | None = None) -> None:
    """Create the table with three columns and a partition key."""
    formats = dict(zip(("input_format", "output_format"), PAIMON_FORMATS, strict=True)) if of_paimon else {}
    lake.metastore.tables.create(
        MetastoreTable(
            database="sales",
            name="orders",
            owner=owner,
            storage=StorageDescriptor(columns=columns("id int", "city string", "phone string"), **formats),  # type: ignore[arg-type]
            partition_keys=columns("dt string"),
            extra={"ownerType": 1},
        )
    )


def columns(*texts: str) -> tuple[MetastoreColumn, ...]:
    """Return columns of their texts, `id int`."""
    return tuple(MetastoreColumn(name=name, type=kind) for name, _, kind in (each.partition(" ") for each in texts))


def change(lake: AccessLake, *texts: str, properties: Mapping[str, str] | None = None, name: str = "orders") -> None:
    """Give the table other columns."""
    old = lake.metastore.tables.get("hive", "sales", "orders")
    assert old.storage is not None
    new = dataclasses.replace(old, name=name, storage=dataclasses.replace(old.storage, columns=columns(*texts)))
    lake.metastore.tables.alter("hive", "sales", "orders", new, properties)


def readable(lake: AccessLake, *names: str, user: str = "ann", table: SecuredObject = ORDERS) -> list[str]:
    """Return those of the columns that a user may read."""
    return [name for name in names if lake.may(user, "SELECT", column_object(table, name))]


def granted(lake: AccessLake) -> list[str | None]:
    """Return the columns of the table with grants."""
    found = lake.access.grants(None, on=table_object("hive", "sales", "orders"))
    return [each.on.column for each in found]


def test_a_grant_on_columns_permits_to_read_them_and_shows_the_table(each_lake: AccessLake) -> None:
    lake = each_lake
    add_orders(lake)
    lake.grant("SELECT", ID, "user:ann")
    lake.grant("SELECT", CITY, "user:ann")
    assert readable(lake, "id", "city", "phone", "dt") == ["id", "city"]
    assert lake.may("ann", "SELECT", ANY)
    assert not lake.may("ann", "SELECT", ORDERS)
    assert not lake.may("ann", "INSERT", ANY)
    for seen in (ORDERS, PHONE, database_object("hive", "sales"), catalog_object("hive")):
        assert lake.may("ann", None, seen)
        # The database `default` shows its catalog to everyone.
        assert lake.may("eve", None, seen) == (seen == catalog_object("hive"))


def test_privileges_on_the_table_and_above_hold_for_its_columns(lake: AccessLake) -> None:
    add_orders(lake, owner="olga")
    lake.grant("SELECT", ORDERS, "user:ann")
    lake.grant("SELECT", database_object("hive", "sales"), "group:etl")
    assert lake.may("ann", "SELECT", PHONE)
    assert lake.may("eve", "SELECT", ANY, "etl")
    assert lake.may("olga", "SELECT", PHONE)
    assert lake.may("boss", "SELECT", ANY)
    assert not lake.may("eve", "SELECT", ANY)


def test_many_questions_get_the_answers_of_single_ones(lake: AccessLake) -> None:
    add_orders(lake)
    lake.grant("SELECT", CITY, "user:ann")
    lake.clock.now += 1
    objects = [ORDERS, ID, CITY, ORDERS, ANY, database_object("hive", "sales"), CITY]
    questions = [Access(privilege, on) for on in objects for privilege in (Privilege.SELECT, None)]
    together = list(lake.authorizer.decide(Caller("ann"), questions))
    assert together == [lake.authorizer.decide(Caller("ann"), [each])[0] for each in questions]


def test_columns_have_the_privilege_to_read_alone(lake: AccessLake) -> None:
    add_orders(lake)
    for privilege in sorted(set(Privilege) - {Privilege.SELECT}):
        with pytest.raises(
            InvalidObjectError, match=f"{privilege} cannot be granted on the column city .*SELECT alone"
        ):
            lake.grant(privilege, CITY, "user:ann")
    with pytest.raises(InvalidObjectError, match="names no column"):
        lake.grant("SELECT", ANY, "user:ann")
    with pytest.raises(NoSuchObjectError, match=r"column size of the table hive\.sales\.orders does not exist"):
        lake.grant("SELECT", column_object(ORDERS, "size"), "user:ann")
    lake.grant("SELECT", column_object(ORDERS, "dt"), "user:ann")


def test_grants_of_a_table_are_followed_by_those_on_its_columns(lake: AccessLake) -> None:
    add_orders(lake)
    lake.grant("SELECT", CITY, "user:ann")
    lake.grant("INSERT", ORDERS, "user:ann")
    assert [(each.privilege, each.on) for each in lake.access.grants(None, on=ORDERS)] == [
        ("INSERT", ORDERS),
        ("SELECT", CITY),
    ]
    assert [each.on for each in lake.access.grants(None, on=ANY)] == [CITY]
    assert lake.access.grants(None, on=ID) == []
    [first, second] = lake.access.changes(None)
    assert changed_fields(first)[0] == "kind: column"
    assert "column: city" in changed_fields(first)
    assert first.object_id == second.object_id is not None


def test_a_grant_option_on_the_table_gives_its_columns_to_others(lake: AccessLake) -> None:
    add_orders(lake)
    lake.grant("SELECT", ORDERS, "user:ann", grant_option=True)
    lake.grant("SELECT", CITY, "user:eve", by="ann")
    lake.grant("SELECT", ID, "user:eve", grant_option=True)
    lake.grant("SELECT", ID, "user:max", by="eve")
    assert lake.revoke("SELECT", ORDERS, "user:ann", cascade=True) == ["user:ann", "user:eve"]
    assert lake.revoke("SELECT", ID, "user:eve", cascade=True) == ["user:eve", "user:max"]
    with pytest.raises(NoSuchObjectError, match="has no grant of SELECT on the column id of the table"):
        lake.revoke("SELECT", ID, "user:eve")


def test_a_renamed_column_keeps_its_grants_and_a_dropped_one_loses_them(each_lake: AccessLake) -> None:
    lake = each_lake
    add_orders(lake)
    for each in (ID, CITY):
        lake.grant("SELECT", each, "user:ann")
    change(lake, "id int", "town string", "phone string")
    assert readable(lake, "id", "town", "city", "phone") == ["id", "town"]
    change(lake, "id int", "town string", "phone string", "city string")
    assert readable(lake, "id", "town", "city", "phone") == ["id", "town"]
    change(lake, "town string", "phone string", "city string")
    change(lake, "id int", "town string", "phone string", "city string")
    assert readable(lake, "id", "town", "city", "phone") == ["town"]
    assert granted(lake) == ["town"]


@pytest.mark.parametrize(
    ("texts", "left"),
    [
        (("id int", "phone string", "city string"), ["id", "city"]),
        (("id int", "town bigint", "phone string"), ["id"]),
        (("number int", "town string", "phone string"), []),
        (("id int", "town string"), ["id"]),
        (("id bigint", "city string", "phone string", "size int"), ["id", "city"]),
    ],
)
def test_what_may_be_another_column_has_no_grants(lake: AccessLake, texts: Sequence[str], left: list[str]) -> None:
    add_orders(lake)
    for each in (ID, CITY):
        lake.grant("SELECT", each, "user:ann")
    change(lake, *texts)
    assert granted(lake) == left


def test_columns_of_paimon_tables_are_followed_by_their_field_ids_alone(lake: AccessLake) -> None:
    add_orders(lake, of_paimon=True)
    for each in (ID, CITY):
        lake.grant("SELECT", each, "user:ann")
    pairs = [["id", "city"], ["city", "id"], ["phone", None], ["dt", "dt"]]
    properties = {rules.COLUMN_CHANGES: json.dumps(pairs)}
    lake.grant("SELECT", PHONE, "user:eve")
    change(lake, "city int", "id string", "phone string", properties=properties)
    assert sorted(map(str, granted(lake))) == ["city", "id"]
    lake.revoke("SELECT", ID, "user:ann")
    # The names of another version of the table do not count: the change may have been made already.
    change(lake, "city int", "number string", "phone string", properties=properties)
    assert granted(lake) == ["city"]
    change(lake, "town int", "number string", "phone string")
    assert granted(lake) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[["id"]]', '[["id", 5]]', "null", '[["id", "id"]]'])
def test_changes_that_cannot_be_read_do_not_count(lake: AccessLake, text: str) -> None:
    add_orders(lake, of_paimon=True)
    lake.grant("SELECT", ID, "user:ann")
    lake.grant("SELECT", CITY, "user:ann")
    change(lake, "id int", "town string", "phone string", properties={rules.COLUMN_CHANGES: text})
    assert granted(lake) == ["id"]


def test_the_client_and_the_server_have_one_name_for_changes_of_columns() -> None:
    assert registration.COLUMN_CHANGES == rules.COLUMN_CHANGES


def test_grants_on_columns_follow_a_renamed_table_and_come_back_with_a_dropped_one(each_lake: AccessLake) -> None:
    lake = each_lake
    add_orders(lake)
    lake.grant("SELECT", CITY, "user:ann")
    change(lake, "id int", "city string", "phone string", name="renamed")
    renamed = table_object("hive", "sales", "renamed")
    assert readable(lake, "id", "city", table=renamed) == ["city"]
    dropped = lake.metastore.tables.drop("hive", "sales", "renamed", delete_data=False)
    assert not lake.may("ann", None, renamed)
    lake.metastore.dropped.undrop(lake.metastore.dropped.find("hive", "sales", dropped.name))
    assert readable(lake, "id", "city", table=renamed) == ["city"]


def test_a_downgrade_removes_grants_on_columns(lake: AccessLake) -> None:
    add_orders(lake)
    lake.grant("SELECT", CITY, "user:ann")
    lake.grant("INSERT", ORDERS, "user:ann")
    schema.downgrade(lake.store.engine, "0018")
    schema.upgrade(lake.store.engine)
    assert [each.privilege for each in lake.access.grants(None, on=ORDERS)] == ["INSERT"]


def test_explanations_name_the_columns(lake: AccessLake) -> None:
    add_orders(lake)
    lake.grant("SELECT", CITY, "user:ann")
    refused = lake.access.explain(Caller("ann"), Access(Privilege.SELECT, PHONE))
    assert (refused.is_permitted, refused.exists) == (False, True)
    assert list(refused.remedies) == [
        "interbed metastore grant SELECT --columns phone on table sales.orders to user ann"
    ]
    whole = lake.access.explain(Caller("ann"), Access(Privilege.SELECT, ORDERS))
    assert not whole.is_permitted
    assert list(whole.reasons) == [
        "SELECT is granted on the column city of the table hive.sales.orders alone, and not on the table "
        "hive.sales.orders: user ann"
    ]
    assert [each.on for each in whole.grants] == [CITY]
    permitted = lake.access.explain(Caller("ann"), Access(Privilege.SELECT, CITY))
    assert permitted.is_permitted
    assert list(permitted.reasons) == ["SELECT on the column city of the table hive.sales.orders is granted: user ann"]
