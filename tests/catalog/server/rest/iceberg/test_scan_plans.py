"""Scans that the server plans: pages, plan tasks that any process continues, refusals, and pyiceberg as a client."""

import json
import time
import zlib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.transforms import IdentityTransform

from interbed.catalog.server.rest.iceberg import scan_plans
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.iceberg.scan_plans import ScanPlanHandler
from interbed.catalog.server.rest.iceberg.store import MetadataContent, TableStore
from interbed.catalog.server.rest.interface import RestError, RestRequest, RestResponse
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.iceberg.rest_scan import pages, planner
from tests.catalog.server.rest.iceberg.rest_server import IcebergRest, endless_files
from tests.iceberg.rest_scan.manifest_table import SPECS, ManifestTable

PATH = "tables/t"
BY_ID = SPECS[12]


def _rows(first: int, count: int, day: date | None = None) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "day": pa.array([day] * count, pa.date32())})


@pytest.fixture
def table(rest_on_sqlite: IcebergRest, request: pytest.FixtureRequest) -> "PlannedTable":
    """Create a table with five appends, partitioned by `day`."""
    return PlannedTable(rest_on_sqlite, f"plans_{zlib.crc32(request.node.name.encode())}")


class PlannedTable:
    """A table `t`, and requests for plans of its scans."""

    def __init__(self, server: IcebergRest, namespace: str) -> None:
        self.server, self.namespace = server, namespace
        self.catalog = load_catalog("rest", type="rest", uri=server.uri, **{"scan-planning-mode": "server"})
        self.catalog.create_namespace(namespace)
        made = self.catalog.create_table(f"{namespace}.t", _rows(0, 1).schema)
        with made.update_spec() as update:
            update.add_field("day", IdentityTransform(), "day")
        for number in range(5):
            made.append(_rows(10 * number, 3, None if number == 4 else date(2024, 1, 1 + number)))
        self.snapshots = [each.snapshot_id for each in made.snapshots()]

    def plan(self, **body: Any) -> Any:
        """Return the answer to planTableScan; underscores of names are hyphens."""
        named = {name.replace("_", "-"): value for name, value in body.items()}
        return self.server.call("POST", f"namespaces/{self.namespace}/{PATH}/plan", named)

    def ids(self, **body: Any) -> list[int]:
        """Return the ids of the rows of the planned files, by their lower bounds."""
        found = self.plan(stats_fields=["id"], **body).expect(200)
        assert found["status"] == "completed"
        bounds = [task["data-file"]["lower-bounds"]["values"][0] for task in found["file-scan-tasks"]]
        return sorted(int.from_bytes(bytes.fromhex(each), "little") for each in bounds)


def test_pyiceberg_reads_what_the_server_has_planned(table: PlannedTable) -> None:
    client = table.catalog.load_table(f"{table.namespace}.t")
    assert table.catalog.supports_server_side_planning()
    client.delete("id = 11")
    found = client.scan(row_filter="day <= '2024-01-02' and id > 1").to_arrow()
    assert found.sort_by("id")["id"].to_pylist() == [2, 10, 12]
    # pyiceberg 0.12 refuses the answer for a null partition, which Java's library sends and reads.
    found = table.plan(filter={"type": "is-null", "term": "day"}).expect(200)
    assert [task["data-file"]["partition"] for task in found["file-scan-tasks"]] == [[None]]


def test_a_scan_is_of_a_snapshot_or_of_the_appends_between_two(table: PlannedTable) -> None:
    first, second, *_, last = table.snapshots
    assert table.ids() == [0, 10, 20, 30, 40]
    assert table.ids(snapshot_id=second) == [0, 10]
    assert table.ids(start_snapshot_id=second, end_snapshot_id=last) == [20, 30, 40]
    assert table.ids(start_snapshot_id=first, end_snapshot_id=first, min_rows_requested=1) == []
    assert table.ids(min_rows_requested=4) == [30, 40]
    for wrong in (
        {"snapshot_id": 1},
        {"start_snapshot_id": first},
        {"end_snapshot_id": last},
        {"snapshot_id": first, "start_snapshot_id": first, "end_snapshot_id": last},
        {"start_snapshot_id": last, "end_snapshot_id": first},
        {"select": ["other"]},
        {"stats_fields": ["other"]},
        {"min_rows_requested": -1},
        {"filter": None},
        {"select": ["ID"]},
    ):
        table.plan(**wrong).error(400, "BadRequestException")
    assert table.ids(select=["ID", "_file", "_partition.day"], case_sensitive=False) == [0, 10, 20, 30, 40]


def test_a_scan_by_the_schema_of_its_snapshot_has_the_columns_of_that_time(table: PlannedTable) -> None:
    client = table.catalog.load_table(f"{table.namespace}.t")
    with client.update_schema() as update:
        update.rename_column("id", "number")
    wanted = {"type": "eq", "term": "id", "value": 1}
    table.plan(filter=wanted).error(400, "BadRequestException")
    snapshot = table.snapshots[1]
    table.plan(filter=wanted, snapshot_id=snapshot).error(400, "BadRequestException")
    found = table.plan(filter=wanted, snapshot_id=snapshot, use_snapshot_schema=True).expect(200)
    assert [task["residual-filter"] for task in found["file-scan-tasks"]] == [wanted]


def test_a_finished_plan_is_fetched_again_and_cancelled(table: PlannedTable) -> None:
    found = table.plan(filter={"type": "lt", "term": "id", "value": 15}).expect(200)
    path = f"namespaces/{table.namespace}/{PATH}/plan/{found['plan-id']}"
    assert table.server.call("GET", path).expect(200) == found
    table.server.call("DELETE", path).expect(204)
    table.catalog.create_table(f"{table.namespace}.u", _rows(0, 1).schema)
    for wrong in ("s", "snone", "none", found["plan-id"][:-4]):
        path = f"namespaces/{table.namespace}/{PATH}/plan/{wrong}"
        for method in ("GET", "DELETE"):
            table.server.call(method, path).error(404, "NoSuchPlanIdException")
    other = f"namespaces/{table.namespace}/tables/u/plan/{found['plan-id']}"
    table.server.call("GET", other).error(404, "NoSuchPlanIdException")
    # A plan id is a part of a path, which cannot have a long filter.
    numbers = [pow(3, number, 10**15) for number in range(2000)]
    long = table.plan(filter={"type": "in", "term": "id", "values": numbers}).expect(200)
    assert len(long["plan-id"]) == 33
    path = f"namespaces/{table.namespace}/{PATH}/plan/{long['plan-id']}"
    assert "too long" in table.server.call("GET", path).error(404, "NoSuchPlanIdException")
    table.server.call("DELETE", path).expect(204)


def test_an_unknown_expression_is_refused_by_name(table: PlannedTable) -> None:
    for wrong, text in (
        ({"type": "like", "term": "id", "value": "%"}, "'like'"),
        ({"type": "eq", "left": {"type": "apply", "function": "abs", "arguments": []}, "right": 1}, "'apply'"),
        ({"type": "eq", "term": "other", "value": 1}, "'other'"),
        ({"type": "eq", "term": "id", "value": "one"}, "'one'"),
        ({"type": "eq", "term": "id", "value": None}, "None"),
        ({"type": "eq", "term": "id", "value": 1.5}, "1.5"),
        ({"type": "eq", "term": "day", "value": "yesterday"}, "'yesterday'"),
        ({"type": "starts-with", "term": "id", "value": "1"}, "'starts-with'"),
        ({"type": "is-nan", "term": "id"}, "'is-nan'"),
        ({"type": "in", "term": "id", "values": []}, "'in'"),
        ({"type": "eq", "term": {"type": "transform", "transform": "root", "term": "id"}, "value": 1}, "'root'"),
        ({"type": "not"}, "'child'"),
        ("id = 1", "id = 1"),
    ):
        assert text in table.plan(filter=wrong).error(400, "BadRequestException")


def test_a_table_without_rows_has_an_empty_plan(table: PlannedTable) -> None:
    table.catalog.create_table(f"{table.namespace}.empty", _rows(0, 1).schema)
    path = f"namespaces/{table.namespace}/tables/empty/plan"
    found = table.server.call("POST", path, {}).expect(200)
    assert (found["status"], found["file-scan-tasks"]) == ("completed", [])
    table.server.call("DELETE", f"{path}/{found['plan-id']}").expect(204)
    missing = table.server.call("POST", f"namespaces/{table.namespace}/tables/none/plan", {})
    missing.error(404, "NoSuchTableException")


@pytest.mark.parametrize("version", ["1", "3"])
def test_tables_of_other_versions_are_planned(table: PlannedTable, version: str) -> None:
    properties = {"format-version": version}
    made = table.catalog.create_table(f"{table.namespace}.v{version}", _rows(0, 1).schema, properties=properties)
    assert made.format_version == int(version)
    path = f"namespaces/{table.namespace}/tables/v{version}"
    if version == "1":
        made.append(_rows(0, 3))
        found = table.server.call("POST", f"{path}/plan", {"filter": {"type": "gt", "term": "id", "value": 1}})
        (task,) = found.expect(200)["file-scan-tasks"]
        assert task["data-file"]["record-count"] == 3
    else:
        assert table.server.call("POST", f"{path}/plan", {}).expect(200)["file-scan-tasks"] == []


def test_a_file_that_is_no_manifest_is_not_shown(table: PlannedTable, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret=1")
    path = f"namespaces/{table.namespace}/{PATH}"
    document = table.server.call("GET", path).expect(200)["metadata"]
    for place in (secret, tmp_path / "missing"):
        for snapshot in document["snapshots"]:
            snapshot["manifest-list"] = f"file:{place}"
        forged = tmp_path / "00001-forged.metadata.json"
        forged.write_text(json.dumps(document))
        body = {"name": f"forged_{place.name}", "metadata-location": f"file:{forged}"}
        table.server.call("POST", f"namespaces/{table.namespace}/register", body).expect(200)
        answer = table.server.call("POST", f"namespaces/{table.namespace}/tables/{body['name']}/plan", {})
        assert "secret=1" not in answer.error(500, "InternalServerError")
        forged.unlink()


def _call(operation: Callable[[RestRequest], RestResponse], body: Any) -> Any:
    parts = {"prefix": "hive", "namespace": "default", "table": "t"}
    request = RestRequest(
        parts=parts, query={}, headers={}, body=json.dumps(body).encode(), session=ClientSession(peer="test")
    )
    return json.loads(operation(request).body)


@pytest.fixture
def store(metastore_services: Metastore, tmp_path: Path) -> TableStore:
    """Return the tables of a metastore, with a table `t` of four manifests of five files each."""
    found = TableStore(metastore_services)
    made = ManifestTable(tmp_path)
    for number in range(4):
        rows = [(5 * number + of, "n", None, None, None, None, None, of) for of in range(5)]
        made.append(BY_ID, rows)
    _register(found, made, tmp_path / "00001.metadata.json")
    return found


def _register(store: TableStore, made: ManifestTable, path: Path) -> None:
    path.write_text(made.metadata.model_dump_json(by_alias=True))
    name = IcebergName(catalog="hive", levels=("default",), name="t")
    store.register(name, f"file:{path}", None)


def test_plan_tasks_are_continued_by_any_process(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_FILES", 3)
    wanted = {"type": "lt", "term": "need", "value": 4}
    first = _call(ScanPlanHandler(store).plan, {"filter": wanted})
    found, waiting = list(first["file-scan-tasks"]), list(first["plan-tasks"])
    # Parts of a scan may be planned at the same time.
    assert len(waiting) > 1
    while waiting:
        answer = _call(ScanPlanHandler(store).tasks, {"plan-task": waiting.pop()})
        assert len(answer["file-scan-tasks"]) <= 3
        found += answer["file-scan-tasks"]
        waiting += answer.get("plan-tasks", [])
    paths = [task["data-file"]["file-path"] for task in found]
    assert len(paths) == len(set(paths)) == 16


def test_a_long_filter_is_not_repeated_in_many_plan_tasks(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_FILES", 3)
    monkeypatch.setattr(scan_plans, "TOKENS_BYTES_MAX", 1000)
    first = _call(
        ScanPlanHandler(store).plan, {"filter": {"type": "not-in", "term": "id", "values": [*range(-400, 0)]}}
    )
    assert len(first["plan-tasks"]) == 1
    found, task = len(first["file-scan-tasks"]), first["plan-tasks"][0]
    while task is not None:
        answer = _call(ScanPlanHandler(store).tasks, {"plan-task": task})
        found += len(answer["file-scan-tasks"])
        (task,) = answer.get("plan-tasks", [None])
    assert found == 20


def test_enough_rows_end_a_scan(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_FILES", 3)
    handler = ScanPlanHandler(store)
    assert "plan-tasks" not in _call(handler.plan, {"min-rows-requested": 2})
    first = _call(handler.plan, {"min-rows-requested": 4})
    (task,) = first["plan-tasks"]
    answer = _call(handler.tasks, {"plan-task": task})
    assert (len(first["file-scan-tasks"]), len(answer["file-scan-tasks"]), "plan-tasks" in answer) == (3, 1, False)


def test_a_plan_task_of_another_table_or_of_an_expired_snapshot_is_refused(
    store: TableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_FILES", 3)
    handler = ScanPlanHandler(store)
    task = _call(handler.plan, {})["plan-tasks"][0]
    for wrong in ("", "none", task[:-8], f"{task}x", "ä"):
        with pytest.raises(RestError, match="no such plan task") as caught:
            _call(handler.tasks, {"plan-task": wrong})
        assert (caught.value.status, caught.value.kind) == (404, "NoSuchPlanTaskException")
    store.drop(IcebergName(catalog="hive", levels=("default",), name="t"))
    (tmp_path / "other").mkdir()
    expired = ManifestTable(tmp_path / "other")
    _register(store, expired, tmp_path / "00002.metadata.json")
    with pytest.raises(RestError, match="has expired"):
        _call(handler.tasks, {"plan-task": task})


def test_a_request_parses_the_metadata_once(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_FILES", 3)
    # Metadata of more bytes than the cache has.
    monkeypatch.setattr(planner, "_METADATA_BYTES", 1)
    parse, parsed = TableMetadataUtil.parse_raw, []

    def counted(text: str) -> Any:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(TableMetadataUtil, "parse_raw", counted)
    monkeypatch.setattr(MetadataContent, "document", None)
    handler = ScanPlanHandler(store)
    planned = _call(handler.plan, {"filter": {"type": "not-null", "term": "name"}})
    assert len(parsed) == 1
    _call(handler.tasks, {"plan-task": planned["plan-tasks"][0]})
    assert len(parsed) == 2


def test_a_filter_of_any_depth_is_planned_or_refused(store: TableStore) -> None:
    handler = ScanPlanHandler(store)
    leaf = '{"type": "true"}'

    def is_planned(depth: int) -> bool:
        # Python's library of JSON takes fewer levels than the server's.
        text = '{"type": "and", "left": ' * depth + leaf + f', "right": {leaf}}}' * depth
        request = RestRequest(
            parts={"prefix": "hive", "namespace": "default", "table": "t"},
            query={},
            headers={},
            body=f'{{"filter": {text}}}'.encode(),
            session=ClientSession(peer="test"),
        )
        try:
            return handler.plan(request).status == 200
        except RestError as error:
            if error.status != 400 or "nested too deeply" not in str(error):
                raise
            return False

    planned, refused = 10, 4000
    assert is_planned(planned)
    assert not is_planned(refused)
    while refused - planned > 1:
        middle = (planned + refused) // 2
        planned, refused = (middle, refused) if is_planned(middle) else (planned, middle)
    for depth in range(planned, planned + 6):
        is_planned(depth)


def test_a_manifest_list_without_an_end_is_refused(server: IcebergRest, namespace: str, tmp_path: Path) -> None:
    """A client may name any file."""
    server.create(namespace, "t")
    for number, (place, size) in enumerate(endless_files(tmp_path, ".avro").items(), start=1):
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": f"file:{place}",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        reference = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}
        updates = [{"action": "add-snapshot", "snapshot": snapshot}, reference]
        server.commit(namespace, "t", [], updates).expect(200)
        planned = server.call("POST", f"namespaces/{namespace}/tables/t/plan", {})
        assert f"it has {size} bytes" in planned.error(500, "InternalServerError")
