"""Tables that have row filters or column masks for the user of a catalog: what Spark gets to know, and may do.

The handle of such a table has the rules, and each read applies them in Python (spark_ext/read/guarded_rows.py). Spark
gets no hidden columns and no row changes of the table, and nothing is written to it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interbed.spark_ext.handle.session_options import read_options
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.read.guarded_scan import RowRules
from interbed.storage.table.guarded_table import QUERY_AUTH, GuardedTable, ReaderGuard, guard_of
from interbed.storage.table.table import Table
from interbed.storage.write.row_statements import DELETE, MERGE, UPDATE
from interbed.thrift_idl.planner.ttypes import RowChanges

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
