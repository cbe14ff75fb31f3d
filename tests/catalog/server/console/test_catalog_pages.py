"""The pages of catalogs, databases and tables: what each caller sees, and that no text of a client becomes markup."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import insert

from interbed.catalog.server.console.catalog_pages import DATABASES_MAX
from interbed.catalog.server.database.models import DatabaseRow, TableRow
from interbed.catalog.server.service.access.objects import Privilege, database_object, table_object
from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    MetastoreColumn,
    MetastoreDatabase,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
    TableKind,
)
from tests.catalog.server.access.guarded import ADMIN, CLERK, NOBODY, OWNER, READER, STORAGE, served, table
from tests.catalog.server.console.pages import ConsolePages, by_stored_grants, console_pages

HOME = "/console"
HIVE = "/console/catalogs/hive"
SALES = f"{HIVE}/databases/sales"
ORDERS = f"{SALES}/tables/orders"


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[ConsolePages]:
    """Return the pages of a metastore with `sales.orders` and `hr.pay`."""
    with console_pages(tmp_path) as made:
        yield made


def test_each_page_shows_what_the_caller_sees(pages: ConsolePages) -> None:
    assert "hive" in pages.get(READER, HOME).page.links
    assert set(pages.get(READER, HIVE).page.links) & {"default", "sales", "hr"} == {"sales"}
    assert {"default", "sales", "hr"} <= set(pages.get(ADMIN, HIVE).page.links)
    assert "orders" in pages.get(READER, SALES).page.links
    shown = pages.get(READER, ORDERS)
    assert shown.status == 200
    assert shown.page.rows[:3] == ["Name Type Key Comment".replace(" ", ""), "idbigintprimary key", "namestring"]
    assert "dtstring" in shown.page.rows
    assert "hive" not in pages.get(NOBODY, HOME).page.links


def test_what_the_caller_may_not_see_is_what_does_not_exist(pages: ConsolePages) -> None:
    for name, hidden in ((NOBODY, HIVE), (NOBODY, SALES), (NOBODY, ORDERS), (READER, f"{HIVE}/databases/hr")):
        missing = hidden.replace("hive", "nope") if hidden == HIVE else hidden.rpartition("/")[0] + "/nope"
        own, other = pages.get(name, hidden), pages.get(name, missing)
        assert own.status == other.status == 404, hidden
        texts = [each.page.all("main")[0].text for each in (own, other)]
        assert texts[0].replace(hidden.rpartition("/")[2], "nope") == texts[1]
    assert pages.get(READER, f"{HIVE}/databases/hr/tables/pay").status == 404
    assert pages.get(READER, f"{HIVE}/databases/sales/tables/absent").status == 404


def test_a_table_needs_a_privilege_on_it_or_on_a_column(pages: ConsolePages) -> None:
    pages.guarded.grant("dropper", table_object("hive", "sales", "orders"), Privilege.DROP)
    refused = pages.get("dropper", ORDERS)
    assert refused.status == 403
    assert "lacks the privilege SELECT" in refused.body
    assert "orders" in pages.get("dropper", SALES).page.links
    assert pages.get(CLERK, ORDERS).status == pages.get(OWNER, ORDERS).status == 200


def test_lists_are_filtered_by_the_beginning_of_names(pages: ConsolePages) -> None:
    with served(ADMIN):
        for name in ("orders_b", "ordersa", "zebra", "order%x"):
            pages.guarded.metastore.tables.create(table(name.replace("%", "_")))
    found = pages.get(ADMIN, f"{SALES}?prefix=ORDERS")
    assert _names(found.page.links) == ["orders", "orders_b", "ordersa"]
    assert [each.attributes["value"] for each in found.page.all("input") if each.attributes.get("id") == "prefix"] == [
        "orders"
    ]
    assert _names(pages.get(ADMIN, f"{SALES}?prefix=%25").page.links) == []
    assert "sales" not in pages.get(ADMIN, f"{HIVE}?prefix=h").page.links
    assert pages.get(ADMIN, f"{SALES}?prefix=%00").status == 400


def test_a_list_of_databases_has_pages(pages: ConsolePages) -> None:
    names = [f"d{number:04}" for number in range(DATABASES_MAX + 1)]
    with pages.guarded.store.engine.execution_options(interbed_write=True).begin() as connection:
        connection.execute(insert(DatabaseRow), [{"catalog": "hive", "name": each, "document": "{}"} for each in names])
    first = pages.get(ADMIN, f"{HIVE}?prefix=d0")
    assert [text for text in first.page.links if text.startswith("d0")] == names[:DATABASES_MAX]
    second = pages.get(ADMIN, first.page.links["Next page"])
    assert [text for text in second.page.links if text.startswith("d0")] == names[DATABASES_MAX:]
    assert second.page.links["First page"] == f"{HIVE}?prefix=d0"


def _names(links: dict[str, str]) -> list[str]:
    return [text for text, target in links.items() if "/tables/" in target]


KINDS = {
    "a_view": (TableKind.VIEW, "view"),
    "an_ice": (TableKind.ICEBERG, "Iceberg table"),
    "a_lake": (TableKind.PAIMON, "interbed table"),
}


def test_each_kind_of_table_is_named(pages: ConsolePages) -> None:
    lake = StorageDescriptor(
        columns=STORAGE.columns,
        input_format="org.apache.paimon.hive.mapred.PaimonInputFormat",
        output_format="org.apache.paimon.hive.mapred.PaimonOutputFormat",
    )
    with served(ADMIN):
        tables = pages.guarded.metastore.tables
        tables.create(
            MetastoreTable(
                database="sales", name="a_view", table_type="VIRTUAL_VIEW", view_original_text="SELECT\n  1 AS id"
            )
        )
        tables.create(
            table("an_ice", parameters={"table_type": "ICEBERG", "metadata_location": "file:/x"}, owner="ann")
        )
        tables.create(
            MetastoreTable(
                database="sales",
                name="a_lake",
                storage=lake,
                parameters={"primary-key": "ID", "bucket": "4", "fs.s3.secret-key": "swordfish"},
            )
        )
    rows = pages.get(ADMIN, SALES).page.rows
    for name, (_, text) in KINDS.items():
        assert [row for row in rows if row.startswith(f"{name}{text}")], (name, rows)
        shown = pages.get(ADMIN, f"{SALES}/tables/{name}")
        assert shown.page.all("dd")[0].text == text
    assert pages.get(ADMIN, f"{SALES}/tables/a_view").page.all("pre")[0].text == "SELECT 1 AS id"
    lake_page = pages.get(ADMIN, f"{SALES}/tables/a_lake")
    assert "idbigintprimary key" in lake_page.page.rows
    assert "bucket4" in lake_page.page.rows
    assert "swordfish" not in lake_page.body


HOSTILE = (
    "<script>alert(1)</script>",
    "</code></pre></bdi><img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "' onfocus='alert(1)' autofocus='",
    "{{ 7 * 191 }}{% raw %}",
    "\u202etxt.exe\u2066\u200b",
    "javascript:alert(1)",
    "&lt;script&gt;&#x3c;b>",
    "a\nb\r\nc\0\x1b[31m",
    "]]><!--<script>",
)


@pytest.mark.attack("scripts in pages")
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_client_becomes_markup(pages: ConsolePages, text: str) -> None:
    stored = text.replace("\0", "")
    columns = (MetastoreColumn(name=stored, type=f"struct<{stored}:int>", comment=stored),)
    storage = StorageDescriptor(
        columns=columns,
        input_format=stored,
        output_format=stored,
        serde=SerDe(library=stored, parameters={stored: stored}),
    )
    hostile = MetastoreTable(
        database="sales",
        name="evil",
        owner=stored,
        storage=storage,
        partition_keys=(MetastoreColumn(name=f"p{stored}", type="string", comment=stored),),
        parameters={stored: stored, "comment": stored, "primary-key": stored},
        view_original_text=stored,
    )
    database = MetastoreDatabase(
        name="evils", description=stored, owner_name=stored, owner_type=1, parameters={stored: stored}
    )
    metastore = pages.guarded.metastore
    metastore.tables.create(table("evil"))
    metastore.databases.create(database)
    # Past the rules of the services, as from an older server.
    pages.guarded.store.write(lambda transaction: _replace(transaction, hostile))
    shown = [pages.get(ADMIN, address) for address in (SALES, f"{SALES}/tables/evil", f"{HIVE}/databases/evils", HIVE)]
    shown.append(pages.get(ADMIN, f"{SALES}?prefix={quote(stored)}&after={quote(stored)}"))
    shown.append(pages.get(ADMIN, f"{HIVE}/databases/sales/tables/{quote(stored or 'x', safe='')}"))
    assert [each.status for each in shown] == [200, 200, 200, 200, 200, 404]
    for answer in shown:
        assert not set(answer.body) & set("\u202e\u2066\u200b\x1b\r")
        assert "1337" not in answer.page.all("main")[0].text
        assert not [each for each in answer.page.elements if each.tag in ("script", "img", "svg", "b")]
    assert shown[1].page.all("th")
    if text.startswith("\u202e"):
        assert "\\u202etxt.exe\\u2066\\u200b" in shown[1].body


def _replace(transaction: object, new: MetastoreTable) -> None:
    tables = transaction.tables  # type: ignore[attr-defined]
    found = tables.find("hive", "sales", "evil")
    databases = transaction.databases  # type: ignore[attr-defined]
    tables.replace(found.id, databases.find("hive", "sales").id, new)


COUNT = 100_000


@contextmanager
def counted(pages: ConsolePages) -> Iterator[list[str]]:
    """Yield a list that gets the statements on the metastore's database within the block."""
    found: list[str] = []
    # The reads of one thread have one connection.
    pages.guarded.store.read(lambda transaction: _driver(transaction).set_trace_callback(found.append))
    try:
        yield found
    finally:
        pages.guarded.store.read(lambda transaction: _driver(transaction).set_trace_callback(None))


def _driver(transaction: object) -> sqlite3.Connection:
    connection: sqlite3.Connection = transaction.tables._connection.connection.driver_connection  # type: ignore[attr-defined]
    return connection


def _of_tables(statements: list[str]) -> list[str]:
    """Return the statements that read tables."""
    return [each for each in statements if "FROM tables" in " ".join(each.split())]


def test_a_page_of_100000_tables_is_one_statement(pages: ConsolePages) -> None:
    store = pages.guarded.store
    found = store.read(lambda transaction: transaction.databases.find("hive", "sales"))
    assert found is not None
    kinds = [int(TableKind.PAIMON), int(TableKind.HIVE), None]
    rows = [
        {
            "database_id": found.id,
            "name": f"t{number:06}",
            "table_type": "MANAGED_TABLE",
            "document": "{}",
            "kind": kinds[number % 3],
        }
        for number in range(COUNT)
    ]
    with store.engine.execution_options(interbed_write=True).begin() as connection:
        connection.execute(insert(TableRow), rows)
    pages = by_stored_grants(
        pages,
        ("reader2", database_object("hive", "sales")),
        ("few", table_object("hive", "sales", "t050000")),
        ("few", table_object("hive", "sales", "t099999")),
    )
    pages.get("few", HOME)
    for name in (ADMIN, "reader2"):
        with counted(pages) as statements:
            first = pages.get(name, SALES)
        assert len(_of_tables(statements)) == 1, statements
        names = _names(first.page.links)
        assert names == ["orders", *(f"t{number:06}" for number in range(99))]
        with counted(pages) as statements:
            second = pages.get(name, first.page.links["Next page"])
        assert len(_of_tables(statements)) == 1
        assert _names(second.page.links) == [f"t{number:06}" for number in range(99, 199)]
    with counted(pages) as statements:
        filtered = pages.get(ADMIN, f"{SALES}?prefix=t0999")
    assert len(_of_tables(statements)) == 1
    assert _names(filtered.page.links) == [f"t{number:06}" for number in range(99_900, 100_000)]
    assert "Next page" not in filtered.page.links
    # The end of the list.
    last = pages.get(ADMIN, f"{SALES}?after=t099950")
    assert _names(last.page.links) == [f"t{number:06}" for number in range(99_951, 100_000)]
    # A caller that sees two tables of them.
    with counted(pages) as statements:
        assert _names(pages.get("few", SALES).page.links) == ["t050000", "t099999"]
    # As many for the decisions as for the rows.
    assert len(_of_tables(statements)) < 40


def test_a_page_of_a_table_takes_few_statements(pages: ConsolePages) -> None:
    key = Constraint(database="sales", table="orders", kind=ConstraintKind.UNIQUE, columns=("name",), name="u")
    with served(OWNER):
        pages.guarded.metastore.constraints.add([key])
    pages = by_stored_grants(pages, (READER, table_object("hive", "sales", "orders")))
    pages.get(READER, HOME)
    with counted(pages) as statements:
        assert "namestringunique" in pages.get(READER, ORDERS).page.rows
    reads = [each for each in statements if each.lstrip().upper().startswith("SELECT")]
    assert len(reads) <= 4, reads
