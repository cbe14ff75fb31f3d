"""Rights of callers through the REST interfaces."""

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.service.access.objects import Privilege, catalog_object, database_object
from interbed.catalog.server.service.model import EXTERNAL_TABLE
from tests.catalog.server.access.guarded import ADMIN, NOBODY, OWNER, READER, SALES, STORAGE, WRITER, served, table
from tests.catalog.server.access.rest_interfaces import OF_SALES, SCHEMA, GuardedRest, guarded_rest


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[GuardedRest]:
    """Return the interfaces of a guarded metastore."""
    with guarded_rest(tmp_path) as made:
        yield made


def test_creators_own_what_they_create_by_rest(rest: GuardedRest) -> None:
    for name in ("ice", "lake"):
        assert rest.guarded.metastore.tables.get("hive", "sales", name).owner == OWNER


@pytest.mark.parametrize(
    ("interface", "unseen", "missing"),
    [
        ("iceberg", "v1/hive/namespaces/hr/tables/pay", "v1/hive/namespaces/hr/tables/nix"),
        ("iceberg", "v1/hive/namespaces/sales/tables/ice", "v1/hive/namespaces/sales/tables/nix"),
        ("iceberg", "v1/hive/namespaces/hr", "v1/hive/namespaces/nix"),
        ("iceberg", "v1/hive/namespaces/hr/tables", "v1/hive/namespaces/nix/tables"),
        ("paimon", "v1/hive/databases/sales/tables/lake", "v1/hive/databases/sales/tables/nix"),
        ("paimon", "v1/hive/databases/sales/tables/lake/snapshot", "v1/hive/databases/sales/tables/nix/snapshot"),
        ("paimon", "v1/hive/databases/sales/tables/lake/tags", "v1/hive/databases/sales/tables/nix/tags"),
        ("paimon", "v1/hive/databases/sales/tables/lake/branches", "v1/hive/databases/sales/tables/nix/branches"),
        ("paimon", "v1/hive/databases/sales/tables/lake/partitions", "v1/hive/databases/sales/tables/nix/partitions"),
        ("paimon", "v1/hive/databases/hr", "v1/hive/databases/nix"),
        ("paimon", "v1/hive/databases/hr/tables", "v1/hive/databases/nix/tables"),
        ("paimon", "v1/hive/databases/hr/views", "v1/hive/databases/nix/views"),
        ("interbed", "v1/hive/databases/hr/tables/pay/history", "v1/hive/databases/hr/tables/nix/history"),
    ],
)
@pytest.mark.parametrize("name", [NOBODY, "stranger"])
def test_the_answers_about_unseen_and_missing_objects_are_the_same(
    rest: GuardedRest, interface: str, unseen: str, missing: str, name: str
) -> None:
    names = ("ice", "lake", "pay", "hr")
    first, second = (rest.send(name, interface, "GET", path) for path in (unseen, missing))
    hidden = json.dumps(first)
    for each in names:
        hidden = hidden.replace(each, "nix")
    assert json.loads(hidden) == json.loads(json.dumps(second).replace("hr", "nix"))
    assert first[0] == 404


def test_readers_read_and_are_refused_changes_by_name(rest: GuardedRest) -> None:
    table = "v1/hive/namespaces/sales/tables/ice"
    assert rest.send(READER, "iceberg", "GET", table)[0] == 200
    assert rest.send(READER, "iceberg", "GET", "v1/hive/namespaces/sales/tables")[1]["identifiers"] == [
        {"namespace": ["sales"], "name": name} for name in ("cloud", "ice")
    ]
    assert rest.send(READER, "iceberg", "GET", "v1/hive/namespaces")[1]["namespaces"] == [["sales"]]
    status, answer = rest.send(READER, "iceberg", "DELETE", table)
    assert (status, answer["error"]["type"]) == (403, "ForbiddenException")
    assert "DROP on the table hive.sales.ice" in answer["error"]["message"]
    for method, path, body in (
        ("POST", "tags", {"tagName": "x", "snapshotId": 1}),
        ("POST", "branches", {"branch": "x"}),
        ("POST", "rollback", {"instant": {"type": "snapshot", "snapshotId": 1}}),
        ("DELETE", "branches/x", None),
        ("POST", "", {"changes": []}),
        ("POST", "commit", {"tableId": "x", "snapshot": {}, "statistics": []}),
    ):
        path = f"v1/hive/databases/sales/tables/lake/{path}".rstrip("/")
        status, answer = rest.send(READER, "paimon", method, path, body)
        assert (status, answer["code"]) == (403, 403), path
        assert "reader lacks the privilege" in answer["message"]
    assert rest.send(READER, "paimon", "POST", "v1/hive/databases/sales/tables/lake/auth", {})[0] == 200


def test_writers_append_and_do_not_change_a_schema(rest: GuardedRest) -> None:
    table = "v1/hive/namespaces/sales/tables/ice"
    snapshot = {
        "snapshot-id": 7,
        "sequence-number": 1,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": f"file:{rest.guarded.root}/warehouse/sales.db/ice/metadata/snap-7.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    append = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    ]
    status, answer = rest.send(READER, "iceberg", "POST", table, {"requirements": [], "updates": append})
    assert status == 403, answer
    assert rest.send(WRITER, "iceberg", "POST", table, {"requirements": [], "updates": append})[0] == 200
    unnamed = [{"action": "add-snapshot", "snapshot": {**snapshot, "snapshot-id": 8, "sequence-number": 2}}]
    assert rest.send(WRITER, "iceberg", "POST", table, {"requirements": [], "updates": unnamed})[0] == 200
    for updates in (
        [{"action": "set-properties", "updates": {"a": "b"}}],
        [{"action": "set-snapshot-ref", "ref-name": "old", "type": "branch", "snapshot-id": 7}],
        [{"action": "remove-snapshots", "snapshot-ids": [8]}],
        [{"action": "set-location", "location": f"file:{rest.guarded.root}/elsewhere"}],
    ):
        status, answer = rest.send(WRITER, "iceberg", "POST", table, {"requirements": [], "updates": updates})
        assert (status, answer["error"]["type"]) == (403, "ForbiddenException"), updates
    assert not (rest.guarded.root / "elsewhere").exists()


def test_scans_are_not_planned_from_the_files_of_an_unseen_table(rest: GuardedRest) -> None:
    table = "v1/hive/namespaces/sales/tables/ice"
    folder = rest.guarded.root / "warehouse" / "hr.db" / "pay" / "metadata"
    folder.mkdir(parents=True)
    (folder / "snap-1.avro").write_bytes(b"salary")
    snapshot = {
        "snapshot-id": 7,
        "sequence-number": 1,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": f"file:{folder}/snap-1.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    ]
    assert rest.send(OWNER, "iceberg", "POST", table, {"requirements": [], "updates": updates})[0] == 200
    status, answer = rest.send(OWNER, "iceberg", "POST", f"{table}/plan", {})
    assert (status, answer["error"]["type"]) == (403, "ForbiddenException")
    assert "pay" not in answer["error"]["message"]
    rest.guarded.grant(OWNER, database_object("hive", "hr"), Privilege.SELECT)
    assert rest.send(OWNER, "iceberg", "POST", f"{table}/plan", {})[0] != 403


def test_no_file_is_written_where_a_table_may_not_be(rest: GuardedRest) -> None:
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}]
    schema = {"fields": fields, "partitionKeys": [], "primaryKeys": [], "comment": ""}
    place = rest.guarded.root / "warehouse" / "sales.db" / "wanted"
    theirs = table("far", "hr", table_type=EXTERNAL_TABLE, parameters={"EXTERNAL": "TRUE"})
    storage = dataclasses.replace(STORAGE, location=f"file:{place}")
    rest.guarded.metastore.tables.create(dataclasses.replace(theirs, storage=storage))
    pay = rest.guarded.root / "warehouse" / "hr.db" / "pay"
    before = sorted(rest.guarded.root.rglob("*"))
    for name, options in (("wanted", {}), ("mine", {"path": f"file:{pay}"}), ("mine", {"path": f"file:{pay}/in"})):
        body = {"identifier": {"database": "sales", "object": name}, "schema": {**schema, "options": options}}
        status, answer = rest.send(OWNER, "paimon", "POST", "v1/hive/databases/sales/tables", body)
        assert status == 403, answer
    for location in (f"file:{pay}", f"file:{rest.guarded.root}/elsewhere"):
        for properties in ({}, {"write.metadata.path": f"{location}/metadata"}):
            body = {"name": "mine", "schema": SCHEMA, "properties": properties}
            body |= {} if properties else {"location": location}
            status, answer = rest.send(READER, "iceberg", "POST", "v1/hive/namespaces/sales/tables", body)
            assert status == 403, answer
            rest.guarded.grant("maker", SALES, Privilege.CREATE)
            status, answer = rest.send("maker", "iceberg", "POST", "v1/hive/namespaces/sales/tables", body)
            assert status == 403, answer
            assert "LOCATION" in answer["error"]["message"]
    register = {"name": "mine", "metadata-location": f"file:{pay}/metadata/v1.metadata.json"}
    assert rest.send("maker", "iceberg", "POST", "v1/hive/namespaces/sales/register", register)[0] == 403
    assert sorted(rest.guarded.root.rglob("*")) == before


def test_a_key_of_a_request_is_that_of_its_principal(rest: GuardedRest) -> None:
    key = "0190a0a0-0000-7000-8000-000000000001"
    path, body = "v1/hive/namespaces/sales/properties", {"updates": {"a": "b"}}
    assert rest.send(OWNER, "iceberg", "POST", path, body, key=key)[0] == 200
    assert rest.send(OWNER, "iceberg", "POST", path, body, key=key)[0] == 200
    assert rest.send(READER, "iceberg", "POST", path, body, key=key)[0] == 403
    rest.guarded.grant(READER, SALES, Privilege.ALTER)
    assert rest.send(READER, "iceberg", "POST", path, body, key=key)[0] == 200


def test_a_warehouse_without_a_metastore_is_a_catalog_of_its_name(rest: GuardedRest) -> None:
    path = "v1/directory/databases"
    assert rest.send(ADMIN, "paimon", "POST", path, {"name": "d", "options": {}})[0] == 200
    unseen = rest.send(READER, "paimon", "GET", path)
    missing = rest.send(READER, "paimon", "GET", "v1/nix/databases")
    assert unseen[0] == missing[0] == 404
    assert unseen[1]["message"].replace("directory", "nix") == missing[1]["message"]
    rest.guarded.grant(READER, catalog_object("directory"), Privilege.SELECT)
    assert rest.send(READER, "paimon", "GET", path)[1]["databases"] == ["d"]
    assert rest.send(READER, "paimon", "DELETE", f"{path}/d")[0] == 403
    status, answer = rest.send(NOBODY, "paimon", "GET", "v1/config", query={"warehouse": "nix"})
    assert (status, "directory" in answer["message"]) == (404, False)


def test_every_route_of_a_warehouse_asks_for_its_catalog(rest: GuardedRest) -> None:
    rest.guarded.grant("guest", catalog_object("directory"), Privilege.SELECT)
    asked = 0
    for route in rest.interfaces["paimon"].routes:
        if "{prefix}" not in route.template:
            continue
        parts = [
            "directory" if each == "{prefix}" else "x" if each[0] == "{" else each for each in route.template.split("/")
        ]
        path = "/".join(parts)
        body: dict[str, Any] | None = {} if route.method == "POST" else None
        status, answer = rest.send(NOBODY, "paimon", route.method, path, body)
        assert (status, answer["message"]) == (404, "There is no catalog 'directory'."), route.operation
        status, answer = rest.send("guest", "paimon", route.method, path, body)
        assert (status == 403) is route.is_change, (route.operation, answer)
        asked += 1
    assert asked > 40
    assert not (rest.guarded.root / "directory" / "x.db").exists()


def test_dropped_objects_are_for_those_that_dropped_or_may_drop_them(rest: GuardedRest) -> None:
    with served(OWNER):
        rest.guarded.metastore.tables.drop("hive", "sales", "orders", delete_data=True)
    undrop = "v1/hive/databases/sales/tables/orders/undrop"
    for name, found in ((READER, []), (WRITER, []), (OWNER, ["orders"]), (ADMIN, ["orders"])):
        answer = rest.send(name, "interbed", "GET", "v1/hive/dropped")[1]
        assert [each["name"] for each in answer["dropped"]] == found
    rest.guarded.grant(READER, database_object("hive", "sales"), Privilege.CREATE)
    assert rest.send(READER, "interbed", "POST", undrop)[0] == 404
    rest.guarded.grants.owned_by = lambda _name: set()
    rest.guarded.grant(OWNER, SALES, Privilege.USAGE)
    assert rest.send(OWNER, "interbed", "POST", undrop)[0] == 403
    assert rest.send(ADMIN, "interbed", "POST", undrop)[0] == 200


def test_the_history_of_a_table_is_for_its_readers(rest: GuardedRest) -> None:
    number = rest.guarded.metastore.tables.get("hive", "hr", "pay").number
    history = "v1/hive/databases/sales/tables/orders/history"
    assert rest.send(READER, "interbed", "GET", history)[0] == 200
    assert rest.send(READER, "interbed", "GET", history, query={"id": str(number)})[0] == 404
    changes = rest.send(READER, "interbed", "GET", "v1/hive/databases/sales/history")[1]["changes"]
    assert {each["name"] for each in changes} <= {None, "orders", "sums", *OF_SALES}
    assert rest.send("stranger", "interbed", "GET", "v1/hive/databases/sales/history")[0] == 404


def test_branches_are_those_of_their_table(rest: GuardedRest) -> None:
    tables = "v1/hive/databases/sales/tables"
    assert rest.send(OWNER, "paimon", "POST", f"{tables}/lake/branches", {"branch": "b"})[0] == 200
    for name in ("lake$branch_b", "LAKE$branch_b"):
        assert rest.send(READER, "paimon", "GET", f"{tables}/{name}")[0] == 200, name
        assert rest.send(NOBODY, "paimon", "GET", f"{tables}/{name}")[0] == 404, name
    status, answer = rest.send(READER, "paimon", "POST", f"{tables}/lake$branch_b", {"changes": []})
    assert (status, "lacks the privilege ALTER on the table hive.sales.lake" in answer["message"]) == (403, True)
    for method, path in (("DELETE", ""), ("POST", "/commit"), ("POST", "/rollback"), ("POST", "/tags")):
        assert rest.send(READER, "paimon", method, f"{tables}/lake$branch_b{path}", {})[0] == 403, path
        hidden, absent = (
            rest.send(NOBODY, "paimon", method, f"{tables}/{name}$branch_b{path}", {})[0] for name in ("lake", "nix")
        )
        assert hidden == absent, path
