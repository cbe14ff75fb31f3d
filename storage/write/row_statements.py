"""UPDATE, DELETE and MERGE INTO: which tables take them, in Spark and by `interbed sql`.

Which merge engines take which statement is Paimon's choice (documentation page `spark/sql-write`).
"""

from interbed.storage.lsm.merge_function.row_rules import retract_refusal
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema

DELETE = "DELETE"
UPDATE = "UPDATE"
MERGE = "MERGE"
UPDATABLE = (MergeEngine.DEDUPLICATE, MergeEngine.PARTIAL_UPDATE)
"""Merge engines in which a row that is written takes the place of the old one."""


def refusals(name: str, schema: TableSchema) -> dict[str, str]:
    """The statements that the table can't take, each with the reason and the way out."""
    options = schema.core
    found: dict[str, str] = {}
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
    return found


def delete_refusal(schema: TableSchema, options: CoreOptions) -> str | None:
    """Why rows of a primary-key table can't be deleted one by one; None when they can."""
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
