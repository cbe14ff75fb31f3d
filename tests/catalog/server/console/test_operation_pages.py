"""The pages of operators: dropped objects are put back by those that may, and chains of locks are shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.service.access.objects import Privilege, catalog_object
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockType
from interbed.catalog.server.service.model import MetastoreDatabase
from tests.catalog.server.access.guarded import ADMIN, NOBODY, OWNER, READER, SALES, served, table
from tests.catalog.server.console.pages import ConsolePages, console_pages

HIVE = "/console/catalogs/hive"
DROPPED = f"{HIVE}/dropped"
UNDROP = f"{HIVE}/databases/sales/tables/gone/undrop"


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[ConsolePages]:
    """Return the pages of a metastore whose owner has dropped the table `sales.gone`."""
    with console_pages(tmp_path) as made:
        with served(OWNER):
            made.guarded.metastore.tables.create(table("gone"))
            made.guarded.metastore.tables.drop("hive", "sales", "gone", delete_data=True)
        yield made


def _entry(pages: ConsolePages, name: str | None = "gone", database: str = "sales") -> str:
    (entry,) = [each for each in pages.guarded.metastore.dropped.select("hive", database) if each.name == name]
    return str(entry.id)


def test_dropped_objects_are_shown_to_those_that_dropped_or_may_drop_them(pages: ConsolePages) -> None:
    for name in (OWNER, ADMIN):
        shown = pages.get(name, DROPPED)
        assert shown.status == 200
        assert any(row.startswith("sales.gone table") for row in shown.page.rows), shown.page.rows
        assert [each.attributes["action"] for each in shown.page.all("form")][1:] == [UNDROP]
    assert "gone" not in pages.get(READER, DROPPED).body
    assert pages.get(NOBODY, DROPPED).status == 404


def test_an_object_is_put_back_by_callers_that_may_create_it(pages: ConsolePages) -> None:
    fields = {"id": _entry(pages)}
    for name, status in ((NOBODY, 404), (READER, 403)):
        assert pages.post(name, UNDROP, fields).status == status, name
    pages.guarded.grant("maker", SALES, Privilege.CREATE)
    # It may create tables, and has not dropped this one.
    assert pages.post("maker", UNDROP, fields).status == 404
    assert pages.post(OWNER, UNDROP, {"id": "x"}).status == 400
    assert pages.post(OWNER, UNDROP, {"id": "999"}).status == 404
    answer = pages.post(OWNER, UNDROP, {**fields, "as": " again "})
    assert (answer.status, answer.header("location")) == (303, f"{HIVE}/databases/sales/tables/again")
    assert pages.get(OWNER, answer.header("location") or "").status == 200
    assert "gone" not in pages.get(OWNER, DROPPED).body
    assert pages.post(OWNER, UNDROP, fields).status == 404


def test_a_taken_name_and_a_bad_one_are_refused(pages: ConsolePages) -> None:
    fields = {"id": _entry(pages)}
    assert pages.post(OWNER, UNDROP, {**fields, "as": "orders"}).status == 409
    assert pages.post(OWNER, UNDROP, {**fields, "as": "<script>"}).status == 400
    assert pages.post(OWNER, UNDROP, fields).status == 303


def test_a_database_comes_back_with_its_tables(pages: ConsolePages) -> None:
    metastore = pages.guarded.metastore
    with served(ADMIN):
        metastore.databases.create(MetastoreDatabase(name="shop", owner_name=ADMIN, owner_type=1))
        metastore.tables.create(table("t", "shop"))
        metastore.databases.drop("hive", "shop", delete_data=True, cascade=True)
    shown = pages.get(ADMIN, DROPPED)
    assert any("with its database" in row for row in shown.page.rows)
    address = f"{HIVE}/databases/shop/undrop"
    assert address in [each.attributes["action"] for each in shown.page.all("form")]
    fields = {"id": _entry(pages, None, "shop")}
    assert pages.post(READER, address, fields).status in (403, 404)
    answer = pages.post(ADMIN, address, fields)
    assert (answer.status, answer.header("location")) == (303, f"{HIVE}/databases/shop")
    assert "t" in pages.get(ADMIN, f"{HIVE}/databases/shop").page.links


HOSTILE = "<script>\u202e'\""


def _locked(pages: ConsolePages, name: str, kind: LockType, user: str, host: str = "here") -> int:
    component = LockComponent(type=kind, level=LockLevel.TABLE, database="sales", table=name)
    request = LockRequest(components=(component,), user=user, host=host, agent=HOSTILE)
    return pages.guarded.metastore.locks.lock(request).id


def test_locks_and_their_chains_are_shown_for_objects_that_the_caller_sees(pages: ConsolePages) -> None:
    held = _locked(pages, "orders", LockType.EXCLUSIVE, HOSTILE)
    first = _locked(pages, "orders", LockType.EXCLUSIVE, "bob", HOSTILE)
    second = _locked(pages, "orders", LockType.EXCLUSIVE, "carl")
    for name in (ADMIN, READER):
        shown = pages.get(name, "/console/locks")
        assert shown.status == 200
        assert {str(held), str(first), str(second)} <= set(shown.page.links)
        chain = pages.get(name, f"/console/locks/{second}")
        items = [each.text for each in chain.page.all("li")]
        assert any(each.startswith(f"waits for lock {held} (acquired)") for each in items), items
        assert "<script>\\u202e" in chain.page.all("main")[0].text
        assert f"Waited for by {first}, {second}." in pages.get(name, f"/console/locks/{held}").page.all("main")[0].text
        assert "It does not wait" in pages.get(name, f"/console/locks/{held}").body
    assert pages.get(NOBODY, "/console/locks").page.rows == []
    for name, number in ((NOBODY, held), (ADMIN, 10**9)):
        assert pages.get(name, f"/console/locks/{number}").status == 404
    assert pages.get(ADMIN, "/console/locks/x").status == 400


def test_another_privilege_does_not_put_objects_back(pages: ConsolePages) -> None:
    pages.guarded.grant("drops", catalog_object("hive"), Privilege.DROP)
    assert "sales.gone" in pages.get("drops", DROPPED).body
    assert pages.post("drops", UNDROP, {"id": _entry(pages)}).status == 403
