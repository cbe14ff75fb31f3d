"""Task of the workers that read a scan, and the scans of tables with row filters or column masks for the user.

A task has the table, the columns and the filters, for all of its splits. The planner keeps the task with the handle of
the driver, and sends the one of `for_executors`.

The handle of a table with row filters or column masks has the rules, and each read applies them in Python. Spark gets
no hidden columns and no row changes of the table, and nothing is written to it.

The workers read unmasked columns, keep the rows of the filter, mask them, and then evaluate conditions on masked
columns. So Spark gets shown rows and values only, and evaluates the query on these. The plan of a scan does not depend
on hidden rows and values: with a row filter, of a query only conditions on partition columns prune, and no figures of
files are reported.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.spark_ext.handle.session_options import read_options
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.predicates import FilterHandling, columns_of, handling_of, predicate_of
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, and_
from interbed.storage.base.predicate.expr import columns_of as columns_of_predicate
from interbed.storage.read.guarded_scan import BoundRules, GuardedRead, RowRules
from interbed.storage.scan.summary.aggregates import Top
from interbed.storage.table.guarded_table import QUERY_AUTH, GuardedTable, ReaderGuard, guard_of
from interbed.storage.table.table import Table
from interbed.storage.write.row_statements import DELETE, MERGE, UPDATE
from interbed.thrift_idl.planner.ttypes import RowChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Common part of all splits of a scan."""

    handle: TableHandle
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    schema_json: str | None = None
    top: Top | None = None
    reads_log: bool = False
    """Whether splits may be steps of a stream of the table's log."""
    hadoop_opens: bool = False
    """Whether Spark's Hadoop has a client for the table's store."""

    def for_executors(self) -> "ReadTask":
        """Return the task for the workers, without secrets of the catalog. Raises the errors of TableHandle."""
        return replace(self, handle=self.handle.for_executors())

    def to_bytes(self) -> bytes:
        """Encode the task as JSON."""
        return json.dumps(
            {
                "handle": b64encode(self.handle.to_bytes()).decode(),
                "columns": self.columns,
                "filters": self.filters,
                "schema": self.schema_json,
                "top": None if self.top is None else asdict(self.top),
                "log": self.reads_log,
                "hadoop": self.hadoop_opens,
            }
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "ReadTask":
        """Decode the task of to_bytes. Raises InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            return ReadTask(
                handle=TableHandle.from_bytes(b64decode(value["handle"])),
                columns=tuple(value["columns"]),
                filters=tuple(value["filters"]),
                schema_json=value["schema"],
                top=None if value["top"] is None else Top(**value["top"]),
                reads_log=value["log"],
                hadoop_opens=value["hadoop"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a read task: {error}") from error


def task_of(handle: TableHandle, request: Any) -> ReadTask:
    """Return the task of workers for planner.thrift's ScanRequest."""
    return ReadTask(
        handle=handle,
        columns=tuple(request.columns),
        filters=tuple(request.filters),
        schema_json=request.schemaJson,
        hadoop_opens=bool(request.hadoopOpens),
    )


_WAY_OUT = "Read it by SELECT, or have its owner exempt you."


def refused(name: str, what: str) -> NotSupportedError:
    """Return the error for a use of a table that would go past its row filters and column masks."""
    return NotSupportedError(
        f"The table '{name}' has row filters or column masks for you, and {what} would not keep to them. {_WAY_OUT}"
    )


def refuse_guarded(handle: TableHandle, what: str) -> None:
    """Raise NotSupportedError if the handle is that of a table with row filters or masks for its reader."""
    if handle.rules is not None:
        raise refused(f"{handle.database}.{handle.table}", what)


def unguarded(table: Table) -> tuple[Table, ReaderGuard | None]:
    """Return the table without its policies, and the guard that has them; the table itself and None if it has none."""
    guard = guard_of(table)
    return (table, None) if guard is None else (guard.table, guard)


def guarded_info(info: Any, guard: ReaderGuard, branch: str) -> Any:
    """Return the description of a table for Spark with the rules for its reader."""
    handle = TableHandle.from_bytes(info.handle)
    name = f"{handle.database}.{handle.table}"
    options = {**handle.dynamic_options, QUERY_AUTH: "false"}
    info.handle = replace(
        handle, rules=guard.rules_of(branch, guard.table.schema.names), dynamic_options=options
    ).to_bytes()
    info.hiddenColumns = []
    info.mergesSchema = False
    # Without a row id, no statement changes rows.
    info.rowChanges = RowChanges(
        rowId=[],
        toldOfRows={},
        refusals={command: str(refused(name, command)) for command in (UPDATE, DELETE, MERGE)},
        splitsUpdates=False,
    )
    return info


def with_present_rules(handle: TableHandle, options: Mapping[str, str], table: object) -> TableHandle:
    """Return the handle of a read with these options with the rules that are in force now; `table` is the catalog's.

    Raises NotSupportedError for rules that do not fit the version of the table that is read.
    """
    store = replace(handle, dynamic_options=read_options(handle.dynamic_options, options)).open().store
    newest = store.schemas.latest()
    present = (handle.schema if newest is None else newest).fields
    names = [field.name for field in present]
    rules = table.rules_of(store.paths.branch, names) if isinstance(table, GuardedTable) else RowRules()
    rules.bound(handle.schema.fields, present)
    return replace(handle, rules=rules)


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
