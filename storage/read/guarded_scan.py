"""Scans under row filters and column masks, as a catalog gives them for the reader (Paimon's `authTableQuery`).

Row filters are evaluated on the values of the files, together with those conditions of the query that name no masked
column. Masks are applied to the remaining rows, then the other conditions of the query: a condition on a masked column
sees the mask, so that no value can be found out by asking for it. Nothing is answered from statistics that were made
of hidden rows or values.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from interbed.storage.base.errors import FilterError, NotSupportedError
from interbed.storage.base.predicate import evaluate
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, and_, columns_of, conjuncts
from interbed.storage.base.predicate.json import filter_from_paimon, mask_from_paimon
from interbed.storage.base.predicate.masks import ColumnMask, apply_masks
from interbed.storage.base.types.data_type import DataField
from interbed.storage.read.arrow_rows import ArrowRows, check_limit, limited, shown_query
from interbed.storage.read.query import Scan, SnapshotQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """Row filters and masks by column, in Paimon's JSON, for a reader of a table."""

    filters: Sequence[str] = ()
    masks: Mapping[str, str] = field(default_factory=dict)

    def bound(self, fields: Sequence[DataField], present: Sequence[DataField]) -> "BoundRules":
        """Return the rules for the columns of a version of the table; `present` are its columns now.

        NotSupportedError for rules that do not fit the version, or that are not known here.
        """
        try:
            predicate = and_(*(filter_from_paimon(each, fields) for each in self.filters))
            masks = {name: mask_from_paimon(each, name, fields) for name, each in self.masks.items()}
        except FilterError as error:
            raise NotSupportedError(
                f"The table cannot be read: its row filter or column mask does not fit this version of it. {error}"
            ) from error
        used = columns_of(predicate).union(masks, *(mask.columns for mask in masks.values()))
        then, now = ({each.name: each.id for each in one} for one in (fields, present))
        moved = sorted(name for name in used if then[name] != now.get(name))
        if moved:
            raise NotSupportedError(
                f"The table cannot be read: the column {moved[0]!r} of its row filter or column mask was another one "
                "in this version of it. Read the newest version."
            )
        return BoundRules(predicate, masks)


@dataclass(frozen=True, slots=True)
class BoundRules:
    """A row filter and masks that fit the columns of a version of a table."""

    predicate: Predicate
    masks: Mapping[str, ColumnMask]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedRead:
    """Read under rules with the conditions of a query: what is read of the files, and what is shown of that."""

    rules: BoundRules
    predicate: Predicate | None = None

    @property
    def before(self) -> Predicate:
        """The row filter, and the conditions that are evaluated on unmasked columns."""
        return and_(self.rules.predicate, *(each for each in self._conditions if not self._is_masked(each)))

    @property
    def after(self) -> Predicate | None:
        """The conditions that are evaluated on masked values."""
        found = [each for each in self._conditions if self._is_masked(each)]
        return and_(*found) if found else None

    def needed(self, columns: Sequence[str]) -> frozenset[str]:
        """Return the columns to read in order to show these columns of rows that `before` selects."""
        after = self.after
        shown = frozenset(columns) if after is None else frozenset(columns) | columns_of(after)
        return shown.union(*(mask.columns for name, mask in self.rules.masks.items() if name in shown))

    def shown(self, rows: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Return these columns, masked, of rows that `before` selects; `rows` has the needed columns."""
        after = self.after
        seen = {*columns} if after is None else {*columns, *columns_of(after)}
        masked = apply_masks(rows, {name: mask for name, mask in self.rules.masks.items() if name in seen})
        if after is not None:
            masked = masked.filter(evaluate.mask(after, masked))
        found: pa.RecordBatch = masked.select(list(columns))
        return found

    @property
    def _conditions(self) -> Sequence[Predicate]:
        return () if self.predicate is None else conjuncts(self.predicate)

    def _is_masked(self, condition: Predicate) -> bool:
        return not columns_of(condition).isdisjoint(self.rules.masks)


@dataclass(frozen=True, repr=False)
class GuardedScan(SnapshotQuery):
    """The rows and values of one snapshot that row filters and column masks show, projected, filtered and limited."""

    columns: tuple[str, ...] = ()
    rules: BoundRules = field(kw_only=True)

    def __repr__(self) -> str:
        # Without the filter, which need not be known to the reader.
        parts = [self.store.location, *shown_query(self.columns, self.predicate, self.limit)]
        return f"GuardedScan({'; '.join(parts)})"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([self._arrow.field(name) for name in self.columns])

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self._batches(self.columns))
        return limited(reader, self.limit)

    def count(self) -> int:
        """Return the number of rows; they are read, unless no condition needs their values."""
        needs_rows = self._read.after is not None
        total = sum(batch.num_rows for batch in self._batches(())) if needs_rows else self._inner(()).count()
        return total if self.limit is None else min(total, self.limit)

    @property
    def _arrow(self) -> pa.Schema:
        return self.store.schema.arrow

    @cached_property
    def _read(self) -> GuardedRead:
        return GuardedRead(rules=self.rules, predicate=self.predicate)

    def _inner(self, columns: Sequence[str]) -> Scan:
        """Return the scan of the rows that the filters select, with unmasked values."""
        limit = self.limit if self._read.after is None else None
        chosen = (self.store, tuple(columns), self._read.before, limit, self.snapshot_id, self.threads)
        return Scan(*chosen, files_since=self.files_since)

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with these columns, masked."""
        needed = self._read.needed(columns)
        names = [name for name in self.store.schema.names if name in needed]
        for batch in self._inner(names).to_arrow_batch_reader():
            yield self._read.shown(batch, columns)

    # -- the interface of engines --------------------------------------------------------------------------------------

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema


class PlainRows(Protocol):
    """Result of a scan without policies."""

    @property
    def schema(self) -> pa.Schema: ...
    def to_arrow_batch_reader(self) -> pa.RecordBatchReader: ...


ScanOf = Callable[[Sequence[str], Predicate | None, int | None], PlainRows]
"""Function that returns the unmasked rows of a query: columns, condition, limit."""


@dataclass(frozen=True, repr=False, kw_only=True)
class GuardedRows(ArrowRows):
    """The rows and values of a table in another format than Paimon's that row filters and column masks show. `fields`
    are the columns of the table, of which `scan_of` reads unmasked ones.
    """

    scan_of: ScanOf
    fields: Sequence[DataField]
    columns: tuple[str, ...]
    rules: BoundRules
    predicate: Predicate | None = None
    limit: int | None = None

    def __repr__(self) -> str:
        return f"GuardedRows({'; '.join(shown_query(self.columns, self.predicate, self.limit))})"

    def __post_init__(self) -> None:
        check_limit(self.limit)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.scan_of(self.columns, None, self.limit).schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""
        read = GuardedRead(rules=self.rules, predicate=self.predicate)
        needed = read.needed(self.columns)
        names = [*self.columns, *sorted(needed.difference(self.columns))]
        before = None if isinstance(read.before, AlwaysTrue) else read.before
        source = self.scan_of(names, before, self.limit if read.after is None else None)
        shown = (read.shown(batch, self.columns) for batch in source.to_arrow_batch_reader())
        return limited(pa.RecordBatchReader.from_batches(self.schema, shown), self.limit)

    def count(self) -> int:
        """Return the number of rows, which are read."""
        return sum(batch.num_rows for batch in replace(self, columns=()).to_arrow_batch_reader())

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

    @property
    def _row_fields(self) -> Sequence[DataField]:
        return self.fields
