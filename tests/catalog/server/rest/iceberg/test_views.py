"""Views by REST: their versions, and their entries for Hive's clients."""

import json
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.hive.client import HiveMetastoreClient
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA, IcebergRest, new_view, set_properties, view_version
from tests.support.waits import at_most


def _create(server: IcebergRest, namespace: str, name: str = "v", sql: str = "SELECT 1") -> Any:
    return server.call("POST", f"namespaces/{namespace}/views", new_view(name, sql)).expect(200)


def test_a_view_is_created_replaced_renamed_and_dropped(server: IcebergRest, namespace: str) -> None:
    made = _create(server, namespace)["metadata"]
    assert (made["current-version-id"], made["format-version"], made["properties"]) == (1, 1, {"a": "1"})
    body = {
        "requirements": [{"type": "assert-view-uuid", "uuid": made["view-uuid"]}],
        "updates": [
            {"action": "add-view-version", "view-version": {**view_version("SELECT 2"), "schema-id": 0}},
            {"action": "set-current-view-version", "view-version-id": -1},
            set_properties(b="2"),
        ],
    }
    replaced = server.call("POST", f"namespaces/{namespace}/views/v", body).expect(200)["metadata"]
    assert replaced["current-version-id"] == 2
    assert [each["version-id"] for each in replaced["version-log"]] == [1, 2]
    assert replaced["properties"] == {"a": "1", "b": "2"}
    with HiveMetastoreClient(server.metastore.uri, timeout_seconds=at_most(30)) as client:
        entry = client.get_table(namespace, "v")
    assert (entry.tableType, entry.viewOriginalText) == ("VIRTUAL_VIEW", "SELECT 2")
    assert entry.parameters["table_type"] == "ICEBERG-VIEW"
    rename = {
        "source": {"namespace": [namespace], "name": "v"},
        "destination": {"namespace": [namespace], "name": "w"},
    }
    server.call("POST", "views/rename", rename).expect(204)
    listed = server.call("GET", f"namespaces/{namespace}/views").expect(200)["identifiers"]
    assert listed == [{"namespace": [namespace], "name": "w"}]
    server.call("DELETE", f"namespaces/{namespace}/views/w").expect(204)
    server.call("GET", f"namespaces/{namespace}/views/w").error(404, "NoSuchViewException")
    assert server.call("HEAD", f"namespaces/{namespace}/views/w").status == 404


def test_tables_and_views_share_their_names(server: IcebergRest, namespace: str) -> None:
    _create(server, namespace)
    server.create(namespace, "t")
    table = server.call("POST", f"namespaces/{namespace}/tables", {"name": "v", "schema": SCHEMA})
    assert table.error(409, "AlreadyExistsException") == f"View with same name already exists: {namespace}.v"
    view = server.call("POST", f"namespaces/{namespace}/views", new_view("t"))
    assert view.error(409, "AlreadyExistsException") == f"Table with same name already exists: {namespace}.t"
    server.call("GET", f"namespaces/{namespace}/tables/v").error(404, "NoSuchTableException")
    server.call("GET", f"namespaces/{namespace}/views/t").error(404, "NoSuchViewException")
    listed = server.call("GET", f"namespaces/{namespace}/tables").expect(200)["identifiers"]
    assert [each["name"] for each in listed] == ["t"]


def test_invalid_versions_of_a_view_are_refused(server: IcebergRest, namespace: str) -> None:
    uuid = _create(server, namespace)["metadata"]["view-uuid"]
    path = f"namespaces/{namespace}/views/v"
    twice = view_version("SELECT 1", "trino")
    twice["representations"] = twice["representations"] * 2
    for version, message in (
        (twice, "Invalid view version: Cannot add multiple queries for dialect trino"),
        (view_version("SELECT 1", "trino"), "Cannot replace view due to loss of view dialects"),
        ({**view_version("SELECT 3"), "schema-id": 7}, "Cannot add version with unknown schema: 7"),
    ):
        updates = [
            {"action": "add-view-version", "view-version": version},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        answer = server.call("POST", path, {"requirements": [], "updates": updates})
        assert answer.error(400, "IllegalArgumentException").startswith(message)
    other = [{"type": "assert-view-uuid", "uuid": uuid[::-1]}]
    answer = server.call("POST", path, {"requirements": other, "updates": [set_properties(b="1")]})
    assert answer.error(409, "CommitFailedException").startswith("Requirement failed: view UUID does not match")


def test_old_versions_of_a_view_expire(server: IcebergRest, namespace: str) -> None:
    _create(server, namespace)
    path = f"namespaces/{namespace}/views/v"
    metadata: Any = None
    for number in range(2, 5):
        updates = [
            {"action": "add-view-version", "view-version": view_version(f"SELECT {number}")},
            {"action": "set-current-view-version", "view-version-id": -1},
            set_properties(**{"version.history.num-entries": "2"}),
        ]
        metadata = server.call("POST", path, {"updates": updates}).expect(200)["metadata"]
    assert sorted(each["version-id"] for each in metadata["versions"]) == [3, 4]
    assert [each["version-id"] for each in metadata["version-log"]] == [3, 4]


def test_a_dropped_view_is_registered_again(server: IcebergRest, namespace: str) -> None:
    made = _create(server, namespace)
    server.call("DELETE", f"namespaces/{namespace}/views/v").expect(204)
    body = {"name": "w", "metadata-location": made["metadata-location"]}
    answer = server.call("POST", f"namespaces/{namespace}/register-view", body).expect(200)
    assert (answer["metadata"], answer["metadata-location"]) == (made["metadata"], made["metadata-location"])
    with HiveMetastoreClient(server.metastore.uri, timeout_seconds=at_most(30)) as client:
        assert client.get_table(namespace, "w").viewOriginalText == "SELECT 1"
    again = server.call("POST", f"namespaces/{namespace}/register-view", body)
    assert "View already exists" in again.error(409, "AlreadyExistsException")
    replaced = {"requirements": [], "updates": [set_properties(b="2")]}
    server.call("POST", f"namespaces/{namespace}/views/w", replaced).expect(200)


@pytest.mark.parametrize(
    "change",
    [
        {"view-uuid": None},
        {"current-version-id": None},
        {"current-version-id": 9},
        {"schemas": []},
        {"schemas": [{"type": "struct"}]},
        {"schemas": [1]},
        {"versions": [{"version-id": 1}]},
        {"versions": [{"version-id": 1, "schema-id": 0, "representations": [{"type": "sql", "sql": 1}]}]},
    ],
)
def test_a_file_that_is_not_a_views_is_not_registered(
    server: IcebergRest, namespace: str, tmp_path: Path, change: dict[str, Any]
) -> None:
    made = _create(server, namespace)["metadata"]
    file = tmp_path / "v.metadata.json"
    file.write_text(json.dumps({**made, **change}))
    body = {"name": "w", "metadata-location": f"file:{file}"}
    server.call("POST", f"namespaces/{namespace}/register-view", body).error(400, "IllegalArgumentException")
    assert server.call("HEAD", f"namespaces/{namespace}/views/w").status == 404
    table = server.create(namespace, "t")["metadata-location"]
    body["metadata-location"] = table
    server.call("POST", f"namespaces/{namespace}/register-view", body).error(400, "IllegalArgumentException")


def test_a_file_that_is_missing_is_refused(server: IcebergRest, namespace: str, tmp_path: Path) -> None:
    body = {"name": "w", "metadata-location": f"file:{tmp_path}/none.metadata.json"}
    for operation in ("register-view", "register"):
        server.call("POST", f"namespaces/{namespace}/{operation}", body).error(400, "BadRequestException")
