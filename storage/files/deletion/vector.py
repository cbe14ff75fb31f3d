"""Deletion vectors and their bytes: the positions of rows of one data file, counted from its first row.

On disk (specification page `spec/tableindex`, deletion vectors), all numbers big-endian where nothing else is said:

- the size of what follows up to the checksum, 4 bytes;
- for 32 bits the magic number 1581511376 and a Roaring bitmap in its portable form; for 64 bits the magic number
  1681511377, little-endian, the number of bitmaps as 8 bytes, then for each its number (the upper half of the
  positions) as 4 bytes and the bitmap, all little-endian;
- the CRC-32 of that, 4 bytes.
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from interbed.storage.base.arrays import Mask, Positions, distinct
from interbed.storage.base.errors import CorruptFileError, InvalidInputError

MAGIC_32 = struct.pack(">i", 1581511376)
MAGIC_64 = struct.pack("<i", 1681511377)

_SIZE = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")
_COUNT_64 = struct.Struct("<q")
_KEY_64 = struct.Struct("<I")
FRAME_BYTES = _SIZE.size + _CHECKSUM.size
"""What encloses the bitmap with its magic number: size before, checksum behind."""
_POSITION_32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class DeletionVector:
    """The positions of a file's deleted rows, ascending and each once."""

    positions: Positions

    @staticmethod
    def of(positions: npt.ArrayLike) -> "DeletionVector":
        """The vector of positions in any order, which may repeat; InvalidInputError for negative ones."""
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
        """The vector with more positions."""
        return DeletionVector.of(np.concatenate([self.positions, np.asarray(positions, np.int64)]))

    def kept(self, first: int, rows: int) -> Mask | None:
        """Which of `rows` rows from position `first` on are not deleted; None when none of them is."""
        low, high = np.searchsorted(self.positions, (first, first + rows))
        if low == high:
            return None
        mask = np.ones(rows, np.bool_)
        mask[self.positions[low:high] - first] = False
        return mask

    def contains(self, positions: npt.ArrayLike) -> Mask:
        """Which of the positions are deleted."""
        asked = np.asarray(positions, np.int64)
        if not len(self.positions):
            return np.zeros(asked.shape, np.bool_)
        places = np.minimum(np.searchsorted(self.positions, asked), len(self.positions) - 1)
        found: Mask = self.positions[places] == asked
        return found

    def encode(self, *, bitmap64: bool) -> bytes:
        """The vector with its size and checksum; InvalidInputError for positions that 32 bits can't hold."""
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
        # The bitmaps stand in an array that reaches to the greatest number, empty ones included.
        count = int(high[-1]) + 1 if len(high) else 0
        parts = [MAGIC_64, _COUNT_64.pack(count)]
        for key in range(count):
            low, end = np.searchsorted(high, (key, key + 1))
            parts += [_KEY_64.pack(key), _roaring(self.positions[low:end] & 0xFFFFFFFF)]
        return b"".join(parts)


EMPTY = DeletionVector(np.empty(0, np.int64))


def decode(content: bytes, *, source: str) -> DeletionVector:
    """The vector of its bytes with size and checksum, 32 or 64 bits.

    Raises CorruptFileError naming `source` for anything else.
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
        # A bitmap is read back in the form in which it was written, so its size is what was read.
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
