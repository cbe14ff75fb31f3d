"""The live files of a snapshot, data and deletes, that a filter does not exclude; and Puffin files of deletion vectors.

Source: Iceberg's table specification, "Manifests", which defines the numbers of `content` and of the fields.

A Puffin file (Iceberg's specification "Puffin") has the magic bytes `PFA1`, the blobs, and a footer: magic, a JSON
object with the kind and the position of each blob, the object's length and flags of 4 bytes each, little-endian, and
magic. A vector is a blob of the type `deletion-vector-v1`: what `storage/files/deletion_vectors.py` writes for 64 bits.
"""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    expression_evaluator,
    inclusive_projection,
    manifest_evaluator,
)
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from interbed.iceberg.meta.manifests import FIRST_ROW_ID, entries_of_each, manifests_of
from interbed.storage.base.errors import CorruptFileError, NotSupportedError
from interbed.storage.files.deletion_vectors import DeletionVector

T = TypeVar("T")

PATH_ID = 2147483546
"""The id of the column `file_path` of position delete files."""
POSITION_ID = 2147483545
"""The id of their column `pos`."""
_REFERENCED, _OFFSET, _SIZE = 17, 18, 19
"""The places of fields of version 3 in pyiceberg's record, which has no names for them."""


_MAGIC = b"PFA1"


_TAIL = struct.Struct("<ii")


_VECTOR = "deletion-vector-v1"


_POSITION_ID = 2147483645
"""The reserved column `_pos`, which a vector is about."""


class FileContent(IntEnum):
    """The kind of content of a file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A file; sizes in bytes. `sequence_number` is that of its rows; it decides which deletes are newer than the rows.

    For position deletes `lower_path` and `upper_path` bound the paths of the data files that they name, in UTF-8. For a
    deletion vector `referenced` is that path, and `offset` and `length` are its position in its file. The ids of a data
    file's rows, in version 3, begin at `first_row_id`.
    """

    path: str
    content: FileContent
    file_format: str
    spec_id: int
    partition: tuple[object, ...]
    records: int
    size: int
    sequence_number: int
    equality_ids: tuple[int, ...] = ()
    lower_path: bytes | None = None
    upper_path: bytes | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    first_row_id: int | None = None

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector in a Puffin file."""
        return self.file_format == "puffin"

    @property
    def only_path(self) -> str | None:
        """The one data file that position deletes are of, if that is known."""
        if self.referenced is not None:
            return self.referenced
        if self.lower_path is None or self.lower_path != self.upper_path:
            return None
        return self.lower_path.decode("utf-8", "surrogateescape")

    @property
    def cost(self) -> int:
        """The number of bytes to read."""
        return self.size if self.length is None else self.length

    @property
    def place(self) -> tuple[str, int | None]:
        """The identity of the file: several vectors share a path."""
        return self.path, self.offset


def live_file(entry: ManifestEntry) -> LiveFile:
    """Return the file of a manifest entry.

    Raises NotSupportedError for an encrypted file, CorruptFileError for an incomplete entry.
    """
    file = entry.data_file
    path, content = str(file.file_path), FileContent(int(file.content))
    if file.key_metadata is not None:
        raise NotSupportedError(f"{path} is encrypted; encrypted Iceberg tables are not read.")
    if entry.sequence_number is None:
        raise CorruptFileError(f"The manifest entry of {path} has no sequence number, and inherits none.")
    equality_ids = tuple(sorted(file.equality_ids or ()))
    if content is FileContent.EQUALITY_DELETES and not equality_ids:
        raise CorruptFileError(f"The manifest entry of {path} names no columns to delete by.")
    values: list[Any] = file._data
    referenced, offset, length = values[_REFERENCED], values[_OFFSET], values[_SIZE]
    found = LiveFile(
        path=path,
        content=content,
        file_format=str(file.file_format.value).lower(),
        spec_id=file.spec_id,
        partition=tuple(_key_of(file.partition[place]) for place in range(len(file.partition))),
        records=file.record_count,
        size=file.file_size_in_bytes,
        sequence_number=entry.sequence_number,
        equality_ids=equality_ids,
        lower_path=(file.lower_bounds or {}).get(PATH_ID),
        upper_path=(file.upper_bounds or {}).get(PATH_ID),
        referenced=referenced,
        offset=offset,
        length=length,
        first_row_id=values[FIRST_ROW_ID],
    )
    if found.is_vector and (referenced is None or offset is None or length is None):
        raise CorruptFileError(f"The manifest entry of the deletion vector in {path} does not name its data file.")
    return found


def _key_of(value: object) -> object:
    """Return a value of a partition; NaN, which is not equal to itself, as a value that is."""
    return "NaN" if isinstance(value, float) and value != value else value


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTableFiles:
    """Data files and deletes that may matter to a read, and their numbers before pruning."""

    data: tuple[LiveFile, ...]
    deletes: tuple[LiveFile, ...]
    manifests_total: int
    manifests_read: int
    data_total: int


def live_files(
    metadata: TableMetadata, io: FileIO, snapshot: Snapshot, schema: Schema, condition: BooleanExpression
) -> LiveTableFiles:
    """Return the files of a snapshot that may hold rows of the condition, and deletes of such rows.

    The condition is over the schema. Raises CorruptFileError for a manifest that cannot be decoded, StorageAccessError
    for one that cannot be read, and as live_file does.
    """
    manifests = manifests_of(io, snapshot)
    pruning = _ManifestPruning(metadata, schema, condition)
    data: list[LiveFile] = []
    deletes: list[LiveFile] = []
    kept = [manifest for manifest in manifests if pruning.keeps_manifest(manifest)]
    # Deletes that are older than all rows have no effect.
    oldest = min((m.min_sequence_number or 0 for m in kept if m.content == ManifestContent.DATA), default=0)
    kept = [m for m in kept if m.content == ManifestContent.DATA or (m.sequence_number or 0) >= oldest]
    data_total = sum(
        (m.added_files_count or 0) + (m.existing_files_count or 0)
        for m in manifests
        if m.content == ManifestContent.DATA
    )
    for entries in entries_of_each(io, kept):
        for entry in entries:
            if pruning.keeps_file(entry.data_file):
                file = live_file(entry)
                (data if file.content is FileContent.DATA else deletes).append(file)
    return LiveTableFiles(
        data=tuple(data),
        deletes=tuple(deletes),
        manifests_total=len(manifests),
        manifests_read=len(kept),
        data_total=data_total,
    )


class _ManifestPruning:
    """Evaluation of a condition for manifests and files, by the partition specs of the table."""

    def __init__(self, metadata: TableMetadata, schema: Schema, condition: BooleanExpression) -> None:
        self._specs = metadata.specs()
        self._schema = schema
        self._condition = condition
        self._manifests: dict[int, Callable[[ManifestFile], bool]] = {}
        self._partitions: dict[int, Callable[[DataFile], bool]] = {}
        self._metrics = _InclusiveMetricsEvaluator(schema, condition, include_empty_files=False)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Return whether one of its files may matter."""
        number = manifest.partition_spec_id
        evaluate = self._manifests.get(number)
        if evaluate is None:
            spec = self._specs[number]
            projected = inclusive_projection(self._schema, spec)(self._condition)
            evaluate = self._manifests[number] = manifest_evaluator(spec, self._schema, projected)
        return keeps(evaluate, manifest)

    def keeps_file(self, file: DataFile) -> bool:
        """Return whether the file may have rows of the condition."""
        number = file.spec_id
        evaluate = self._partitions.get(number)
        if evaluate is None:
            spec = self._specs[number]
            projected = inclusive_projection(self._schema, spec)(self._condition)
            of_partition = Schema(*spec.partition_type(self._schema).fields)
            matches = expression_evaluator(of_partition, projected, case_sensitive=True)
            evaluate = self._partitions[number] = lambda file: matches(file.partition)
        return evaluate(file) and keeps(self._metrics.eval, file)


def keeps(test: Callable[[T], bool], pruned: T) -> bool:
    """Return whether a test by statistics keeps a manifest or a file. Bounds that cannot be decoded exclude nothing."""
    try:
        return test(pruned)
    except (ValueError, OverflowError, struct.error):
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlace:
    """The position of a vector in its file, in bytes, and the number of rows that it deletes."""

    offset: int
    length: int
    records: int


def puffin_of(vectors: Mapping[str, DeletionVector], created_by: str) -> tuple[bytes, dict[str, VectorPlace]]:
    """Return a file of vectors, given by the paths of their data files, and the position of each vector in it."""
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
