"""Compactions that need the older row of a key: lookup and full-compaction changelogs, deletion vectors, first-row.

Their merge functions wrap the table's own merge function. They pass the changelog records of every block of merged rows
to `emit`: the row of a key before and the row after. Source: documentation page
`primary-key-table/changelog-producer`; the rules for moving files are those of Paimon's LookupMergeTreeCompactRewriter
and FullChangelogMergeTreeCompactRewriter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.row.python_values import python_values
from interbed.storage.files.deletion_vectors import BucketDeletions
from interbed.storage.lsm.compact.rewriter import Emit
from interbed.storage.lsm.compact.strategy import Section, UpgradeRule
from interbed.storage.lsm.key_words import sort_groups
from interbed.storage.lsm.merge_function.api import LEVEL, KeyGroups, Kinds, MergeFunction, is_retract, take_rows
from interbed.storage.lsm.merge_function.factory import NO_LEVEL, levels_of, lowest_above_0
from interbed.storage.lsm.merge_read import merge_function_for
from interbed.storage.lsm.older_rows import OlderRows
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND


class OlderRecords(Protocol):
    """The rows of the levels below a compaction."""

    def take(self, keys: Sequence["pa.Array[Any]"], columns: Sequence[str]) -> pa.RecordBatch:
        """Return the newest older rows of the keys, which ascend, with the columns (LEVEL among them), in any order.

        The compaction takes over the rows: with deletion vectors, they are marked in their files.
        """
        ...

    def has(self, keys: Sequence["pa.Array[Any]"]) -> Mask:
        """Return the mask of the keys that have an older row."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeRules:
    """Rules that the merge functions of this module share.

    `keys` are the key columns, `ties` the columns that order records of one key (the sequence number last), of which
    the first `descending` are in descending order. `emit` takes changelog records; None without a changelog.
    `compared` are the columns whose changes count; None to emit all changes. With `drop_deletes` deleted keys are left
    out of the result.
    """

    keys: tuple[str, ...]
    ties: tuple[str, ...]
    descending: int
    inner: MergeFunction
    emit: Callable[[pa.RecordBatch], None] | None
    compared: tuple[str, ...] | None
    drop_deletes: bool

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that the merge needs: whole records, and their levels."""
        return tuple(dict.fromkeys((*self.inner.columns(output), *output, *self.keys, *self.ties, VALUE_KIND, LEVEL)))

    def emit_changes(
        self, rows: pa.RecordBatch, before: Ints, keys: Mask, after: pa.RecordBatch, after_of: Ints
    ) -> None:
        """Emit the changes of the keys in `keys`, from the rows numbered `before` to `after_of`; -1 is no row."""
        if self.emit is None or not keys.any():
            return
        deleted_before = _deleted(rows)
        deleted_after = _deleted(after)
        was = np.where((before >= 0) & ~deleted_before[np.maximum(before, 0)], before, -1)[keys]
        is_now = np.where((after_of >= 0) & ~deleted_after[np.maximum(after_of, 0)], after_of, -1)[keys]
        columns = after.schema.names
        records = change_records(rows.select(columns), after, was, is_now, compared=self.compared)
        if records.num_rows:
            self.emit(records)

    def kept(self, result: pa.RecordBatch) -> pa.RecordBatch:
        """Return the result, with `drop_deletes` without deleted keys."""
        if not self.drop_deletes:
            return result
        deleted = _deleted(result)
        return result.filter(from_numpy(~deleted)) if deleted.any() else result

    def single(self, rows: pa.RecordBatch, kinds: Kinds | None) -> KeyGroups:
        """Return rows of different keys, in key order, as groups."""
        count = rows.num_rows
        return KeyGroups(rows=rows, order=np.arange(count), starts=np.ones(count, np.bool_), kinds=kinds)

    def merged(self, groups: KeyGroups, output: Sequence[str]) -> tuple[pa.RecordBatch, Ints]:
        """Return the merged rows, and for each key the number of its row, -1 if it has none."""
        firsts = groups.order[groups.starts]
        result = self.inner.merge(groups, output)
        keys = len(firsts)
        if result.num_rows == keys:
            return result, np.arange(keys)
        # Some keys have no row; the keys of the result show which ones.
        columns = [
            pa.concat_arrays([result.column(k), take_rows(groups.rows, [k], firsts).column(0)]) for k in self.keys
        ]
        order, starts = sort_groups(columns)
        first = order[np.flatnonzero(starts)]
        return result, np.where(first < result.num_rows, first, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """A merge function that also merges keys with a single row, so that their changes are found."""

    rules: RowChangeRules

    def columns(self, output: Sequence[str]) -> tuple[str, ...]:
        return self.rules.columns(output)

    def merge_single(self, rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str]) -> pa.RecordBatch:
        return self.merge(self.rules.single(rows, kinds), output)

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupChanges(_Changes):
    """Merges each key with its row of older levels; the changes are those of keys with records of level 0."""

    older: OlderRecords

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        rules = self.rules
        levels = levels_of(groups.rows)[groups.order]
        lowest = lowest_above_0(levels, groups.starts)
        has_new = np.logical_or.reduceat(levels == 0, np.flatnonzero(groups.starts))
        missing = lowest == NO_LEVEL
        if missing.any():
            firsts = groups.order[groups.starts][missing]
            key_rows = take_rows(groups.rows, rules.keys, firsts)
            columns = [n for n in groups.rows.schema.names if n in rules.columns(output)]
            found = self.older.take([key_rows.column(k) for k in rules.keys], columns)
            if found.num_rows:
                groups = self._with(groups.rows.select(columns), found)
                levels = levels_of(groups.rows)[groups.order]
                lowest = lowest_above_0(levels, groups.starts)
        result, after_of = rules.merged(groups, output)
        before = _numbers_at(groups, levels, lowest)
        rules.emit_changes(groups.rows, before, has_new, result, after_of)
        return rules.kept(result)

    def _with(self, rows: pa.RecordBatch, found: pa.RecordBatch) -> KeyGroups:
        """Return the rows with older ones added, in groups. This adds no keys."""
        older = pa.RecordBatch.from_arrays([found.column(n) for n in rows.schema.names], schema=rows.schema)
        joined: pa.RecordBatch = pa.concat_batches([older, rows])  # type: ignore[attr-defined]  # The stubs lack it.
        kinds: Kinds = to_numpy(joined.column(VALUE_KIND))
        ties: list[Any] = [joined.column(n) for n in self.rules.ties]
        ties.append(from_numpy(~is_retract(kinds)))
        keys = [joined.column(k) for k in self.rules.keys]
        order, starts = sort_groups(keys, ties, descending_ties=self.rules.descending)
        deletes = bool(is_retract(kinds).any())
        return KeyGroups(rows=joined, order=order, starts=starts, kinds=kinds if deletes else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullChanges(_Changes):
    """Emits the changes of a full compaction: from the rows of the highest level to the merged rows."""

    max_level: int

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        levels = levels_of(groups.rows)[groups.order]
        result, after_of = self.rules.merged(groups, output)
        at_top = levels == self.max_level
        firsts = np.flatnonzero(groups.starts)
        has_new = np.logical_or.reduceat(~at_top, firsts)
        top = np.where(np.logical_or.reduceat(at_top, firsts), self.max_level, NO_LEVEL).astype(np.int8)
        self.rules.emit_changes(groups.rows, _numbers_at(groups, levels, top), has_new, result, after_of)
        return self.rules.kept(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRowChanges(_Changes):
    """The merge engine `first-row`: keys with an older row are unchanged, other keys are inserted."""

    older: OlderRecords

    def merge(self, groups: KeyGroups, output: Sequence[str]) -> pa.RecordBatch:
        rules = self.rules
        levels = levels_of(groups.rows)[groups.order]
        is_new = lowest_above_0(levels, groups.starts) == NO_LEVEL
        keys = take_rows(groups.rows, rules.keys, groups.order[groups.starts])
        known = np.zeros(len(is_new), np.bool_)
        asked = [keys.filter(from_numpy(is_new)).column(k) for k in rules.keys]
        known[is_new] = self.older.has(asked)
        result, after_of = rules.merged(groups, output)
        rules.emit_changes(groups.rows, np.full(len(is_new), -1), is_new & ~known, result, after_of)
        kept = after_of[~known]
        return rules.kept(take_rows(result, result.schema.names, kept[kept >= 0]))


def _numbers_at(groups: KeyGroups, levels: npt.NDArray[np.int8], wanted: npt.NDArray[np.int8]) -> Ints:
    """Return for each key the number of its row of the wanted level, -1 for NO_LEVEL. A level has each key once."""
    keys = np.cumsum(groups.starts) - 1
    matches = levels == wanted[keys]
    numbers = np.full(len(wanted), -1, np.int64)
    numbers[keys[matches]] = groups.order[matches]
    return numbers


def _deleted(rows: pa.RecordBatch) -> Mask:
    """Return the mask of the rows that delete their key."""
    index = rows.schema.get_field_index(VALUE_KIND)
    if index < 0:
        return np.zeros(rows.num_rows, np.bool_)
    return is_retract(to_numpy(rows.column(index)))


Keys = Sequence["pa.Array[Any]"]


def rules_for(store: FileStore, *, drop_deletes: bool, emit: Emit | None) -> RowChangeRules:
    """Return the rules of changes by the table's options."""
    options, schema = store.options, store.schema
    ignored = set(options.changelog_row_deduplicate_ignored)
    compared = tuple(n for n in schema.names if n not in ignored) if options.changelog_row_deduplicate else None
    return RowChangeRules(
        keys=schema.trimmed_primary_keys,
        ties=(*options.sequence_fields, SEQUENCE_NUMBER),
        descending=options.descending_sequence_fields,
        inner=merge_function_for(store, drop_deletes=False, merges_alone=options.compactions_look_up),
        emit=emit,
        compared=compared,
        drop_deletes=drop_deletes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FullCompactionChanges:
    """`changelog-producer` = `full-compaction`: compactions to the highest level produce the changes."""

    store: FileStore
    max_level: int

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        return UpgradeRule.WITH_CHANGELOG if output_level == self.max_level else UpgradeRule.PLAIN

    def concern(self, sections: Sequence[Section], output_level: int) -> bool:
        return output_level == self.max_level

    def merge(self, output_level: int, *, drop_deletes: bool, emit: Emit | None) -> MergeFunction:
        return FullChanges(rules=rules_for(self.store, drop_deletes=drop_deletes, emit=emit), max_level=self.max_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupCompactionChanges:
    """Rows of level 0 are merged with the older rows of their keys when they are compacted to a higher level."""

    store: FileStore
    max_level: int
    older: OlderRows
    deletions: BucketDeletions | None

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        options = self.store.options
        if file.level != 0:
            return UpgradeRule.PLAIN
        formats = options.format_by_level
        if formats.get(0, options.file_format) != formats.get(output_level, options.file_format):
            return UpgradeRule.REWRITE
        if self.deletions is not None and file.delete_row_count != 0:
            # Above level 0 there are no delete records: the rows that they delete are marked instead.
            return UpgradeRule.REWRITE
        alone = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
        # Records of other engines are complete only after a merge with the older ones.
        return UpgradeRule.WITH_CHANGELOG if output_level == self.max_level or alone else UpgradeRule.REWRITE

    def concern(self, sections: Sequence[Section], output_level: int) -> bool:
        files = (f for section in sections for run in section for f in run.files)
        return output_level != 0 and any(f.level == 0 for f in files)

    def merge(self, output_level: int, *, drop_deletes: bool, emit: Emit | None) -> MergeFunction:
        rules = rules_for(self.store, drop_deletes=drop_deletes, emit=emit)
        older = OlderLevels(rows=self.older, level=output_level, deletions=self.deletions)
        if self.store.options.merge_engine is MergeEngine.FIRST_ROW:
            return FirstRowChanges(rules=rules, older=older)
        return LookupChanges(rules=rules, older=older)


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderLevels:
    """The rows in levels greater than `level`; with deletion vectors the taken rows are marked as deleted."""

    rows: OlderRows
    level: int
    deletions: BucketDeletions | None

    def take(self, keys: Keys, columns: Sequence[str]) -> pa.RecordBatch:
        batches = []
        for found in self.rows.find(keys, above=self.level):
            stored = [n for n in columns if n != LEVEL]
            batch = self.rows.rows(found, stored)
            levels: pa.Array[Any] = from_numpy(np.full(batch.num_rows, found.file.level, np.int8))
            arrays = [levels if n == LEVEL else batch.column(n) for n in columns]
            batches.append(pa.RecordBatch.from_arrays(arrays, names=list(columns)))
            if self.deletions is not None:
                self.deletions.delete(found.file.file_name, found.positions)
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=pa.schema([]))
        joined: pa.RecordBatch = pa.concat_batches(batches)  # type: ignore[attr-defined]  # The stubs lack it.
        return joined

    def has(self, keys: Keys) -> Mask:
        present = np.zeros(len(keys[0]), np.bool_)
        for found in self.rows.find(keys, above=self.level):
            present[found.keys] = True
        return present


def produces_changelog(store: FileStore) -> bool:
    """Return whether compactions write changelog files."""
    return store.options.changelog_producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)


def change_records(
    before: pa.RecordBatch,
    after: pa.RecordBatch,
    before_of: Ints,
    after_of: Ints,
    *,
    compared: Sequence[str] | None,
) -> pa.RecordBatch:
    """Return the changelog records of some keys, in key order; both batches have the same columns.

    `before_of[k]` and `after_of[k]` are the numbers of the rows of key k before and after, -1 for no row. Updates whose
    columns `compared` are all equal are left out; with None all updates are included.
    """
    was, is_now = before_of >= 0, after_of >= 0
    both = was & is_now
    if compared is not None and both.any():
        same = same_rows(before, after, before_of[both], after_of[both], compared)
        both[np.flatnonzero(both)[same]] = False
    inserted, deleted = is_now & ~was, was & ~is_now
    keys = np.arange(len(was))
    # The row before comes first; even places belong to the batch before, odd ones to the batch after.
    places = np.concatenate([2 * keys[both | deleted], 2 * keys[both | inserted] + 1])
    places.sort()
    of_key, from_after = places >> 1, (places & 1).astype(np.bool_)
    kinds = np.where(
        from_after,
        np.where(both[of_key], RowKind.UPDATE_AFTER, RowKind.INSERT),
        np.where(both[of_key], RowKind.UPDATE_BEFORE, RowKind.DELETE),
    ).astype(np.int8)
    numbers = np.where(from_after, before.num_rows + after_of[of_key], before_of[of_key])
    columns = [n for n in before.schema.names if n != VALUE_KIND]
    joined: Any = pa.concat_batches([before.select(columns), after.select(columns)])  # type: ignore[attr-defined]  # The stubs lack it.
    taken = take_rows(joined, columns, numbers)
    kind_column: pa.Array[Any] = from_numpy(kinds)
    arrays = [kind_column if n == VALUE_KIND else taken.column(n) for n in before.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=before.schema.names)


def same_rows(before: pa.RecordBatch, after: pa.RecordBatch, left: Ints, right: Ints, columns: Sequence[str]) -> Mask:
    """Return the mask of the pairs of rows (`left` of one batch, `right` of the other) with equal columns."""
    same = np.ones(len(left), np.bool_)
    for name in columns:
        a, b = (_taken(batch.column(name), n) for batch, n in ((before, left), (after, right)))
        same &= _equal(a, b)
    return same


def _taken(column: "pa.Array[Any]", numbers: Ints) -> "pa.Array[Any]":
    indices: Any = from_numpy(numbers)
    taken: pa.Array[Any] = pc.take(column, indices, boundscheck=False)
    return taken


def _equal(a: "pa.Array[Any]", b: "pa.Array[Any]") -> Mask:
    if pa.types.is_nested(a.type):
        # Arrow cannot compare nested values. They are few in changelogs, and compared in Python.
        pairs = zip(python_values(a), python_values(b), strict=True)
        return np.fromiter((x == y for x, y in pairs), np.bool_, len(a))
    nulls = [np.asarray(to_numpy(pc.is_null(x))) for x in (a, b)]
    both: Any = pc.equal(a, b)
    values = np.asarray(to_numpy(pc.fill_null(both, False)))
    equal: Mask = np.where(nulls[0] | nulls[1], nulls[0] & nulls[1], values)
    return equal
