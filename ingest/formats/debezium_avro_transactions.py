"""What Debezium says about transactions in Avro, by Confluent's wire format, with the schemas in a registry.

The messages are those of `debezium_transactions`, as records.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.flow.messages import Messages
from interbed.ingest.flow.schemas import WriterSchemas
from interbed.ingest.formats.arrays import Array, Indices
from interbed.ingest.formats.avro.columns import Columns, Wanted
from interbed.ingest.formats.avro.schema import AvroSchema
from interbed.ingest.formats.avro.wire_format import decoded_by_schema
from interbed.ingest.formats.by_table import Headers
from interbed.ingest.formats.debezium_transactions import DebeziumTransactions
from interbed.ingest.formats.table_shapes import texts_of


class DebeziumAvroTransactions(DebeziumTransactions):
    """A TransactionReader of Debezium's Avro."""

    def __init__(self, schemas: WriterSchemas) -> None:
        self._schemas = schemas
        self._columns: dict[tuple[int, str], Columns] = {}

    def headers(
        self, messages: Messages, fields: pa.Schema, bad: list[BadMessage]
    ) -> Iterator[tuple[Indices, Headers]]:
        """See DebeziumTransactions. Raises NotSupportedError and what looking up a schema raises."""
        texts, places = texts_of(messages)
        for _, index, values in decoded_by_schema(places, texts, lambda number: self._columns_of(number, fields), bad):
            found = _fitted(values, pa.struct(list(fields)))
            rows = pa.Table.from_arrays(found.flatten(), schema=fields)
            yield index, Headers(rows=rows, index=np.arange(rows.num_rows), bad=())

    def _columns_of(self, number: int, fields: pa.Schema) -> Columns:
        known = (number, ",".join(fields.names))
        if known not in self._columns:
            schema = AvroSchema(self._schemas.schema(number))
            if not set(fields.names) & {str(field["name"]) for field in schema.fields(schema.root)}:
                raise ValueError(f"it has none of the fields {', '.join(fields.names)}")
            self._columns[known] = Columns(schema, {field.name: _wanted(field.type) for field in fields})
        return self._columns[known]


def _wanted(kind: pa.DataType) -> Wanted:
    return {field.name: _wanted(field.type) for field in kind} if isinstance(kind, pa.StructType) else True


def _fitted(values: Any, kind: Any) -> Any:
    """The values with the fields of a type; those that they lack, or have otherwise, are null."""
    if isinstance(kind, pa.StructType) and isinstance(values.type, pa.StructType):
        fields: list[Array] = [
            _fitted(pc.struct_field(values, f.name), f.type)
            if values.type.get_field_index(f.name) >= 0
            else pa.nulls(len(values), f.type)
            for f in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())
    if isinstance(kind, pa.ListType) and isinstance(values.type, pa.ListType):
        items = _fitted(values.values, kind.value_type)
        return pa.ListArray.from_arrays(values.offsets, items, type=kind, mask=values.is_null())
    return values if values.type == kind else pa.nulls(len(values), kind)
