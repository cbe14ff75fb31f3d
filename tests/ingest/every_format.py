"""One stream of changes of the table `orders`, written in every format of ingestion.

A change has a row before it and one after it, as Python's values; a name that a row lacks is no column of its message.
Columns have a type, such as bigint, text, texts (a list of them), dates, geometry. Formats that state types state those
of the columns that a row has.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.ingest.formats.canal_json import CanalJson
from interbed.ingest.formats.debezium_avro import DebeziumAvro
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.ingest.formats.format import Decoder, PlainJson
from interbed.ingest.formats.lacking_columns import UnavailableValue
from interbed.ingest.formats.maxwell_json import MaxwellJson
from interbed.ingest.formats.pgoutput import PgOutput
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import DeadLetters, IngestSettings
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.formats.avro.events import FakeRegistry, avro_event, envelope
from tests.ingest.formats.test_debezium_json import payload, with_schema
from tests.ingest.formats.test_pgoutput import UNCHANGED, FakeTypeCatalog, PgOutputStream
from tests.ingest.memory_source import MemorySource

Row = dict[str, Any]
Message = tuple[object, object]
STATED = ("debezium-json-schema", "debezium-avro", "canal-json", "pgoutput")
GUESSED = ("debezium-json", "maxwell-json", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A row that is inserted, updated or deleted."""

    before: Row | None = None
    after: Row | None = None

    @property
    def row(self) -> Row:
        """The row after the change, or the deleted row."""
        row = self.after if self.after is not None else self.before
        assert row is not None
        return row

    @property
    def op(self) -> str:
        """Debezium's code of the operation; an update without a row before it has an empty row."""
        return "c" if self.before is None else "d" if self.after is None else "u"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedStream:
    """Messages, and a factory of their decoder."""

    messages: Sequence[Message]
    decoder: Callable[[], Decoder]


def written(form: str, changes: Sequence[RowChange], types: Mapping[str, str], **more: Any) -> EncodedStream:
    """Encode the changes in a format, one message each, with Kafka's keys where the format has them.

    Debezium's messages have the placeholder of `unavailable` values.
    """
    return _FORMATS[form](changes, types, **more)


def pg_places(changes: Sequence[RowChange], types: Mapping[str, str]) -> list[int]:
    """Return the offset of each change in pgoutput, whose messages include descriptions of the table."""
    places, at, columns = [], 0, None
    for change in changes:
        here = list(_columns(change, types))
        at += here != columns
        columns = here
        places.append(at)
        at += 1
    return places


def place_of(form: str, changes: Sequence[RowChange], types: Mapping[str, str], number: int) -> int:
    """Return the offset of a change's message."""
    return pg_places(changes, types)[number] if form == "pgoutput" else number


def ingested(
    catalog: Catalog,
    stream: EncodedStream,
    *,
    tables: TableSettings | None = None,
    sizes: Sequence[int] = (1000,),
    dead_letters: DeadLetters | None = None,
    **settings: Any,
) -> Ingestion:
    """Read the messages to the end into shop.orders."""
    run = Ingestion(
        catalog,
        MemorySource({"t": [list(stream.messages)]}, sizes),
        stream.decoder,
        TableNames(table="shop.orders"),
        tables or TableSettings(primary_keys=["id"], options={"bucket": "1"}),
        IngestSettings(until_end=True, **settings),
        dead_letters=dead_letters,
        pause=lambda seconds: None,
    )
    run.run()
    return run


def _columns(change: RowChange, types: Mapping[str, str]) -> dict[str, str]:
    names = {**(change.before or {}), **(change.after or {})}
    return {name: kind for name, kind in types.items() if name in names}


def _key(change: RowChange) -> Row:
    """Return the key. It names its column even if the row has no value for it; otherwise the table gets another key."""
    return {"id": change.row.get("id")}


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _json_value(each) for name, each in value.items()}
    return [_json_value(each) for each in value] if isinstance(value, list) else value


def _json_row(row: Row | None) -> Row | None:
    return None if not row else {name: _json_value(value) for name, value in row.items()}


def _debezium_json(
    changes: Sequence[RowChange], types: Mapping[str, str], unavailable: UnavailableValue | None = None
) -> EncodedStream:
    messages = [(_key(each), payload(each.op, _json_row(each.before), _json_row(each.after))) for each in changes]
    return EncodedStream(messages=messages, decoder=lambda: DebeziumJson(unavailable))


_CONNECT: Mapping[str, Row] = {
    "bigint": {"type": "int64"},
    "int": {"type": "int32"},
    "text": {"type": "string"},
    "bytes": {"type": "bytes"},
    "texts": {"type": "array", "items": {"type": "string", "optional": True}},
    "ints": {"type": "array", "items": {"type": "int32", "optional": True}},
    "longs": {"type": "array", "items": {"type": "int64", "optional": True}},
    "dates": {"type": "array", "items": {"type": "int32", "optional": True, "name": "io.debezium.time.Date"}},
    "blobs": {"type": "array", "items": {"type": "bytes", "optional": True}},
    "uuids": {"type": "array", "items": {"type": "string", "optional": True, "name": "io.debezium.data.Uuid"}},
    "json": {"type": "string", "name": "io.debezium.data.Json"},
    "geometry": {
        "type": "struct",
        "name": "io.debezium.data.geometry.Geometry",
        "fields": [{"type": "bytes", "field": "wkb"}, {"type": "int32", "optional": True, "field": "srid"}],
    },
}


def _debezium_json_schema(
    changes: Sequence[RowChange], types: Mapping[str, str], unavailable: UnavailableValue | None = None
) -> EncodedStream:
    messages = []
    for each in changes:
        fields = [{**_CONNECT[t], "optional": True, "field": n} for n, t in _columns(each, types).items()]
        event = payload(each.op, _json_row(each.before), _json_row(each.after))
        messages.append((_key(each), with_schema(event, fields)))
    return EncodedStream(messages=messages, decoder=lambda: DebeziumJson(unavailable))


_AVRO: Mapping[str, Any] = {
    "bigint": "long",
    "int": "int",
    "text": "string",
    "bytes": "bytes",
    "texts": {"type": "array", "items": ["null", "string"]},
    "ints": {"type": "array", "items": ["null", "int"]},
    "longs": {"type": "array", "items": ["null", "long"]},
    "dates": {"type": "array", "items": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
    "blobs": {"type": "array", "items": ["null", "bytes"]},
    "uuids": {"type": "array", "items": ["null", {"type": "string", "connect.name": "io.debezium.data.Uuid"}]},
    "json": {"type": "string", "connect.name": "io.debezium.data.Json"},
    "geometry": {
        "type": "record",
        "name": "Geometry",
        "fields": [{"name": "wkb", "type": "bytes"}, {"name": "srid", "type": ["null", "int"]}],
    },
}


def _debezium_avro(
    changes: Sequence[RowChange], types: Mapping[str, str], unavailable: UnavailableValue | None = None
) -> EncodedStream:
    schemas = FakeRegistry()
    messages = []
    for each in changes:
        fields = [{"name": n, "type": ["null", _AVRO[t]], "default": None} for n, t in _columns(each, types).items()]
        event = avro_event(each.op, each.before or None, each.after or None)
        key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": ["null", "long"]}]}
        messages.append((schemas.encoded(key, _key(each)), schemas.encoded(envelope(fields), event)))
    return EncodedStream(messages=messages, decoder=lambda: DebeziumAvro(schemas, unavailable))


_MYSQL = {"bigint": "bigint", "int": "int", "text": "varchar(500)", "bytes": "blob"}


def _canal_text(value: Any) -> str | None:
    return value.decode("latin-1") if isinstance(value, bytes) else None if value is None else str(value)


def _canal_json(changes: Sequence[RowChange], types: Mapping[str, str]) -> EncodedStream:
    messages: list[Message] = []
    for each in changes:
        row = {n: _canal_text(v) for n, v in each.row.items()}
        message = {
            "database": "shop",
            "table": "orders",
            "isDdl": False,
            "type": {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[each.op],
            "data": [row],
            "mysqlType": {n: _MYSQL[types[n]] for n in row},
            "pkNames": ["id"],
        }
        if each.op == "u":
            old = {n: _canal_text(v) for n, v in (each.before or {}).items()}
            message["old"] = [{n: v for n, v in old.items() if n not in row or row[n] != v}]
        messages.append((None, message))
    return EncodedStream(messages=messages, decoder=CanalJson)


def _maxwell_json(changes: Sequence[RowChange], types: Mapping[str, str]) -> EncodedStream:
    messages: list[Message] = []
    for each in changes:
        row = _json_row(each.row) or {}
        message = {
            "database": "shop",
            "table": "orders",
            "type": {"c": "insert", "u": "update", "d": "delete"}[each.op],
            "data": row,
            "primary_key_columns": ["id"],
        }
        if each.op == "u":
            old = _json_row(each.before) or {}
            message["old"] = {n: v for n, v in old.items() if n not in row or row[n] != v}
        messages.append((None, message))
    return EncodedStream(messages=messages, decoder=MaxwellJson)


def _plain_json(changes: Sequence[RowChange], types: Mapping[str, str]) -> EncodedStream:
    messages: list[Message] = [(_key(each), None if each.op == "d" else _json_row(each.after)) for each in changes]
    return EncodedStream(messages=messages, decoder=PlainJson)


def _pgoutput(changes: Sequence[RowChange], types: Mapping[str, str]) -> EncodedStream:
    names = {"bigint": "int8", "int": "int4", "text": "text", "bytes": "bytea", "texts": "text[]", "ints": "int4[]"}
    names |= {"dates": "date[]", "uuids": "uuid[]", "json": "jsonb", "longs": "int8[]", "blobs": "bytea[]"}
    stream = PgOutputStream({}, identity=b"d")
    for each in changes:
        columns = {n: names[t] for n, t in _columns(each, types).items()}
        if columns != stream.columns:
            stream.columns = columns
            stream.relation()
        before, after = (
            [] if row is None else [_pg_text(row.get(n)) for n in columns] for row in (each.before, each.after)
        )
        match each.op:
            case "c":
                stream.insert(*after)
            case "u":
                stream.update(*after, old=tuple(before) if each.before else None, tag=_pg_tag(each.before))
            case _:
                stream.delete(*before, tag=_pg_tag(each.before))
    return EncodedStream(
        messages=[(None, value) for value in stream.values], decoder=lambda: PgOutput(FakeTypeCatalog())
    )


def _pg_tag(before: Row | None) -> bytes:
    """Return the tag of a row before a change: a key, with nulls in all other columns, or a whole row."""
    others = [value for name, value in (before or {}).items() if name != "id"]
    return b"K" if others and all(value is None for value in others) else b"O"


def _pg_text(value: Any) -> Any:
    match value:
        case None:
            return None
        case bytes():
            return b"\\x" + value.hex().encode()
        case list():
            return ("{" + ",".join("NULL" if v is None else json.dumps(v) for v in value) + "}").encode()
    return value if value is UNCHANGED else str(value).encode()


_FORMATS: Mapping[str, Callable[..., EncodedStream]] = {
    "canal-json": _canal_json,
    "debezium-avro": _debezium_avro,
    "debezium-json": _debezium_json,
    "debezium-json-schema": _debezium_json_schema,
    "json": _plain_json,
    "maxwell-json": _maxwell_json,
    "pgoutput": _pgoutput,
}
FORMATS = tuple(_FORMATS)
