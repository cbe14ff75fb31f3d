"""Requests of raw HTTP: errors, pages, ETags, transactions, staged tables, and changes by other clients."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.rest.iceberg.rest_server import (
    SCHEMA,
    IcebergRest,
    RestAnswer,
    endless_files,
    new_table_updates,
    new_view,
    set_properties,
)
from tests.support.servers.metastore import lock_component, lock_request, plain_client, table
from tests.support.waits import at_most


def _property(server: IcebergRest, namespace: str, name: str, key: str) -> str | None:
    found = server.call("GET", f"namespaces/{namespace}/tables/{name}").expect(200)
    value: str | None = found["metadata"]["properties"].get(key)
    return value


def test_the_configuration_has_the_prefix_of_the_warehouse(server: IcebergRest) -> None:
    for warehouse in ("", "?warehouse=", "?warehouse=hive", f"?warehouse=file:{server.metastore.warehouse}"):
        found = server.call_at("GET", f"v1/config{warehouse}").expect(200)
        assert found["overrides"] == {"prefix": "hive"}
        assert "GET /v1/{prefix}/namespaces" in found["endpoints"]
    message = server.call_at("GET", "v1/config?warehouse=none").error(404, "NoSuchWarehouseException")
    assert message.startswith("Warehouse does not exist: none")


def test_missing_things_are_named(server: IcebergRest, namespace: str) -> None:
    no_table = server.call("GET", f"namespaces/{namespace}/tables/t")
    assert no_table.error(404, "NoSuchTableException") == f"Table does not exist: {namespace}.t"
    assert server.call("GET", "namespaces/none/tables/t").error(404, "NoSuchTableException").endswith("none.t")
    assert server.call("GET", "namespaces/a%1Fb/tables/files").status == 404
    for method, path in (("GET", "namespaces/none"), ("GET", "namespaces/none/tables"), ("DELETE", "namespaces/none")):
        assert server.call(method, path).error(404, "NoSuchNamespaceException") == "Namespace does not exist: none"
    assert server.call("GET", "namespaces?parent=none").status == 404
    assert server.call("GET", f"namespaces?parent={namespace}").expect(200)["namespaces"] == []
    body = {"name": "t", "schema": SCHEMA}
    server.call("POST", "namespaces/none/tables", body).error(404, "NoSuchNamespaceException")
    assert server.call("HEAD", f"namespaces/{namespace}/tables/t").status == 404
    assert server.call("HEAD", "namespaces/none").status == 404
    assert server.call("HEAD", f"namespaces/{namespace}").status == 204


def test_tables_of_other_formats_are_neither_listed_nor_loaded(server: IcebergRest, namespace: str) -> None:
    with HiveMetastoreClient(server.metastore.uri, timeout_seconds=at_most(30)) as client:
        client.create_table(table(namespace, "plain"))
    server.create(namespace, "t")
    listed = server.call("GET", f"namespaces/{namespace}/tables").expect(200)
    assert [each["name"] for each in listed["identifiers"]] == ["t"]
    server.call("GET", f"namespaces/{namespace}/tables/plain").error(404, "NoSuchTableException")
    server.call("DELETE", f"namespaces/{namespace}/tables/plain").error(404, "NoSuchTableException")
    taken = server.call("POST", f"namespaces/{namespace}/tables", {"name": "plain", "schema": SCHEMA})
    assert taken.error(409, "AlreadyExistsException") == f"Table already exists: {namespace}.plain"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"name": "t"}',
        b'{"name": "", "schema": {"fields": []}}',
        b'{"name": "t", "schema": {"fields": [{"id": 1, "name": "a"}]}}',
        b'{"name": "t", "schema": {"fields": [{"id": 1, "name": "a", "type": "tiny"}]}}',
        b'{"name": "t", "schema": {"fields": [{"id": 1, "name": "a", "type": {"type": "list"}}]}}',
        b'{"name": "t", "schema": {"fields": []}, "location": "relative/path"}',
        b'{"name": "t", "schema": {"fields": []}, "properties": {"format-version": "9"}}',
        b'{"name": "t", "schema": {"fields": []}, "properties": {"format-version": "two"}}',
        b'{"name": "t", "schema": {"fields": []}, "partition-spec": {"fields": [{"source-id": 4}]}}',
    ],
)
def test_a_malformed_table_is_refused(server: IcebergRest, namespace: str, body: bytes) -> None:
    value = json.loads(body) if body else None
    answer = server.call("POST", f"namespaces/{namespace}/tables", value)
    assert answer.status == 400, answer.body
    assert server.call("GET", f"namespaces/{namespace}/tables").expect(200)["identifiers"] == []


@pytest.mark.parametrize("number", ["1000", 1000.5, True, [1000], {"a": 1}, 2**40])
def test_a_partition_field_whose_id_is_no_number_is_refused(
    server: IcebergRest, namespace: str, number: object
) -> None:
    field = {"source-id": 1, "field-id": number, "name": "p", "transform": "identity"}
    body = {"name": "t", "schema": SCHEMA, "partition-spec": {"fields": [field]}}
    assert server.call("POST", f"namespaces/{namespace}/tables", body).status == 400
    server.create(namespace, "t")
    update = {"requirements": [], "updates": [{"action": "add-spec", "spec": {"spec-id": 1, "fields": [field]}}]}
    assert server.call("POST", f"namespaces/{namespace}/tables/t", update).status == 400
    assert len(server.call("GET", f"namespaces/{namespace}/tables/t").expect(200)["metadata"]["partition-specs"]) == 1


WRONG_VALUES = {
    "id": ["1", True, [1], {}, 2**40],
    "name": [1, True, ["a"], {"a": 1}, None],
    "required": [1, "true", [], {}],
    "type": [1, True, ["long"], {"type": ["struct"]}, None],
    "doc": [1, True, ["a"], {"a": 1}],
}
"""Values of the members of a field that are not of their types."""

FIELD = {"id": 1, "name": "a", "required": False, "type": "long", "doc": "a text"}
PLACES: dict[str, Callable[[Any], Any]] = {
    "column": lambda field: field,
    "struct": lambda field: {**FIELD, "id": 2, "type": {"type": "struct", "fields": [field]}},
    "list": lambda field: {
        **FIELD,
        "id": 2,
        "type": {
            "type": "list",
            "element-id": 3,
            "element-required": True,
            "element": {"type": "struct", "fields": [field]},
        },
    },
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("member", WRONG_VALUES)
def test_a_field_whose_member_has_another_type_is_refused(
    server: IcebergRest, namespace: str, place: str, member: str
) -> None:
    for value in WRONG_VALUES[member]:
        schema = {"type": "struct", "schema-id": 0, "fields": [PLACES[place]({**FIELD, member: value})]}
        table = server.call("POST", f"namespaces/{namespace}/tables", {"name": "t", "schema": schema})
        assert table.status == 400, (value, table.body)
        view = server.call("POST", f"namespaces/{namespace}/views", {**new_view("v"), "schema": schema})
        assert view.status == 400, (value, view.body)
    assert server.call("GET", f"namespaces/{namespace}/tables").expect(200)["identifiers"] == []
    assert server.call("GET", f"namespaces/{namespace}/views").expect(200)["identifiers"] == []
    server.call("GET", f"namespaces/{namespace}/views/v").error(404, "NoSuchViewException")


def test_pages_have_all_names_once(server: IcebergRest, namespace: str) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        server.create(namespace, name)
    seen: list[str] = []
    token: str | None = ""
    for _ in range(3):
        path = f"namespaces/{namespace}/tables?pageSize=2&pageToken={token}"
        found = server.call("GET", path).expect(200)
        seen += [each["name"] for each in found["identifiers"]]
        token = found["next-page-token"]
    assert (seen, token) == (names, None)
    everything = server.call("GET", f"namespaces/{namespace}/tables?pageToken=").expect(200)
    assert [each["name"] for each in everything["identifiers"]] == names
    server.call("GET", f"namespaces/{namespace}/tables?pageSize=none").error(400, "BadRequestException")
    first = server.call("GET", "namespaces?pageSize=1").expect(200)
    second = server.call("GET", f"namespaces?pageSize=1&pageToken={first['next-page-token']}").expect(200)
    assert first["namespaces"] < second["namespaces"]


def test_unchanged_metadata_are_not_sent_again(server: IcebergRest, namespace: str) -> None:
    server.create(namespace, "t")
    path = f"namespaces/{namespace}/tables/t"
    tag = server.call("GET", path).headers["etag"]
    assert server.call("GET", path, headers={"If-None-Match": tag}).status == 304
    assert server.call("GET", f"{path}?snapshots=refs", headers={"If-None-Match": tag}).status == 200
    changed = server.commit(namespace, "t", [], [set_properties(a="1")])
    assert changed.headers["etag"] not in (tag, None)
    assert server.call("GET", path, headers={"If-None-Match": tag}).status == 200
    assert server.call("GET", path, headers={"If-None-Match": changed.headers["etag"]}).status == 304


def test_a_failed_requirement_changes_nothing(server: IcebergRest, namespace: str) -> None:
    server.create(namespace, "t")
    other = "00000000-0000-0000-0000-000000000000"
    for requirement, text in (
        ({"type": "assert-table-uuid", "uuid": other}, "UUID does not match"),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}, "branch or tag main is missing"),
        ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 9}, "last assigned field id changed"),
        ({"type": "assert-current-schema-id", "current-schema-id": 9}, "current schema changed"),
        (
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 9},
            "last assigned partition id changed",
        ),
        ({"type": "assert-default-spec-id", "default-spec-id": 9}, "default partition spec changed"),
        ({"type": "assert-default-sort-order-id", "default-sort-order-id": 9}, "default sort order changed"),
        ({"type": "assert-create"}, "table already exists"),
    ):
        message = server.commit(namespace, "t", [requirement], [set_properties(a="1")]).error(
            409, "CommitFailedException"
        )
        assert message.startswith(f"Requirement failed: {text}")
    assert _property(server, namespace, "t", "a") is None
    server.commit(namespace, "t", [{"type": "assert-weather"}], []).error(400, "BadRequestException")
    server.commit(namespace, "t", [], [{"action": "paint"}]).error(400, "BadRequestException")


def test_a_transaction_changes_all_tables_or_none(server: IcebergRest, namespace: str) -> None:
    server.create(namespace, "a")
    server.create(namespace, "b")

    def change(name: str, *requirements: object, **properties: str) -> dict[str, object]:
        identifier = {"namespace": [namespace], "name": name}
        return {
            "identifier": identifier,
            "requirements": list(requirements),
            "updates": [set_properties(**properties)],
        }

    fails = {"type": "assert-current-schema-id", "current-schema-id": 9}
    changes = {"table-changes": [change("a", x="1"), change("b", fails, x="1")]}
    server.call("POST", "transactions/commit", changes).error(409, "CommitFailedException")
    assert [_property(server, namespace, name, "x") for name in "ab"] == [None, None]
    missing = {"table-changes": [change("a", x="1"), change("none", x="1")]}
    server.call("POST", "transactions/commit", missing).error(404, "NoSuchTableException")
    twice = {"table-changes": [change("a", x="1"), change("a", x="2")]}
    server.call("POST", "transactions/commit", twice).error(400, "BadRequestException")
    assert server.call("POST", "transactions/commit", {"table-changes": []}).status == 204
    server.call("POST", "transactions/commit", {"table-changes": [change("b", x="1"), change("a", x="2")]}).expect(204)
    assert [_property(server, namespace, name, "x") for name in "ab"] == ["2", "1"]


def test_a_transaction_changes_tables_and_creates_others(server: IcebergRest, namespace: str) -> None:
    location = server.create(namespace, "a")["metadata"]["location"]

    def change(name: str, requirement: str, *updates: object) -> dict[str, object]:
        identifier = {"namespace": [namespace], "name": name}
        return {"identifier": identifier, "requirements": [{"type": requirement}], "updates": list(updates)}

    old = {
        "identifier": {"namespace": [namespace], "name": "a"},
        "requirements": [],
        "updates": [set_properties(x="1")],
    }
    new = [
        change(name, "assert-create", *new_table_updates(f"{location}-{name}"), set_properties(x="2")) for name in "bc"
    ]
    server.call("POST", "transactions/commit", {"table-changes": [new[0], old, new[1]]}).expect(204)
    assert [_property(server, namespace, name, "x") for name in "abc"] == ["1", "2", "2"]
    again = server.call("POST", "transactions/commit", {"table-changes": [old, new[0]]})
    assert again.error(409, "CommitFailedException") == "Requirement failed: table already exists"
    assert Path(location.removeprefix("file:") + "-b/metadata").is_dir()
    server.call("DELETE", f"namespaces/{namespace}/tables/a").expect(204)
    more = change("d", "assert-create", *new_table_updates(f"{location}-d"))
    server.call("POST", "transactions/commit", {"table-changes": [old, more]}).error(404, "NoSuchTableException")
    server.call("GET", f"namespaces/{namespace}/tables/d").error(404, "NoSuchTableException")


def test_a_staged_table_exists_only_after_its_commit(server: IcebergRest, namespace: str) -> None:
    staged = server.create(namespace, "t", **{"stage-create": True})
    assert "metadata-location" not in staged
    server.call("GET", f"namespaces/{namespace}/tables/t").error(404, "NoSuchTableException")
    metadata = staged["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
    ]
    create = [{"type": "assert-create"}]
    made = server.commit(namespace, "t", create, updates).expect(200)
    assert made["metadata"]["table-uuid"] == metadata["table-uuid"]
    again = server.commit(namespace, "t", create, updates).error(409, "CommitFailedException")
    assert again == "Requirement failed: table already exists"


def test_names_may_have_characters_that_hive_lacks(server: IcebergRest) -> None:
    space = "a new/space"
    server.call("POST", "namespaces", {"namespace": [space]}).expect(200)
    path = f"namespaces/{quote_plus(space)}"
    for name in ("tab/le", "a.b", "tab le", "größe", "100%"):
        made = server.call("POST", f"{path}/tables", {"name": name, "schema": SCHEMA}).expect(200)
        found = server.call("GET", f"{path}/tables/{quote_plus(name)}").expect(200)
        assert found["metadata-location"] == made["metadata-location"]
        server.call("DELETE", f"{path}/tables/{quote_plus(name)}").expect(204)
    server.call("DELETE", path).expect(204)
    for wrong in ("", " a", "a\x00b", "..", "n" * 300, "@hive#d", "@other#"):
        server.call("POST", "namespaces", {"namespace": [wrong]}).error(400, "BadRequestException")


def test_a_new_table_gets_a_directory_of_its_own(server: IcebergRest, namespace: str) -> None:
    first = server.create(namespace, "t")["metadata"]["location"]
    rename = {
        "source": {"namespace": [namespace], "name": "t"},
        "destination": {"namespace": [namespace], "name": "u"},
    }
    server.call("POST", "tables/rename", rename).expect(204)
    second = server.create(namespace, "t")["metadata"]["location"]
    assert second.startswith(f"{first}-")
    message = server.call("POST", "tables/rename", rename).error(409, "AlreadyExistsException")
    assert message == f"Cannot rename {namespace}.t to {namespace}.u. Table already exists"
    rename["destination"] = {"namespace": ["none"], "name": "u"}
    server.call("POST", "tables/rename", rename).error(404, "NoSuchNamespaceException")


def test_purge_keeps_the_files_of_an_earlier_table_of_that_name(server: IcebergRest, namespace: str) -> None:
    kept = server.create(namespace, "t")["metadata-location"]
    server.call("DELETE", f"namespaces/{namespace}/tables/t").expect(204)
    server.create(namespace, "t")
    server.call("DELETE", f"namespaces/{namespace}/tables/t?purgeRequested=true").expect(204)
    body = {"name": "t", "metadata-location": kept}
    found = server.call("POST", f"namespaces/{namespace}/register", body).expect(200)
    assert found["metadata-location"] == kept


def test_purge_deletes_the_files_and_a_plain_drop_keeps_them(server: IcebergRest, namespace: str) -> None:
    for purge, remain in (("false", True), ("true", False)):
        location = server.create(namespace, "t")["metadata-location"]
        server.call("DELETE", f"namespaces/{namespace}/tables/t?purgeRequested={purge}").expect(204)
        assert Path(location.removeprefix("file:")).exists() is remain


def test_a_commit_waits_for_the_lock_of_a_hive_client(server: IcebergRest, namespace: str) -> None:
    server.create(namespace, "t")
    log = server.metastore.warehouse.parent / "server.log"
    answers: list[RestAnswer] = []
    with plain_client(server.metastore.port) as client:
        component = lock_component(ttypes.LockType.EXCLUSIVE, namespace, "t")
        held = client.lock(lock_request(component))
        commit = threading.Thread(
            target=lambda: answers.append(server.commit(namespace, "t", [], [set_properties(a="1")]))
        )
        commit.start()
        deadline = time.monotonic() + at_most(30)
        while f"of the commit to {namespace}.t in" not in log.read_text():
            assert time.monotonic() < deadline
        assert _property(server, namespace, "t", "a") is None
        client.unlock(ttypes.UnlockRequest(lockid=held.lockid))
        commit.join(at_most(30))
    answers[0].expect(200)
    assert _property(server, namespace, "t", "a") == "1"


def test_old_metadata_files_are_deleted_if_the_table_wants_that(server: IcebergRest, namespace: str) -> None:
    settings = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    locations = [server.create(namespace, "t", properties=settings)["metadata-location"]]
    for number in range(3):
        found = server.commit(namespace, "t", [], [set_properties(n=str(number))]).expect(200)
        locations.append(found["metadata-location"])
    exist = [Path(location.removeprefix("file:")).exists() for location in locations]
    assert exist == [False, False, True, True]
    assert [location.rpartition("/")[2][:6] for location in locations] == ["00000-", "00001-", "00002-", "00003-"]


def test_a_forged_log_deletes_no_file_of_others(server: IcebergRest, namespace: str, tmp_path: Path) -> None:
    victim = Path(server.create(namespace, "victim")["metadata-location"].removeprefix("file:"))
    own = Path(server.create(namespace, "own")["metadata-location"].removeprefix("file:"))
    data = own.parent / "data.parquet"
    outside = tmp_path / victim.name
    linked = own.parent / "00009-12345678-1234-1234-1234-123456789abc.metadata.json"
    directory = own.parent / "00008-12345678-1234-1234-1234-123456789abc.metadata.json"
    data.write_text("rows")
    outside.write_text("{}")
    linked.symlink_to(victim)
    (directory / "inner").mkdir(parents=True)
    foreign = [victim, data, outside, linked, directory, own.parent / ".." / "metadata" / ".." / ".." / "victim" / "x"]
    foreign.append(own.parent / ".." / ".." / "victim" / "metadata" / victim.name)
    document = json.loads(own.read_text())
    settings = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    document["properties"] = settings
    document["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": f"file:{path}"} for path in foreign]
    forged = own.parent / "00005-12345678-1234-1234-1234-123456789abc.metadata.json"
    forged.write_text(json.dumps(document))
    server.call("DELETE", f"namespaces/{namespace}/tables/own").expect(204)
    body = {"name": "own", "metadata-location": f"file:{forged}"}
    server.call("POST", f"namespaces/{namespace}/register", body).expect(200)
    for number in range(3):
        server.commit(namespace, "own", [], [set_properties(n=str(number))]).expect(200)
    assert victim.exists()
    assert data.exists()
    assert outside.exists()
    assert linked.is_symlink()
    assert (directory / "inner").exists()
    # The table's own older file is deleted.
    assert not forged.exists()
    server.call("GET", f"namespaces/{namespace}/tables/victim").expect(200)


def test_a_change_without_effect_writes_no_file(server: IcebergRest, namespace: str) -> None:
    before = server.create(namespace, "t", properties={"a": "1"})["metadata-location"]
    assert server.commit(namespace, "t", [], [set_properties(a="1")]).expect(200)["metadata-location"] == before


def test_compressed_metadata_are_read_again(server: IcebergRest, namespace: str) -> None:
    settings = {"write.metadata.compression-codec": "gzip"}
    location = server.create(namespace, "t", properties=settings)["metadata-location"]
    assert location.endswith(".gz.metadata.json")
    assert Path(location.removeprefix("file:")).read_bytes().startswith(b"\x1f\x8b")
    server.call("DELETE", f"namespaces/{namespace}/tables/t").expect(204)
    body = {"name": "again", "metadata-location": location}
    found = server.call("POST", f"namespaces/{namespace}/register", body).expect(200)
    assert found["metadata"]["properties"]["write.metadata.compression-codec"] == "gzip"


def test_a_file_that_is_no_metadata_is_not_registered(server: IcebergRest, namespace: str, tmp_path: Path) -> None:
    for content in ("secret=1", "[]", "{}", '{"format-version": 9, "location": "x"}'):
        path = tmp_path / "v1.metadata.json"
        path.write_text(content)
        body = {"name": "t", "metadata-location": f"file:{path}"}
        answer = server.call("POST", f"namespaces/{namespace}/register", body)
        assert "secret" not in answer.error(400, "IllegalArgumentException")


def test_reports_of_metrics_and_requests_for_credentials_are_answered(server: IcebergRest, namespace: str) -> None:
    server.create(namespace, "t")
    report = {"report-type": "scan-report", "table-name": "t", "snapshot-id": 1, "metrics": {}}
    server.call("POST", f"namespaces/{namespace}/tables/t/metrics", report).expect(204)
    found = server.call("GET", f"namespaces/{namespace}/tables/t/credentials").expect(200)
    assert found == {"storage-credentials": []}


def test_a_metadata_file_without_an_end_is_refused(server: IcebergRest, namespace: str, tmp_path: Path) -> None:
    endless = endless_files(tmp_path, ".metadata.json")
    for location in ("file:/dev/zero", *(f"file:{path}" for path in endless), f"file:{tmp_path}/none.metadata.json"):
        body = {"name": "t", "metadata-location": location}
        answer = server.call("POST", f"namespaces/{namespace}/register", body)
        assert answer.status == 400, answer.body
    assert server.call("GET", f"namespaces/{namespace}/tables").expect(200)["identifiers"] == []
