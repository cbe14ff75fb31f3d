"""Changes of a table under row filters and column masks, as a catalog gives them for the reader.

An update has two rows, before and after it. The row filter decides about each of them: an update that moves a row out
of the filter is a deletion for the reader, one that moves a row into it is an insertion. Rows are masked after that,
then come the conditions of the query. Without the row before an update it is unknown whether the reader has seen it. So
a row filter needs a changelog with both rows, which the table makes itself: `changelog-producer` = `lookup` or
`full-compaction`. Append tables have insertions only.

`GuardedChangeView` is the audit log or the binlog (`db.t$audit_log`, `db.t$binlog`) of such a table, made of these
changes. A snapshot of a table with a primary key has deleted keys without the rows before. So with a row filter the
view of such a table is read as a stream or between snapshots.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.predicate import evaluate
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, columns_of
from interbed.storage.base.predicate.masks import ColumnMask, apply_masks
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import DataField
from interbed.storage.lsm.compact.changes import same_rows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.read.arrow_rows import ArrowRows, limited
from interbed.storage.read.change_read import (
    ROW_KIND,
    AuditRead,
    ChangeKinds,
    ChangeRead,
    audit_fields,
    change_steps,
    rows_of_kinds,
)
from interbed.storage.read.guarded_scan import BoundRules
from interbed.storage.scan.split import Split
from interbed.storage.scan.starting_point import at_snapshot
from interbed.storage.views.changes import ChangeQuery, ChangeView, ChangeViewQuery
from interbed.storage.views.stream.stream_scan import StreamLimits, StreamScan, TableStream, streamed

_WITH_BOTH_ROWS = frozenset({ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION})
_OF_CHANGELOGS = frozenset({IncrementalScanMode.AUTO, IncrementalScanMode.CHANGELOG})


class GuardedChangeRead:
    """Reads splits as shown changes: the requested columns (None: all), masked, and ROW_KIND, filtered exactly.

    With `keep_deletes` rows of a snapshot have the kinds that they were written with, as for ChangeRead. `rules_of`
    returns the rules of the reader, once for each read. Raises InvalidInputError for an unknown column, and
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
        keep_deletes: bool = False,
    ) -> None:
        self.store = store
        self._mode = mode
        self._keep_deletes = keep_deletes
        self._names = list(store.schema.names if columns is None else columns)
        check_asked_once(self._names)
        self._predicate = predicate
        self._rules_of = rules_of
        self.schema: pa.Schema = ChangeRead(store, self._names).schema

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """Return the shown changes of the splits, in the order of `change_steps`."""
        rules = self.checked_rules()
        steps = change_steps(self.store, splits)
        batches = (batch for split, kinds in steps for batch in self.shown_of(split, rules, kinds))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the shown changes of a split."""
        return self.shown_of(split, self.checked_rules())

    def checked_rules(self) -> BoundRules:
        """Return the present rules. NotSupportedError where a row filter needs rows that the changes do not have."""
        rules = self._rules_of()
        keyed, producer = self.store.schema.has_primary_key, self.store.options.changelog_producer
        has_both = producer in _WITH_BOTH_ROWS and self._mode in _OF_CHANGELOGS
        if keyed and not has_both and not isinstance(rules.predicate, AlwaysTrue):
            raise NotSupportedError(
                f"The changes of the table at {self.store.location} are not readable under your row filter: they lack "
                "the rows before updates, so that rows that leave the filter would stay. It needs 'changelog-producer' "
                "= 'lookup' or 'full-compaction', and no comparison or new files as the source. Read its snapshots."
            )
        return rules

    def shown_of(self, split: Split, rules: BoundRules, kinds: ChangeKinds | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a split that the rules show, or those of some kinds."""
        for rows in self._all_shown_of(split, rules):
            shown = rows_of_kinds(rows, kinds)
            if shown.num_rows:
                yield shown

    def _all_shown_of(self, split: Split, rules: BoundRules) -> Iterator[pa.RecordBatch]:
        keyed, is_filtered = self.store.schema.has_primary_key, not isinstance(rules.predicate, AlwaysTrue)
        if self._keep_deletes and keyed and is_filtered and not split.streaming:
            raise NotSupportedError(
                f"The snapshots of the table at {self.store.location} have deleted keys without the rows before, "
                "which your row filter needs: read its changes as a stream, or with 'incremental-between'."
            )
        waiting: pa.RecordBatch | None = None
        read = ChangeRead(self.store, self._needed(rules), keep_deletes=self._keep_deletes)
        for batch in read.to_batches(split):
            rows = batch if waiting is None else _joined(waiting, batch)
            # The row after an update may be in the next batch.
            is_open = _kinds(rows)[-1] == RowKind.UPDATE_BEFORE
            waiting = rows.slice(rows.num_rows - 1) if is_open else None
            yield from self._shown(rows.slice(0, rows.num_rows - 1) if is_open else rows, rules)
        if waiting is not None:
            yield from self._shown(waiting, rules)

    def _needed(self, rules: BoundRules) -> list[str]:
        """Return the columns to read, in the order of the table."""
        shown = self._shown_names
        inputs = (mask.columns for mask in self._masks(rules).values())
        needed = shown.union(self.store.schema.primary_keys, columns_of(rules.predicate), *inputs)
        return [name for name in self.store.schema.names if name in needed]

    @property
    def _shown_names(self) -> frozenset[str]:
        """The columns of the changes, and those of the condition, which sees masks."""
        return frozenset(self._names) | (frozenset() if self._predicate is None else columns_of(self._predicate))

    def _masks(self, rules: BoundRules) -> dict[str, ColumnMask]:
        """Return the masks of shown columns; the row filter may have others read."""
        return {name: mask for name, mask in rules.masks.items() if name in self._shown_names}

    def _shown(self, rows: pa.RecordBatch, rules: BoundRules) -> Iterator[pa.RecordBatch]:
        if not isinstance(rules.predicate, AlwaysTrue):
            rows = self._filtered(rows, rules.predicate)
        masked = apply_masks(rows, self._masks(rules))
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
        keys = self.store.schema.primary_keys
        before = before[same_rows(rows, rows, before, before + 1, keys)]
        is_paired = np.zeros(len(kinds), np.bool_)
        is_paired[before] = is_paired[before + 1] = True
        after = before + 1
        alone = ~is_paired & (kinds == RowKind.UPDATE_AFTER)
        if np.any(alone & ~visible):
            raise NotSupportedError(
                f"The changes of the table at {self.store.location} have an update without its row before, and the "
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


RulesOfStore = Callable[[FileStore, Sequence[str]], BoundRules]
"""Function that returns the present rules of a version of a table, for a reader of columns."""


class GuardedAuditRead:
    """Reads splits as shown rows of the audit log or the binlog: changes are filtered and masked first, then come the
    conditions of the query, which are those of `audit`.
    """

    def __init__(self, audit: AuditRead, changes: GuardedChangeRead) -> None:
        self._audit = audit
        self._changes = changes

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._audit.schema

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """Return the shown rows of the splits, in the order of `change_steps`."""
        rules = self._changes.checked_rules()
        steps = change_steps(self._changes.store, splits)
        batches = (batch for split, kinds in steps for batch in self._rows_of(split, rules, kinds))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the shown rows of a split."""
        return self._rows_of(split, self._changes.checked_rules())

    def _rows_of(self, split: Split, rules: BoundRules, kinds: ChangeKinds | None = None) -> Iterator[pa.RecordBatch]:
        return self._audit.of_changes(self._changes.shown_of(split, rules, kinds), pairs=split.streaming)


class GuardedChangeView:
    """The audit log of a table with policies for its reader, or with `packed` its binlog. `rules_of` is asked for each
    query. Sequence numbers are refused, because they count hidden changes.
    """

    def __init__(self, view: ChangeView, rules_of: RulesOfStore) -> None:
        if view.store.options.reads_sequence_numbers:
            raise NotSupportedError(
                f"'{view.name}' has row filters or column masks for you, and sequence numbers would count hidden "
                "changes: set 'table-read.sequence-number.enabled' to false."
            )
        self._view = view
        self._rules_of = rules_of

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not (name == "store" or hasattr(ChangeView, name)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NotSupportedError(
            f"'{self.name}' has row filters or column masks for you, and {name!r} would not keep to them. Read it by "
            "scan or stream."
        )

    @property
    def name(self) -> str:
        """The full name of the view."""
        return self._view.name

    @property
    def fields(self) -> list[DataField]:
        """The columns of the view."""
        return self._view.fields

    @property
    def field_names(self) -> list[str]:
        """The names of the columns."""
        return self._view.field_names

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._view.arrow_schema

    @property
    def primary_keys(self) -> list[str]:
        """No columns, because a key has a row for each change."""
        return []

    @property
    def partition_keys(self) -> list[str]:
        """The partition keys of the table."""
        return self._view.partition_keys

    def copy(self, dynamic_options: Mapping[str, object]) -> "GuardedChangeView":
        """Return the view with more options, as ChangeView.copy does."""
        return GuardedChangeView(self._view.copy(dynamic_options), self._rules_of)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
    ) -> "GuardedViewQuery":
        """Return a query, as ChangeView.scan does. Raises NotSupportedError, when it is read, for a row filter that
        needs rows which the changes do not have.
        """
        store = self._view.store if snapshot_id is None else at_snapshot(self._view.store, snapshot_id)
        audit, read = self._reads(store, columns, filter)
        # Files are not left out by statistics of hidden values.
        return GuardedViewQuery(ChangeViewQuery(store, audit, None, None, snapshot_id), read, limit)

    def stream(
        self,
        from_snapshot: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002
        poll_seconds: float | None = None,
        idle_seconds: float | None = None,
    ) -> TableStream:
        """Return a stream of the rows, as ChangeView.stream does; the policies are asked for with each part of it."""
        store = streamed(self._view.store)
        scan = StreamScan(store)
        scan.restore(from_snapshot)
        millis = store.options.discovery_interval_millis
        return TableStream(
            scan=scan,
            read=self._reads(store, columns, filter)[1],
            limits=StreamLimits(),
            poll_seconds=millis / 1000 if poll_seconds is None else poll_seconds,
            idle_seconds=idle_seconds,
        )

    def _reads(
        self, store: FileStore, columns: Sequence[str] | None, condition: str | Predicate | None
    ) -> tuple[AuditRead, GuardedAuditRead]:
        packed = self._view.packed
        predicate = None if condition is None else bound_filter(condition, audit_fields(store, packed=packed))
        audit = AuditRead(store, columns, predicate, packed=packed)
        names = audit.data_columns
        changes = GuardedChangeRead(
            store,
            names,
            None,
            lambda: self._rules_of(store, names),
            mode=store.options.incremental_scan_mode,
            keep_deletes=True,
        )
        return audit, GuardedAuditRead(audit, changes)


@dataclass(frozen=True, repr=False)
class GuardedViewQuery(ArrowRows):
    """The shown rows of an audit log or a binlog: the result of `GuardedChangeView.scan`."""

    source: ChangeViewQuery
    read: GuardedAuditRead
    limit: int | None = None

    def __repr__(self) -> str:
        return f"GuardedViewQuery({self.source.store.location})"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches, with memory bounded by a block."""
        return limited(self.read.to_reader(self.source.plan.splits), self.limit)
