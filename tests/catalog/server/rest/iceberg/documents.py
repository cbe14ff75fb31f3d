"""Metadata documents of tests, and their updates, each of which pyiceberg reads again."""

from typing import Any

import msgspec
from pyiceberg.table.metadata import TableMetadataUtil

from interbed.catalog.server.rest.iceberg.metadata.builder import updated
from interbed.catalog.server.rest.iceberg.metadata.documents import new_table, written
from interbed.catalog.server.rest.iceberg.metadata.schemas import Document
from interbed.catalog.server.rest.iceberg.metadata.updates import TableUpdate

NOW = 1_700_000_000_000
LOCATION = "file:/warehouse/t"
SCHEMA: Document = {
    "type": "struct",
    "fields": [
        {"id": 7, "name": "id", "required": True, "type": "long"},
        {
            "id": 9,
            "name": "place",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 20, "name": "x", "required": False, "type": "double"}]},
        },
        {"id": 8, "name": "at", "required": False, "type": "timestamp"},
    ],
}
SPEC = {"fields": [{"source-id": 8, "transform": "day", "name": "at_day"}]}
ORDER = {"fields": [{"source-id": 7, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]}


def table(version: int = 2) -> Document:
    """Return the document of a new table."""
    return new_table(SCHEMA, SPEC, ORDER, LOCATION, {"format-version": str(version)}, NOW)


def changed(base: Document, *updates: Any) -> Document:
    """Return the document after updates."""
    made = updated(base, f"{LOCATION}/metadata/00000-a.metadata.json", of(*updates), NOW + 1)
    assert made is not None
    check(made)
    return made


def of(*updates: Any) -> list[TableUpdate]:
    """Return updates as the server decodes them."""
    return msgspec.convert(list(updates), list[TableUpdate])


def check(document: Document) -> None:
    """Have pyiceberg read the document as a file has it."""
    TableMetadataUtil.parse_raw(msgspec.json.encode(written(document)).decode())


def snapshot(number: int, parent: int | None = None, **more: Any) -> Document:
    """Return a snapshot whose sequence number is its id."""
    made = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": NOW + number,
        "manifest-list": f"{LOCATION}/metadata/snap-{number}.avro",
        "summary": {"operation": "append"},
        **more,
    }
    return made if parent is None else {**made, "parent-snapshot-id": parent}


def add(number: int, parent: int | None = None, **more: Any) -> list[Document]:
    """Return the updates that make a new snapshot current."""
    return [
        {"action": "add-snapshot", "snapshot": snapshot(number, parent, **more)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
    ]
