"""Columns that a table has beside its own in Spark, read when they are asked for by name.

`__interbed_row` is a row as a whole, by which a MERGE records what it deletes where the key alone is not enough. Append
tables have `__paimon_file_path` and `__paimon_row_index`, which say where a row is, as in Paimon's connector.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from interbed.spark_ext.values.spark_types import schema_to_spark
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.data_type import MAX_LENGTH, AtomicType, DataField, RowType, TypeRoot
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.positions import FILE_PATH, ROW_INDEX, LocatedRead
from interbed.storage.read.pushdown import TopRead
from interbed.storage.scan.split import Split
from interbed.storage.scan.summary.aggregates import Top
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner.ttypes import HiddenColumn

OLD_ROW = "__interbed_row"

_COMMENTS = {
    OLD_ROW: "The row as a whole",
    FILE_PATH: "The data file that holds the row",
    ROW_INDEX: "The row's position in its data file, from 0",
}
# Ids of hidden columns mean nothing: no file has them.
_FIRST_ID = 2**31 - 100


def hidden_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The hidden columns of a table."""
    if schema.has_primary_key:
        whole = RowType(schema.fields, nullable=False)
        return (DataField(id=_FIRST_ID, name=OLD_ROW, type=whole),) if needs_old_rows(schema) else ()
    path = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH, nullable=False)
    index = AtomicType(TypeRoot.BIGINT, nullable=False)
    return (
        DataField(id=_FIRST_ID, name=FILE_PATH, type=path),
        DataField(id=_FIRST_ID + 1, name=ROW_INDEX, type=index),
    )


def hidden_columns_of(schema: TableSchema) -> list[HiddenColumn]:
    """Their description for Spark."""
    return [
        HiddenColumn(
            name=f.name,
            typeJson=json.dumps(json.loads(schema_to_spark([f]))["fields"][0]["type"]),
            nullable=f.type.nullable,
            comment=_COMMENTS[f.name],
        )
        for f in hidden_fields(schema)
    ]


def needs_old_rows(schema: TableSchema) -> bool:
    """Whether a statement has to send all of a row that it deletes: the key alone is not enough for the table's merge.

    Where it is enough a DELETE reads the key and the columns of its condition only.
    """
    options = schema.core
    keys = {*schema.primary_keys}
    return (
        options.merge_engine is not MergeEngine.DEDUPLICATE
        or bool(options.sequence_fields)
        # Java Paimon looks at the time of every record, also of one that deletes.
        or bool(options.text("record-level.time-field", ""))
        or options.changelog_producer is ChangelogProducer.INPUT
        or not keys.issuperset(schema.partition_keys)
        or any(not f.type.nullable for f in schema.fields if f.name not in keys)
    )


def read_with_hidden(
    table: Table, columns: Sequence[str], predicate: Predicate | None, split: Split, *, top: Top | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, with `top` those that may be among its first ones, with the columns asked for.

    Some of the columns may be hidden. Raises as TableRead does.
    """
    if split.branch is not None:
        table, split = table.branch(split.branch), replace(split, branch=None)
    own = tuple(c for c in columns if c in table.schema.by_name)
    if len(own) == len(columns):
        read = table.new_read(own, predicate) if top is None else TopRead(table.store, own, predicate, top)
        yield from read.to_batches(split)
    elif OLD_ROW in columns:
        for batch in table.new_read(None, predicate).to_batches(split):
            whole = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            arrays = [whole if c == OLD_ROW else batch.column(c) for c in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
    else:
        for batch in LocatedRead(table.store, own, predicate).to_batches(split):
            yield batch.select(list(columns))
