"""Schemas of Avro, their lookup in a registry, and the schemas of Kafka Connect that converters made them from.

| Connect | Avro |
|---|---|
| int8, int16 | int, with the property `connect.type` |
| int32, int64, float32, float64, boolean, string, bytes | int, long, float, double, boolean, string, bytes |
| struct | record |
| array | array |
| optional | a union with null |
| name, parameters | `connect.name`, `connect.parameters`; or a logical type |

Source: Avro specification 1.11, schema declaration; Confluent's documentation of its Avro converter.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fastavro.schema import SchemaParseException, UnknownType, parse_schema

_PLAIN: Mapping[str, str] = {
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "boolean",
    "string": "string",
    "enum": "string",
    "bytes": "bytes",
    "fixed": "bytes",
}
_LOGICAL: Mapping[tuple[str, str], str] = {
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_NO_PRECISION = 64
_OF_FIELDS = ("default", "doc", "aliases", "order")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchema:
    """An Avro schema as JSON, and the schemas that it refers to by name, each after the schemas that it refers to
    itself.
    """

    text: str
    references: tuple[str, ...] = ()


class WriterSchemas(Protocol):
    """Lookup of schemas by id. The schema of an id never changes."""

    def schema(self, number: int) -> WriterSchema:
        """Return the schema with that id.

        Raises UnknownSchemaError if there is none, SourceUnavailableError if the lookup may be retried, and
        SchemaRegistryError if a retry does not help.
        """
        ...


class AvroSchema:
    """A schema with resolved names. `root` is its type: a name, a dict with "type", or a list, which is a union."""

    def __init__(self, written: WriterSchema) -> None:
        """Raise ValueError for an invalid schema."""
        self._named: dict[str, Any] = {}
        try:
            for text in (*written.references, written.text):
                self.root: Any = parse_schema(_without_defaults(json.loads(text)), self._named)
        except (SchemaParseException, UnknownType, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"it is no schema of Avro: {error!r}") from error

    def resolved(self, kind: Any) -> Any:
        """Return a type as a dict with the name of the type as "type", or as a list of the types of a union."""
        while True:
            if isinstance(kind, list):
                return kind
            if isinstance(kind, str):
                if kind not in self._named:
                    return {"type": kind}
                kind = self._named[kind]
            elif isinstance(kind["type"], dict | list):
                kind = kind["type"]
            elif kind["type"] in self._named:
                kind = self._named[kind["type"]]
            else:
                return kind

    def whole(self, kind: Any) -> Any:
        """Return a type of the schema in the form that fastavro reads by, without logical types."""
        return parse_schema(self._spelled_out(kind, set()), {})

    def type_of(self, kind: Any) -> str:
        """Return the name of a type, for an optional type that of the type without null."""
        resolved = self.resolved(kind)
        if not isinstance(resolved, list):
            return str(resolved["type"])
        others = [branch for branch in resolved if self.resolved(branch) != {"type": "null"}]
        return self.type_of(others[0]) if len(others) == 1 else "union"

    def fields(self, kind: Any) -> "list[Mapping[str, Any]]":
        """Return the fields of a record, or of an optional record; empty for other types."""
        resolved = self.resolved(kind)
        if isinstance(resolved, list):
            found = [self.fields(branch) for branch in resolved]
            return next((fields for fields in found if fields), [])
        fields: list[Mapping[str, Any]] = resolved["fields"] if resolved["type"] == "record" else []
        return fields

    def connect(self, kind: Any, above: Sequence[str] = ()) -> dict[str, Any]:
        """Return the schema of Kafka Connect of a type, as its JSON converter writes it.

        A type without a counterpart has a "type" that is none of Connect's.
        """
        resolved = self.resolved(kind)
        if isinstance(resolved, list):
            others = [branch for branch in resolved if self.resolved(branch) != {"type": "null"}]
            if len(others) != 1:
                return {"type": "union"}
            return {**self.connect(others[0], above), "optional": True}
        found: dict[str, Any] = {
            "name": resolved.get("connect.name"),
            "parameters": resolved.get("connect.parameters"),
            "default": resolved.get("connect.default"),
        }
        name = resolved["type"]
        if name == "array":
            return {**found, "type": "array", "items": self.connect(resolved["items"], above)}
        if name == "record":
            if resolved["name"] in above:
                return {"type": "record within itself"}
            within = (*above, resolved["name"])
            fields = [{**self.connect(f["type"], within), "field": f["name"]} for f in resolved["fields"]]
            # Converters leave out a name that equals the name of the record.
            return {**found, "name": found["name"] or resolved["name"], "type": "struct", "fields": fields}
        if name in ("bytes", "fixed") and resolved.get("logicalType") == "decimal":
            return {**found, **_decimal(resolved)}
        logical = _LOGICAL.get((name, resolved.get("logicalType", "")))
        narrow = resolved.get("connect.type") if name == "int" else None
        return {
            **found,
            "type": narrow if narrow in ("int8", "int16") else _PLAIN.get(name, name),
            "name": found["name"] or logical,
        }

    def _spelled_out(self, kind: Any, known: set[str]) -> Any:
        """Return a type with the definition of each name at its first occurrence."""
        if isinstance(kind, str) and (kind not in self._named or kind in known):
            return kind
        resolved = self.resolved(kind)
        if isinstance(resolved, list):
            return [self._spelled_out(branch, known) for branch in resolved]
        found = {k: v for k, v in resolved.items() if k in ("type", "name", "size", "symbols")}
        if "name" in found:
            if found["name"] in known:
                return found["name"]
            known.add(found["name"])
        for inner in ("items", "values"):
            if inner in resolved:
                found[inner] = self._spelled_out(resolved[inner], known)
        if "fields" in resolved:
            found["fields"] = [
                {"name": f["name"], "type": self._spelled_out(f["type"], known)} for f in resolved["fields"]
            ]
        return found


def _decimal(schema: Mapping[str, Any]) -> dict[str, Any]:
    given = schema.get("connect.parameters") or {}
    scale = given.get("scale", schema.get("scale", 0))
    # The converter writes 64 where Connect has no precision.
    avro = None if schema.get("precision") == _NO_PRECISION else schema.get("precision")
    precision = given.get("connect.decimal.precision", avro)
    parameters = {"scale": scale, **({} if precision is None else {"connect.decimal.precision": precision})}
    return {"type": "bytes", "name": _DECIMAL, "parameters": parameters}


def _without_defaults(schema: Any) -> Any:
    """Return a schema without defaults, aliases and docs. Only readers of another schema need them, and some writers
    write invalid ones.
    """
    if isinstance(schema, list):
        return [_without_defaults(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: value for name, value in schema.items() if name not in ("doc", "aliases")}
    for inner in ("type", "items", "values"):
        if inner in found:
            found[inner] = _without_defaults(found[inner])
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {n: _without_defaults(v) if n == "type" else v for n, v in f.items() if n not in _OF_FIELDS}
            for f in found["fields"]
        ]
    return found
