"""Deletion vectors: the positions of deleted rows of one data file, counted from its first row.

On disk (specification page `spec/tableindex`, deletion vectors), numbers are big-endian unless stated otherwise:

- the size of the bytes up to the checksum, 4 bytes;
- for 32 bits the magic number 1581511376 and a Roaring bitmap in its portable form; for 64 bits the magic number
  1681511377, little-endian, the number of bitmaps as 8 bytes, then for each its number (the upper half of the
  positions) as 4 bytes and the bitmap, all little-endian;
- the CRC-32 of the bytes between size and checksum, 4 bytes.

An index file is the version, one byte, then the vectors of several data files one after the other; the index manifest
has the place of each data file's vector. `BucketDeletions` are the vectors of one bucket while it is compacted.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from interbed.storage.base.arrays import Mask, Positions, distinct
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, UnsupportedVersionError
from interbed.storage.io.api import FileIO, write_file
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, DeletionVectorRange, IndexFileMeta

MAGIC_32 = struct.pack(">i", 1581511376)
MAGIC_64 = struct.pack("<i", 1681511377)

_SIZE = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")
_COUNT_64 = struct.Struct("<q")
_KEY_64 = struct.Struct("<I")
FRAME_BYTES = _SIZE.size + _CHECKSUM.size
"""Bytes around the bitmap and its magic number: the size before, the checksum after."""
_POSITION_32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class DeletionVector:
    """Positions of a file's deleted rows, ascending and unique."""

    positions: Positions

    @staticmethod
    def of(positions: npt.ArrayLike) -> "DeletionVector":
        """Return the vector of positions in any order, also repeated. Raises InvalidInputError for negative ones."""
        unique = distinct(np.asarray(positions, np.int64))
        if len(unique) and unique[0] < 0:
            raise InvalidInputError(f"A row's position is never negative; got {unique[0]}.")
        return DeletionVector(unique)

    def __len__(self) -> int:
        return len(self.positions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeletionVector) and np.array_equal(self.positions, other.positions)

    def __hash__(self) -> int:
        return hash(self.positions.tobytes())

    def union(self, positions: npt.ArrayLike) -> "DeletionVector":
        """Return the vector with more positions."""
        return DeletionVector.of(np.concatenate([self.positions, np.asarray(positions, np.int64)]))

    def kept(self, first: int, rows: int) -> Mask | None:
        """Return for `rows` rows from position `first` on whether each is kept; None when no row is deleted."""
        low, high = np.searchsorted(self.positions, (first, first + rows))
        if low == high:
            return None
        mask = np.ones(rows, np.bool_)
        mask[self.positions[low:high] - first] = False
        return mask

    def contains(self, positions: npt.ArrayLike) -> Mask:
        """Return for each position whether it is deleted."""
        asked = np.asarray(positions, np.int64)
        if not len(self.positions):
            return np.zeros(asked.shape, np.bool_)
        places = np.minimum(np.searchsorted(self.positions, asked), len(self.positions) - 1)
        found: Mask = self.positions[places] == asked
        return found

    def encode(self, *, bitmap64: bool) -> bytes:
        """Return the vector with its size and checksum. Raises InvalidInputError for positions beyond 32 bits."""
        body = self._body_64() if bitmap64 else self._body_32()
        return _SIZE.pack(len(body)) + body + _CHECKSUM.pack(zlib.crc32(body))

    def _body_32(self) -> bytes:
        if len(self.positions) and self.positions[-1] > _POSITION_32_MAX:
            raise InvalidInputError(
                f"Position {self.positions[-1]} does not fit into a 32-bit deletion vector; set "
                "'deletion-vectors.bitmap64' = 'true'."
            )
        return MAGIC_32 + _roaring(self.positions)

    def _body_64(self) -> bytes:
        high = self.positions >> 32
        # The bitmaps are an array up to the greatest number, empty bitmaps included.
        count = int(high[-1]) + 1 if len(high) else 0
        parts = [MAGIC_64, _COUNT_64.pack(count)]
        for key in range(count):
            low, end = np.searchsorted(high, (key, key + 1))
            parts += [_KEY_64.pack(key), _roaring(self.positions[low:end] & 0xFFFFFFFF)]
        return b"".join(parts)


EMPTY = DeletionVector(np.empty(0, np.int64))


def decode(content: bytes, *, source: str) -> DeletionVector:
    """Return the vector of its bytes with size and checksum, 32 or 64 bits.

    Raises CorruptFileError naming `source` for damaged bytes.
    """
    if len(content) < FRAME_BYTES + len(MAGIC_32):
        raise CorruptFileError(f"{source} ends within a deletion vector.")
    size, found = _SIZE.unpack_from(content)[0], len(content) - FRAME_BYTES
    if size != found:
        raise CorruptFileError(f"{source} has a deletion vector of {size} bytes where {found} are.")
    body = content[_SIZE.size : _SIZE.size + size]
    if zlib.crc32(body) != _CHECKSUM.unpack_from(content, _SIZE.size + size)[0]:
        raise CorruptFileError(f"{source} has a deletion vector whose checksum is wrong: the file is damaged.")
    magic = body[: len(MAGIC_32)]
    try:
        if magic == MAGIC_32:
            return DeletionVector(_positions(BitMap.deserialize(body[len(magic) :])))
        if magic == MAGIC_64:
            return _decode_64(body[len(magic) :])
    except (ValueError, struct.error, IndexError) as error:
        raise CorruptFileError(f"{source} has a deletion vector that can't be decoded: {error}") from error
    raise CorruptFileError(f"{source} has a deletion vector of an unknown kind (magic number {magic.hex()}).")


def _decode_64(body: bytes) -> DeletionVector:
    count = _COUNT_64.unpack_from(body)[0]
    offset = _COUNT_64.size
    parts: list[Positions] = []
    for _ in range(count):
        key = _KEY_64.unpack_from(body, offset)[0]
        offset += _KEY_64.size
        bitmap = BitMap.deserialize(body[offset:])
        # A bitmap keeps the form in which it was written, so its serialised size is the number of bytes read.
        offset += len(bitmap.serialize())
        parts.append(_positions(bitmap) + (np.int64(key) << 32))
    return DeletionVector(np.concatenate(parts) if parts else np.empty(0, np.int64))


def _roaring(positions: Positions) -> bytes:
    bitmap = BitMap(positions.astype(np.uint32))
    bitmap.run_optimize()
    content: bytes = bitmap.serialize()
    return content


def _positions(bitmap: BitMap) -> Positions:
    return np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64)


VERSION = 1
_VERSION_BYTES = 1
_WAY_OUT = (
    "Put a copy of the file back, roll the table back to a snapshot before it (table.versions.rollback_to), or rewrite "
    "the partition by an overwrite."
)


def write_vectors(
    file_io: FileIO, path: str, vectors: Mapping[str, DeletionVector], *, bitmap64: bool
) -> IndexFileMeta:
    """Write the vectors, given by the names of their data files, to a new index file, and return its metadata.

    On an error the file is deleted.
    """
    content = bytearray([VERSION])
    ranges: list[DeletionVectorRange] = []
    for name, vector in vectors.items():
        encoded = vector.encode(bitmap64=bitmap64)
        # The length in Paimon's metadata includes size and checksum for 64 bits only.
        length = len(encoded) if bitmap64 else len(encoded) - FRAME_BYTES
        ranges.append(
            DeletionVectorRange(data_file_name=name, offset=len(content), length=length, cardinality=len(vector))
        )
        content += encoded
    write_file(file_io, path, bytes(content))
    return IndexFileMeta(
        index_type=DELETION_VECTORS,
        file_name=path.rpartition("/")[2],
        file_size=len(content),
        row_count=len(ranges),
        deletion_vectors=tuple(ranges),
    )


def read_vectors(
    file_io: FileIO, path: str, ranges: Sequence[DeletionVectorRange]
) -> Iterator[tuple[str, DeletionVector]]:
    """Return some of the vectors of an index file by data file name; the file is not read if none is wanted.

    Raises CorruptFileError naming the file, UnsupportedVersionError for a version that is not known.
    """
    if ranges:
        yield from vectors_in(read_index_file(file_io, path), path, ranges)


def read_index_file(file_io: FileIO, path: str) -> bytes:
    """Return the bytes of an index file for vectors_in. Raises CorruptFileError naming it, UnsupportedVersionError."""
    try:
        content = file_io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptFileError(
            f"The deletion vectors in {path} are missing. The snapshot that names them may have expired while it was "
            "read; read the newest."
        ) from None
    if not content:
        raise CorruptFileError(f"{path} is empty; it should hold deletion vectors. {_WAY_OUT}")
    if content[0] != VERSION:
        raise UnsupportedVersionError(
            f"{path} has version {content[0]} of deletion vectors; this version of interbed reads version {VERSION}."
        )
    return content


def vectors_in(
    content: bytes, path: str, ranges: Sequence[DeletionVectorRange]
) -> Iterator[tuple[str, DeletionVector]]:
    """Return some of the vectors of an index file's bytes. Raises CorruptFileError naming the file."""
    for found in ranges:
        source = f"{path}, for {found.data_file_name},"
        try:
            vector = decode(_framed(content, found, source), source=source)
        except CorruptFileError as error:
            raise CorruptFileError(f"{error} {_WAY_OUT}") from error
        if found.cardinality is not None and found.cardinality != len(vector):
            raise CorruptFileError(
                f"{source} has a deletion vector of {len(vector)} rows where the manifest says {found.cardinality}. "
                f"{_WAY_OUT}"
            )
        yield found.data_file_name, vector


def _framed(content: bytes, found: DeletionVectorRange, source: str) -> bytes:
    if not _VERSION_BYTES <= found.offset <= len(content) - FRAME_BYTES - len(MAGIC_64):
        raise CorruptFileError(f"{source} has no deletion vector at offset {found.offset}.")
    wide = content[found.offset + 4 : found.offset + 8] == MAGIC_64
    length = found.length if wide else found.length + FRAME_BYTES
    return content[found.offset : found.offset + length]


class BucketDeletions:
    """Deletion vectors of a bucket in a snapshot, and changes to them, which become one new index file.

    Each index file is read once, when the first vector is requested, so that planning reads none. Not for use by
    several threads at once.
    """

    def __init__(self, store: FileStore, bucket_id: BucketId, files: Sequence[IndexFileMeta] = ()) -> None:
        self._store = store
        self._bucket_id = bucket_id
        self._files = tuple(files)
        self._read: dict[str, DeletionVector] | None = None
        self._changed = False

    @staticmethod
    def restore(store: FileStore, bucket_id: BucketId, index_files: Sequence[IndexFileMeta]) -> "BucketDeletions":
        """Return the bucket's vectors from its index files. Later requests raise the errors of read_vectors."""
        return BucketDeletions(store, bucket_id, [f for f in index_files if f.index_type == DELETION_VECTORS])

    def of(self, file_name: str) -> DeletionVector | None:
        """Return the vector of a data file, None when no row of it is deleted."""
        return self._vectors.get(file_name)

    def delete(self, file_name: str, positions: npt.ArrayLike) -> None:
        """Mark rows of a data file as deleted, also rows that are deleted already."""
        old = self._vectors.get(file_name)
        new = DeletionVector.of(positions) if old is None else old.union(positions)
        if len(new) and new != old:
            self._vectors[file_name] = new
            self._changed = True

    def remove(self, file_name: str) -> None:
        """Remove the vector of a data file that the table no longer has."""
        if self._vectors.pop(file_name, None) is not None:
            self._changed = True

    @property
    def _vectors(self) -> dict[str, DeletionVector]:
        if self._read is None:
            found: dict[str, DeletionVector] = {}
            for file in self._files:
                path = self._store.index_path(self._bucket_id, file)
                found.update(read_vectors(self._store.file_io, path, file.deletion_vectors or ()))
            self._read = found
        return self._read

    def finish(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Write the changes since the last call. Return the new index files, and the files that they replace."""
        if not self._changed:
            return (), ()
        replaced, new = self._files, []
        if self._vectors:
            file = self._store.new_index_file(self._bucket_id)
            bitmap64 = self._store.options.deletion_vectors_bitmap64
            written = write_vectors(self._store.file_io, file.path, self._vectors, bitmap64=bitmap64)
            new = [replace(written, external_path=file.external_path)]
        self._files = tuple(new)
        self._changed = False
        return self._files, replaced
