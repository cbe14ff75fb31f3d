"""Rights of callers on databases, tables and partitions, asked of the services."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from interbed.catalog.server.service.access.objects import (
    SERVER,
    Privilege,
    catalog_object,
    database_object,
    table_object,
)
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    UnknownDatabaseError,
)
from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    QualifiedTableName,
)
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.access.guarded import (
    ADMIN,
    KEYS,
    NOBODY,
    ORDERS,
    OWNER,
    READER,
    SALES,
    STORAGE,
    WRITER,
    GuardedMetastore,
    served,
    table,
)

HR = database_object("hive", "hr")
PAY = table_object("hive", "hr", "pay")
ORDERS_KEY = ("hive", "sales", "orders")
PAY_KEY = ("hive", "hr", "pay")


def answer_to(call: Callable[[Metastore], Any], guarded: GuardedMetastore, name: str) -> tuple[type[Exception], str]:
    """Return the error of a call."""
    with served(name), pytest.raises(MetastoreError) as caught:
        call(guarded.metastore)
    return type(caught.value), str(caught.value)


def changed(guarded: GuardedMetastore, key: tuple[str, str, str], **fields: Any) -> MetastoreTable:
    """Return a table as a client sends it back."""
    return dataclasses.replace(guarded.metastore.tables.get(*key), **fields)


CALLS: list[tuple[str, Callable[[Metastore, str], Any]]] = [
    ("get", lambda m, name: m.tables.get("hive", "hr", name)),
    ("drop", lambda m, name: m.tables.drop("hive", "hr", name, delete_data=True)),
    ("truncate", lambda m, name: m.tables.truncate("hive", "hr", name)),
    ("alter", lambda m, name: m.tables.alter("hive", "hr", name, table(name, "hr", partition_keys=KEYS))),
    ("partition", lambda m, name: m.partitions.get(("hive", "hr", name), ["2026-01-01"])),
    ("partitions", lambda m, name: m.partitions.select(("hive", "hr", name))),
    ("partition names", lambda m, name: m.partitions.names(("hive", "hr", name))),
    ("values", lambda m, name: m.partitions.value_rows(("hive", "hr", name), ["dt"])),
    ("count", lambda m, name: m.partitions.count_filter(("hive", "hr", name), "dt = 'x'")),
    ("expression", lambda m, name: m.partitions.names_expression(("hive", "hr", name), b"dt = 'x'")),
    (
        "add",
        lambda m, name: m.partitions.add(("hive", "hr", name), [MetastorePartition(values=("2",), storage=STORAGE)]),
    ),
    ("drop partition", lambda m, name: m.partitions.drop(("hive", "hr", name), ["2026-01-01"], delete_data=True)),
    (
        "rename partition",
        lambda m, name: m.partitions.rename(("hive", "hr", name), ["2026-01-01"], MetastorePartition(values=("2",))),
    ),
    (
        "exchange from",
        lambda m, name: m.partitions.exchange({"dt": "2026-01-01"}, ("hive", "hr", name), ORDERS_KEY),
    ),
    ("exchange to", lambda m, name: m.partitions.exchange({"dt": "2026-01-01"}, ORDERS_KEY, ("hive", "hr", name))),
    ("statistics", lambda m, name: m.statistics.of_table(("hive", "hr", name), None)),
    ("delete statistics", lambda m, name: m.statistics.delete(("hive", "hr", name), None)),
    (
        "add constraint",
        lambda m, name: m.constraints.add(
            [Constraint(database="hr", table=name, kind=ConstraintKind.PRIMARY_KEY, columns=("id",))]
        ),
    ),
    ("drop constraint", lambda m, name: m.constraints.drop("hive", "hr", name, "pk")),
    (
        "foreign key",
        lambda m, name: m.constraints.add(
            [
                Constraint(
                    database="sales",
                    table="orders",
                    kind=ConstraintKind.FOREIGN_KEY,
                    columns=("id",),
                    parent=QualifiedTableName(database="hr", table=name),
                    parent_columns=("id",),
                )
            ]
        ),
    ),
    ("insert event", lambda m, name: m.notifications.insert("hive", "hr", name, [((), (), False)])),
    ("undrop", lambda m, name: m.dropped.find("hive", "hr", name)),
    ("history", lambda m, name: m.history.of_table("hive", "hr", name)),
    ("table at", lambda m, name: m.history.table_at("hive", "hr", name, 1 << 50)),
    ("restore", lambda m, name: m.history.restore("hive", "hr", name, 1 << 50)),
]


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_what_a_caller_does_not_see_is_missing_for_it(
    guarded: GuardedMetastore, call: Callable[[Metastore, str], Any]
) -> None:
    unseen = answer_to(lambda metastore: call(metastore, "pay"), guarded, OWNER)
    missing = answer_to(lambda metastore: call(metastore, "nix"), guarded, OWNER)
    assert (unseen[0], unseen[1].replace("pay", "nix")) == missing
    assert not issubclass(unseen[0], AccessDeniedError)


def test_lists_have_only_what_the_caller_sees(guarded: GuardedMetastore) -> None:
    for name, databases, tables in (
        (NOBODY, [], []),
        (READER, ["sales"], ["orders"]),
        (OWNER, ["sales"], ["orders"]),
        (ADMIN, ["default", "hr", "sales"], ["orders", "pay"]),
    ):
        with served(name):
            metastore = guarded.metastore
            assert metastore.databases.names("hive") == databases
            assert [each.name for each in metastore.databases.select("hive", "*")] == databases
            found = [each for home in ("hr", "sales", "nix") for each in metastore.tables.names("hive", home)]
            assert sorted(found) == tables
            assert sorted(each.name for each in metastore.tables.metas("hive", "*", "*", [])) == tables
            assert sorted(metastore.tables.names_by_filter("hive", "sales", 'hive_filter_field_owner__ like ".*"')) == [
                each for each in tables if each == "orders"
            ]
            kinds = {guarded.metastore.tables.get("hive", "sales", "orders").kind} if "orders" in tables else set()
            assert metastore.tables.names_of_kinds("hive", "sales", kinds) == [
                each for each in tables if each == "orders"
            ]


def test_pages_of_names_are_full_as_long_as_there_are_more(guarded: GuardedMetastore) -> None:
    for number in range(12):
        guarded.metastore.tables.create(table(f"t{number:02}", "hr"))
    for number in (3, 7, 8, 11):
        guarded.grant(READER, table_object("hive", "hr", f"t{number:02}"), Privilege.SELECT)
    kinds = {guarded.metastore.tables.get("hive", "hr", "t01").kind}
    with served(READER):
        names = guarded.metastore.tables.names_of_kinds
        assert names("hive", "hr", kinds, "", 3) == ["t03", "t07", "t08"]
        assert names("hive", "hr", kinds, "t08", 3) == ["t11"]


def test_matching_by_patterns_answers_as_for_missing_databases(guarded: GuardedMetastore) -> None:
    with served(READER):
        assert [each.name for each in guarded.metastore.tables.matching("hive", "*", "*")] == ["orders"]
        with pytest.raises(UnknownDatabaseError, match="Could not find database h"):
            guarded.metastore.tables.matching("hive", "h*", "*")
        with pytest.raises(UnknownDatabaseError, match="Could not find database hr"):
            guarded.metastore.tables.select("hive", "hr", ["pay"])


def test_one_privilege_on_a_database_answers_for_all_its_tables(guarded: GuardedMetastore) -> None:
    for number in range(50):
        guarded.metastore.tables.create(table(f"t{number}", "hr"))
    guarded.grant(READER, HR, Privilege.SELECT)
    guarded.grants.asked = 0
    with served(READER):
        assert len(guarded.metastore.tables.names("hive", "hr")) == 51
    assert guarded.grants.asked < 20


def test_the_error_of_a_caller_that_sees_a_table_names_what_it_lacks(guarded: GuardedMetastore) -> None:
    with served(READER):
        metastore = guarded.metastore
        assert metastore.tables.get(*ORDERS_KEY).name == "orders"
        assert metastore.partitions.names(ORDERS_KEY) == ["dt=2026-01-01"]
        with pytest.raises(
            AccessDeniedError, match=r"reader lacks the privilege DROP on the table hive\.sales\.orders"
        ):
            metastore.tables.drop(*ORDERS_KEY, delete_data=False)
        with pytest.raises(AccessDeniedError, match="INSERT or ALTER"):
            metastore.partitions.add(ORDERS_KEY, [MetastorePartition(values=("2",), storage=STORAGE)])
        with pytest.raises(AccessDeniedError, match=r"CREATE on the database hive\.sales"):
            metastore.tables.create(table("mine"))
        with pytest.raises(AccessDeniedError, match="DROP on the database"):
            metastore.databases.drop("hive", "sales", delete_data=True, cascade=True)


def test_usage_shows_a_database_and_nothing_in_it(guarded: GuardedMetastore) -> None:
    guarded.grant(NOBODY, HR, Privilege.USAGE)
    with served(NOBODY):
        assert guarded.metastore.databases.get("hive", "hr").name == "hr"
        assert guarded.metastore.tables.names("hive", "hr") == []
        with pytest.raises(NoSuchObjectError):
            guarded.metastore.tables.get(*PAY_KEY)


def test_the_creator_owns_what_it_creates(guarded: GuardedMetastore) -> None:
    guarded.grant(READER, HR, Privilege.CREATE)
    with served(READER):
        created = guarded.metastore.tables.create(table("mine", "hr"))
        assert created.owner == READER
        guarded.metastore.tables.drop("hive", "hr", "mine", delete_data=True)
        with pytest.raises(AccessDeniedError, match="cannot create an object that 'boss' owns"):
            guarded.metastore.tables.create(table("mine", "hr", owner="boss"))
    with served(ADMIN):
        assert guarded.metastore.tables.create(table("theirs", "hr", owner="boss")).owner == "boss"


def test_databases_belong_to_their_creators(guarded: GuardedMetastore) -> None:
    guarded.grant(READER, catalog_object("hive"), Privilege.CREATE)
    with served(READER):
        guarded.metastore.databases.create(MetastoreDatabase(name="lab"))
        guarded.metastore.tables.create(table("mine", "lab"))
        found = guarded.metastore.databases.get("hive", "lab")
        assert found.owner_name == READER
        other = dataclasses.replace(found, owner_name="boss")
    guarded.grant(WRITER, database_object("hive", "lab"), Privilege.ALTER)
    with served(WRITER):
        guarded.metastore.databases.alter("hive", "lab", dataclasses.replace(found, description="changed"))
        with pytest.raises(AccessDeniedError, match="ALL on the database"):
            guarded.metastore.databases.alter("hive", "lab", other)
    with served(READER):
        guarded.metastore.databases.alter("hive", "lab", other)


def test_a_writer_changes_statistics_of_a_table_and_nothing_else_of_its_entry(guarded: GuardedMetastore) -> None:
    entry = guarded.metastore.tables.get(*ORDERS_KEY)
    with served(WRITER):
        counted = changed(guarded, ORDERS_KEY, parameters={**entry.parameters, "numRows": "7"})
        guarded.metastore.tables.alter(*ORDERS_KEY, counted)
        assert guarded.metastore.tables.get(*ORDERS_KEY).parameters["numRows"] == "7"
        for fields in (
            {"parameters": {**entry.parameters, "comment": "x"}},
            {"retention": 5},
            {"storage": dataclasses.replace(entry.storage or STORAGE, columns=STORAGE.columns[:1])},
        ):
            with pytest.raises(AccessDeniedError, match="ALTER"):
                guarded.metastore.tables.alter(*ORDERS_KEY, changed(guarded, ORDERS_KEY, **fields))


def test_only_owners_give_a_table_away(guarded: GuardedMetastore) -> None:
    guarded.grant(WRITER, ORDERS, Privilege.ALTER)
    with served(WRITER):
        with pytest.raises(AccessDeniedError, match="ALL on the table"):
            guarded.metastore.tables.alter(*ORDERS_KEY, changed(guarded, ORDERS_KEY, owner=WRITER))
        guarded.metastore.tables.alter(*ORDERS_KEY, changed(guarded, ORDERS_KEY, owner=None, retention=3))
    assert guarded.metastore.tables.get(*ORDERS_KEY).owner == OWNER
    with served(OWNER):
        guarded.metastore.tables.alter(*ORDERS_KEY, changed(guarded, ORDERS_KEY, owner=WRITER))


def test_renames_need_the_target(guarded: GuardedMetastore) -> None:
    guarded.grant(READER, ORDERS, Privilege.ALTER)
    with served(READER), pytest.raises(AccessDeniedError, match=r"CREATE on the database hive\.sales"):
        guarded.metastore.tables.alter(*ORDERS_KEY, changed(guarded, ORDERS_KEY, name="sold"))
    with served(OWNER):
        for name in ("hr", "nix"):
            with pytest.raises(InvalidOperationError, match=f"The database {name} does not exist"):
                guarded.metastore.tables.alter(*ORDERS_KEY, changed(guarded, ORDERS_KEY, database=name))
    guarded.grant(READER, HR, Privilege.CREATE)
    with served(READER), pytest.raises(AccessDeniedError, match="DROP on the table"):
        guarded.metastore.tables.alter(*ORDERS_KEY, changed(guarded, ORDERS_KEY, database="hr"))
    guarded.grant(READER, ORDERS, Privilege.DROP)
    with served(READER):
        guarded.metastore.tables.alter(*ORDERS_KEY, changed(guarded, ORDERS_KEY, database="hr", name="sold"))
    assert guarded.metastore.tables.get("hive", "hr", "sold").owner == OWNER


def test_an_exchange_needs_both_tables(guarded: GuardedMetastore) -> None:
    guarded.metastore.partitions.drop(PAY_KEY, ["2026-01-01"], delete_data=True)

    def exchange() -> None:
        guarded.metastore.partitions.exchange({"dt": "2026-01-01"}, ORDERS_KEY, PAY_KEY)

    guarded.grant(READER, PAY, Privilege.INSERT)
    with served(READER), pytest.raises(AccessDeniedError, match=r"DELETE or ALTER on the table hive\.sales\.orders"):
        exchange()
    guarded.grant(OWNER, PAY, Privilege.SELECT)
    with served(OWNER), pytest.raises(AccessDeniedError, match=r"INSERT or ALTER on the table hive\.hr\.pay"):
        exchange()
    guarded.grant(OWNER, PAY, Privilege.INSERT)
    with served(OWNER):
        exchange()


def test_a_client_without_a_principal_is_refused_and_the_process_itself_is_not(guarded: GuardedMetastore) -> None:
    assert guarded.metastore.tables.get(*PAY_KEY).name == "pay"
    with served(None):
        for call in (
            lambda: guarded.metastore.tables.get(*PAY_KEY),
            lambda: guarded.metastore.databases.names("hive"),
            lambda: guarded.metastore.locks.show(),
        ):
            with pytest.raises(AccessDeniedError, match="not authenticated"):
                call()


def test_groups_of_the_caller_count(guarded: GuardedMetastore) -> None:
    guarded.grant("analysts", PAY, Privilege.SELECT)
    with served(NOBODY, "analysts"):
        assert guarded.metastore.partitions.names(PAY_KEY) == ["dt=2026-01-01"]


def test_nothing_is_allowed_while_the_authorizer_does_not_answer(guarded: GuardedMetastore) -> None:
    guarded.grants.is_available = False
    with served(ADMIN):
        for call in (lambda: guarded.metastore.tables.get(*PAY_KEY), lambda: guarded.metastore.databases.names("hive")):
            with pytest.raises(AccessUnavailableError, match="the directory of groups does not answer; try again"):
                call()


def test_catalogs_and_the_calls_of_administrators(guarded: GuardedMetastore) -> None:
    with served(READER):
        assert guarded.metastore.catalogs.names() == ["hive"]
        with pytest.raises(AccessDeniedError, match="not an administrator"):
            guarded.metastore.queries.poll("n")
        with pytest.raises(AccessDeniedError, match="not an administrator"):
            guarded.metastore.run_statistics.newest(1, 0)
    with served(NOBODY):
        assert guarded.metastore.catalogs.names() == []
        with pytest.raises(NoSuchObjectError, match="No catalog hive"):
            guarded.metastore.catalogs.get("hive")
        with pytest.raises(InvalidObjectError, match="No such catalog hive"):
            guarded.metastore.databases.create(MetastoreDatabase(name="lab"))
    guarded.grant(NOBODY, SERVER, Privilege.SELECT)
    with served(NOBODY):
        assert guarded.metastore.databases.names("hive") == ["default", "hr", "sales"]


def test_sales_is_dropped_by_its_owner_with_all_that_is_in_it(guarded: GuardedMetastore) -> None:
    guarded.metastore.tables.create(table("of_boss", owner="boss"))
    with served(OWNER):
        with pytest.raises(InvalidOperationError, match="One or more tables exist") as caught:
            guarded.metastore.databases.drop("hive", "sales", delete_data=True, cascade=False)
        assert "of_boss" not in str(caught.value)
        guarded.metastore.databases.drop("hive", "sales", delete_data=True, cascade=True)
    assert guarded.metastore.databases.names("hive") == ["default", "hr"]
    assert SALES.name is None
