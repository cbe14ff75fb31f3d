"""The shape of metadata documents: the types of the members that this server uses, and those of their objects.

A metadata file may come from any client, so that a document is checked before its members are used. Members that are
not named here are kept as they are. A document that lacks a field, or that has a text instead of a number, cannot be
loaded by any client of Iceberg's library, so that such an object is refused in an update. Source: Iceberg's table
specification, Appendix C, and its view specification.
"""

from typing import Annotated, Any, Literal, cast

import msgspec

from interbed.catalog.server.rest.iceberg.metadata.base import Document, InvalidMetadataError
from interbed.catalog.server.rest.iceberg.metadata.schemas import columns, without_nulls


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
