"""Planning of scans by requests: the snapshot, the schema and the columns of a request, and the pages of its scan.

A query names its snapshot and its schema by their ids, so that it means the same after later commits. It ends with the
expiry of the snapshot.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.exceptions import ValidationError
from pyiceberg.io import InputFile
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot

from interbed.iceberg.meta.manifests import ReadOnlyFiles, manifests_of
from interbed.iceberg.rest_scan.conditions import parsed_condition
from interbed.iceberg.rest_scan.pages import ManifestCache, RestScan, ScanPages, ScanPlace
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.memory_cache import MemoryCache

RANGES_MAX = 32
"""Parts of a scan that a client may plan at the same time."""

_METADATA_BYTES = 32 << 20
_METADATA_WEIGHT = 8
"""Bytes of memory of parsed metadata for each byte of JSON, as an estimate."""
_RESERVED = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
"""Metadata columns, which clients select beside those of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The request for a scan, as in the specification's PlanTableScanRequest; `filter` is JSON."""

    snapshot_id: int | None = None
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    select: Iterable[str] = ()
    filter: Any = True
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    stats_fields: Iterable[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanQuery:
    """A scan by ids, of one snapshot or of the appends after `start_id`; `statistics` are ids of columns."""

    snapshot_id: int
    start_id: int | None
    schema_id: int
    filter: Any
    case_sensitive: bool
    statistics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScanRange:
    """A part of a scan: the place where it begins, and the number of the data manifest before which it ends."""

    manifest: int
    entry: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTasks:
    """Tasks and delete files in JSON, the number of rows that they surely have, and the ranges that are left."""

    tasks: list[dict[str, Any]]
    deletes: list[dict[str, Any]]
    sure_rows: int
    left: list[ScanRange]


class ScanPlanner:
    """Plans scans of tables, whose files `read` returns by their locations. Safe for many threads."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._files = _ReadFiles(read)
        self._manifests = ManifestCache()
        self._metadata = MemoryCache()

    def metadata(self, location: str, content: bytes) -> TableMetadata:
        """Return the metadata of a file with this JSON. Raises NotSupportedError for a table that is not read."""

        def make() -> _ParsedMetadata:
            try:
                return _ParsedMetadata(TableMetadataUtil.parse_raw(content.decode()), len(content) * _METADATA_WEIGHT)
            except (ValidationError, ValueError, RecursionError) as error:
                raise NotSupportedError(
                    f"The metadata {location} have something that scans are not planned for by the server: {error}"
                ) from error

        return self._metadata.get(hashlib.sha256(content).digest(), make, limit=_METADATA_BYTES).metadata

    def query(self, metadata: TableMetadata, request: ScanRequest) -> ScanQuery | None:
        """Return the scan of a request for a table, None if it has no snapshot.

        Raises InvalidInputError, FilterError.
        """
        snapshot = _snapshot_of(metadata, request)
        schema = metadata.schema()
        if request.use_snapshot_schema and snapshot is not None and snapshot.schema_id is not None:
            schema = _schema(metadata, snapshot.schema_id)
        _check_names(metadata, request)
        parsed_condition(request.filter, schema, case_sensitive=request.case_sensitive)
        statistics = {_field_id([schema], name, request.case_sensitive) for name in request.stats_fields}
        if snapshot is None:
            return None
        return ScanQuery(
            snapshot_id=snapshot.snapshot_id,
            start_id=request.start_snapshot_id,
            schema_id=schema.schema_id,
            filter=request.filter,
            case_sensitive=request.case_sensitive,
            statistics=tuple(sorted(statistics)),
        )

    def tasks(
        self,
        metadata: TableMetadata,
        query: ScanQuery,
        part: ScanRange | None = None,
        rows: int | None = None,
        ranges: int = RANGES_MAX,
        check: Callable[[Sequence[str]], None] = lambda locations: None,
    ) -> PlannedTasks:
        """Return the first tasks of a scan or of a part of it, and at most `ranges` ranges that are left.

        `rows` are enough. `check` gets the locations of the manifest list and of the manifests, which the metadata
        choose. Raises InvalidInputError for a snapshot that has expired, CorruptFileError, NotSupportedError, and what
        `read` and `check` raise.
        """
        scan = _scan(metadata, query)
        check([scan.snapshot.manifest_list])
        pages = ScanPages(metadata, self._files, scan, self._manifests)
        check(pages.manifests)
        end = pages.end if part is None else part.end
        first = ScanPlace() if part is None else ScanPlace(part.manifest, part.entry)
        page = pages.page(first, end, rows)
        left: list[ScanRange] = []
        if page.following is not None:
            if part is None and rows is None:
                found = pages.ranges(page.following, ranges)
                left = [ScanRange(begin.manifest, begin.entry, to) for begin, to in found]
            else:
                left = [ScanRange(page.following.manifest, page.following.entry, end)]
        return PlannedTasks(tasks=page.tasks, deletes=page.deletes, sure_rows=page.sure_rows, left=left)


@dataclass(frozen=True, slots=True)
class _ParsedMetadata:
    """Metadata of a table, and an estimate of their memory."""

    metadata: TableMetadata
    nbytes: int


def _snapshot_of(metadata: TableMetadata, request: ScanRequest) -> Snapshot | None:
    """Return the snapshot of a request, at which an incremental scan ends."""
    start, end, single = request.start_snapshot_id, request.end_snapshot_id, request.snapshot_id
    if single is not None and (start is not None or end is not None):
        raise InvalidInputError("The scan has a snapshot-id, and ids of an incremental scan: give one or the other")
    if (start is None) != (end is None):
        raise InvalidInputError("An incremental scan has both a start-snapshot-id and an end-snapshot-id")
    wanted = end if single is None else single
    if wanted is None:
        return metadata.current_snapshot()
    return _snapshot(metadata, wanted)


def _snapshot(metadata: TableMetadata, number: int) -> Snapshot:
    found = metadata.snapshot_by_id(number)
    if found is None:
        raise InvalidInputError(f"The table has no snapshot {number}, or it has expired")
    return found


def _schema(metadata: TableMetadata, number: int) -> Schema:
    found = next((each for each in metadata.schemas if each.schema_id == number), None)
    if found is None:
        raise InvalidInputError(f"The table has no schema {number}")
    return found


def _scan(metadata: TableMetadata, query: ScanQuery) -> RestScan:
    schema = _schema(metadata, query.schema_id)
    condition = parsed_condition(query.filter, schema, case_sensitive=query.case_sensitive)
    return RestScan(
        snapshot=_snapshot(metadata, query.snapshot_id),
        schema=schema,
        condition=condition,
        start_id=query.start_id,
        statistics=frozenset(query.statistics),
    )


def _check_names(metadata: TableMetadata, request: ScanRequest) -> None:
    """Raise InvalidInputError if a selected column is in no schema of the table. Clients select by the newest one."""
    for name in request.select:
        if name.split(".")[0] not in _RESERVED:
            _field_id(metadata.schemas, name, request.case_sensitive)


def _field_id(schemas: Iterable[Schema], name: str, case_sensitive: bool) -> int:
    for schema in schemas:
        try:
            return schema.find_field(name, case_sensitive).field_id
        except ValueError:
            continue
    raise InvalidInputError(f"The scan names the column {name!r}, which the schema does not have")


def specs_in_use(snapshots: Iterable[Mapping[str, Any]], read: Callable[[str], bytes]) -> dict[int, int]:
    """Return the partition specs of the manifests of snapshots, by the id, with a snapshot that has such a manifest.

    `snapshots` are those of a metadata file. Raises as manifests_of does, and for a snapshot without a manifest list.
    """
    files = _ReadFiles(read)
    found: dict[int, int] = {}
    for each in snapshots:
        snapshot = Snapshot.model_validate(each)
        for manifest in manifests_of(files, snapshot):
            found.setdefault(manifest.partition_spec_id, snapshot.snapshot_id)
    return found


class _BytesInput(InputFile):
    """A file that is read whole."""

    def __init__(self, location: str, read: Callable[[str], bytes]) -> None:
        super().__init__(location)
        self._read = read

    def __len__(self) -> int:
        return len(self._read(self.location))

    def exists(self) -> bool:
        raise TypeError(f"{self.location} is only read")

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._read(self.location))


class _ReadFiles(ReadOnlyFiles):
    """Files that a function reads whole."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        super().__init__()
        self._read = read

    def new_input(self, location: str) -> InputFile:
        return _BytesInput(location, self._read)
