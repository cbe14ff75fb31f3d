"""The files of a snapshot that a filter does not exclude, from manifest list and manifests."""

from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    expression_evaluator,
    inclusive_projection,
    manifest_evaluator,
)
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from interbed.iceberg.meta.live_file import Content, LiveFile, live_file
from interbed.iceberg.meta.manifest_entries import entries_of_each, manifests_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTableFiles:
    """Data files and deletes that may matter to a read, and how many there are before pruning."""

    data: tuple[LiveFile, ...]
    deletes: tuple[LiveFile, ...]
    manifests_total: int
    manifests_read: int
    data_total: int


def live_files(
    metadata: TableMetadata, io: FileIO, snapshot: Snapshot, schema: Schema, condition: BooleanExpression
) -> LiveTableFiles:
    """The files of a snapshot that may hold rows of the condition, which is over the schema, and deletes of such rows.

    Raises CorruptFileError for a manifest that can't be decoded, StorageAccessError for one that can't be read, and as
    live_file does.
    """
    manifests = manifests_of(io, snapshot)
    pruning = _Pruning(metadata, schema, condition)
    data: list[LiveFile] = []
    deletes: list[LiveFile] = []
    kept = [manifest for manifest in manifests if pruning.keeps_manifest(manifest)]
    # Deletes that are older than all rows delete none of them.
    oldest = min((m.min_sequence_number or 0 for m in kept if m.content == ManifestContent.DATA), default=0)
    kept = [m for m in kept if m.content == ManifestContent.DATA or (m.sequence_number or 0) >= oldest]
    data_total = sum(
        (m.added_files_count or 0) + (m.existing_files_count or 0)
        for m in manifests
        if m.content == ManifestContent.DATA
    )
    for entries in entries_of_each(io, kept):
        for entry in entries:
            if pruning.keeps_file(entry.data_file):
                file = live_file(entry)
                (data if file.content is Content.DATA else deletes).append(file)
    return LiveTableFiles(
        data=tuple(data),
        deletes=tuple(deletes),
        manifests_total=len(manifests),
        manifests_read=len(kept),
        data_total=data_total,
    )


class _Pruning:
    """What a condition excludes, by the partition specs that the table has had."""

    def __init__(self, metadata: TableMetadata, schema: Schema, condition: BooleanExpression) -> None:
        self._specs = metadata.specs()
        self._schema = schema
        self._condition = condition
        self._manifests: dict[int, Callable[[ManifestFile], bool]] = {}
        self._partitions: dict[int, Callable[[DataFile], bool]] = {}
        self._metrics = _InclusiveMetricsEvaluator(schema, condition, include_empty_files=False)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Whether one of its files may matter."""
        number = manifest.partition_spec_id
        evaluate = self._manifests.get(number)
        if evaluate is None:
            spec = self._specs[number]
            projected = inclusive_projection(self._schema, spec)(self._condition)
            evaluate = self._manifests[number] = manifest_evaluator(spec, self._schema, projected)
        return evaluate(manifest)

    def keeps_file(self, file: DataFile) -> bool:
        """Whether it may matter."""
        number = file.spec_id
        evaluate = self._partitions.get(number)
        if evaluate is None:
            spec = self._specs[number]
            projected = inclusive_projection(self._schema, spec)(self._condition)
            of_partition = Schema(*spec.partition_type(self._schema).fields)
            matches = expression_evaluator(of_partition, projected, case_sensitive=True)
            evaluate = self._partitions[number] = lambda file: matches(file.partition)
        return evaluate(file) and self._metrics.eval(file)
