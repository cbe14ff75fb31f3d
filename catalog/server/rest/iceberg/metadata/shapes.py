"""Shapes of the objects in a metadata document, as Iceberg's library requires them when it reads the document.

A document that lacks a field, or that has a text instead of a number, cannot be loaded by any client of the library.
The server therefore refuses such an object in an update. Unknown fields are allowed. Source: Iceberg's table
specification, Appendix C, and the parsers of its library.
"""

from typing import Annotated, Any, Literal, cast

import msgspec

from interbed.catalog.server.rest.iceberg.metadata.base import Document, InvalidMetadataError
from interbed.catalog.server.rest.iceberg.metadata.schemas import without_nulls

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
