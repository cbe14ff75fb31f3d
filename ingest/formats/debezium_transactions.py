"""What Debezium says about transactions, where its connector runs with `provide.transaction.metadata` = true.

Each change names its transaction, and a topic of their own says when transactions begin and end, and how many changes
of which tables they had:

    {"source": {…}, "op": "c", …, "transaction": {"id": "571:53195832", "total_order": 1, "data_collection_order": 1}}
    {"status": "END", "id": "571:53195832", "ts_ms": …, "event_count": 2,
     "data_collections": [{"data_collection": "public.orders", "event_count": 2}]}

Rows of the first snapshot belong to no transaction. PostgreSQL's connector writes the number of the transaction and the
place in the log of each event, so that only the number is the same in all of them.

Source: Debezium's documentation, "Transaction metadata" of its connectors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage
from interbed.ingest.flow.messages import Messages
from interbed.ingest.flow.transactions import EndedTransaction
from interbed.ingest.formats.arrays import Array, Indices, mask_of, valid
from interbed.ingest.formats.by_table import Headers, is_one_of, read_headers
from interbed.ingest.formats.connect_envelope import Envelopes
from interbed.ingest.formats.table_shapes import texts_of
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
    """A TransactionReader of Debezium's messages, however they are written."""

    @abstractmethod
    def headers(
        self, messages: Messages, fields: pa.Schema, bad: list[BadMessage]
    ) -> Iterator[tuple[Indices, Headers]]:
        """These fields of the messages that have a value, and the numbers of these messages."""

    def ids(self, messages: Messages) -> Array:
        """See TransactionReader. Of a message that can't be read nothing is said here: its decoder will."""
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
        """See TransactionReader."""
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
    """A TransactionReader of Debezium's JSON, with Kafka Connect's schema around it or without."""

    def __init__(self) -> None:
        self._envelopes: Envelopes[None] = Envelopes(lambda schema: None)

    def headers(
        self, messages: Messages, fields: pa.Schema, bad: list[BadMessage]
    ) -> Iterator[tuple[Indices, Headers]]:
        """See DebeziumTransactions."""
        texts, places = texts_of(messages)
        for _, index, payloads in self._envelopes.opened(places, texts, bad):
            headers = read_headers(payloads, fields)
            bad += [BadMessage(int(index[each.index]), each.reason) for each in headers.bad]
            yield index, headers


def _of_all_events(ids: Array) -> Array:
    """What is the same in all events of a transaction."""
    texts: Any = ids
    placed = mask_of(pc.match_substring_regex(texts, _PLACE_IN_LOG).fill_null(False))
    if not placed.any():
        return ids
    numbers: Any = pc.replace_substring_regex(texts, _PLACE_IN_LOG, r"\1")
    found: Array = pc.if_else(pa.array(placed), numbers, texts)
    return found
