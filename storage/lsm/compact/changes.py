"""The tables whose compactions must know what keys were before: lookup and full-compaction changelogs, deletion
vectors, first-row.

Source: documentation page `primary-key-table/changelog-producer`; rules for moving files are those of Paimon's
LookupMergeTreeCompactRewriter and FullChangelogMergeTreeCompactRewriter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.files.deletion.bucket_deletions import BucketDeletions
from interbed.storage.lsm.compact.change_merge import FirstRowChanges, FullChanges, LookupChanges, RowChangeRules
from interbed.storage.lsm.compact.rewriter import Emit
from interbed.storage.lsm.compact.unit import Section, UpgradeRule
from interbed.storage.lsm.lookup.older_rows import OlderRows
from interbed.storage.lsm.merge_function.api import LEVEL, MergeFunction
from interbed.storage.lsm.merge_read import merge_function_for
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER
from interbed.storage.meta.store import TableStore

Keys = Sequence["pa.Array[Any]"]


def rules_for(store: TableStore, *, drop_deletes: bool, emit: Emit | None) -> RowChangeRules:
    """What the table's options say of changes."""
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
    """`changelog-producer` = `full-compaction`: what reaches the highest level is news."""

    store: TableStore
    max_level: int

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        """See Changes."""
        return UpgradeRule.WITH_CHANGELOG if output_level == self.max_level else UpgradeRule.PLAIN

    def concern(self, sections: Sequence[Section], output_level: int) -> bool:
        """See Changes."""
        return output_level == self.max_level

    def merge(self, output_level: int, *, drop_deletes: bool, emit: Emit | None) -> MergeFunction:
        """See Changes."""
        return FullChanges(rules=rules_for(self.store, drop_deletes=drop_deletes, emit=emit), max_level=self.max_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupCompactionChanges:
    """Rows of level 0 meet the older rows of their keys when they go upward."""

    store: TableStore
    max_level: int
    older: OlderRows
    deletions: BucketDeletions | None

    def upgrade_rule(self, file: DataFileMeta, output_level: int) -> UpgradeRule:
        """See Changes."""
        options = self.store.options
        if file.level != 0:
            return UpgradeRule.PLAIN
        formats = options.format_by_level
        if formats.get(0, options.file_format) != formats.get(output_level, options.file_format):
            return UpgradeRule.REWRITE
        if self.deletions is not None and file.delete_row_count != 0:
            # Above level 0 there are no records that delete: the rows that they hide are marked.
            return UpgradeRule.REWRITE
        alone = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
        # Other engines' records become whole only when they are merged with the older ones.
        return UpgradeRule.WITH_CHANGELOG if output_level == self.max_level or alone else UpgradeRule.REWRITE

    def concern(self, sections: Sequence[Section], output_level: int) -> bool:
        """See Changes."""
        files = (f for section in sections for run in section for f in run.files)
        return output_level != 0 and any(f.level == 0 for f in files)

    def merge(self, output_level: int, *, drop_deletes: bool, emit: Emit | None) -> MergeFunction:
        """See Changes."""
        rules = rules_for(self.store, drop_deletes=drop_deletes, emit=emit)
        older = OlderThan(rows=self.older, level=output_level, deletions=self.deletions)
        if self.store.options.merge_engine is MergeEngine.FIRST_ROW:
            return FirstRowChanges(rules=rules, older=older)
        return LookupChanges(rules=rules, older=older)


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderThan:
    """The rows in levels greater than one; with deletion vectors those taken are marked as deleted."""

    rows: OlderRows
    level: int
    deletions: BucketDeletions | None

    def take(self, keys: Keys, columns: Sequence[str]) -> pa.RecordBatch:
        """See Older."""
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
        """See Older."""
        there = np.zeros(len(keys[0]), np.bool_)
        for found in self.rows.find(keys, above=self.level):
            there[found.keys] = True
        return there


def produces_changelog(store: TableStore) -> bool:
    """Whether compactions write changelog files."""
    return store.options.changelog_producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
