"""UPDATE, DELETE and MERGE INTO, in Spark and by `interbed sql`: which tables take them, and updates that would be
lost.

Which merge engines take which statement is Paimon's choice (documentation page `spark/sql-write`).

An updated row is merged with the old row by the rules of the merge engine (documentation pages
`primary-key-table/sequence-rowkind` and `primary-key-table/merge-engine/partial-update`). A row with a lower sequence
is dropped, and so is a null of a partial update. `UpdateCheck` raises an error for such updates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.row.python_values import python_value
from interbed.storage.lsm.merge_function.row_rules import combined_columns, kept_columns, retract_refusal
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine, SequenceOrder
from interbed.storage.meta.schema.table_schema import TableSchema

DELETE = "DELETE"
UPDATE = "UPDATE"
MERGE = "MERGE"
UPDATABLE = (MergeEngine.DEDUPLICATE, MergeEngine.PARTIAL_UPDATE)
"""Merge engines in which a written row replaces the old row of its key."""


def refusals(name: str, schema: TableSchema) -> dict[str, str]:
    """Return the statements that the table can't take, each with the reason and the way out."""
    options = schema.core
    found: dict[str, str] = {}
    if options.data_evolution_enabled:
        if not options.deletion_vectors_enabled:
            found[DELETE] = (
                f"DELETE from '{name}' is not possible: with 'data-evolution.enabled' = 'true' rows are put together "
                "from files of some of their columns, and only deletion vectors delete single rows of them. Mark "
                "deleted rows in a column by UPDATE, delete whole partitions, or INSERT OVERWRITE them."
            )
        return found
    refusal = delete_refusal(schema, options)
    if refusal is not None:
        found[DELETE] = f"DELETE from '{name}' is not possible: {refusal}"
    if options.merge_engine not in UPDATABLE:
        for statement in (UPDATE, MERGE):
            found[statement] = (
                f"{statement} of '{name}' is not possible: 'merge-engine' = '{options.merge_engine}' would merge the "
                f"new row into the old one, not put it in its place; that takes {' or '.join(UPDATABLE)}. INSERT the "
                "rows that the engine shall merge, or INSERT OVERWRITE whole partitions."
            )
    for column, function in combined_columns(schema, options).items():
        for statement in (UPDATE, MERGE):
            found.setdefault(
                statement,
                f"{statement} of '{name}' is not possible: the column '{column}' has the aggregate function "
                f"'{function}', which would combine the value of the new row with the old one, not put it in its "
                "place. INSERT rows with the columns that change; columns that they lack keep their values.",
            )
    return found


def delete_refusal(schema: TableSchema, options: CoreOptions) -> str | None:
    """Return the reason why single rows of a primary-key table can't be deleted; None when they can."""
    if options.ignore_delete:
        return "by its option 'ignore-delete' the table drops what would delete rows; set it to false first."
    if options.rowkind_field is not None:
        return (
            f"by its option 'rowkind.field' the column '{options.rowkind_field}' says what a row does; INSERT rows "
            "with '-D' there."
        )
    if options.merge_engine is MergeEngine.AGGREGATION and not options.boolean(
        "aggregation.remove-record-on-delete", False
    ):
        return (
            "'merge-engine' = 'aggregation' would take the row's values back from the aggregates; set "
            "'aggregation.remove-record-on-delete' to true, or delete whole partitions."
        )
    return retract_refusal(schema, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRule:
    """Columns that keep their old values if a row has a lower `sequence`; a higher one if `descending`.

    The columns of a group also keep them if the row has no sequence at all.
    """

    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    descending: bool = False
    is_group: bool = False


def keep_rules(schema: TableSchema) -> Sequence[KeepRule]:
    """Return the rules by which a table drops an updated row, or some of its columns."""
    options = schema.core
    if options.merge_engine not in UPDATABLE or not schema.has_primary_key:
        return ()
    rules = []
    if fields := tuple(options.sequence_fields):
        others = tuple(n for n in schema.names if n not in {*schema.primary_keys, *fields})
        descending = options.sequence_order is SequenceOrder.DESCENDING
        rules.append(KeepRule(sequence=fields, columns=others, descending=descending))
    groups = {
        kept.sequence: kept.others for kept in kept_columns(schema, options, updated=True).values() if kept.sequence
    }
    return [*rules, *(KeepRule(sequence=key, columns=others, is_group=True) for key, others in groups.items())]


def kept_for_null(schema: TableSchema) -> Sequence[str]:
    """Return the columns that an update can't set to null."""
    return [name for name, kept in kept_columns(schema, schema.core, updated=True).items() if not kept.sequence]


class UpdateCheck:
    """Check of the updated rows of one table by one statement; errors begin with `statement`, such as `UPDATE of
    'shop.orders'`.

    With `nulls_keep` a null of a partial update keeps the old value, as intended by the statement.
    """

    def __init__(self, schema: TableSchema, statement: str, *, nulls_keep: bool = False) -> None:
        self._keys = schema.primary_keys
        self._statement = statement
        self._nulls_keep = nulls_keep
        self._rules = keep_rules(schema)
        self._kept_for_null = () if nulls_keep else kept_for_null(schema)

    def check(self, before: pa.RecordBatch, after: pa.RecordBatch) -> None:
        """Raise InvalidInputError, with key, column and values, if the table would keep the old values of an updated
        row.
        """
        for rule in self._rules:
            self._check_rule(rule, before, after)
        for name in self._kept_for_null:
            gone = _is_null(after, name) & ~_is_null(before, name)
            if gone.any():
                row = int(np.argmax(gone))
                raise self._refused(
                    after,
                    row,
                    f"the column '{name}' can't be set from {_shown(before, name, row)} to null, because "
                    "'merge-engine' = 'partial-update' keeps the old value for a null. Delete the row and insert it "
                    "again without the value",
                )

    def _check_rule(self, rule: KeepRule, before: pa.RecordBatch, after: pa.RecordBatch) -> None:
        lower = _is_lower(rule, before, after)
        if rule.is_group:
            absent = np.all([_is_null(after, name) for name in rule.sequence], axis=0)
            lower &= ~absent
            if not self._nulls_keep:
                self._check_without_sequence(rule, absent, before, after)
        if lower.any():
            row, names = int(np.argmax(lower)), ", ".join(rule.sequence)
            old, new = (", ".join(_shown(batch, name, row) for name in rule.sequence) for batch in (before, after))
            which, bound = ("least", "less") if rule.descending else ("greatest", "more")
            raise self._refused(
                after,
                row,
                f"the sequence '{names}' can't go from {old} to {new}, because the table keeps the values with the "
                f"{which} sequence. Set '{names}' to {old} or {bound}",
            )

    def _check_without_sequence(
        self, rule: KeepRule, absent: Mask, before: pa.RecordBatch, after: pa.RecordBatch
    ) -> None:
        for row in np.flatnonzero(absent).tolist():
            for name in (*rule.sequence, *rule.columns):
                if python_value(before.column(name)[row]) != python_value(after.column(name)[row]):
                    raise self._refused(
                        after,
                        row,
                        f"the column '{name}' can't be set from {_shown(before, name, row)} to "
                        f"{_shown(after, name, row)}, because its sequence '{', '.join(rule.sequence)}' is null in "
                        "the new row. Set it, too",
                    )

    def _refused(self, after: pa.RecordBatch, row: int, reason: str) -> InvalidInputError:
        key = ", ".join(f"{name} = {_shown(after, name, row)}" for name in self._keys)
        return InvalidInputError(
            f"{self._statement} would be dropped by the table in the row {key}: {reason}. Nothing was changed."
        )


def _is_lower(rule: KeepRule, before: pa.RecordBatch, after: pa.RecordBatch) -> Mask:
    """Return for which rows the sequence would make the table keep the old row; null is the lowest value."""
    lower, equal = np.zeros(after.num_rows, bool), np.ones(after.num_rows, bool)
    for name in rule.sequence:
        old: Any = before.column(name)
        new: Any = after.column(name)
        no_old, no_new = _is_null(before, name), _is_null(after, name)
        is_less = _mask(pc.greater(new, old) if rule.descending else pc.less(new, old)) | (no_new & ~no_old)
        is_more = _mask(pc.less(new, old) if rule.descending else pc.greater(new, old)) | (no_old & ~no_new)
        lower |= equal & is_less
        equal &= ~is_less & ~is_more
    return lower


def _shown(batch: pa.RecordBatch, name: str, row: int) -> str:
    value = python_value(batch.column(name)[row])
    return "null" if value is None else str(value)


def _is_null(batch: pa.RecordBatch, name: str) -> Mask:
    return _mask(batch.column(name).is_null())


def _mask(values: Any) -> Mask:
    return to_numpy(values.fill_null(False))
