"""Completing the schema in a Parquet file's footer.

Arrow writes either all timestamps of a file as INT96 or none. Paimon wants INT96 for those of more than six fractional
digits and annotated INT64 for the others. So files with both are written with the others as bare INT64, and this
module adds the annotation TIMESTAMP to the footer before it reaches the store.

A footer is the struct FileMetaData in Thrift's compact protocol (parquet-format, parquet.thrift): field 1 is the
version, field 2 the list of schema elements, depth first. Annotating an element is appending its field 10
(`logicalType`); nothing else in a file refers to positions inside the footer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_BOOL_TRUE, _BOOL_FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_STOP = 0
_PHYSICAL_TYPE = 1
_LOGICAL_TYPE = 10


@dataclass(frozen=True, slots=True)
class TimestampAnnotation:
    """The annotation of an INT64 column: in milliseconds or microseconds, of UTC or of a local clock."""

    unit: str
    utc: bool

    def to_bytes(self, last_field: int) -> bytes:
        """The field `logicalType` as it follows the field of that number in a schema element."""
        unit = {"ms": 1, "us": 2}[self.unit]
        return bytes(
            [
                (_LOGICAL_TYPE - last_field) << 4 | _STRUCT,
                8 << 4 | _STRUCT,  # The union's member TIMESTAMP.
                1 << 4 | (_BOOL_TRUE if self.utc else _BOOL_FALSE),
                1 << 4 | _STRUCT,
                unit << 4 | _STRUCT,
                *([_STOP] * 4),  # Ends of the unit's empty struct, the union of units, TimestampType and LogicalType.
            ]
        )


def annotate_timestamps(footer: bytes, annotations: Mapping[int, TimestampAnnotation]) -> bytes:
    """The footer with annotations added to leaf columns, given by their position among the leaves.

    `footer` is the serialised FileMetaData as Arrow writes it: the version first, then the schema.
    """
    cursor = _Cursor(footer)
    if cursor.byte() != (1 << 4 | _I32):
        raise ValueError("a Parquet footer that does not begin with its version")
    cursor.varint()
    if cursor.byte() != (1 << 4 | _LIST):
        raise ValueError("a Parquet footer whose schema does not follow its version")
    count = cursor.list_size(_STRUCT)
    result = bytearray(footer[: cursor.position])
    leaf = 0
    for _ in range(count):
        start = cursor.position
        last, is_leaf = cursor.skip_struct()
        # The element's last byte ends its struct; the annotation goes in front of it.
        result += footer[start : cursor.position - 1]
        if is_leaf:
            if leaf in annotations:
                result += annotations[leaf].to_bytes(last)
            leaf += 1
        result.append(_STOP)
    return bytes(result) + footer[cursor.position :]


class _Cursor:
    """A position in a buffer of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def byte(self) -> int:
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << shift
            if part < 0x80:
                return value
            shift += 7

    def list_size(self, element: int) -> int:
        head = self.byte()
        if head & 0x0F != element:
            raise ValueError("a Parquet footer whose schema is not a list of structs")
        return self.varint() if head >> 4 == 0x0F else head >> 4

    def skip_struct(self) -> tuple[int, bool]:
        """Move behind the struct; its last field's number, and whether it has field 1 (a leaf's physical type)."""
        last = 0
        is_leaf = False
        while (head := self.byte()) != _STOP:
            delta, kind = head >> 4, head & 0x0F
            if delta == 0:
                # The long form, for numbers that are not just a little greater than the one before.
                encoded = self.varint()
                last = (encoded >> 1) ^ -(encoded & 1)
            else:
                last += delta
            is_leaf |= last == _PHYSICAL_TYPE
            self._skip(kind)
        return last, is_leaf

    def _skip(self, kind: int) -> None:
        if kind in (_BOOL_TRUE, _BOOL_FALSE):
            return
        if kind == _BYTE:
            self.position += 1
        elif kind in (_I16, _I32, _I64):
            self.varint()
        elif kind == _BINARY:
            length = self.varint()
            self.position += length
        elif kind == _STRUCT:
            self.skip_struct()
        else:
            raise ValueError(f"a Parquet schema element with a field of Thrift's type {kind}")
