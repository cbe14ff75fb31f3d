"""Debezium's transaction metadata in Avro: the transactions of events, and the transactions that are complete."""

from typing import Any

import pytest

from interbed.ingest.flow.messages import EndedTransaction
from interbed.ingest.formats.debezium_transactions import DebeziumAvroTransactions
from interbed.ingest.formats.format import transactions_of
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from tests.ingest.formats.avro.events import BLOCK, FakeRegistry
from tests.ingest.formats.streams import messages_of

EVENT = {
    "type": "record",
    "name": "Envelope",
    "fields": [{"name": "op", "type": "string"}, {"name": "transaction", "type": ["null", BLOCK]}],
}
COLLECTION = {
    "type": "record",
    "name": "collection",
    "namespace": "event",
    "fields": [
        {"name": "data_collection", "type": "string"},
        {"name": "event_count", "type": "long"},
        {"name": "more", "type": ["null", "string"], "default": None},
    ],
}
STATUS = {
    "type": "record",
    "name": "TransactionMetadataValue",
    "fields": [
        {"name": "status", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "data_collections", "type": ["null", {"type": "array", "items": COLLECTION}]},
    ],
}


def event(op: str, transaction: str | None) -> dict[str, Any]:
    return {"op": op, "transaction": None if transaction is None else {"id": transaction, "total_order": 1}}


def status(kind: str, name: str, *collections: tuple[str, int]) -> dict[str, Any]:
    events = [{"data_collection": table, "event_count": count, "more": None} for table, count in collections]
    return {"status": kind, "id": name, "ts_ms": 1, "data_collections": events or None}


def test_events_name_their_transactions() -> None:
    schemas = FakeRegistry()
    given = [event("r", None), event("c", "571:10"), event("u", "571:11"), event("d", "file=3,pos=7")]
    messages = messages_of([None, *(schemas.encoded(EVENT, each) for each in given), b"no event"])
    reader = DebeziumAvroTransactions(schemas)
    assert reader.ids(messages).to_pylist() == [None, None, "571", "571", "file=3,pos=7", None]


def test_a_change_without_its_transaction_is_refused() -> None:
    schemas = FakeRegistry()
    messages = messages_of([schemas.encoded(EVENT, event("u", None))])
    with pytest.raises(InvalidInputError, match=r"offset 0 names no transaction.*provide\.transaction\.metadata"):
        DebeziumAvroTransactions(schemas).ids(messages)
    bare = {"type": "record", "name": "Envelope", "fields": [{"name": "op", "type": "string"}]}
    with pytest.raises(InvalidInputError, match="names no transaction"):
        DebeziumAvroTransactions(schemas).ids(messages_of([schemas.encoded(bare, {"op": "c"})]))


def test_end_messages_count_the_events_per_table() -> None:
    schemas = FakeRegistry()
    given = [
        status("BEGIN", "571:10"),
        status("END", "571:12", ("public.orders", 2), ("public.items", 1)),
        status("END", "572:13"),
    ]
    messages = messages_of([schemas.encoded(STATUS, each) for each in given])
    assert DebeziumAvroTransactions(schemas).ended(messages) == [
        EndedTransaction(id="571", offset=1, events={"public.orders": 2, "public.items": 1}),
        EndedTransaction(id="572", offset=2, events={}),
    ]


@pytest.mark.parametrize("damage", ["another record", "an unknown schema", "cut off", "no Avro"])
def test_messages_without_transaction_metadata_are_refused_with_their_offset(damage: str) -> None:
    schemas = FakeRegistry()
    whole = schemas.encoded(STATUS, status("END", "571:12"))
    other = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}
    value = {
        "another record": schemas.encoded(other, {"x": 1}),
        "an unknown schema": whole[:1] + (99).to_bytes(4, "big") + whole[5:],
        "cut off": whole[:-3],
        "no Avro": b"{}",
    }[damage]
    with pytest.raises(InvalidInputError, match="offset 1 says nothing of a transaction"):
        DebeziumAvroTransactions(schemas).ended(messages_of([whole, value]))


def test_the_schema_registry_is_required() -> None:
    with pytest.raises(InvalidOptionError, match="--schema-registry"):
        transactions_of("debezium-avro")
