"""Scans under row filters and column masks, as a catalog gives them for the reader (Paimon's `authTableQuery`).

Row filters are evaluated on the values of the files, together with those conditions of the query that name no masked
column. Masks are applied to the remaining rows, then the other conditions of the query: a condition on a masked column
sees the mask, so that no value can be found out by asking for it. Nothing is answered from statistics that were made
of hidden rows or values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from interbed.storage.base.errors import FilterError, NotSupportedError
from interbed.storage.base.predicate import evaluate
from interbed.storage.base.predicate.expr import Predicate, and_, columns_of, conjuncts
from interbed.storage.base.predicate.masks import ColumnMask, apply_masks
from interbed.storage.base.predicate.paimon_json import filter_from_paimon, mask_from_paimon
from interbed.storage.base.types.data_type import DataField
from interbed.storage.read.arrow_rows import limited, shown_query
from interbed.storage.read.query import Scan
from interbed.storage.read.snapshot_query import SnapshotQuery


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
        total = sum(batch.num_rows for batch in self._batches(())) if self._after else self._inner(()).count()
        return total if self.limit is None else min(total, self.limit)

    @property
    def _arrow(self) -> pa.Schema:
        return self.store.schema.arrow

    @cached_property
    def _conditions(self) -> list[Predicate]:
        return [] if self.predicate is None else conjuncts(self.predicate)

    @cached_property
    def _after(self) -> list[Predicate]:
        """The conditions that are evaluated on masked values."""
        return [each for each in self._conditions if not columns_of(each).isdisjoint(self.rules.masks)]

    def _inner(self, columns: Sequence[str]) -> Scan:
        """Return the scan of the rows that the filters select, with unmasked values."""
        before = [each for each in self._conditions if columns_of(each).isdisjoint(self.rules.masks)]
        limit = None if self._after else self.limit
        predicate = and_(self.rules.predicate, *before)
        return Scan(self.store, tuple(columns), predicate, limit, self.snapshot_id, self.threads)

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with these columns, masked."""
        after = and_(*self._after)
        shown = {*columns, *columns_of(after)}
        masks = {name: mask for name, mask in self.rules.masks.items() if name in shown}
        needed = shown.union(*(mask.columns for mask in masks.values()))
        names = [name for name in self.store.schema.names if name in needed]
        for batch in self._inner(names).to_arrow_batch_reader():
            masked = apply_masks(batch, masks)
            if self._after:
                masked = masked.filter(evaluate.mask(after, masked))
            yield masked.select(list(columns))

    # -- the interface of engines --------------------------------------------------------------------------------------

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema
