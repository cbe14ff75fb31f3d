"""The metadata of one index file, such as the deletion vectors or the hash index of a bucket (specification page
`spec/manifest`, index manifest).

The JSON form is our own: commit messages carry it between processes.
"""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

DELETION_VECTORS = "DELETION_VECTORS"
HASH_INDEX = "HASH"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorRange:
    """Where in an index file the deletion vector of one data file lies; `cardinality` counts the deleted rows."""

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndexMeta:
    """What a global index covers: a range of row ids, both ends included, and the columns' field ids."""

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
    """An index file's metadata as a JSON object."""
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
    """An index file's metadata from a JSON object made by index_file_to_json."""
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
