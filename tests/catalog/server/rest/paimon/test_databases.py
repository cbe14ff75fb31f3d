"""Configuration and databases by REST: shapes, errors, pages, patterns."""

from urllib.parse import quote_plus

import pytest

from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.rest.paimon.messages import cut, matches
from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.servers.metastore import MetastoreUnderTest, table


def test_the_configuration_names_the_prefix(rest: RestClient, server: MetastoreUnderTest) -> None:
    for warehouse in ("hive", "HIVE", str(server.warehouse), f"file:{server.warehouse}", f"file://{server.warehouse}/"):
        # Paimon's clients encode the value twice.
        answer = rest.call("GET", "config", query={"warehouse": quote_plus(warehouse)})
        assert answer.status == 200
        assert answer.body == {"defaults": {}, "overrides": {"prefix": "hive"}}


def test_an_unknown_warehouse_and_an_unknown_prefix_are_missing(rest: RestClient) -> None:
    answer = rest.call("GET", "config", query={"warehouse": "another"})
    assert (answer.status, answer.body["code"], answer.body["resourceName"]) == (404, 404, "another")
    answer = rest.call("GET", "another", "databases")
    assert (answer.status, answer.body["resourceName"]) == (404, "another")


def test_a_database_is_created_changed_and_dropped(rest: RestClient, hive: HiveCatalog) -> None:
    rest.post("databases", body={"name": "a_db", "options": {"k": "v", "comment": "words", "x": "1"}})
    found = rest.get("databases", "a_db")
    assert found["name"] == "a_db"
    assert found["location"].endswith("/a_db.db")
    assert found["options"] == {"k": "v", "comment": "words", "x": "1"}
    assert found["createdAt"] > 0
    assert dict(hive.get_database("a_db").properties) == {"k": "v", "x": "1"}

    changed = rest.post("databases", "a_db", body={"removals": ["x", "y"], "updates": {"k": "w"}})
    assert changed == {"removed": ["x"], "updated": ["k"], "missing": ["y"]}
    assert rest.get("databases", "a_db")["options"] == {"k": "w", "comment": "words"}

    rest.delete("databases", "a_db")
    assert "a_db" not in hive.list_databases()
    answer = rest.call("GET", "hive", "databases", "a_db")
    assert answer.status == 404
    assert (answer.body["resourceType"], answer.body["resourceName"]) == ("DATABASE", "a_db")


def test_a_database_that_exists_is_a_conflict(rest: RestClient, database: str) -> None:
    answer = rest.call("POST", "hive", "databases", body={"name": database, "options": {}})
    assert (answer.status, answer.body["resourceType"]) == (409, "DATABASE")


@pytest.mark.parametrize("name", ["../escape", "a/b", "", "..", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(rest: RestClient, name: str) -> None:
    assert rest.call("POST", "hive", "databases", body={"name": name}).status == 400


def test_the_default_database_is_not_dropped(rest: RestClient) -> None:
    assert rest.call("DELETE", "hive", "databases", "default").status == 400
    assert rest.get("databases", "default")["name"] == "default"


def test_a_name_of_a_database_in_another_catalog_is_refused(rest: RestClient) -> None:
    """Thrift's clients write `@catalog#database`, which would leave the catalog of the prefix."""
    assert rest.call("POST", "hive", "databases", body={"name": "@hive#other"}).status == 400
    for method, *parts in (("GET",), ("DELETE",), ("GET", "tables"), ("GET", "views"), ("GET", "tables", "t")):
        assert rest.call(method, "hive", "databases", "@hive#default", *parts).status == 400, (method, parts)


def test_a_name_that_hive_does_not_allow_is_refused(rest: RestClient) -> None:
    answer = rest.call("POST", "hive", "databases", body={"name": "a name"})
    assert answer.status == 400
    assert "not a valid database name" in answer.body["message"]


def test_a_message_with_a_percent_sign_is_a_format_for_java(rest: RestClient) -> None:
    answer = rest.call("GET", "hive", "databases", query={"databaseNamePattern": "%x"})
    assert answer.status == 400
    assert answer.body["message"] == "A pattern has '%%' at its end only, not as in '%%x'."


def test_a_body_of_another_form_is_refused(rest: RestClient) -> None:
    answer = rest.call("POST", "hive", "databases", body={"name": 1})
    assert (answer.status, answer.body["code"]) == (400, 400)


def test_databases_are_listed_by_pages_and_patterns(rest: RestClient, hive: HiveCatalog) -> None:
    for name in ("page_c", "page_a", "page_b"):
        hive.create_database(name)
    first = rest.get("databases", maxResults="2", databaseNamePattern="page%")
    assert first == {"databases": ["page_a", "page_b"], "nextPageToken": "page_b"}
    second = rest.get("databases", maxResults="2", databaseNamePattern="page%", pageToken="page_b")
    assert second == {"databases": ["page_c"], "nextPageToken": None}
    assert rest.get("databases", databaseNamePattern="page_a")["databases"] == ["page_a"]
    assert rest.call("GET", "hive", "databases", query={"databaseNamePattern": "p%e"}).status == 400
    assert rest.call("GET", "hive", "databases", query={"maxResults": "many"}).status == 400


def test_a_full_page_has_a_token_and_any_token_is_valid() -> None:
    assert cut(["b", "a"], str, None, 2) == (["a", "b"], "b")
    assert cut(["b", "a"], str, "b", 2) == ([], None)
    assert cut(["b", "a", "c"], str, "aa", 2) == (["b", "c"], "c")
    assert cut(["b", "a", "c"], str, None, 2, descending=True) == (["c", "b"], "b")
    assert cut(["b", "a", "c"], str, "b", 2, descending=True) == (["a"], None)


def test_an_underscore_in_a_pattern_is_itself() -> None:
    assert matches("a_%")("a_b")
    assert not matches("a_%")("axb")
    assert not matches("a_b")("axb")
    with pytest.raises(RestError):
        matches("%a")


def test_a_database_with_tables_of_another_format_is_not_dropped(
    rest: RestClient, hive: HiveCatalog, database: str
) -> None:
    hive.client.create_table(table(database, "foreign"))
    answer = rest.call("DELETE", "hive", "databases", database)
    assert answer.status == 400
    assert "foreign" in answer.body["message"]
    assert hive.client.get_all_tables(database) == ["foreign"]


def test_a_database_with_views_alone_is_not_dropped(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    hive.create_view(f"{database}.v", View(query="SELECT 1 AS a", columns=(ViewColumn("a", "int"),)))
    assert rest.call("DELETE", "hive", "databases", database).status == 400
    # A client sees the table, so that it has asked for all of them.
    rest.create_table(database, "t")
    rest.delete("databases", database)
    assert database not in hive.list_databases()
