"""Index manifests: files that list the index files of a snapshot, such as deletion vectors and hash indexes.

Specification page `spec/manifest`, index manifest. Version 1. The JSON form of an index file's metadata is interbed's
own: commit messages carry it between processes.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.avro.records import field, optional, record
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.meta.manifest.entry import FileKind
from interbed.storage.meta.manifest.manifest_file import AVRO, RecordLayout, check_version

DELETION_VECTORS = "DELETION_VECTORS"
HASH_INDEX = "HASH"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorRange:
    """Location of a data file's deletion vector in an index file; `cardinality` counts the deleted rows."""

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndexMeta:
    """Extent of a global index: a range of row ids, both ends included, and the columns' field ids."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """One index file; `index_type` is DELETION_VECTORS, HASH_INDEX or another writer's. Sizes in bytes."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None


def index_file_to_json(file: IndexFileMeta) -> dict[str, Any]:
    """Return an index file's metadata as a JSON object."""
    vectors, index = file.deletion_vectors, file.global_index
    return {
        "type": file.index_type,
        "name": file.file_name,
        "size": file.file_size,
        "rows": file.row_count,
        "vectors": None
        if vectors is None
        else [[v.data_file_name, v.offset, v.length, v.cardinality] for v in vectors],
        "externalPath": file.external_path,
        "global": None
        if index is None
        else {
            "start": index.row_range_start,
            "end": index.row_range_end,
            "field": index.index_field_id,
            "extra": None if index.extra_field_ids is None else list(index.extra_field_ids),
            "meta": _base64(index.index_meta),
            "source": _base64(index.source_meta),
        },
    }


def index_file_from_json(value: dict[str, Any]) -> IndexFileMeta:
    """Return an index file's metadata from a JSON object made by index_file_to_json."""
    vectors, index = value["vectors"], value["global"]
    return IndexFileMeta(
        index_type=value["type"],
        file_name=value["name"],
        file_size=value["size"],
        row_count=value["rows"],
        deletion_vectors=None
        if vectors is None
        else tuple(
            DeletionVectorRange(data_file_name=name, offset=offset, length=length, cardinality=cardinality)
            for name, offset, length, cardinality in vectors
        ),
        external_path=value["externalPath"],
        global_index=None
        if index is None
        else GlobalIndexMeta(
            row_range_start=index["start"],
            row_range_end=index["end"],
            index_field_id=index["field"],
            extra_field_ids=None if index["extra"] is None else tuple(index["extra"]),
            index_meta=_bytes(index["meta"]),
            source_meta=_bytes(index["source"]),
        ),
    )


def _base64(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifestEntry:
    """One index file added to or deleted from a bucket; `partition` is a serialised BinaryRow."""

    kind: FileKind
    partition: bytes
    bucket: int
    file: IndexFileMeta

    @property
    def bucket_id(self) -> BucketId:
        """Bucket of the file, with its partition."""
        return BucketId(self.partition, self.bucket)


SCHEMA = record(
    "",
    [
        field("_VERSION", "int"),
        field("_KIND", "int"),
        field("_PARTITION", "bytes"),
        field("_BUCKET", "int"),
        field("_INDEX_TYPE", "string"),
        field("_FILE_NAME", "string"),
        field("_FILE_SIZE", "long"),
        field("_ROW_COUNT", "long"),
        field(
            "_DELETIONS_VECTORS_RANGES",
            optional(
                {
                    "type": "array",
                    "items": optional(
                        record(
                            "__DELETIONS_VECTORS_RANGES",
                            [
                                field("f0", "string"),
                                field("f1", "int"),
                                field("f2", "int"),
                                field("_CARDINALITY", optional("long")),
                            ],
                        )
                    ),
                }
            ),
        ),
        field("_EXTERNAL_PATH", optional("string")),
        field(
            "_GLOBAL_INDEX",
            optional(
                record(
                    "__GLOBAL_INDEX",
                    [
                        field("_ROW_RANGE_START", "long"),
                        field("_ROW_RANGE_END", "long"),
                        field("_INDEX_FIELD_ID", "int"),
                        field("_EXTRA_FIELD_IDS", optional({"type": "array", "items": "int"})),
                        field("_INDEX_META", optional("bytes")),
                        field("_SOURCE_META", optional("bytes")),
                    ],
                )
            ),
        ),
    ],
)
LAYOUT = RecordLayout(SCHEMA)


def write_index_manifest(entries: Sequence[IndexManifestEntry], codec: str, file_format: str = AVRO) -> bytes:
    """Return the content of an index manifest, in order; `codec` and `file_format` as of `write_manifest`."""
    return LAYOUT.write((index_record(e) for e in entries), codec, file_format)


def read_index_manifest(content: bytes, *, source: str) -> list[IndexManifestEntry]:
    """Return the entries of an index manifest, in order.

    Raises CorruptFileError naming `source` for other bytes, UnsupportedVersionError for an unknown version.
    """
    return LAYOUT.read(content, lambda r: index_entry(r, source), source=source)


def index_record(entry: IndexManifestEntry) -> dict[str, Any]:
    """Return an entry as a record of SCHEMA."""
    file = entry.file
    vectors, index = file.deletion_vectors, file.global_index
    return {
        "_VERSION": VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if vectors is None
        else [{"f0": v.data_file_name, "f1": v.offset, "f2": v.length, "_CARDINALITY": v.cardinality} for v in vectors],
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": None
        if index is None
        else {
            "_ROW_RANGE_START": index.row_range_start,
            "_ROW_RANGE_END": index.row_range_end,
            "_INDEX_FIELD_ID": index.index_field_id,
            "_EXTRA_FIELD_IDS": None if index.extra_field_ids is None else list(index.extra_field_ids),
            "_INDEX_META": index.index_meta,
            "_SOURCE_META": index.source_meta,
        },
    }


def index_entry(value: dict[str, Any], source: str) -> IndexManifestEntry:
    """Return the entry of a record; UnsupportedVersionError naming `source` for an unknown version."""
    check_version(value["_VERSION"], VERSION, source)
    vectors = value.get("_DELETIONS_VECTORS_RANGES")
    index = value.get("_GLOBAL_INDEX")
    return IndexManifestEntry(
        kind=FileKind(value["_KIND"]),
        partition=value["_PARTITION"],
        bucket=value["_BUCKET"],
        file=IndexFileMeta(
            index_type=value["_INDEX_TYPE"],
            file_name=value["_FILE_NAME"],
            file_size=value["_FILE_SIZE"],
            row_count=value["_ROW_COUNT"],
            deletion_vectors=None if vectors is None else tuple(_range_from_record(v) for v in vectors),
            external_path=value.get("_EXTERNAL_PATH"),
            global_index=None if index is None else _global_from_record(index),
        ),
    )


def _range_from_record(value: dict[str, Any]) -> DeletionVectorRange:
    return DeletionVectorRange(
        data_file_name=value["f0"], offset=value["f1"], length=value["f2"], cardinality=value.get("_CARDINALITY")
    )


def _global_from_record(value: dict[str, Any]) -> GlobalIndexMeta:
    extra = value.get("_EXTRA_FIELD_IDS")
    return GlobalIndexMeta(
        row_range_start=value["_ROW_RANGE_START"],
        row_range_end=value["_ROW_RANGE_END"],
        index_field_id=value["_INDEX_FIELD_ID"],
        extra_field_ids=None if extra is None else tuple(extra),
        index_meta=value.get("_INDEX_META"),
        source_meta=value.get("_SOURCE_META"),
    )
