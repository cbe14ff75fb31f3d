"""Scans planned in pages: each page reads some manifests, and has a bounded number of tasks.

A scan of one snapshot has the data files of the snapshot, and for each file the deletes that apply to it. An
incremental scan has the files that appends have added after one snapshot up to another one. A place in a scan is the
number of a data manifest and of an entry in it. Snapshots and manifests never change, so that a page is the same
whenever and wherever it is planned: a server keeps no state of a plan.

A page holds its own files, the deletes that may apply to these files, and a part of the cache of decoded manifests.

A filter excludes manifests and files by partition, and leaves a residual filter. The residual of a partition has no
test that all of its rows pass, and is false if none can pass. A test is projected to the fields of the partition twice:
a strict projection is true only where all rows pass, an inclusive projection is false only where none does. Source:
Iceberg's table specification, "Scan Planning".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundPredicate, UnboundPredicate
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, expression_evaluator, manifest_evaluator
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.typedef import Record

from interbed.iceberg.meta.live_files import FileContent, LiveFile, keeps, live_file
from interbed.iceberg.meta.manifests import entries_of, entries_one_by_one, manifests_of, row_id_of
from interbed.iceberg.meta.table_metadata import with_dropped
from interbed.iceberg.plan import DeleteIndex, FileDeletes, is_unpartitioned
from interbed.iceberg.rest_scan.conditions import (
    ColumnTest,
    Condition,
    ConstantCondition,
    JoinedConditions,
    column_tests_of,
    condition_expression,
    condition_json,
    joined,
)
from interbed.iceberg.rest_scan.task_json import FileJson
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.memory_cache import MemoryCache

PAGE_FILES = 2_000
"""Data files of a page."""
PAGE_ENTRIES = 20_000
"""Entries that a page examines, beyond the end of a manifest."""
CACHE_BYTES = 64 << 20
_ENTRY_BYTES = 3_000
"""An estimate of the memory of a decoded entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestScan:
    """A scan: of the snapshot, or of the appends after `start_id` up to it. `statistics` are ids of columns."""

    snapshot: Snapshot
    schema: Schema
    condition: Condition
    start_id: int | None = None
    statistics: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class ScanPlace:
    """A place in a scan: the number of a data manifest, and of an entry in it."""

    manifest: int = 0
    entry: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPage:
    """Tasks in JSON, the delete files that they refer to by number, the rows that these tasks surely have, and the
    place at which the next page begins, None after the last one.
    """

    tasks: list[dict[str, Any]]
    deletes: list[dict[str, Any]]
    sure_rows: int
    following: ScanPlace | None


@dataclass(frozen=True, slots=True)
class _DecodedPage:
    """Decoded records, and an estimate of their memory."""

    records: Sequence[Any]
    nbytes: int


class ManifestCache:
    """Decoded manifests and manifest lists of many tables, which never change. Safe for many threads."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._cache = MemoryCache()
        self._limit = limit

    def manifests(self, files: FileIO, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """Return the manifests of a snapshot. Raises as manifests_of."""
        return self._decoded(("list", snapshot.manifest_list), lambda: manifests_of(files, snapshot))

    def entries(self, files: FileIO, manifest: ManifestFile) -> Iterable[ManifestEntry]:
        """Return the live entries of a manifest; those of a large one are decoded one by one. Raises as entries_of."""
        if _files_of(manifest) > self._limit // (2 * _ENTRY_BYTES):
            return entries_one_by_one(files, manifest)
        # Entries inherit these values from the manifest list.
        key = (manifest.manifest_path, manifest.sequence_number, manifest.added_snapshot_id, row_id_of(manifest))
        return self._decoded(key, lambda: entries_of(files, manifest))

    def _decoded(self, key: object, read: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        def make() -> _DecodedPage:
            records = read()
            return _DecodedPage(records, (len(records) + 1) * _ENTRY_BYTES)

        return self._cache.get(key, make, limit=self._limit).records


class ScanPages:
    """The pages of a scan."""

    def __init__(self, metadata: TableMetadata, files: FileIO, scan: RestScan, cache: ManifestCache) -> None:
        schema = with_dropped(scan.schema, metadata.schemas)
        self._metadata = metadata
        self._files = files
        self._scan = scan
        self._cache = cache
        self._filter = FileFilter(metadata, schema, scan.condition)
        self._json = FileJson(schema, metadata.specs(), scan.statistics)
        self._appended = frozenset[int]()
        manifests = self._manifests()
        self._data = [each for each in manifests if each.content == ManifestContent.DATA]
        self._deletes = [each for each in manifests if each.content == ManifestContent.DELETES]

    @property
    def manifests(self) -> list[str]:
        """The locations of the manifests that the scan reads."""
        return [each.manifest_path for each in (*self._data, *self._deletes)]

    @property
    def end(self) -> int:
        """The number of data manifests: a place with this number is behind all of them."""
        return len(self._data)

    def ranges(self, first: ScanPlace, most: int) -> list[tuple[ScanPlace, int]]:
        """Return at most `most` ranges from a place on: where each begins, and the number of the manifest at which it
        ends. Each has about as many files, and at least those of a page.
        """
        left = [(number, _files_of(self._data[number])) for number in range(first.manifest, self.end)]
        size = max(PAGE_FILES, -(-sum(files for _, files in left) // max(most, 1)))
        found: list[tuple[ScanPlace, int]] = []
        begin, files = first, 0
        for number, count in left:
            files += count
            if files >= size:
                found.append((begin, number + 1))
                begin, files = ScanPlace(number + 1), 0
        if begin.manifest < self.end:
            found.append((begin, self.end))
        return found

    def page(self, first: ScanPlace, end: int, rows: int | None = None) -> ScanPage:
        """Return the page that begins at a place and ends before the manifest `end`; `rows` are enough.

        Raises CorruptFileError, NotSupportedError, and what the files raise.
        """
        data: list[tuple[LiveFile, DataFile]] = []
        following = None
        for place, entry in self._entries(first, min(end, self.end)):
            if len(data) >= PAGE_FILES or entry is None:
                following = place
                break
            if self._filter.keeps_file(entry.data_file):
                data.append((live_file(entry), entry.data_file))
        return self._page(data, following, rows)

    def _page(
        self, data: Sequence[tuple[LiveFile, DataFile]], following: ScanPlace | None, rows: int | None
    ) -> ScanPage:
        of_deletes, files = self._index([live for live, _ in data])
        tasks: list[dict[str, Any]] = []
        numbers: dict[tuple[str, int | None], int] = {}
        deletes: list[dict[str, Any]] = []
        sure = 0
        for live, file in data:
            if rows is not None and sure >= rows:
                following = None
                break
            residual = self._filter.residual(file)
            task: dict[str, Any] = {"data-file": self._json.data(file)}
            references = []
            for each in of_deletes(live).files:
                if each.place not in numbers:
                    numbers[each.place] = len(deletes)
                    deletes.append(self._json.delete(files[each.place], each))
                references.append(numbers[each.place])
            if references:
                task["delete-file-references"] = references
            elif residual == ConstantCondition(True):
                sure += live.records
            task["residual-filter"] = condition_json(residual)
            tasks.append(task)
        return ScanPage(tasks=tasks, deletes=deletes, sure_rows=sure, following=following)

    def _entries(self, first: ScanPlace, end: int) -> Iterator[tuple[ScanPlace, ManifestEntry | None]]:
        """Yield entries with their places; after PAGE_ENTRIES a place without an entry, at which a page ends."""
        examined = 0
        for number in range(first.manifest, end):
            manifest = self._data[number]
            if not self._filter.keeps_manifest(manifest):
                continue
            if examined >= PAGE_ENTRIES:
                yield ScanPlace(number), None
                return
            begin = first.entry if number == first.manifest else 0
            for index, entry in enumerate(self._cache.entries(self._files, manifest)):
                if index < begin:
                    continue
                examined += 1
                if self._scan.start_id is None or self._is_appended(entry):
                    yield ScanPlace(number, index), entry

    def _is_appended(self, entry: ManifestEntry) -> bool:
        return entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id in self._appended

    def _index(
        self, data: Sequence[LiveFile]
    ) -> tuple[Callable[[LiveFile], FileDeletes], dict[tuple[str, int | None], DataFile]]:
        """Return the deletes of data files, and the delete files as their manifests have them."""
        files: dict[tuple[str, int | None], DataFile] = {}
        found: list[LiveFile] = []
        if data and self._scan.start_id is None:
            relevant = _RelevantDeletes(self._metadata, data)
            for manifest in self._deletes:
                if (manifest.sequence_number or 0) < relevant.oldest or not self._filter.keeps_manifest(manifest):
                    continue
                for entry in self._cache.entries(self._files, manifest):
                    live = live_file(entry)
                    if relevant.has(live) and self._filter.keeps_file(entry.data_file):
                        found.append(live)
                        files[live.place] = entry.data_file
        index = DeleteIndex(found, partial(is_unpartitioned, self._metadata.specs()))
        return index.of, files

    def _manifests(self) -> Sequence[ManifestFile]:
        if self._scan.start_id is None:
            return self._cache.manifests(self._files, self._scan.snapshot)
        appends = appends_between(self._metadata, self._scan.start_id, self._scan.snapshot)
        self._appended = frozenset(each.snapshot_id for each in appends)
        return [
            manifest
            for snapshot in appends
            for manifest in self._cache.manifests(self._files, snapshot)
            if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.content == ManifestContent.DATA
        ]


class _RelevantDeletes:
    """Decides which delete files may apply to any of the data files of a page."""

    def __init__(self, metadata: TableMetadata, data: Sequence[LiveFile]) -> None:
        self._specs = metadata.specs()
        self._paths = {file.path for file in data}
        self._partitions = {(file.spec_id, file.partition) for file in data}
        self.oldest = min(file.sequence_number for file in data)

    def has(self, file: LiveFile) -> bool:
        """Return whether a delete file may apply to one of the data files."""
        if file.sequence_number < self.oldest:
            return False
        if file.content is FileContent.EQUALITY_DELETES and is_unpartitioned(self._specs, file.spec_id):
            return True
        if file.content is FileContent.POSITION_DELETES and file.only_path is not None:
            return file.only_path in self._paths
        return (file.spec_id, file.partition) in self._partitions


def appends_between(metadata: TableMetadata, start_id: int, end: Snapshot) -> list[Snapshot]:
    """Return the snapshots of appends after one snapshot up to another, the oldest first.

    Raises InvalidInputError if the one is no ancestor of the other.
    """
    found: list[Snapshot] = []
    at: Snapshot | None = end
    while at is not None and at.snapshot_id != start_id:
        if at.summary is not None and at.summary.operation == Operation.APPEND:
            found.append(at)
        if at.parent_snapshot_id == start_id:
            return found[::-1]
        at = None if at.parent_snapshot_id is None else metadata.snapshot_by_id(at.parent_snapshot_id)
    if at is None:
        raise InvalidInputError(f"The snapshot {start_id} is no ancestor of the snapshot {end.snapshot_id}")
    return []


def _files_of(manifest: ManifestFile) -> int:
    """Return the number of live files of a manifest, that of a page if the manifest does not say it."""
    if manifest.added_files_count is None or manifest.existing_files_count is None:
        return PAGE_FILES
    return manifest.added_files_count + manifest.existing_files_count


_RESIDUALS_MAX = 10_000
"""Partitions whose residual is kept."""

_Evaluation = Callable[[Record], bool]


@dataclass(frozen=True, slots=True)
class _TestProjection:
    """A test over the fields of a partition."""

    inclusive: BooleanExpression
    excludes: tuple[_Evaluation, ...]
    includes: tuple[_Evaluation, ...]


class SpecFilter:
    """A filter over the partitions of one spec."""

    def __init__(self, schema: Schema, spec: PartitionSpec, condition: Condition) -> None:
        self._spec = spec
        self._schema = schema
        self._condition = condition
        self._of_partition = Schema(*spec.partition_type(schema).fields)
        self._tests = {id(test): self._projected(test) for test in column_tests_of(condition)}
        inclusive = condition_expression(condition, lambda test: self._tests[id(test)].inclusive)
        self.keeps_manifest = manifest_evaluator(spec, schema, inclusive)
        self._keeps = expression_evaluator(self._of_partition, inclusive, case_sensitive=True)
        self._residuals: dict[tuple[object, ...], Condition] = {}

    def keeps(self, partition: Record) -> bool:
        """Return whether a partition may have rows of the filter."""
        return self._keeps(partition)

    def residual(self, partition: Record) -> Condition:
        """Return the condition that is left for the rows of a partition."""
        key = tuple(partition[place] for place in range(len(partition)))
        found = self._residuals.get(key)
        if found is None:
            if len(self._residuals) >= _RESIDUALS_MAX:
                self._residuals.clear()
            found = self._residuals[key] = self._left(self._condition, partition)
        return found

    def _left(self, condition: Condition, partition: Record) -> Condition:
        match condition:
            case JoinedConditions(word, parts):
                return joined(word, [self._left(part, partition) for part in parts])
            case ColumnTest():
                projection = self._tests[id(condition)]
                if any(passes(partition) for passes in projection.includes):
                    return ConstantCondition(True)
                if any(not may_pass(partition) for may_pass in projection.excludes):
                    return ConstantCondition(False)
        return condition

    def _projected(self, test: ColumnTest) -> _TestProjection:
        if test.named is None:
            return _TestProjection(AlwaysTrue(), (), ())
        if test.transform is not None:
            return self._of_transform(test, test.transform)
        bound = test.named(test.column).bind(self._schema)
        assert isinstance(bound, BoundPredicate)
        inclusive: BooleanExpression = AlwaysTrue()
        excludes, includes = [], []
        for part in self._spec.fields_by_source_id(test.source_id):
            projected = _projection(part.transform.project, part.name, bound)
            if projected is not None:
                inclusive = inclusive & projected
                excludes.append(self._evaluation(projected))
            strict = _projection(part.transform.strict_project, part.name, bound)
            if strict is not None:
                includes.append(self._evaluation(strict))
        return _TestProjection(inclusive, tuple(excludes), tuple(includes))

    def _of_transform(self, test: ColumnTest, transform: str) -> _TestProjection:
        """Return a test of a transformed column, which is exact if the spec has the same transform."""
        assert test.named is not None
        for part in self._spec.fields_by_source_id(test.source_id):
            if str(part.transform) == transform:
                predicate = test.named(part.name)
                exact = self._evaluation(predicate)
                return _TestProjection(predicate, (exact,), (exact,))
        return _TestProjection(AlwaysTrue(), (), ())

    def _evaluation(self, predicate: BooleanExpression) -> _Evaluation:
        return expression_evaluator(self._of_partition, predicate, case_sensitive=True)


def _projection(
    project: Callable[[str, BoundPredicate], UnboundPredicate | None], name: str, test: BoundPredicate
) -> UnboundPredicate | None:
    try:
        return project(name, test)
    except OverflowError:
        # pyiceberg finds years and months by Python's dates, which end with the year 9999: this test prunes nothing.
        return None


class FileFilter:
    """A filter over manifests and files of all specs of a table. `schema` has dropped columns, too."""

    def __init__(self, metadata: TableMetadata, schema: Schema, condition: Condition) -> None:
        self._specs = metadata.specs()
        self._schema = schema
        self._condition = condition
        self._filters: dict[int, SpecFilter] = {}
        self._metrics = _InclusiveMetricsEvaluator(schema, condition_expression(condition, _on_column))

    def of(self, number: int) -> SpecFilter:
        """Return the filter over the partitions of a spec."""
        found = self._filters.get(number)
        if found is None:
            found = self._filters[number] = SpecFilter(self._schema, self._specs[number], self._condition)
        return found

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Return whether one of the files of a manifest may matter."""
        return keeps(self.of(manifest.partition_spec_id).keeps_manifest, manifest)

    def keeps_file(self, file: DataFile) -> bool:
        """Return whether a file may have rows of the filter, or deletes of such rows."""
        return self.of(file.spec_id).keeps(file.partition) and keeps(self._metrics.eval, file)

    def residual(self, file: DataFile) -> Condition:
        """Return the condition that is left for the rows of a file."""
        return self.of(file.spec_id).residual(file.partition)


def _on_column(test: ColumnTest) -> BooleanExpression:
    return AlwaysTrue() if test.named is None or test.transform is not None else test.named(test.column)
