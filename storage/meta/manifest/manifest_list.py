"""Manifest lists: files that name the manifests of a snapshot (specification page `spec/manifest`). Version 2."""

from collections.abc import Sequence
from typing import Any

from interbed.storage.base.avro.records import field, optional, record
from interbed.storage.meta.manifest.entry import ManifestFileMeta
from interbed.storage.meta.manifest.layout import AVRO, RecordLayout
from interbed.storage.meta.manifest.manifest_file import check_version, stats_from_record, stats_schema, stats_to_record

VERSION = 2

SCHEMA = record(
    "",
    [
        field("_VERSION", "int"),
        field("_FILE_NAME", "string"),
        field("_FILE_SIZE", "long"),
        field("_NUM_ADDED_FILES", "long"),
        field("_NUM_DELETED_FILES", "long"),
        field("_PARTITION_STATS", stats_schema("__PARTITION_STATS")),
        field("_SCHEMA_ID", "long"),
        field("_MIN_BUCKET", optional("int")),
        field("_MAX_BUCKET", optional("int")),
        field("_MIN_LEVEL", optional("int")),
        field("_MAX_LEVEL", optional("int")),
        field("_MIN_ROW_ID", optional("long")),
        field("_MAX_ROW_ID", optional("long")),
    ],
)
_LAYOUT = RecordLayout(SCHEMA)


def write_manifest_list(metas: Sequence[ManifestFileMeta], codec: str, file_format: str = AVRO) -> bytes:
    """The content of a manifest list, in order; `codec` and `file_format` as of `write_manifest`."""
    return _LAYOUT.write((_meta_to_record(m) for m in metas), codec, file_format)


def read_manifest_list(content: bytes, *, source: str) -> list[ManifestFileMeta]:
    """The manifests of a manifest list, in order.

    Raises CorruptFileError naming `source` for other bytes, UnsupportedVersionError for a version that is not known.
    """
    return _LAYOUT.read(content, lambda r: _meta_from_record(r, source), source=source)


def _meta_to_record(meta: ManifestFileMeta) -> dict[str, Any]:
    return {
        "_VERSION": VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": stats_to_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }


def _meta_from_record(value: dict[str, Any], source: str) -> ManifestFileMeta:
    check_version(value["_VERSION"], VERSION, source)
    return ManifestFileMeta(
        file_name=value["_FILE_NAME"],
        file_size=value["_FILE_SIZE"],
        num_added_files=value["_NUM_ADDED_FILES"],
        num_deleted_files=value["_NUM_DELETED_FILES"],
        partition_stats=stats_from_record(value["_PARTITION_STATS"]),
        schema_id=value["_SCHEMA_ID"],
        min_bucket=value.get("_MIN_BUCKET"),
        max_bucket=value.get("_MAX_BUCKET"),
        min_level=value.get("_MIN_LEVEL"),
        max_level=value.get("_MAX_LEVEL"),
        min_row_id=value.get("_MIN_ROW_ID"),
        max_row_id=value.get("_MAX_ROW_ID"),
    )
