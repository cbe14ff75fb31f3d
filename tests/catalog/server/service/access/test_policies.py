"""Policies of tables: setting, combination, the life of their table, and the rules of those that they bind."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import Caller, PolicyKind, SecuredObject, TablePolicy, table_object
from interbed.catalog.server.service.access.policies import PolicyAdministration, PolicyRules
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.tables.rules import COLUMN_CHANGES
from interbed.storage.base.types.data_type import DataField, type_from_json
from tests.catalog.server.service.access.conftest import AccessLake, grantee

COLUMNS = {"id": "int", "city": "string", "tags": "array<string>", "price": "decimal(10,2)"}
FIELDS = [
    DataField(id=0, name="id", type=type_from_json("INT")),
    DataField(id=1, name="city", type=type_from_json("STRING")),
]


def _orders(lake: AccessLake, *, owner: str = "ann") -> SecuredObject:
    storage = StorageDescriptor(columns=tuple(MetastoreColumn(name=name, type=kind) for name, kind in COLUMNS.items()))
    keys = (MetastoreColumn(name="dt", type="string"),)
    lake.metastore.tables.create(
        MetastoreTable(database="sales", name="orders", owner=owner, storage=storage, partition_keys=keys)
    )
    return table_object("hive", "sales", "orders")


def _filter(expression: str, *bound: str, name: str = "rows", exempt: tuple[str, ...] = ()) -> TablePolicy:
    return TablePolicy(
        name=name,
        kind=PolicyKind.FILTER,
        expression=expression,
        bound=tuple(map(grantee, bound or ("role:public",))),
        exempt=tuple(map(grantee, exempt)),
    )


def _mask(column: str, expression: str, *bound: str, name: str = "hide") -> TablePolicy:
    return TablePolicy(
        name=name,
        kind=PolicyKind.MASK,
        column=column,
        expression=expression,
        bound=tuple(map(grantee, bound or ("role:public",))),
    )


def _administration(lake: AccessLake) -> PolicyAdministration:
    return PolicyAdministration(lake.store, lake.authorizer, operator="operator", clock=lake.clock)


class _CallerRights:
    """A guard whose caller tests choose."""

    def __init__(self, lake: AccessLake, *trusted: str) -> None:
        self.caller: Caller | None = None
        self.rules = PolicyRules(lake.store, AccessGuard(lake.authorizer, lambda: self.caller), trusted)

    @contextmanager
    def being(self, name: str, *groups: str) -> Iterator[PolicyRules]:
        """Make the calls within the block for a caller."""
        self.caller = Caller(name, frozenset(groups))
        yield self.rules
        self.caller = None

    def rules_of(self, name: str, on: SecuredObject, *groups: str) -> tuple[int, list[str]]:
        """Return the number of row filters, and the masked columns, of a caller."""
        with self.being(name, *groups) as rules:
            found = rules.reader_rules(on, FIELDS)
        return len(found.filters), sorted(found.masks)


def test_policies_are_stored_replaced_listed_and_dropped(each_lake: AccessLake) -> None:
    on, policies = _orders(each_lake), _administration(each_lake)
    policies.set(on, _filter("id > 5"), None)
    policies.set(on, _mask("city", "NULL"), Caller("ann"))
    policies.set(on, _filter("id > 7", "group:eu", exempt=("user:bob",)), None)
    hide, rows = policies.policies(on, Caller("root"))
    assert (hide.created_by, hide.column, hide.expression) == ("ann", "city", "NULL")
    assert rows == dataclasses.replace(
        _filter("id > 7", "group:eu", exempt=("user:bob",)),
        created_by="operator",
        created_at=int(each_lake.clock.now),
    )
    policies.drop(on, "rows", None)
    assert [each.name for each in policies.policies(on, None)] == ["hide"]
    with pytest.raises(NoSuchObjectError, match="has no policy rows"):
        policies.drop(on, "rows", None)


def test_owners_and_administrators_set_policies_and_others_do_not(lake: AccessLake) -> None:
    on, policies = _orders(lake), _administration(lake)
    lake.grant("SELECT", on, "user:rita")
    for name in ("ann", "boss", "root"):
        policies.set(on, _filter("id > 5"), Caller(name))
    with pytest.raises(AccessDeniedError, match="rita lacks the privilege ALL"):
        policies.set(on, _filter("id > 0"), Caller("rita"))
    with pytest.raises(AccessDeniedError):
        policies.drop(on, "rows", Caller("rita"))
    with pytest.raises(AccessDeniedError):
        policies.policies(on, Caller("rita"))
    with pytest.raises(NoSuchObjectError, match="does not exist"):
        policies.set(on, _filter("id > 0"), Caller("stranger"))


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (_filter("gone > 5"), "gone"),
        (_filter("id > 'x'"), "'id'"),
        (_filter("id >"), "not a condition"),
        (_filter("price > 5"), "'price' is DECIMAL"),
        (_filter("tags = 'a'"), "tags"),
        (_mask("gone", "NULL"), "no column 'gone'"),
        (_mask("id", "'x'"), "'id' is INT"),
        (_mask("dt", "NULL"), "partition column"),
        (_mask("city", "MD5(city)"), "is not a mask"),
        (_filter("id > 5", name="a b"), "not the name of a policy"),
        (_filter("id > 5", "user: x"), "not the name of a user"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_by_name(lake: AccessLake, policy: TablePolicy, reason: str) -> None:
    on = _orders(lake)
    with pytest.raises(InvalidObjectError, match=reason):
        _administration(lake).set(on, policy, None)
    assert not _administration(lake).policies(on, None)


def test_a_second_mask_of_a_column_for_the_same_grantee_is_refused(lake: AccessLake) -> None:
    on, policies = _orders(lake), _administration(lake)
    policies.set(on, _mask("city", "NULL", "user:rita", name="a"), None)
    with pytest.raises(InvalidOperationError, match="mask a of the column city binds the user rita"):
        policies.set(on, _mask("city", "'x'", "user:rita", name="b"), None)
    with pytest.raises(NoSuchObjectError, match="the role gone does not exist"):
        policies.set(on, _mask("city", "'x'", "role:gone", name="b"), None)


def test_policies_bind_users_groups_and_roles_but_those_that_they_exempt(lake: AccessLake) -> None:
    on, policies, callers = _orders(lake), _administration(lake), _CallerRights(lake)
    lake.access.create_role("analysts", None)
    lake.access.create_role("all_analysts", None)
    lake.access.add_member("all_analysts", grantee("role:analysts"), None)
    lake.access.add_member("analysts", grantee("user:rita"), None)
    policies.set(on, _filter("id > 5", "role:all_analysts", name="a"), None)
    policies.set(on, _filter("id < 9", exempt=("role:admin", "user:ann"), name="b"), None)
    policies.set(on, _mask("city", "NULL", "group:eu", name="c"), None)
    assert callers.rules_of("rita", on) == (2, [])
    assert callers.rules_of("bob", on, "eu") == (1, ["city"])
    assert callers.rules_of("ann", on) == (0, [])
    assert callers.rules_of("root", on) == (0, [])
    assert not callers.rules.binding(on)


def test_the_first_of_several_masks_by_name_holds(lake: AccessLake) -> None:
    on, policies, callers = _orders(lake), _administration(lake), _CallerRights(lake)
    policies.set(on, _mask("city", "'for all'", name="z"), None)
    policies.set(on, _mask("city", "'for eu'", "group:eu", name="a"), None)
    with callers.being("bob", "eu") as rules:
        assert "for eu" in rules.reader_rules(on, FIELDS).masks["city"]
    with callers.being("bob") as rules:
        assert "for all" in rules.reader_rules(on, FIELDS).masks["city"]


def test_a_policy_that_no_longer_fits_the_columns_refuses_reads_by_name(lake: AccessLake) -> None:
    on, policies, callers = _orders(lake), _administration(lake), _CallerRights(lake)
    policies.set(on, _filter("id > 5", "user:rita"), None)
    with (
        callers.being("rita") as rules,
        pytest.raises(AccessDeniedError, match="row filter rows does not fit") as raised,
    ):
        rules.reader_rules(on, FIELDS[1:])
    assert "'id'" in str(raised.value)
    with callers.being("bob") as rules:
        assert not rules.reader_rules(on, FIELDS[1:]).filters


@pytest.mark.parametrize("policy", [_mask("city", "NULL"), _filter("city = 'Ulm'")], ids=["mask", "filter"])
def test_no_other_column_gets_the_name_of_a_column_that_a_policy_needs(lake: AccessLake, policy: TablePolicy) -> None:
    on, policies = _orders(lake), _administration(lake)
    policies.set(on, policy, None)
    _rename(lake, {"city": "town"}, added="note")
    with pytest.raises(InvalidOperationError, match=f"{policy.name} .*would bind another column"):
        _rename(lake, {"note": "city"})
    with pytest.raises(InvalidOperationError, match="would bind another column"):
        _rename(lake, {}, added="city")
    _rename(lake, {"price": "cost"}, added="more")
    _rename(lake, {"town": "city"}, is_refused=True)
    policies.drop(on, policy.name, None)
    _rename(lake, {"town": "city"})
    policies.set(on, policy, None)
    _rename(lake, {"city": "note", "note": "city"}, is_refused=True)


def _rename(lake: AccessLake, names: dict[str, str], *, added: str | None = None, is_refused: bool = False) -> None:
    """Rename columns of the table as a client that knows field ids, and add one of the type of city."""
    table = lake.metastore.tables.get("hive", "sales", "orders")
    assert table.storage is not None
    columns = tuple(
        dataclasses.replace(column, name=names.get(column.name, column.name)) for column in table.storage.columns
    )
    if added is not None:
        columns = (*columns, MetastoreColumn(name=added, type="string"))
    changed = dataclasses.replace(table, storage=dataclasses.replace(table.storage, columns=columns))
    pairs = json.dumps([[name, names.get(name, name)] for name in table.column_names])
    with pytest.raises(InvalidOperationError) if is_refused else nullcontext():
        lake.metastore.tables.alter("hive", "sales", "orders", changed, {COLUMN_CHANGES: pairs})


def test_files_are_refused_to_bound_callers_that_are_not_trusted(lake: AccessLake) -> None:
    on, policies, callers = _orders(lake), _administration(lake), _CallerRights(lake, "spark")
    policies.set(on, _filter("id > 5"), None)
    with callers.being("rita") as rules, pytest.raises(AccessDeniedError, match=r"row filter rows.*access_trusted"):
        rules.check_files(on, "credentials")
    with callers.being("spark") as rules:
        rules.check_files(on, "credentials")
        assert len(rules.reader_rules(on, FIELDS).filters) == 1
    callers.rules.check_files(on, "credentials")


def test_policies_follow_renames_drops_and_returns_of_their_table(each_lake: AccessLake) -> None:
    lake = each_lake
    on, policies = _orders(lake), _administration(lake)
    policies.set(on, _filter("id > 5"), None)
    table = lake.metastore.tables.get("hive", "sales", "orders")
    lake.metastore.tables.alter("hive", "sales", "orders", dataclasses.replace(table, name="renamed"))
    renamed = table_object("hive", "sales", "renamed")
    assert [each.name for each in policies.policies(renamed, None)] == ["rows"]
    lake.metastore.tables.drop("hive", "sales", "renamed", delete_data=False)
    assert not lake.store.read(lambda transaction: transaction.policies.of_table(renamed))
    lake.metastore.dropped.undrop(lake.metastore.dropped.find("hive", "sales", "renamed"))
    assert [each.name for each in policies.policies(renamed, None)] == ["rows"]


def test_a_role_that_a_policy_names_is_not_dropped(lake: AccessLake) -> None:
    on, policies = _orders(lake), _administration(lake)
    lake.access.create_role("analysts", None)
    policies.set(on, _filter("id > 5", exempt=("role:analysts",)), None)
    with pytest.raises(InvalidOperationError, match=r"in a policy of the table hive\.sales\.orders"):
        lake.access.drop_role("analysts", None)
    policies.drop(on, "rows", None)
    lake.access.drop_role("analysts", None)


def test_a_policy_whose_role_was_dropped_while_its_table_was_binds_everyone(lake: AccessLake) -> None:
    on, policies, callers = _orders(lake), _administration(lake), _CallerRights(lake)
    lake.access.create_role("analysts", None)
    policies.set(on, _filter("id > 5", "role:analysts"), None)
    assert callers.rules_of("bob", on) == (0, [])
    lake.metastore.tables.drop("hive", "sales", "orders", delete_data=False)
    lake.access.drop_role("analysts", None)
    lake.metastore.dropped.undrop(lake.metastore.dropped.find("hive", "sales", "orders"))
    assert callers.rules_of("bob", on) == (1, [])


def test_changes_of_policies_are_in_the_history_and_count_as_changes_of_access(lake: AccessLake) -> None:
    on, policies = _orders(lake), _administration(lake)
    before = lake.store.read(lambda transaction: transaction.access.generation())
    policies.set(on, _filter("id > 5"), None)
    policies.drop(on, "rows", None)
    assert lake.store.read(lambda transaction: transaction.access.generation()) == before + 2
    found = [each for each in lake.access.changes(None) if "POLICY" in each.change]
    assert [each.change for each in found] == ["SET_POLICY", "DROP_POLICY"]
    # Whom a policy binds is not for all readers of a table's history.
    of_table = lake.metastore.history.of_table("hive", "sales", "orders").entries
    assert not [each for each in of_table if "POLICY" in each.change]
    assert json.loads(json.dumps(found[0].body.details))["policy"]["expression"] == "id > 5"
