"""Tags, branches, consumers, partitions and views by REST: shapes and refusals."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.api import View, ViewColumn
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.server.rest.paimon.versions import java_duration
from interbed.catalog.server.service.access.policies import paimon_type
from interbed.catalog.server.service.errors import InvalidObjectError
from tests.catalog.server.rest.paimon.conftest import RestClient


def _filled(rest: RestClient, hive: HiveCatalog, database: str, *, partitioned: bool = False) -> tuple[str, ...]:
    rest.create_table(database, "t", partitioned=partitioned)
    hive.get_table(f"{database}.t").append(pa.table({"dt": ["a", "b"], "id": [1, 2]}))
    return ("databases", database, "tables", "t")


def _refusal(rest: RestClient, method: str, *path: str, body: object = None) -> tuple[int, str | None, str | None]:
    answer = rest.call(method, "hive", *path, body=body)
    return answer.status, answer.body["resourceType"], answer.body["resourceName"]


def test_tags_are_made_listed_and_deleted(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    path = _filled(rest, hive, database)
    rest.post(*path, "tags", body={"tagName": "v1", "snapshotId": None, "timeRetained": "36 h"})
    rest.post(*path, "tags", body={"tagName": "w1", "snapshotId": 1})
    found = rest.get(*path, "tags", "v1")
    assert (found["tagName"], found["snapshot"]["id"], found["tagTimeRetained"]) == ("v1", 1, "PT36H")
    assert found["tagCreateTime"] > 0
    assert rest.get(*path, "tags", "w1")["tagTimeRetained"] is None
    assert rest.get(*path, "tags", maxResults="1") == {"tags": ["v1"], "nextPageToken": "v1"}
    assert rest.get(*path, "tags", tagNamePrefix="w")["tags"] == ["w1"]
    assert _refusal(rest, "POST", *path, "tags", body={"tagName": "v1"}) == (409, "TAG", "v1")
    rest.post(*path, "tags", body={"tagName": "v1", "ignoreIfExists": True})
    assert _refusal(rest, "POST", *path, "tags", body={"tagName": "x", "snapshotId": 9}) == (404, "SNAPSHOT", "9")
    assert _refusal(rest, "POST", *path, "tags", body={"tagName": "../x"})[0] == 400
    rest.delete(*path, "tags", "v1")
    assert _refusal(rest, "DELETE", *path, "tags", "v1") == (404, "TAG", "v1")


def test_branches_are_made_renamed_forwarded_and_dropped(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    path = _filled(rest, hive, database)
    rest.post(*path, "tags", body={"tagName": "v1"})
    rest.post(*path, "branches", body={"branch": "b", "fromTag": "v1"})
    assert _refusal(rest, "POST", *path, "branches", body={"branch": "b"}) == (409, "BRANCH", "b")
    assert _refusal(rest, "POST", *path, "branches", body={"branch": "c", "fromTag": "x"}) == (404, "TAG", "x")
    assert _refusal(rest, "POST", *path, "branches", body={"branch": "../c"})[0] == 400
    branch = rest.get("databases", database, "tables", "t$branch_b")
    assert branch["name"] == "t$branch_b"
    assert rest.get("databases", database, "tables", "t$branch_b", "snapshot")["snapshot"]["snapshot"]["id"] == 1
    hive.get_table(f"{database}.t$branch_b").append(pa.table({"dt": ["c"], "id": [3]}))
    rest.post(*path, "branches", "b", "rename", body={"toBranch": "d"})
    assert rest.get(*path, "branches") == {"branches": ["d"]}
    rest.post(*path, "branches", "d", "forward", body={})
    assert hive.get_table(f"{database}.t").count() == 3
    rest.delete(*path, "branches", "d")
    assert _refusal(rest, "DELETE", *path, "branches", "d") == (404, "BRANCH", "d")
    missing = rest.call("GET", "hive", "databases", database, "tables", "t$branch_d")
    assert (missing.status, missing.body["resourceType"]) == (404, "BRANCH")


def test_consumers_are_listed_reset_and_deleted(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    path = _filled(rest, hive, database)
    rest.post(*path, "consumers", "reset", body={"consumerId": "c", "nextSnapshotId": 1})
    assert rest.get(*path, "consumers")["consumers"] == [{"consumerId": "c", "nextSnapshot": 1}]
    body = {"consumerId": "c", "nextSnapshotId": 9}
    assert _refusal(rest, "POST", *path, "consumers", "reset", body=body)[:2] == (404, "SNAPSHOT")
    rest.post(*path, "consumers", "reset", body={"consumerId": "c"})
    assert rest.get(*path, "consumers")["consumers"] == []
    assert _refusal(rest, "POST", *path, "consumers", "reset", body={"consumerId": "../c"})[0] == 400


def test_times_are_texts_of_javas_duration() -> None:
    assert java_duration(timedelta(hours=36, minutes=2, seconds=3)) == "PT36H2M3S"
    assert java_duration(timedelta(milliseconds=500)) == "PT0.5S"
    assert java_duration(timedelta(0)) == "PT0S"


def test_partitions_of_the_metastore_are_listed_created_and_dropped(
    rest: RestClient, hive: HiveCatalog, database: str
) -> None:
    path = (*_filled(rest, hive, database, partitioned=True), "partitions")
    first = rest.get(*path, maxResults="1")
    assert first["nextPageToken"] == "dt=b"
    assert (first["partitions"][0]["spec"], first["partitions"][0]["recordCount"]) == ({"dt": "b"}, 1)
    assert [each["spec"] for each in rest.get(*path, pageToken="dt=b")["partitions"]] == [{"dt": "a"}]
    made = rest.post(*path, body={"partitionSpecs": [{"dt": "a"}, {"dt": "z"}]})
    assert made == {"created": [{"dt": "z"}], "existed": [{"dt": "a"}]}
    assert rest.get(*path, partitionNamePattern="dt=z%")["partitions"][0]["fileCount"] == 0
    named = rest.post(*path, "list-by-names", body={"specs": [{"dt": "a"}, {"dt": "none"}]})
    assert [each["spec"] for each in named["partitions"]] == [{"dt": "a"}]
    filtered = rest.post(*path, "list-by-filter", body={"filter": "{}", "maxResults": 2})
    assert [each["spec"]["dt"] for each in filtered["partitions"]] == ["z", "b"]
    rest.post(*path, "mark", body={"specs": [{"dt": "a"}]})
    dropped = rest.post(*path, "drop", body={"partitionSpecs": [{"dt": "a"}, {"dt": "n"}], "ignoreIfNotExists": True})
    assert dropped == {"dropped": [{"dt": "a"}], "missing": [{"dt": "n"}]}
    # The entry is removed; the server deletes no rows.
    assert hive.client.get_partition_names(database, "t") == ["dt=b", "dt=z"]
    assert hive.get_table(f"{database}.t").count() == 2
    body: dict[str, Any] = {"partitionSpecs": [{"dt": "n"}], "ignoreIfNotExists": False}
    assert _refusal(rest, "POST", *path, "drop", body=body)[0] == 404
    assert _refusal(rest, "POST", *path, body={"partitionSpecs": [{"none": "n"}]})[0] == 400
    for value in ("x" * 2001, "/" * 700, "ä" * 1001, "a\0b", "a\x85b"):
        assert _refusal(rest, "POST", *path, body={"partitionSpecs": [{"dt": "y"}, {"dt": value}]})[0] == 400
    # A partition that is there twice in a request is made once.
    twice = rest.post(*path, body={"partitionSpecs": [{"dt": "y"}, {"dt": "y"}]})
    assert {"dt": "y"} in twice["created"]
    assert hive.client.get_partition_names(database, "t") == ["dt=b", "dt=y", "dt=z"]


def test_partitions_of_other_tables_are_in_their_files(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    path = _filled(rest, hive, database)
    assert rest.call("GET", "hive", *path, "partitions").status == 501
    assert rest.call("POST", "hive", *path, "partitions", "mark", body={"specs": []}).status == 501


VIEW = {
    "fields": [{"id": 0, "name": "a", "type": "BIGINT NOT NULL", "description": "an a"}],
    "query": "SELECT id AS a FROM t",
    "dialects": {"flink": "SELECT `id` AS a FROM t"},
    "comment": "words",
    "options": {"k": "v"},
}


def test_views_are_made_changed_renamed_and_dropped(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    path = ("databases", database, "views")
    rest.post(*path, body={"identifier": {"database": database, "object": "v"}, "schema": VIEW})
    found = rest.get(*path, "v")
    assert (found["name"], found["schema"]) == ("v", VIEW)
    of_hive = hive.get_view(f"{database}.v")
    assert (of_hive.query, of_hive.columns) == (VIEW["query"], (ViewColumn("a", "bigint", "an a"),))
    body = {"identifier": {"database": database, "object": "v"}, "schema": VIEW}
    assert _refusal(rest, "POST", *path, body=body) == (409, "VIEW", "v")
    changes = [
        {"action": "setOption", "key": "x", "value": "1"},
        {"action": "removeOption", "key": "k"},
        {"action": "updateComment", "comment": "others"},
        {"action": "addDialect", "dialect": "trino", "query": "SELECT 1"},
        {"action": "updateDialect", "dialect": "trino", "query": "SELECT 2"},
        {"action": "dropDialect", "dialect": "flink"},
    ]
    rest.post(*path, "v", body={"changes": changes})
    schema = rest.get(*path, "v")["schema"]
    assert (schema["options"], schema["comment"], schema["dialects"]) == ({"x": "1"}, "others", {"trino": "SELECT 2"})
    for wrong in (
        {"action": "setOption", "key": "x", "value": {"a": 1}},
        {"action": "setOption", "key": 5, "value": "1"},
        {"action": "removeOption", "key": ["x"]},
        {"action": "updateComment", "comment": 5},
        {"action": "addDialect", "dialect": "hive", "query": {"sql": "SELECT 1"}},
        {"action": "addDialect", "dialect": None, "query": "SELECT 1"},
        {"action": "updateDialect", "dialect": "trino", "query": 1},
        {"action": "dropDialect", "dialect": {}},
    ):
        assert _refusal(rest, "POST", *path, "v", body={"changes": [wrong]})[0] == 400, wrong
    assert rest.get(*path, "v")["schema"] == schema
    added = {"changes": [{"action": "addDialect", "dialect": "trino", "query": "SELECT 1"}]}
    assert _refusal(rest, "POST", *path, "v", body=added) == (409, "DIALECT", "trino")
    dropped = {"changes": [{"action": "dropDialect", "dialect": "none"}]}
    assert _refusal(rest, "POST", *path, "v", body=dropped) == (404, "DIALECT", "none")
    assert _refusal(rest, "POST", *path, "v", body={"changes": [{"action": "addDialect"}]})[0] == 400
    names = {"source": {"database": database, "object": "v"}, "destination": {"database": database, "object": "w"}}
    rest.post("views", "rename", body=names)
    assert rest.get(*path) == {"views": ["w"], "nextPageToken": None}
    assert [each["name"] for each in rest.get("databases", database, "view-details")["viewDetails"]] == ["w"]
    everywhere = rest.get("views", databaseNamePattern=database)
    assert everywhere["views"] == [{"database": database, "object": "w"}]
    rest.delete(*path, "w")
    assert _refusal(rest, "GET", *path, "w") == (404, "VIEW", "w")


def test_a_view_of_a_hive_catalog_has_paimons_types(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    columns = (ViewColumn("a", "array<struct<x:int,y:decimal(5,2)>>"), ViewColumn("b", "string", "a b"))
    hive.create_view(f"{database}.v", View(query="SELECT 1", columns=columns))
    fields = rest.get("databases", database, "views", "v")["schema"]["fields"]
    assert fields[1] == {"id": 1, "name": "b", "type": "STRING", "description": "a b"}
    assert str(paimon_type(columns[0].type)) == "ARRAY<ROW<x INT, y DECIMAL(5, 2)>>"
    assert str(paimon_type("map<string,binary>")) == "MAP<STRING NOT NULL, BYTES>"
    with pytest.raises(InvalidObjectError, match="uniontype"):
        paimon_type("uniontype<int>")
