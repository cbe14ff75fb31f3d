"""The page of a table's versions: snapshots, tags and branches of tables of interbed."""

from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
import pytest

import interbed
from tests.catalog.server.console.browser import ConsoleBrowser, problems_of
from tests.catalog.server.console.served import GUARDED, ConsoleServer, console_server
from tests.catalog.server.migration.commands import run

LAKE = "/console/catalogs/hive/databases/shop/tables"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    """Run a server with a table of three snapshots, a tag and a branch, and a table whose directory is missing."""
    with console_server(tmp_path_factory.mktemp("console"), *GUARDED) as server:
        options = {"token.provider": "bear", "token": server.token("root")["token"]}
        with interbed.load_catalog(
            "lake", metastore="rest", uri=f"{server.server.http}/paimon", warehouse="hive", **options
        ) as catalog:
            catalog.create_database("shop")
            table = catalog.create_table("shop.orders", ROWS.schema, primary_keys=["id"])
            for _ in range(3):
                table.upsert(ROWS)
            table.versions.create_tag("first", 1)
            table.versions.create_tag("<script>alert(1)", 2)
            table.versions.create_branch("trial")
            catalog.create_table("shop.empty", ROWS.schema)
        run("grant", "SELECT", "on", "table", "shop.orders", "to", "user", "rita", "--db", server.server.db)
        yield server


@pytest.fixture(scope="module")
def root(served: ConsoleServer) -> ConsoleBrowser:
    """Return a browser of the administrator."""
    return served.logged_in("root")


def test_a_table_has_a_page_of_its_versions(served: ConsoleServer, root: ConsoleBrowser) -> None:
    for browser in (root, served.logged_in("rita")):
        entry = browser.get(f"{LAKE}/orders")
        answer = browser.get(entry.page.links["Snapshots, tags and branches"])
        assert answer.status == 200
        assert problems_of(answer.body) == []
        ids = [row.split()[0] for row in answer.page.rows]
        assert [each.text for each in answer.page.all("th") if each.attributes["scope"] == "row"] == [
            *("3", "2", "1"),
            *("<script>alert(1)", "first"),
        ], ids
        assert "trial" in [each.text for each in answer.page.all("li")]
        assert [each.text for each in answer.page.all("td")].count("3") >= 3


def test_older_snapshots_are_on_pages_of_their_own(root: ConsoleBrowser) -> None:
    answer = root.get(f"{LAKE}/orders/versions?before=2")
    assert [each.text for each in answer.page.all("th") if each.attributes["scope"] == "row"] == ["1"]
    assert answer.page.links["Newest snapshots"] == f"{LAKE}/orders/versions"
    assert root.get(f"{LAKE}/orders/versions?before=1").status == 200
    for wrong in ("0", "-1", "x", "1" * 30, "٣"):
        assert root.get(f"{LAKE}/orders/versions?before={quote(wrong)}").status == 400, wrong


def test_a_table_without_snapshots_says_so(root: ConsoleBrowser) -> None:
    answer = root.get(f"{LAKE}/empty/versions")
    assert answer.status == 200
    assert problems_of(answer.body) == []
    assert "There is no snapshot." in answer.body


def test_a_hidden_table_gets_the_answer_of_a_missing_one(served: ConsoleServer) -> None:
    rita, nobody = served.logged_in("rita"), served.logged_in("nobody")
    for browser, name in ((rita, "empty"), (rita, "nope"), (nobody, "orders"), (nobody, "nope")):
        assert browser.get(f"{LAKE}/{name}/versions").status == 404


def test_a_table_whose_files_cannot_be_read_says_why(served: ConsoleServer, root: ConsoleBrowser) -> None:
    (served.server.warehouse / "shop.db" / "empty" / "schema" / "schema-0").write_bytes(b"{")
    answer = root.get(f"{LAKE}/empty/versions")
    assert answer.status == 200
    assert problems_of(answer.body) == []
    assert "The server cannot read the files of this table" in answer.body
