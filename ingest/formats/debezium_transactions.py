"""Transaction metadata of Debezium, where its connector runs with `provide.transaction.metadata` = true.

Each change names its transaction. A topic of transactions says when each transaction begins and ends, and how many
changes of which tables it has:

    {"source": {…}, "op": "c", …, "transaction": {"id": "571:53195832", "total_order": 1, "data_collection_order": 1}}
    {"status": "END", "id": "571:53195832", "ts_ms": …, "event_count": 2,
     "data_collections": [{"data_collection": "public.orders", "event_count": 2}]}

In Avro the messages are records of the same fields, in Confluent's wire format. Rows of the initial snapshot belong to
no transaction. PostgreSQL's connector writes the number of the transaction and the position of the event in the log, so
only the number is the same in all events of a transaction.

Source: Debezium's documentation, "Transaction metadata" of its connectors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.flow.messages import EndedTransaction, Messages
from interbed.ingest.formats.arrays import Array, Indices, mask_of, valid
from interbed.ingest.formats.avro.columns import Columns, Wanted
from interbed.ingest.formats.avro.schema import AvroSchema, WriterSchemas
from interbed.ingest.formats.by_table import Headers, is_one_of, read_headers, texts_of
from interbed.ingest.formats.connect_json import EnvelopeReader
from interbed.ingest.formats.debezium_avro import decoded_by_schema
from interbed.storage.base.errors import InvalidInputError

_EVENT = pa.schema([pa.field("op", pa.string()), pa.field("transaction", pa.struct([pa.field("id", pa.string())]))])
_COLLECTION = pa.struct([pa.field("data_collection", pa.string()), pa.field("event_count", pa.int64())])
_STATUS = pa.schema(
    [
        pa.field("status", pa.string()),
        pa.field("id", pa.string()),
        pa.field("data_collections", pa.list_(_COLLECTION)),
    ]
)
_CHANGES = ("c", "u", "d", "t")
_PLACE_IN_LOG = r"^(\d+):\d+$"


class DebeziumTransactions(ABC):
    """Base of the readers of Debezium's transaction metadata, for any encoding."""

    @abstractmethod
    def headers(
        self, messages: Messages, fields: pa.Schema, bad: list[BadMessage]
    ) -> Iterator[tuple[Indices, Headers]]:
        """Yield these fields of the messages that have a value, and the numbers of these messages."""

    def ids(self, messages: Messages) -> Array:
        """Return the transaction of each message; see TransactionReader. A message that cannot be read is left to its
        decoder.
        """
        found = np.full(len(messages), None, object)
        for index, headers in self.headers(messages, _EVENT, []):
            ids = _of_all_events(headers.column("transaction", "id"))
            lacking = is_one_of(headers.column("op"), _CHANGES) & ~valid(ids)
            if lacking.any():
                place = messages.place(int(index[headers.index[lacking]][0]))
                raise InvalidInputError(
                    f"The message at {place} names no transaction, so that those of the source can't be kept whole. "
                    "Set provide.transaction.metadata=true for Debezium's connector."
                )
            found[index[headers.index]] = ids.to_numpy(zero_copy_only=False)
        return pa.array(found, pa.string())

    def ended(self, messages: Messages) -> Sequence[EndedTransaction]:
        """Return the ends of transactions; see TransactionReader."""
        bad: list[BadMessage] = []
        found: list[EndedTransaction] = []
        for index, headers in self.headers(messages, _STATUS, bad):
            known = headers.has_one_of("status", ("BEGIN", "END")) & headers.has("id")
            bad += [BadMessage(int(index[i]), "it has no status and id") for i in headers.index[~known]]
            ends = headers.where(headers.has_one_of("status", ("END",)) & known)
            ids = _of_all_events(ends.column("id")).to_pylist()
            collections: Any = ends.column("data_collections").to_pylist()
            for i, name, events in zip(index[ends.index], ids, collections, strict=True):
                counts = {each["data_collection"]: each["event_count"] or 0 for each in events or ()}
                found.append(EndedTransaction(id=str(name), offset=int(messages.offsets[i]), events=counts))
        if bad:
            raise InvalidInputError(
                f"The message at {messages.place(bad[0].index)} says nothing of a transaction: {bad[0].reason}. Name "
                "the topic in which Debezium writes their beginnings and ends."
            )
        return sorted(found, key=lambda each: each.offset)


class DebeziumJsonTransactions(DebeziumTransactions):
    """TransactionReader of Debezium's JSON, with Kafka Connect's schema around it or without."""

    def __init__(self) -> None:
        self._envelopes: EnvelopeReader[None] = EnvelopeReader(lambda schema: None)

    def headers(
        self, messages: Messages, fields: pa.Schema, bad: list[BadMessage]
    ) -> Iterator[tuple[Indices, Headers]]:
        """Yield fields of messages; see DebeziumTransactions."""
        texts, places = texts_of(messages)
        for _, index, payloads in self._envelopes.opened(places, texts, bad):
            headers = read_headers(payloads, fields)
            bad += [BadMessage(int(index[each.index]), each.reason) for each in headers.bad]
            yield index, headers


def _of_all_events(ids: Array) -> Array:
    """Return the part of the ids that is the same in all events of a transaction."""
    texts: Any = ids
    placed = mask_of(pc.match_substring_regex(texts, _PLACE_IN_LOG).fill_null(False))
    if not placed.any():
        return ids
    numbers: Any = pc.replace_substring_regex(texts, _PLACE_IN_LOG, r"\1")
    found: Array = pc.if_else(pa.array(placed), numbers, texts)
    return found


class DebeziumAvroTransactions(DebeziumTransactions):
    """TransactionReader of Debezium's Avro."""

    def __init__(self, schemas: WriterSchemas) -> None:
        self._schemas = schemas
        self._columns: dict[tuple[int, str], Columns] = {}

    def headers(
        self, messages: Messages, fields: pa.Schema, bad: list[BadMessage]
    ) -> Iterator[tuple[Indices, Headers]]:
        """Yield fields of messages; see DebeziumTransactions.

        Raises NotSupportedError and the errors of the schema lookup.
        """
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
    """Return the values with the fields of a type. Fields that are missing, or of another type, are null."""
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
