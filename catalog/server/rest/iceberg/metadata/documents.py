"""Metadata documents of tables: their shape, those of new tables, and those of files of every version in one form.

A metadata file may come from any client, so that a document is checked before its members are used. Members that are
not named here are kept as they are. A document that lacks a field, or that has a text instead of a number, cannot be
loaded by any client of Iceberg's library, so that such an object is refused in an update. Source: Iceberg's table
specification, Appendix C, and its view specification.

Older files of version 1 have one schema and one spec instead of lists, and no references: a document in memory always
has the lists, `refs` and the ids. Source: Iceberg's table specification, "Table Metadata Fields", and Appendix C.
"""

import itertools
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec

from interbed.catalog.server.rest.iceberg.metadata.parts import (
    FIRST_PARTITION_ID,
    MAIN,
    ROW_LINEAGE_VERSION,
    UNSORTED,
    check_names,
    check_order,
    check_spec,
    fields_of,
    last_partition_id,
    moved,
    with_field_ids,
)
from interbed.catalog.server.rest.iceberg.metadata.schemas import (
    Document,
    InvalidMetadataError,
    check_schema,
    columns,
    highest_id,
    with_fresh_ids,
    without_nulls,
)


class _Shape(msgspec.Struct, rename="kebab", kw_only=True):
    """Members of an object by their types."""


class _Schema(_Shape):
    schema_id: int
    fields: list[Document]
    identifier_field_ids: list[int] | None = None


class _PartitionField(_Shape):
    name: str
    transform: str
    field_id: int
    source_id: int | None = None
    source_ids: list[int] | None = None


class _PartitionSpec(_Shape):
    spec_id: int
    fields: list[_PartitionField]


class _SortField(_Shape):
    transform: str
    direction: str
    null_order: str
    source_id: int | None = None
    source_ids: list[int] | None = None


class _SortOrder(_Shape):
    order_id: int
    fields: list[_SortField]


class _Snapshot(_Shape):
    snapshot_id: int
    timestamp_ms: int
    sequence_number: int = 0
    parent_snapshot_id: int | None = None
    schema_id: int | None = None
    summary: Document | None = None
    manifest_list: str | None = None


class _SnapshotLogEntry(_Shape):
    snapshot_id: int
    timestamp_ms: int


class _MetadataLogEntry(_Shape):
    metadata_file: str
    timestamp_ms: int


class _SnapshotReference(_Shape):
    snapshot_id: int
    type: str
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


class _StatisticsFile(_Shape):
    snapshot_id: int
    statistics_path: str


class _EncryptionKey(_Shape):
    key_id: str


class _TableDocument(_Shape):
    table_uuid: str
    location: str
    last_sequence_number: int
    last_updated_ms: int
    last_column_id: int
    last_partition_id: int
    current_schema_id: int
    default_spec_id: int
    default_sort_order_id: int
    schemas: list[_Schema]
    partition_specs: list[_PartitionSpec]
    sort_orders: list[_SortOrder]
    properties: dict[str, str]
    current_snapshot_id: int | None
    snapshots: list[_Snapshot]
    snapshot_log: list[_SnapshotLogEntry]
    metadata_log: list[_MetadataLogEntry]
    refs: dict[str, _SnapshotReference]
    statistics: list[_StatisticsFile]
    partition_statistics: list[_StatisticsFile]
    encryption_keys: list[_EncryptionKey] | None = None
    next_row_id: int = 0


class _ViewVersion(_Shape):
    version_id: int
    timestamp_ms: int
    schema_id: int
    representations: list[Document]
    summary: Document | None = None
    default_namespace: list[str] | None = None


class _VersionLogEntry(_Shape):
    version_id: int
    timestamp_ms: int


class _ViewDocument(_Shape):
    view_uuid: str
    location: str
    current_version_id: int
    schemas: list[_Schema]
    versions: list[_ViewVersion]
    version_log: list[_VersionLogEntry]
    properties: dict[str, str]


def check_table(document: Document) -> None:
    """Raise InvalidMetadataError unless the members of a table's complete document have their types."""
    _check(document, _TableDocument, "table")


def check_view(document: Document) -> None:
    """Raise InvalidMetadataError unless the members of a view's complete document have their types."""
    _check(document, _ViewDocument, "view")


def check_all_columns(document: Document) -> None:
    """Raise InvalidMetadataError for a schema whose columns are malformed."""
    for schema in document["schemas"]:
        for _ in columns(schema):
            pass


def _check(document: Document, shape: Any, what: str) -> None:
    try:
        msgspec.convert(document, type=shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidMetadataError(f"The metadata of the {what} are invalid: {error}") from error


_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_PositiveLong = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
_PositiveInt = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class MetadataShape(msgspec.Struct, rename="kebab", kw_only=True):
    """Required and optional fields of an object."""


class SnapshotShape(MetadataShape):
    snapshot_id: _Long
    timestamp_ms: _Long
    parent_snapshot_id: _Long | None = None
    sequence_number: _Count = 0
    summary: dict[str, str] | None = None
    schema_id: _Int | None = None
    manifest_list: str | None = None
    manifests: list[str] | None = None
    first_row_id: _Count | None = None
    added_rows: _Count | None = None
    key_id: str | None = None


class BranchShape(MetadataShape):
    snapshot_id: _Long
    type: Literal["branch"]
    min_snapshots_to_keep: _PositiveInt | None = None
    max_snapshot_age_ms: _PositiveLong | None = None
    max_ref_age_ms: _PositiveLong | None = None


class TagShape(MetadataShape, forbid_unknown_fields=True):
    snapshot_id: _Long
    type: Literal["tag"]
    max_ref_age_ms: _PositiveLong | None = None


class BlobShape(MetadataShape):
    type: str
    snapshot_id: _Long
    sequence_number: _Long
    fields: list[_Int]
    properties: dict[str, str] | None = None


class StatisticsShape(MetadataShape):
    snapshot_id: _Long
    statistics_path: str
    file_size_in_bytes: _Long
    file_footer_size_in_bytes: _Long
    blob_metadata: list[BlobShape]


class PartitionStatisticsShape(MetadataShape):
    snapshot_id: _Long
    statistics_path: str
    file_size_in_bytes: _Long


class EncryptionKeyShape(MetadataShape):
    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] | None = None


class RepresentationShape(MetadataShape):
    type: str
    sql: str | None = None
    dialect: str | None = None


class ViewVersionShape(MetadataShape):
    schema_id: _Int
    representations: list[RepresentationShape]
    default_namespace: list[str]
    summary: dict[str, str]
    version_id: _Int | None = None
    timestamp_ms: _Long | None = None
    default_catalog: str | None = None


def shaped(document: Document, shape: type[MetadataShape], what: str) -> Document:
    """Return an object without its nulls. InvalidMetadataError if it does not have the shape; `what` names it."""
    made = cast("dict[str, Any]", without_nulls(document))
    try:
        msgspec.convert(made, shape)
    except msgspec.ValidationError as error:
        raise InvalidMetadataError(f"The {what} is invalid: {error}") from error
    return made


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
    plain = {"spec-id": 0, "fields": [_without_id(field) for field in fields_of(spec or {}, "partition spec")]}
    partitioned = with_field_ids(moved(plain, ids), (), FIRST_PARTITION_ID - 1)
    check_spec(partitioned, fresh)
    check_names(partitioned, fresh)
    fields = fields_of(order or {}, "sort order")
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
