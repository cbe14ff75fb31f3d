"""The protocol of decoders, the decoder of each format, and that of messages that are rows as JSON objects.

In messages that are rows as JSON objects, {"id": 1, "name": "…"}, the row is inserted, or replaces the row of its key.
A tombstone, a message without a value, deletes the row that has the columns of the message's key, {"id": 1}: in this
way compacted topics of Kafka delete keys. Source: Flink's documentation, Table API Connectors, Upsert Kafka.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, DecodedMessages, RowChanges, UnsentRows
from interbed.ingest.flow.messages import Messages, TransactionReader
from interbed.ingest.formats.arrays import one_array, valid
from interbed.ingest.formats.avro.schema import WriterSchemas
from interbed.ingest.formats.json_objects import JsonShape, at_texts, sent_rows
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.row.kind import RowKind


class Decoder(Protocol):
    """Decoder of the messages of one format, which keeps the shapes that it learned between calls.

    Not for use by several threads.
    """

    def decode(self, messages: Messages) -> DecodedMessages:
        """Decode messages. A message that cannot be decoded is returned as bad; it does not raise."""
        ...


_PLACES: Mapping[str, str] = {
    "canal-json": "interbed.ingest.formats.canal_json:CanalJson",
    "debezium-avro": "interbed.ingest.formats.debezium_avro:DebeziumAvro",
    "debezium-json": "interbed.ingest.formats.debezium_json:DebeziumJson",
    "json": "interbed.ingest.formats.format:PlainJson",
    "maxwell-json": "interbed.ingest.formats.maxwell_json:MaxwellJson",
}
FORMATS = tuple(_PLACES)
_TRANSACTIONS: Mapping[str, str] = {
    "debezium-avro": "interbed.ingest.formats.debezium_transactions:DebeziumAvroTransactions",
    "debezium-json": "interbed.ingest.formats.debezium_transactions:DebeziumJsonTransactions",
}
WITH_SCHEMAS = ("debezium-avro",)
"""The formats whose schemas are looked up in a registry."""


WITH_PLACEHOLDER = ("debezium-avro", "debezium-json")
"""The formats with a placeholder for values that the database did not send."""


def decoder_of(name: str, schemas: WriterSchemas | None = None, unavailable: str | None = None) -> Decoder:
    """Return a new decoder of a format, which looks up `schemas` if the format is one of WITH_SCHEMAS.

    `unavailable` is Debezium's placeholder if it is not the default, a text or `hex:` and its bytes. Raises
    NotSupportedError naming the known formats, and InvalidOptionError for missing schemas, for an invalid placeholder,
    and for a format without placeholder.
    """
    if name not in _PLACES:
        raise NotSupportedError(f"There is no format {name!r} of messages; there are {', '.join(FORMATS)}.")
    if unavailable is None:
        decoder: Decoder = _made(name, _PLACES[name], schemas)
        return decoder
    if name not in WITH_PLACEHOLDER:
        raise InvalidOptionError(
            f"The format {name} has no placeholder for values; {', '.join(WITH_PLACEHOLDER)} have."
        )
    from interbed.ingest.formats.lacking_columns import UnavailableValue

    made: Decoder = _made(name, _PLACES[name], schemas, unavailable=UnavailableValue.parse(unavailable))
    return made


def transactions_of(name: str, schemas: WriterSchemas | None = None) -> TransactionReader:
    """Return the reader of the transaction metadata of a format. Raises NotSupportedError for a format without them,
    and InvalidOptionError as `decoder_of`.
    """
    if name not in _TRANSACTIONS:
        raise NotSupportedError(
            f"Messages of the format {name} do not name their transactions; those of {', '.join(_TRANSACTIONS)} do."
        )
    reader: TransactionReader = _made(name, _TRANSACTIONS[name], schemas)
    return reader


def _made(name: str, place: str, schemas: WriterSchemas | None, **more: Any) -> Any:
    """Return an object of the class at a place, with the schemas if the format needs them."""
    module, _, maker = place.partition(":")
    make: Callable[..., Any] = getattr(import_module(module), maker)
    if name not in WITH_SCHEMAS:
        return make(**more)
    if schemas is None:
        raise InvalidOptionError(f"The format {name} needs the registry of its schemas: give --schema-registry URL.")
    return make(schemas, **more)


_NOT_IN_KEY = "its key has no value for the column {!r} of the row to delete"
_NO_ROW = "it has no value, and its key names no row to delete: "


class PlainJson:
    """Decoder of messages that are rows. All of them are of one table, which they do not name."""

    def __init__(self) -> None:
        self._shape = JsonShape()

    def decode(self, messages: Messages) -> DecodedMessages:
        """Return the rows, in the order of the messages. A message that is no object is bad, and so is a tombstone
        without a key.
        """
        if not len(messages):
            return DecodedMessages()
        dead = messages.values.is_null().to_numpy(zero_copy_only=False)
        # Rows to delete are read together with the others, so that their columns have the same types.
        texts: Any = pc.coalesce(messages.values, messages.keys) if dead.any() else messages.values
        given = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        nameless = np.setdiff1d(np.arange(len(messages)), given)
        bad = [BadMessage(i, _NO_ROW + "there is none") for i in nameless.tolist()]
        texts = texts.take(pa.array(given)) if len(nameless) else texts
        read = self._shape.read(texts)
        for each in read.bad:
            i = int(given[each.index])
            bad.append(BadMessage(i, _NO_ROW + each.reason if dead[i] else each.reason))
        rows, index, owner = read.rows, given[read.index], read.index
        empty = dead[index] & _all_null(rows)
        if empty.any():
            bad += [BadMessage(i, _NO_ROW + "it has no columns") for i in index[empty].tolist()]
            rows, index, owner = rows.filter(pa.array(~empty)), index[~empty], owner[~empty]
        bad.sort(key=lambda each: each.index)
        if not len(index):
            return DecodedMessages(bad=bad)
        kinds = np.where(dead[index], np.int8(RowKind.DELETE), np.int8(RowKind.INSERT))
        rewritten = None if read.rewritten is None else at_texts(read.rewritten, read.index, len(texts))
        sent = sent_rows(texts, owner, kinds, lambda row, name, *_: row.get(name), rewritten)
        unsent = {
            name: UnsentRows(dead[index] & ~valid(one_array(rows.column(name))), _NOT_IN_KEY)
            for name in rows.column_names
        }
        changes = RowChanges(
            source=None,
            rows=rows,
            kinds=kinds,
            messages=index,
            unsent_before={name: each for name, each in unsent.items() if each.rows.any()},
            sent=sent,
        )
        return DecodedMessages(changes=(changes,), bad=bad)


def _all_null(rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return which rows have no values at all."""
    found = np.ones(rows.num_rows, bool)
    for column in rows.columns:
        if not found.any():
            break
        found &= column.is_null().to_numpy()
    return found
