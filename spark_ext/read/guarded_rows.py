"""Reads of tables with row filters and column masks for the user of the catalog.

The workers read unmasked columns, keep the rows of the filter, mask them, and then evaluate conditions on masked
columns. So Spark gets shown rows and values only, and evaluates the query on these. The plan of a scan does not depend
on hidden rows and values: with a row filter, of a query only conditions on partition columns prune, and no figures of
files are reported.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from interbed.spark_ext.handle.guarded_tables import refused
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.read.task import ReadTask
from interbed.spark_ext.values.predicates import FilterHandling, columns_of, handling_of, predicate_of
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, and_
from interbed.storage.base.predicate.expr import columns_of as columns_of_predicate
from interbed.storage.read.guarded_scan import BoundRules, GuardedRead

RowsOf = Callable[[ReadTask, Predicate | None, bytes], Iterable[pa.RecordBatch]]
"""Function that reads the rows of a split, for a task and a condition."""


def rules_of(handle: TableHandle) -> BoundRules | None:
    """Return the rules of a handle for its columns; None if none bind the reader. Raises NotSupportedError."""
    return None if handle.rules is None else handle.rules.bound(handle.schema.fields, handle.schema.fields)


def guarded_handling(handle: TableHandle, tree: str) -> FilterHandling:
    """Return the use of a filter of Spark: none for one on masked columns, which Spark evaluates on the masks."""
    assert handle.rules is not None
    if not columns_of(json.loads(tree)).isdisjoint(handle.rules.masks):
        return FilterHandling.IGNORED
    return handling_of(tree, handle.schema.fields, handle.schema.partition_keys)


def pruning_condition(handle: TableHandle, rules: BoundRules, filters: Sequence[str]) -> Predicate:
    """Return the condition that prunes the files of a plan."""
    has_filter = not isinstance(rules.predicate, AlwaysTrue)
    names = handle.schema.partition_keys if has_filter else handle.schema.names
    shown = frozenset(names) - frozenset(rules.masks)
    found = (predicate_of(tree, handle.schema.fields) for tree in filters)
    return and_(rules.predicate, *(each for each in found if each is not None and columns_of_predicate(each) <= shown))


def check_columns(handle: TableHandle, columns: Sequence[str]) -> None:
    """Raise NotSupportedError for hidden columns: whole unmasked rows, and their places in files."""
    unknown = [name for name in columns if name not in handle.schema.by_name]
    if unknown:
        raise refused(f"{handle.database}.{handle.table}", f"the hidden column '{unknown[0]}'")


def guarded_rows(
    task: ReadTask, rules: BoundRules, predicate: Predicate | None, split: bytes, rows_of: RowsOf
) -> Iterator[pa.RecordBatch]:
    """Yield the shown rows of a split with the columns of the task, masked; `rows_of` reads the unmasked ones."""
    check_columns(task.handle, task.columns)
    read = GuardedRead(rules=rules, predicate=predicate)
    before = read.before
    # The filter is evaluated here in any case: a reader may use a condition only to prune.
    needed = read.needed(task.columns) | columns_of_predicate(before)
    names = tuple(name for name in task.handle.schema.names if name in needed)
    for batch in rows_of(replace(task, columns=names), before, split):
        kept = batch if isinstance(before, AlwaysTrue) else batch.filter(mask(before, batch))
        yield read.shown(kept, task.columns)
