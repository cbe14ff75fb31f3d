"""Functions by REST: definitions of several languages, the functions of Hive's clients, and concurrent changes."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import interbed
from interbed.catalog.client.functions import FunctionChange, FunctionName
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.rest.paimon.conftest import RestAnswer, RestClient
from tests.support.servers.metastore import MetastoreUnderTest, plain_client
from tests.support.waits import at_most

AREA: dict[str, Any] = {
    "name": "area.of-box",
    "inputParams": [{"id": 0, "name": "x", "type": "DOUBLE"}, {"id": 1, "name": "y", "type": "DOUBLE"}],
    "returnParams": [{"id": 0, "name": "area", "type": "DOUBLE"}],
    "deterministic": True,
    "definitions": {
        "trino": {"type": "sql", "definition": "x * y"},
        "spark": {"type": "lambda", "definition": "(x, y) -> x * y", "language": "JAVA"},
        "flink": {
            "type": "file",
            "fileResources": [{"resourceType": "JAR", "uri": "/a/b.jar"}],
            "language": "JAVA",
            "className": "org.example.Area",
            "functionName": "eval",
        },
    },
    "comment": "x times y",
    "options": {"owner-team": "geo"},
}

TRIED_MAX = 200
"""Each attempt that is refused has lost to another one that was not, or to a lock."""


def _change(rest: RestClient, database: str, *changes: dict[str, Any]) -> RestAnswer:
    path = ("databases", database, "functions", "area.of-box")
    return rest.call("POST", "hive", *path, body={"changes": list(changes)})


def _error(answer: RestAnswer) -> tuple[int, str | None, str | None]:
    return answer.status, answer.body["resourceType"], answer.body["resourceName"]


def test_a_function_is_created_shown_and_dropped(rest: RestClient, database: str) -> None:
    path = ("databases", database, "functions")
    rest.post(*path, body=AREA)
    found = rest.get(*path, "area.of-box")
    assert {key: found[key] for key in AREA} == AREA
    assert len(found["uuid"]) == 36
    assert found["createdAt"] > 0
    assert rest.get("databases", database, "function-details")["functionDetails"] == [found]
    assert _error(rest.call("POST", "hive", *path, body=AREA)) == (409, "FUNCTION", "area.of-box")
    rest.delete(*path, "area.of-box")
    assert _error(rest.call("GET", "hive", *path, "area.of-box")) == (404, "FUNCTION", "area.of-box")
    assert _error(rest.call("DELETE", "hive", *path, "area.of-box")) == (404, "FUNCTION", "area.of-box")


def test_functions_are_listed_by_pages_and_patterns(rest: RestClient, database: str) -> None:
    path = ("databases", database, "functions")
    for name in ("c", "a", "b"):
        rest.post(*path, body={**AREA, "name": name})
    assert rest.get(*path, maxResults="2") == {"functions": ["a", "b"], "nextPageToken": "b"}
    assert rest.get(*path, pageToken="b")["functions"] == ["c"]
    assert rest.get(*path, functionNamePattern="b%")["functions"] == ["b"]
    found = rest.get("functions", databaseNamePattern=database, functionNamePattern="a")["functions"]
    assert found == [{"database": database, "object": "a"}]
    assert _error(rest.call("GET", "hive", "databases", "no_such", "functions"))[:2] == (404, "DATABASE")


def test_each_change_of_a_function_is_carried_out_or_refused(rest: RestClient, database: str) -> None:
    rest.post("databases", database, "functions", body=AREA)
    sql = {"type": "sql", "definition": "y * x"}
    changes: list[dict[str, Any]] = [
        {"action": "setOption", "key": "k", "value": "v"},
        {"action": "removeOption", "key": "owner-team"},
        {"action": "updateComment", "comment": "new"},
        {"action": "addDefinition", "name": "hive", "definition": sql},
        {"action": "updateDefinition", "name": "trino", "definition": sql},
        {"action": "dropDefinition", "name": "spark"},
    ]
    assert _change(rest, database, *changes).status == 200
    found = rest.get("databases", database, "functions", "area.of-box")
    assert (found["comment"], found["options"]) == ("new", {"k": "v"})
    assert found["definitions"] == {"trino": sql, "hive": sql, "flink": AREA["definitions"]["flink"]}
    added = {"action": "addDefinition", "name": "trino", "definition": sql}
    # A refused list changes nothing.
    refused = _change(rest, database, {"action": "updateComment", "comment": "x"}, added)
    assert _error(refused) == (409, "DEFINITION", "trino")
    assert rest.get("databases", database, "functions", "area.of-box") == found
    assert _error(_change(rest, database, {**added, "action": "updateDefinition", "name": "x"}))[:2] == (
        404,
        "DEFINITION",
    )
    assert _error(_change(rest, database, {"action": "dropDefinition", "name": "x"}))[:2] == (404, "DEFINITION")
    assert _change(rest, database, {"action": "dropDefinition"}).status == 400
    for wrong in (
        {"action": "updateComment", "comment": {"a": 1}},
        {"action": "setOption", "key": "x", "value": {"a": 1}},
        {"action": "setOption", "key": 5, "value": "1"},
        {"action": "removeOption", "key": ["x"]},
        {**added, "name": 5},
        {**added, "name": "x", "definition": {"type": "sql", "definition": 5}},
        {**added, "name": "x", "definition": {"type": {}}},
    ):
        assert _change(rest, database, wrong).status == 400, wrong
    assert rest.get("databases", database, "functions", "area.of-box") == found
    assert _change(rest, database, {"action": "fly"}).status == 501


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a/b"},
        {"name": "1-2"},
        {"name": "x" * 129},
        {"definitions": {"a": {"type": "poem", "definition": "x"}}},
        {"definitions": {"a": {"type": "sql", "definition": "x", "colour": "red"}}},
        {"inputParams": [{"name": "x", "type": "NO_TYPE"}]},
    ],
    ids=str,
)
def test_an_invalid_function_is_refused(rest: RestClient, database: str, wrong: dict[str, Any]) -> None:
    answer = rest.call("POST", "hive", "databases", database, "functions", body={**AREA, **wrong})
    assert answer.status == 400


def test_functions_of_hive_and_of_paimon_are_in_one_list(
    rest: RestClient, server: MetastoreUnderTest, database: str
) -> None:
    rest.post("databases", database, "functions", body=AREA)
    with plain_client(server.port) as client:
        made = ttypes.Function(
            functionName="upper_of",
            dbName=database,
            className="org.example.Upper",
            ownerName="me",
            ownerType=ttypes.PrincipalType.USER,
            functionType=ttypes.FunctionType.JAVA,
            resourceUris=[ttypes.ResourceUri(ttypes.ResourceType.JAR, "hdfs:///u.jar")],
        )
        client.create_function(made)
        assert client.get_functions(database, "*") == ["area.of-box", "upper_of"]
        # The metastore keeps the class of the definition that has one.
        assert client.get_function(database, "area.of-box").className == "org.example.Area"
    found = rest.get("databases", database, "functions", "upper_of")
    assert found["definitions"] == {
        "hive": {
            "type": "file",
            "fileResources": [{"resourceType": "JAR", "uri": "hdfs:///u.jar"}],
            "language": "JAVA",
            "className": "org.example.Upper",
            "functionName": "upper_of",
        }
    }
    change = {"changes": [{"action": "updateComment", "comment": "x"}]}
    assert rest.call("POST", "hive", "databases", database, "functions", "upper_of", body=change).status == 501


def test_a_database_with_functions_alone_is_not_dropped(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    rest.post("databases", database, "functions", body=AREA)
    answer = rest.call("DELETE", "hive", "databases", database)
    assert answer.status == 400
    assert "holds functions, such as 'area.of-box'" in answer.body["message"]
    rest.delete("databases", database, "functions", "area.of-box")
    rest.delete("databases", database)
    assert database not in hive.list_databases()


def test_no_concurrent_change_of_a_function_is_lost(rest: RestClient, database: str) -> None:
    rest.post("databases", database, "functions", body=AREA)

    def change(number: int) -> int:
        """Return how often the change was tried."""
        sql = {"type": "sql", "definition": str(number)}
        for tried in range(1, TRIED_MAX + 1):
            answer = _change(rest, database, {"action": "addDefinition", "name": f"d{number}", "definition": sql})
            if answer.status == 200:
                return tried
            assert answer.status == 503, answer
        raise AssertionError(f"the change {number} was refused {TRIED_MAX} times")

    with ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(change, range(8), timeout=at_most(60)))) == 8
    found = rest.get("databases", database, "functions", "area.of-box")["definitions"]
    assert {f"d{number}" for number in range(8)} <= set(found)


def test_the_client_of_rest_reads_and_writes_functions(rest: RestClient, database: str) -> None:
    options = {"uri": f"http://127.0.0.1:{rest.port}/paimon", "warehouse": rest.prefix, "token.provider": "bear"}
    with interbed.load_catalog("test", metastore="rest", token="none", **options) as catalog:
        rest.post("databases", database, "functions", body=AREA)
        name = FunctionName(database, "area.of-box")
        found = catalog.get_function(name)
        assert found.to_json("area.of-box") == AREA
        catalog.drop_function(name)
        catalog.create_function(name, found)
        catalog.alter_function(name, FunctionChange.drop_definition("spark"))
        assert list(rest.get("databases", database, "functions", "area.of-box")["definitions"]) == ["trino", "flink"]
        assert catalog.list_functions(database) == ["area.of-box"]
