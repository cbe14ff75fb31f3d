"""Scans that the server plans: plan a scan, fetch the tasks of a part of it.

The server keeps no state of a plan. A scan is planned in the request for it, up to a page of files; a plan task is a
text with the scan and a range of its manifests, which any worker process can plan. It is refused when its snapshot has
expired. Cancelling a plan frees nothing. Planning needs the extra `interbed[iceberg]`. Source: Iceberg's REST
specification, planTableScan, fetchPlanningResult, cancelPlanning and fetchScanTasks.
"""

import threading
import uuid
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from interbed.catalog.server.rest.iceberg.entries import is_own, uuid_of
from interbed.catalog.server.rest.iceberg.names import bad_request, unavailable
from interbed.catalog.server.rest.iceberg.removals import read_file
from interbed.catalog.server.rest.iceberg.store import TableStore
from interbed.catalog.server.rest.interface import NO_CONTENT, RestError, RestRequest, RestResponse, json_response
from interbed.catalog.server.service.access.objects import table_object
from interbed.catalog.server.service.errors import is_of_a_store
from interbed.catalog.server.service.names import normalized
from interbed.storage.base.decoding import bytes_of_base64url
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from interbed.iceberg.rest_scan.planner import PlannedTasks, ScanPlanner, ScanQuery

PLANNING_NEEDS = "pyiceberg"
"""The library without which the routes of this module do not exist."""

TOKENS_BYTES_MAX = 1 << 20
"""Bytes of all plan tasks of a response: with a long filter there are fewer of them."""

_PLAN_ID_CHARACTERS_MAX = 4_000
"""Characters of a plan id with its scan, which is a part of a path; another plan id is random."""
_DECODED_BYTES_MAX = 32 << 20
_RANDOM = "n"
_WITH_SCAN = "s"
_T = TypeVar("_T")


class PlanTableScanRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """Body of the operation planTableScan."""

    snapshot_id: int | None = None
    select: list[str] | None = None
    filter: Any = True
    min_rows_requested: int | None = None
    case_sensitive: bool | None = None
    use_snapshot_schema: bool | None = None
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    stats_fields: list[str] | None = None


class FetchScanTasksRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """Body of the operation fetchScanTasks."""

    plan_task: str


class ScanPlanToken(msgspec.Struct, frozen=True, array_like=True):
    """A scan of a table as a text: the fields of a ScanQuery, and the rows that are enough."""

    table: str
    snapshot_id: int
    start_id: int | None
    schema_id: int
    filter: Any
    case_sensitive: bool
    statistics: list[int]
    rows: int | None


class PlanTaskToken(msgspec.Struct, frozen=True, array_like=True):
    """A range of a scan as a text: the fields of a ScanRange."""

    scan: ScanPlanToken
    manifest: int
    entry: int
    end: int


@dataclass(frozen=True, slots=True)
class PlannableTable:
    """A table whose scans are planned: its UUID, and its metadata, which a request parses once. `check` refuses files
    that its caller may not read.
    """

    uuid: str
    metadata: "TableMetadata"
    check: Callable[[Sequence[str]], None]


class ScanPlanHandler:
    """The operations about scans that the server plans."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._made: ScanPlanner | None = None

    def plan(self, request: RestRequest) -> RestResponse:
        """Answer planTableScan: the first tasks, and plan tasks for the others."""
        body = request.json(PlanTableScanRequest)
        if body.min_rows_requested is not None and body.min_rows_requested < 0:
            raise bad_request(f"The min-rows-requested is {body.min_rows_requested}, which is negative")
        table = self._table(request)
        try:
            query = self._query(table, body)
            if query is None:
                return _completed(_RANDOM + uuid.uuid4().hex, [], [], [])
            scan = _scan_token(table, query, body.min_rows_requested)
            return self._planned(table, scan)
        except InterbedError as error:
            raise _refusal(error) from error
        except RecursionError as error:
            # The text of a plan task nests its filter deeper than the request does.
            raise bad_request("The filter is nested too deeply") from error

    def result(self, request: RestRequest) -> RestResponse:
        """Answer fetchPlanningResult: the response of planTableScan again."""
        table = self._table(request)
        scan = self._scan_of(table, request.parts["plan-id"])
        if scan is None:
            raise _no_plan("Its scan is too long for a plan id, and was planned in the response of planTableScan")
        try:
            return self._planned(table, scan)
        except InterbedError as error:
            raise _refusal(error, _no_plan) from error

    def cancel(self, request: RestRequest) -> RestResponse:
        """Answer cancelPlanning. There is nothing to free."""
        self._scan_of(self._table(request), request.parts["plan-id"])
        return NO_CONTENT

    def tasks(self, request: RestRequest) -> RestResponse:
        """Answer fetchScanTasks: the next tasks of a range, and a plan task for what is left of it."""
        from interbed.iceberg.rest_scan.planner import ScanRange

        body = request.json(FetchScanTasksRequest)
        table = self._table(request)
        task = _decoded(body.plan_task, PlanTaskToken)
        if task is None or task.scan.table != table.uuid or min(task.manifest, task.entry, task.end) < 0:
            raise _no_task("It is not one of this table")
        part = ScanRange(task.manifest, task.entry, task.end)
        try:
            scan = _query(task.scan)
            found = self._planner().tasks(table.metadata, scan, part, rows=task.scan.rows, check=table.check)
        except InterbedError as error:
            raise _refusal(error, _no_task) from error
        return json_response(_tasks_json(found.tasks, found.deletes, _texts(task.scan, found)))

    def _table(self, request: RestRequest) -> PlannableTable:
        """Return the table of a request, of Iceberg or an own one. RestError with status 404 if there is none, 406 for
        one that is not read.
        """
        name = self._store.mapping.table_of(request)
        entry = self._store.readable(name)
        # Plans name files, which hold all rows and columns, and bounds of columns.
        on = table_object(name.catalog, name.database, normalized(name.table))
        self._store.metastore.policies.check_files(on, "scan plans")
        if is_own(self._store.own, entry):
            number = uuid_of(entry)
            own = self._store.own.load(request, name, number)
            # A table without rows has no file of metadata.
            location, content = own.location or f"urn:uuid:{number}", own.content
        else:
            found = self._store.load(name)
            location, content = found.location, found.content.json
        try:
            metadata = self._planner().metadata(location, content)
        except InterbedError as error:
            raise _refusal(error) from error
        pointers, home = self._store.metastore.pointers, entry.location or metadata.location
        check = partial(pointers.check_readable, name.catalog, name.database, name.table, home)
        return PlannableTable(str(metadata.table_uuid), metadata, check)

    def _planned(self, table: PlannableTable, scan: ScanPlanToken) -> RestResponse:
        text = _encoded(scan)
        # A plan task is somewhat longer than its scan.
        ranges = max(1, TOKENS_BYTES_MAX // (len(text) + 100))
        found = self._planner().tasks(
            table.metadata, _query(scan), rows=scan.rows, ranges=min(ranges, 32), check=table.check
        )
        number = _WITH_SCAN + text if len(text) <= _PLAN_ID_CHARACTERS_MAX else _RANDOM + uuid.uuid4().hex
        return _completed(number, found.tasks, found.deletes, _texts(scan, found))

    def _query(self, table: PlannableTable, body: PlanTableScanRequest) -> "ScanQuery | None":
        from interbed.iceberg.rest_scan.planner import ScanRequest

        wanted = ScanRequest(
            snapshot_id=body.snapshot_id,
            start_snapshot_id=body.start_snapshot_id,
            end_snapshot_id=body.end_snapshot_id,
            select=body.select or (),
            filter=body.filter,
            case_sensitive=body.case_sensitive is not False,
            use_snapshot_schema=bool(body.use_snapshot_schema),
            stats_fields=body.stats_fields or (),
        )
        return self._planner().query(table.metadata, wanted)

    def _scan_of(self, table: PlannableTable, text: str) -> ScanPlanToken | None:
        """Return the scan of a plan id, None for a random one. RestError with status 404 for another table's."""
        if text.startswith(_RANDOM) and len(text) == 33:
            return None
        scan = _decoded(text[1:], ScanPlanToken) if text.startswith(_WITH_SCAN) else None
        if scan is None or scan.table != table.uuid:
            raise _no_plan("It is not one of this table")
        return scan

    def _planner(self) -> "ScanPlanner":
        from interbed.iceberg.rest_scan.planner import ScanPlanner

        with self._lock:
            if self._made is None:
                self._made = ScanPlanner(partial(read_file, self._store))
            return self._made


def _completed(number: str, tasks: list[Any], deletes: list[Any], texts: list[str]) -> RestResponse:
    return json_response({"status": "completed", "plan-id": number, **_tasks_json(tasks, deletes, texts)})


def _tasks_json(tasks: list[Any], deletes: list[Any], texts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"file-scan-tasks": tasks}
    if deletes:
        found["delete-files"] = deletes
    if texts:
        found["plan-tasks"] = texts
    return found


def _scan_token(table: PlannableTable, query: "ScanQuery", rows: int | None) -> ScanPlanToken:
    return ScanPlanToken(
        table=table.uuid,
        snapshot_id=query.snapshot_id,
        start_id=query.start_id,
        schema_id=query.schema_id,
        filter=query.filter,
        case_sensitive=query.case_sensitive,
        statistics=list(query.statistics),
        rows=rows,
    )


def _query(scan: ScanPlanToken) -> "ScanQuery":
    from interbed.iceberg.rest_scan.planner import ScanQuery

    return ScanQuery(
        snapshot_id=scan.snapshot_id,
        start_id=scan.start_id,
        schema_id=scan.schema_id,
        filter=scan.filter,
        case_sensitive=scan.case_sensitive,
        statistics=tuple(scan.statistics),
    )


def _texts(scan: ScanPlanToken, found: "PlannedTasks") -> list[str]:
    """Return the plan tasks for what is left of a scan."""
    if scan.rows is not None:
        scan = msgspec.structs.replace(scan, rows=max(scan.rows - found.sure_rows, 0))
    return [
        _encoded(PlanTaskToken(scan=scan, manifest=each.manifest, entry=each.entry, end=each.end))
        for each in found.left
    ]


def _encoded(token: msgspec.Struct) -> str:
    return urlsafe_b64encode(zlib.compress(msgspec.json.encode(token))).decode().rstrip("=")


def _decoded(text: str, kind: type[_T]) -> _T | None:
    """Return the token of a text, None if it is none."""
    try:
        packed = bytes_of_base64url(text)
        reader = zlib.decompressobj()
        content = reader.decompress(packed, _DECODED_BYTES_MAX)
        if not reader.eof or reader.unused_data:
            return None
        return msgspec.json.decode(content, type=kind)
    except (ValueError, zlib.error, msgspec.DecodeError, RecursionError):
        return None


def _refusal(error: InterbedError, invalid: Callable[[str], RestError] = bad_request) -> RestError:
    """Return the error for a scan that is not planned; `invalid` is that for a request that cannot be carried out."""
    if isinstance(error, NotSupportedError):
        return RestError(HTTPStatus.NOT_ACCEPTABLE, "UnsupportedOperationException", str(error))
    if isinstance(error, InvalidInputError):
        return invalid(str(error))
    if is_of_a_store(error):
        return unavailable(str(error))
    return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError", str(error))


def _no_plan(reason: str) -> RestError:
    return RestError(HTTPStatus.NOT_FOUND, "NoSuchPlanIdException", f"There is no such plan. {reason}")


def _no_task(reason: str) -> RestError:
    return RestError(HTTPStatus.NOT_FOUND, "NoSuchPlanTaskException", f"There is no such plan task. {reason}")
