"""A query over a format table: projection, filter and limit over the files that it has when the query is planned.

There is no snapshot: a concurrent overwrite may show its old rows, its new ones, or for a moment both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, and_, columns_of, restrict_to
from interbed.storage.base.prefetch import chain_prefetched
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.types.arrow import fields_to_schema, type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.api import FileStatus
from interbed.storage.read.arrow_rows import ArrowRows, check_limit, limited, shown_query
from interbed.storage.scan.partition_filter import PredicatePartitions
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatDirectories, FormatPartition
from interbed.storage.table.format_table.reading import FormatFileRead

_PREFETCHED_FILES = 16
_PREFETCHED_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSplit:
    """A data file, and its partition."""

    file: FileStatus
    partition: FormatPartition


@dataclass(frozen=True, repr=False)
class FormatScan(ArrowRows):
    """The result of `FormatTable.scan`: rows that are read on demand, of the files that exist when it is first used."""

    name: str
    definition: FormatDefinition
    directories: FormatDirectories
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None

    def __repr__(self) -> str:
        parts = [self.directories.location, *shown_query(self.columns, self.predicate, self.limit)]
        return f"FormatScan({'; '.join(parts)})"

    def __post_init__(self) -> None:
        check_limit(self.limit)

    @cached_property
    def plan(self) -> list[FormatSplit]:
        """The files to read. Raises CorruptFileError for a directory that is no partition."""
        found = self.directories.partitions()
        keys = self.definition.schema.partition_keys
        if self.predicate is not None and keys:
            of_keys = restrict_to(self.predicate, columns_of(self.predicate) & set(keys))
            if not isinstance(of_keys, AlwaysTrue):
                chooses = PredicatePartitions(of_keys, self.definition.schema.partition_fields)
                kept = chooses.select([each.row for each in found])
                found = [each for each in found if each.row in kept]
        return [
            FormatSplit(file=file, partition=partition)
            for partition in found
            for file in self.directories.files(partition)
        ]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        schema = self.definition.schema.arrow
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

    @property
    def _row_fields(self) -> Sequence[DataField]:
        return self.definition.schema.fields

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches; memory is bounded by some batches of a few files."""
        return limited(pa.RecordBatchReader.from_batches(self.schema, self._batches()), self.limit)

    def count(self) -> int:
        """Return the number of rows; only the columns of the filter are read."""
        total = sum(batch.num_rows for batch in replace(self, columns=(), limit=None).to_arrow_batch_reader())
        return total if self.limit is None else min(total, self.limit)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return self.batches_of(self.plan)

    def batches_of(self, splits: Sequence[FormatSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files that match the filter, without the limit."""
        names = self.schema.names
        used = set(names) | (set() if self.predicate is None else columns_of(self.predicate))
        keys = self.definition.schema.partition_keys
        fields = tuple(f for f in self.definition.data_fields if f.name in used)
        of_files = None
        if self.predicate is not None:
            pushed = restrict_to(self.predicate, columns_of(self.predicate) - set(keys))
            of_files = None if isinstance(pushed, AlwaysTrue) else pushed
        key_fields = tuple(f for f in self.definition.schema.partition_fields if f.name in used)

        def rows(split: FormatSplit) -> Iterator[pa.RecordBatch]:
            constants = self._constants(split.partition)
            read = FormatFileRead(split.partition.definition or self.definition, fields, self.directories.file_io)
            for batch in read.batches(split.file, of_files):
                whole = _with_constants(batch, key_fields, constants)
                if self.predicate is not None:
                    whole = whole.filter(mask(self.predicate, whole))
                if whole.num_rows:
                    yield whole.select(names)

        if len(splits) > 1 and self.directories.file_io.capabilities.slow_requests:
            yield from chain_prefetched(
                [lambda split=split: rows(split) for split in splits],  # type: ignore[misc]
                [split.file.size for split in splits],
                most=_PREFETCHED_FILES,
                weight=_PREFETCHED_BYTES,
            )
            return
        for split in splits:
            yield from rows(split)

    def _constants(self, partition: FormatPartition) -> dict[str, Any]:
        schema = self.definition.schema
        if not schema.partition_keys:
            return {}
        values = decode_rows([partition.row], schema.partition_types)
        return dict(zip(schema.partition_keys, values, strict=True))

    def _narrowed(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> pa.RecordBatchReader:
        if self.limit is not None:
            # The first rows must not depend on the columns and filters of an engine.
            return super()._narrowed(columns, None, limit)
        names = self.columns if columns is None else tuple(columns)
        both = self.predicate if predicate is None else and_(self.predicate, predicate)
        return replace(self, columns=names, predicate=both, limit=limit).to_arrow_batch_reader()


def _with_constants(batch: pa.RecordBatch, fields: Sequence[DataField], constants: dict[str, Any]) -> pa.RecordBatch:
    """Return the rows with the values of their partition as further columns."""
    if not fields:
        return batch
    places = array_of([0] * batch.num_rows, pa.int32())
    columns = [constants[f.name].cast(type_to_arrow(f.type)).take(places) for f in fields]
    schema = pa.schema([*batch.schema, *fields_to_schema(fields)])
    return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)
