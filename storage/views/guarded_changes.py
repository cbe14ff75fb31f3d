"""Changes of a table under row filters and column masks, as a catalog gives them for the reader.

An update has two rows, before and after it. The row filter decides about each of them: an update that moves a row out
of the filter is a deletion for the reader, one that moves a row into it is an insertion. Rows are masked after that,
then come the conditions of the query. Without the row before an update it is unknown whether the reader has seen it. So
a row filter needs a changelog with both rows, which the table makes itself: `changelog-producer` = `lookup` or
`full-compaction`. Append tables have insertions only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.predicate import evaluate
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, columns_of
from interbed.storage.base.predicate.masks import apply_masks
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.lsm.compact.changes import same_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.read.arrow_rows import ArrowRows
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.read.guarded_scan import BoundRules
from interbed.storage.scan.split import Split
from interbed.storage.views.changes import ChangeQuery

_WITH_BOTH_ROWS = frozenset({ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION})
_OF_CHANGELOGS = frozenset({IncrementalScanMode.AUTO, IncrementalScanMode.CHANGELOG})


class GuardedChangeRead:
    """Reads splits as shown changes: the requested columns (None: all), masked, and ROW_KIND, filtered exactly.

    `rules_of` returns the rules of the reader, once for each read. Raises InvalidInputError for an unknown column, and
    NotSupportedError where a row filter needs rows that the changes do not have.
    """

    def __init__(
        self,
        store: FileStore,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        rules_of: Callable[[], BoundRules],
        *,
        mode: IncrementalScanMode = IncrementalScanMode.AUTO,
    ) -> None:
        self._store = store
        self._mode = mode
        self._names = list(store.schema.names if columns is None else columns)
        check_asked_once(self._names)
        self._predicate = predicate
        self._rules_of = rules_of
        self.schema: pa.Schema = ChangeRead(store, self._names).schema

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """Return the shown changes of the splits, one split after the other."""
        rules = self._checked_rules()
        batches = (batch for split in splits for batch in self._shown_of(split, rules))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the shown changes of a split."""
        return self._shown_of(split, self._checked_rules())

    def _checked_rules(self) -> BoundRules:
        rules = self._rules_of()
        keyed, producer = self._store.schema.has_primary_key, self._store.options.changelog_producer
        has_both = producer in _WITH_BOTH_ROWS and self._mode in _OF_CHANGELOGS
        if keyed and not has_both and not isinstance(rules.predicate, AlwaysTrue):
            raise NotSupportedError(
                f"The changes of the table at {self._store.location} are not readable under your row filter: they lack "
                "the rows before updates, so that rows that leave the filter would stay. It needs 'changelog-producer' "
                "= 'lookup' or 'full-compaction', and no comparison or new files as the source. Read its snapshots."
            )
        return rules

    def _shown_of(self, split: Split, rules: BoundRules) -> Iterator[pa.RecordBatch]:
        waiting: pa.RecordBatch | None = None
        for batch in ChangeRead(self._store, self._needed(rules)).to_batches(split):
            rows = batch if waiting is None else _joined(waiting, batch)
            # The row after an update may be in the next batch.
            is_open = _kinds(rows)[-1] == RowKind.UPDATE_BEFORE
            waiting = rows.slice(rows.num_rows - 1) if is_open else None
            yield from self._shown(rows.slice(0, rows.num_rows - 1) if is_open else rows, rules)
        if waiting is not None:
            yield from self._shown(waiting, rules)

    def _needed(self, rules: BoundRules) -> list[str]:
        """Return the columns to read, in the order of the table."""
        shown = {*self._names, *(() if self._predicate is None else columns_of(self._predicate))}
        inputs = (mask.columns for name, mask in rules.masks.items() if name in shown)
        needed = shown.union(self._store.schema.primary_keys, columns_of(rules.predicate), *inputs)
        return [name for name in self._store.schema.names if name in needed]

    def _shown(self, rows: pa.RecordBatch, rules: BoundRules) -> Iterator[pa.RecordBatch]:
        if not isinstance(rules.predicate, AlwaysTrue):
            rows = self._filtered(rows, rules.predicate)
        masked = apply_masks(rows, rules.masks)
        if self._predicate is not None:
            masked = masked.filter(evaluate.mask(self._predicate, masked))
        if masked.num_rows:
            yield pa.RecordBatch.from_arrays(
                [masked.column(name) for name in (*self._names, ROW_KIND)], schema=self.schema
            )

    def _filtered(self, rows: pa.RecordBatch, condition: Predicate) -> pa.RecordBatch:
        """Return the rows of the filter, with the kinds that they have for its reader."""
        visible = np.asarray(to_numpy(evaluate.mask(condition, rows)))
        kinds = np.array(_kinds(rows))
        before = np.flatnonzero((kinds[:-1] == RowKind.UPDATE_BEFORE) & (kinds[1:] == RowKind.UPDATE_AFTER))
        keys = self._store.schema.primary_keys
        before = before[same_rows(rows, rows, before, before + 1, keys)]
        is_paired = np.zeros(len(kinds), np.bool_)
        is_paired[before] = is_paired[before + 1] = True
        after = before + 1
        alone = ~is_paired & (kinds == RowKind.UPDATE_AFTER)
        if np.any(alone & ~visible):
            raise NotSupportedError(
                f"The changes of the table at {self._store.location} have an update without its row before, and the "
                "row after it is not in your row filter: it is unknown whether it was. Read its snapshots."
            )
        kinds[~is_paired & (kinds == RowKind.UPDATE_BEFORE)] = RowKind.DELETE
        kinds[before[visible[before] & ~visible[after]]] = RowKind.DELETE
        kinds[after[~visible[before] & visible[after]]] = RowKind.INSERT
        index = rows.schema.get_field_index(ROW_KIND)
        changed = rows.set_column(index, rows.schema.field(index), from_numpy(kinds))
        return changed.filter(from_numpy(visible))


def _kinds(rows: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.asarray(to_numpy(rows.column(ROW_KIND)))


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    joined = pa.Table.from_batches([first, second]).combine_chunks()
    (batch,) = joined.to_batches()
    return batch


@dataclass(frozen=True, repr=False)
class GuardedChangeQuery(ArrowRows):
    """The shown changes of a range of snapshots: the result of `changes` of a table with policies for its reader."""

    source: ChangeQuery
    read: GuardedChangeRead

    def __repr__(self) -> str:
        return f"GuardedChangeQuery({self.source.store.location})"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the requested columns, and ROW_KIND."""
        return self.read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the changes as a stream of batches, with memory bounded by a block."""
        return self.read.to_reader(self.source.plan.splits)
