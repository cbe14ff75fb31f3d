"""Debezium's events in Avro as its documentation describes them, in Confluent's wire format."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro

from interbed.ingest.flow.messages import SourceUnavailableError, UnknownSchemaError
from interbed.ingest.formats.avro.schema import WriterSchema

SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [{"type": "string", "connect.version": 1, "connect.default": "false"}, "null"]},
        {"name": "db", "type": "string"},
        {"name": "schema", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}
BLOCK = {
    "type": "record",
    "name": "block",
    "namespace": "event",
    "fields": [{"name": "id", "type": "string"}, {"name": "total_order", "type": "long"}],
}


def encoded(number: int, schema: Any, value: Any) -> bytes:
    """Encode a value in Confluent's wire format, with the number of its schema."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def envelope(fields: Sequence[Mapping[str, Any]], name: str = "shop.public.orders") -> dict[str, Any]:
    """Return the schema of events whose rows have these fields, as Debezium documents it."""
    row = {"type": "record", "name": "Value", "fields": list(fields), "connect.name": f"{name}.Value"}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": name,
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": SOURCE},
            {"name": "transaction", "type": ["null", BLOCK], "default": None},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
        "connect.name": f"{name}.Envelope",
    }


def avro_event(op: str, before: Any = None, after: Any = None, table: str = "orders") -> dict[str, Any]:
    """Return an event of a table."""
    source: dict[str, Any] = {
        "version": "3.2",
        "ts_ms": 1,
        "snapshot": "false",
        "db": "shop",
        "schema": "public",
        "table": table,
    }
    source["lsn"] = 99
    block = {"id": "7", "total_order": 1} if op == "c" else None
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 2, "transaction": block}


class FakeRegistry:
    """Schema registry in memory that numbers its schemas; it does not respond while `down` is set."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.asked: list[int] = []
        self.down = False

    def number(self, schema: Any) -> int:
        text = json.dumps(schema)
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text) + 1

    def schema(self, number: int) -> WriterSchema:
        if self.down:
            raise SourceUnavailableError("the registry is down")
        if not 1 <= number <= len(self._texts):
            raise UnknownSchemaError(f"the schema registry does not have a schema {number}")
        self.asked.append(number)
        return WriterSchema(text=self._texts[number - 1])

    def encoded(self, schema: Any, value: Any) -> bytes:
        """Encode a value in Confluent's wire format."""
        return encoded(self.number(schema), schema, value)
