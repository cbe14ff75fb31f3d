"""Deletion vectors in Puffin files.

On disk (Iceberg's specification "Puffin"): the magic bytes `PFA1`, the blobs, and a footer: magic, a JSON object that
says of each blob what it is and where, its length and flags of 4 bytes each, little-endian, and magic. A vector is a
blob of the type `deletion-vector-v1`: what `storage/files/deletion_vectors.py` writes for 64 bits.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from interbed.storage.files.deletion_vectors import DeletionVector

_MAGIC = b"PFA1"
_TAIL = struct.Struct("<ii")
_VECTOR = "deletion-vector-v1"
_POSITION_ID = 2147483645
"""The reserved column `_pos`, which a vector is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlace:
    """Where a vector is in its file, in bytes, and how many rows it deletes."""

    offset: int
    length: int
    records: int


def puffin_of(vectors: Mapping[str, DeletionVector], created_by: str) -> tuple[bytes, dict[str, VectorPlace]]:
    """A file of vectors, given by the paths of their data files, and where each of them is in it."""
    content = bytearray(_MAGIC)
    places: dict[str, VectorPlace] = {}
    blobs = []
    for path, vector in vectors.items():
        blob = vector.encode(bitmap64=True)
        places[path] = VectorPlace(offset=len(content), length=len(blob), records=len(vector))
        blobs.append(
            {
                "type": _VECTOR,
                "fields": [_POSITION_ID],
                # A vector does not belong to the snapshot that wrote it.
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(vector))},
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": created_by}}).encode()
    content += _MAGIC + footer + _TAIL.pack(len(footer), 0) + _MAGIC
    return bytes(content), places
