"""Source tables that are dropped or renamed: the run ends before rows of two source tables are mixed in one table.

Each end is tried in a running process (in one batch and in two) and between two runs.
"""

from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import SourceChangedError
from interbed.ingest.formats.canal_json import CanalJson
from interbed.ingest.formats.format import Decoder
from interbed.ingest.formats.maxwell_json import MaxwellJson
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import IngestSettings
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import lake, rows_of
from tests.support.tally import Tally

Message = tuple[object, object]
ACCEPTED = frozenset({"shop.orders"})


class CanalMessages:
    """Messages as Canal writes them."""

    decoder: type[Decoder] = CanalJson

    def row(self, number: int, table: str = "orders", database: str = "shop") -> Message:
        row = {"data": [{"id": str(number)}], "mysqlType": {"id": "int"}, "pkNames": ["id"]}
        return None, {"database": database, "table": table, "type": "INSERT", "isDdl": False, "sql": "", **row}

    def drop(self, table: str = "orders", database: str = "shop") -> Message:
        return self._statement("ERASE", f"drop table {table}", table, database)

    def rename(self, table: str, new: str) -> Message:
        return self._statement("RENAME", f"rename table {table} to {new}", new, "shop")

    def drop_database(self, database: str) -> Message:
        return self._statement("QUERY", f"drop database {database}", "", database)

    def create(self, table: str = "orders") -> Message:
        return self._statement("CREATE", f"create table {table} (id int primary key)", table, "shop")

    def _statement(self, kind: str, sql: str, table: str, database: str) -> Message:
        return None, {"database": database, "table": table, "type": kind, "isDdl": True, "sql": sql, "data": None}


class MaxwellMessages:
    """Messages as Maxwell writes them."""

    decoder: type[Decoder] = MaxwellJson

    def row(self, number: int, table: str = "orders", database: str = "shop") -> Message:
        return self._message("insert", table, database, data={"id": number}, primary_key_columns=["id"])

    def drop(self, table: str = "orders", database: str = "shop") -> Message:
        return self._message("table-drop", table, database, sql=f"drop table {table}")

    def rename(self, table: str, new: str) -> Message:
        old, new_table = ({"database": "shop", "table": name, "columns": []} for name in (table, new))
        return self._message("table-alter", table, "shop", old=old, **{"def": new_table})

    def drop_database(self, database: str) -> Message:
        return None, {"type": "database-drop", "database": database, "sql": f"drop database {database}"}

    def create(self, table: str = "orders") -> Message:
        return self._message("table-create", table, "shop", sql=f"create table {table} (id int primary key)")

    def _message(self, kind: str, table: str, database: str, **more: Any) -> Message:
        return None, {"database": database, "table": table, "type": kind, **more}


Messages = CanalMessages | MaxwellMessages
FORMATS: dict[str, Messages] = {"canal": CanalMessages(), "maxwell": MaxwellMessages()}
ENDS = {
    "dropped": ("drop", (), "was dropped"),
    "renamed": ("rename", ("orders", "past"), "was renamed to"),
    "another table": ("rename", ("new", "orders"), "is another table that was renamed to its name"),
    "dropped with its database": ("drop_database", ("shop",), "was dropped with its database"),
}
WHENS = ["in one batch", "in a running process", "between two runs"]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Messages:
    return FORMATS[request.param]


def end_of(form: Messages, end: str) -> Message:
    method, arguments, _ = ENDS[end]
    message: Message = getattr(form, method)(*arguments)
    return message


def read(catalog: Catalog, form: Messages, messages: list[Message], *, at_once: int = 1000, **more: Any) -> Ingestion:
    names = more.pop("names", TableNames(database="shop"))
    source = MemorySource({"t": [messages]}, sizes=[at_once])
    tables, settings = TableSettings(options={"bucket": "1"}), IngestSettings(until_end=True, **more)
    job = Ingestion(catalog, source, form.decoder, names, tables, settings, pause=lambda seconds: None)
    job.run()
    return job


def ids(catalog: Catalog, name: str = "shop.orders") -> list[int]:
    return [row["id"] for row in rows_of(catalog, name)]


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_source_table_ends_the_run(
    catalog: Catalog, form: Messages, tally: Tally, end: str, when: str
) -> None:
    tally("source tables that were dropped or renamed", 1)
    messages = [form.row(1), end_of(form, end), form.create(), form.row(2)]
    if when == "between two runs":
        read(catalog, form, messages[:1])
    for _ in range(2):
        with pytest.raises(SourceChangedError) as error:
            read(catalog, form, messages, at_once=1 if when == "in a running process" else 1000)
        for each in (
            f"shop.orders, which shop.orders was filled from, {ENDS[end][2]}",
            "topic t, partition 0, offset 1",
            "interbed ingest verify",
            "--accept-changed-source shop.orders",
            "drop shop.orders",
        ):
            assert each in str(error.value)
        # Rows before the message are committed, once.
        assert ids(catalog) == [1]
        assert len(list(catalog.get_table("shop.orders").snapshots())) == 1
    read(catalog, form, messages, accept_changed_source=ACCEPTED)
    assert ids(catalog) == [1, 2]
    read(catalog, form, [*messages, form.row(3)])
    assert ids(catalog) == [1, 2, 3]


def test_a_recreated_source_table_is_read_after_its_rows_were_deleted(catalog: Catalog, form: Messages) -> None:
    """The error recommends this, and afterwards the table equals the source."""
    messages = [form.row(1), form.drop(), form.create(), form.row(2)]
    with pytest.raises(SourceChangedError, match=r"Otherwise delete the rows of shop\.orders before you do"):
        read(catalog, form, messages)
    catalog.get_table("shop.orders").delete("id IS NOT NULL")
    read(catalog, form, messages, accept_changed_source=ACCEPTED)
    assert ids(catalog) == [2]


def test_a_dropped_target_table_is_read_from_the_message_on(catalog: Catalog, form: Messages) -> None:
    """If other tables have a position, a run begins at theirs."""
    messages = [form.row(1), form.row(1, "items"), form.drop(), form.create(), form.row(2), form.row(2, "items")]
    with pytest.raises(SourceChangedError):
        read(catalog, form, messages)
    catalog.drop_table("shop.orders")
    read(catalog, form, messages)
    assert ids(catalog) == [2]
    assert ids(catalog, "shop.items") == [1, 2]


@pytest.mark.parametrize("at_once", [1, 1000])
def test_the_end_of_an_unrelated_table_is_ignored(catalog: Catalog, form: Messages, at_once: int) -> None:
    others = [
        form.drop("items"),
        form.drop("orders", "past"),
        form.rename("new", "newer"),
        form.drop_database("past"),
        form.drop("a$b"),
    ]
    read(catalog, form, [form.row(1), *others, form.row(2)], at_once=at_once)
    assert ids(catalog) == [1, 2]
    assert not catalog.table_exists("shop.items")


def test_the_end_of_a_skipped_table_is_ignored(catalog: Catalog, form: Messages) -> None:
    messages = [form.row(1), form.row(1, "items")]
    read(catalog, form, messages)
    messages += [form.drop("items"), form.row(2)]
    names = TableNames(database="shop", excluding="items")
    read(catalog, form, messages, names=names)
    assert ids(catalog) == [1, 2]
    # A run that reads the table finds the end that the other run skipped.
    with pytest.raises(SourceChangedError, match=r"shop\.items, which shop\.items was filled from, was dropped"):
        read(catalog, form, messages)


def test_a_new_target_table_begins_after_an_end(catalog: Catalog, form: Messages) -> None:
    messages = [form.drop(), form.create(), form.row(2)]
    read(catalog, form, messages)
    assert ids(catalog) == [2]


def test_an_empty_target_table_begins_after_an_end(catalog: Catalog, form: Messages) -> None:
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [{"id": 1}], primary_keys=["id"], options={"bucket": "1"})
    read(catalog, form, [form.drop(), form.create(), form.row(2)])
    assert ids(catalog) == [2]


def test_the_end_of_an_unknown_source_table_ends_the_run(catalog: Catalog, form: Messages) -> None:
    """The source tables are unknown of rows that an older version or another group has ingested."""
    read(catalog, form, [form.row(1)], group="other")
    messages = [form.drop("items"), form.drop(), form.row(2)]
    for _ in range(2):
        with pytest.raises(SourceChangedError, match=r"offset 1 says"):
            read(catalog, form, messages)
    assert ids(catalog) == [1]
    read(catalog, form, messages, accept_changed_source=ACCEPTED)
    assert ids(catalog) == [1, 2]


def test_an_end_loses_no_rows_of_other_tables_before_and_after_it(catalog: Catalog, form: Messages) -> None:
    messages = [form.row(1, "items"), form.row(1), form.row(2, "items"), form.drop(), form.row(3, "items"), form.row(2)]
    for at_once in (1, 2, 1000):
        with pytest.raises(SourceChangedError):
            read(catalog, form, messages, at_once=at_once)
        assert ids(catalog, "shop.items") == [1, 2]
    read(catalog, form, messages, accept_changed_source=ACCEPTED)
    assert (ids(catalog), ids(catalog, "shop.items")) == ([1, 2], [1, 2, 3])


def test_a_second_end_ends_a_later_run(catalog: Catalog, form: Messages) -> None:
    messages = [form.row(1), form.drop(), form.create(), form.row(2)]
    read(catalog, form, messages, accept_changed_source=ACCEPTED)
    messages += [form.drop(), form.create(), form.row(3)]
    with pytest.raises(SourceChangedError, match="offset 4"):
        read(catalog, form, messages)


@pytest.mark.parametrize("when", WHENS)
def test_the_end_of_one_of_several_source_tables_ends_the_run(catalog: Catalog, form: Messages, when: str) -> None:
    names = TableNames(table="shop.all")
    messages = [form.row(1, "a"), form.row(2, "b"), form.drop("c"), form.drop("b"), form.row(3, "b")]
    if when == "between two runs":
        read(catalog, form, messages[:3], names=names)
    for _ in range(2):
        with pytest.raises(SourceChangedError, match=r"shop\.b, which shop\.all was filled from, was .* offset 3"):
            read(catalog, form, messages, names=names, at_once=1 if when == "in a running process" else 1000)
        assert ids(catalog, "shop.all") == [1, 2]
    read(catalog, form, messages, names=names, accept_changed_source=frozenset({"shop.all"}))
    assert ids(catalog, "shop.all") == [1, 2, 3]


def test_a_table_that_is_ahead_of_the_message_is_not_affected(catalog: Catalog, form: Messages) -> None:
    """Another table is behind, so that the message is read again."""
    messages = [form.row(1, "items"), form.row(1), form.drop(), form.row(2), form.row(2, "items")]
    read(catalog, form, messages[:2])
    names = TableNames(database="shop", excluding="items")
    read(catalog, form, messages, accept_changed_source=ACCEPTED, names=names)
    read(catalog, form, messages)
    assert (ids(catalog), ids(catalog, "shop.items")) == ([1, 2], [1, 2])


def test_the_cut_over_of_an_online_schema_change_has_to_be_accepted(catalog: Catalog) -> None:
    form = CanalMessages()
    sql = "rename /* gh-ost */ table `shop`.`orders` to `shop`.`_orders_del`, `shop`.`_orders_gho` to `shop`.`orders`"
    switch = (None, {"database": "shop", "table": "_orders_del", "type": "RENAME", "isDdl": True, "sql": sql})
    messages: list[Message] = [form.row(1), switch, form.row(2)]
    names = TableNames(database="shop", excluding="_.*")
    with pytest.raises(SourceChangedError, match=r"was renamed to shop\._orders_del"):
        read(catalog, form, messages, names=names)
    read(catalog, form, messages, names=names, accept_changed_source=ACCEPTED)
    assert ids(catalog) == [1, 2]


def test_table_names_are_matched_case_insensitively(catalog: Catalog) -> None:
    with pytest.raises(SourceChangedError, match=r"shop\.orders, .* was dropped"):
        read(catalog, CanalMessages(), [CanalMessages().row(1), CanalMessages().drop("ORDERS", "Shop")])
