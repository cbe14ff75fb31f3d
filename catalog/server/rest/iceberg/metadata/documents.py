"""Metadata documents of tables: those of new tables, and those of files of every version in one form.

Older files of version 1 have one schema and one spec instead of lists, and no references: a document in memory always
has the lists, `refs` and the ids. Source: Iceberg's table specification, "Table Metadata Fields", and Appendix C.
"""

import itertools
import uuid
from collections.abc import Mapping
from typing import Any

from interbed.catalog.server.rest.iceberg.metadata.base import Document, InvalidMetadataError
from interbed.catalog.server.rest.iceberg.metadata.document_types import check_table
from interbed.catalog.server.rest.iceberg.metadata.partitions import (
    FIRST_PARTITION_ID,
    UNSORTED,
    check_names,
    check_order,
    check_spec,
    last_partition_id,
    moved,
    with_field_ids,
)
from interbed.catalog.server.rest.iceberg.metadata.schemas import (
    check_schema,
    columns,
    highest_id,
    with_fresh_ids,
    without_nulls,
)
from interbed.catalog.server.rest.iceberg.metadata.snapshots import MAIN, ROW_LINEAGE_VERSION

VERSION_MAX = 3
_VERSION_DEFAULT = 2
_NULL_SNAPSHOT_VERSION = 3

FORMAT_VERSION = "format-version"

RESERVED_PROPERTIES = frozenset(
    (
        *(FORMAT_VERSION, "uuid", "snapshot-count", "current-snapshot-summary", "current-snapshot-id"),
        *("current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order"),
    )
)
"""Properties that repeat fields of the metadata: they are not stored."""

_LISTS = ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics")


def empty_document(version: int, now_ms: int) -> Document:
    """Return a document without schema, spec and location, to which the updates of a new table apply."""
    check_version(version)
    document: Document = {
        FORMAT_VERSION: version,
        "table-uuid": str(uuid.uuid4()),
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": now_ms,
        "last-column-id": 0,
        "current-schema-id": -1,
        "schemas": [],
        "default-spec-id": -1,
        "partition-specs": [],
        "last-partition-id": FIRST_PARTITION_ID - 1,
        "default-sort-order-id": -1,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None,
        "refs": {},
        **{name: [] for name in _LISTS},
    }
    if version >= ROW_LINEAGE_VERSION:
        document["next-row-id"] = 0
    return document


def check_version(version: int) -> None:
    """Raise InvalidMetadataError for a version of the format that this server does not write."""
    if not 1 <= version <= VERSION_MAX:
        raise InvalidMetadataError(f"Unsupported format version: v{version} (supported: v{VERSION_MAX})")


def new_table(
    schema: Document,
    spec: Document | None,
    order: Document | None,
    location: str,
    properties: Mapping[str, str],
    now_ms: int,
) -> Document:
    """Return the document of a new table: with new ids of columns, of the spec and of the sort order.

    InvalidMetadataError for a schema, spec or order that is malformed or that the version of the format lacks.
    """
    document = empty_document(_version(properties), now_ms)
    version = document[FORMAT_VERSION]
    schema = without_nulls(schema)
    check_schema(schema, version)
    fresh, ids = with_fresh_ids(schema, itertools.count(1).__next__)
    plain = {"spec-id": 0, "fields": [_without_id(field) for field in _fields(spec)]}
    partitioned = with_field_ids(moved(plain, ids), (), FIRST_PARTITION_ID - 1)
    check_spec(partitioned, fresh)
    check_names(partitioned, fresh)
    fields = _fields(order)
    sorted_by = moved({"order-id": 1, "fields": fields}, ids) if fields else UNSORTED
    check_order(sorted_by, fresh)
    document.update(
        {
            "location": location,
            "last-column-id": highest_id(fresh),
            "current-schema-id": 0,
            "schemas": [fresh],
            "default-spec-id": 0,
            "partition-specs": [partitioned],
            "last-partition-id": last_partition_id([partitioned]),
            "default-sort-order-id": sorted_by["order-id"],
            "sort-orders": [sorted_by],
            "properties": stored_properties(properties),
        }
    )
    return document


def stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a new table: the client's without the reserved ones, and Iceberg's defaults."""
    kept = {key: value for key, value in properties.items() if key not in RESERVED_PROPERTIES}
    return {"write.parquet.compression-codec": "zstd", **kept}


def _version(properties: Mapping[str, str]) -> int:
    text = properties.get(FORMAT_VERSION, str(_VERSION_DEFAULT))
    try:
        return int(text)
    except ValueError as error:
        raise InvalidMetadataError(f"The property '{FORMAT_VERSION}' is {text!r}, which is no number") from error


def _fields(owner: Document | None) -> list[Document]:
    fields = [] if owner is None else owner.get("fields", [])
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise InvalidMetadataError("The fields of the partition spec or of the sort order are no list of objects")
    return fields


def _without_id(field: Document) -> Document:
    return {key: value for key, value in field.items() if key != "field-id"}


def completed(document: Document) -> Document:
    """Return the document of a metadata file in the form of documents in memory.

    InvalidMetadataError for a document that lacks what every version has, or that has a member of another type.
    """
    made = dict(document)
    version = made.get(FORMAT_VERSION)
    if not isinstance(version, int) or not 1 <= version <= VERSION_MAX:
        raise InvalidMetadataError(f"Cannot read unsupported version {version}")
    if not isinstance(made.get("location"), str):
        raise InvalidMetadataError("The metadata has no location")
    try:
        _complete_lists(made)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidMetadataError(f"The metadata has no valid {error}") from error
    # Files of version 1 repeat them for old readers.
    made.pop("schema", None)
    made.pop("partition-spec", None)
    for name in _LISTS:
        made[name] = made.get(name) or []
    made["properties"] = made.get("properties") or {}
    current = made.get("current-snapshot-id")
    made["current-snapshot-id"] = None if current == -1 else current
    if "refs" not in made:
        now = made["current-snapshot-id"]
        made["refs"] = {} if now is None else {MAIN: {"snapshot-id": now, "type": "branch"}}
    made.setdefault("last-sequence-number", 0)
    if version >= ROW_LINEAGE_VERSION:
        made.setdefault("next-row-id", 0)
    check_table(made)
    for _ in columns(current_schema(made)):
        pass
    return made


def _complete_lists(made: Document) -> None:
    if not made.get("schemas"):
        schema = made["schema"]
        number = schema.get("schema-id", 0)
        made["schemas"] = [{**schema, "schema-id": number}]
        made["current-schema-id"] = number
    if not made.get("partition-specs"):
        spec = {"spec-id": 0, "fields": made.get("partition-spec") or []}
        made["partition-specs"] = [spec]
        made["default-spec-id"] = 0
    last = last_partition_id(made["partition-specs"])
    made["partition-specs"] = [with_field_ids(spec, (), last) for spec in made["partition-specs"]]
    if made.get("last-partition-id") is None:
        made["last-partition-id"] = last_partition_id(made["partition-specs"])
    if not made.get("sort-orders"):
        made["sort-orders"] = [UNSORTED]
        made["default-sort-order-id"] = 0
    if made.get("table-uuid") is None:
        made["table-uuid"] = str(uuid.uuid4())
    for name in ("last-column-id", "last-updated-ms", "current-schema-id", "default-spec-id", "default-sort-order-id"):
        if not isinstance(made[name], int):
            raise TypeError(name)


def current_schema(document: Document) -> Document:
    """Return the current schema."""
    return by_id(document["schemas"], "schema-id", document["current-schema-id"])


def default_spec(document: Document) -> Document:
    """Return the default partition spec."""
    return by_id(document["partition-specs"], "spec-id", document["default-spec-id"])


def default_order(document: Document) -> Document:
    """Return the default sort order."""
    return by_id(document["sort-orders"], "order-id", document["default-sort-order-id"])


def by_id(owners: list[Document], key: str, number: int) -> Document:
    """Return the schema, spec or order of a number. InvalidMetadataError if there is none."""
    found = next((each for each in owners if each[key] == number), None)
    if found is None:
        raise InvalidMetadataError(f"The metadata has no {key} {number}")
    return found


def written(document: Document) -> Document:
    """Return the document as a metadata file has it: with the fields that readers of its version need."""
    version = document[FORMAT_VERSION]
    made: dict[str, Any] = {
        key: value
        for key, value in document.items()
        if key not in ("schema", "partition-spec") and not (version == 1 and key == "last-sequence-number")
    }
    if version == 1:
        made["schema"] = current_schema(document)
        made["partition-spec"] = default_spec(document)["fields"]
    if made["current-snapshot-id"] is None and version < _NULL_SNAPSHOT_VERSION:
        made["current-snapshot-id"] = -1
    return made
