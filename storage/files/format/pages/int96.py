"""Columns of Parquet's INT96, and a footer by which their values are read as they are: as 12 bytes each.

The pages of both types are alike. Source: parquet-format, parquet.thrift and Encodings (PLAIN).
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from interbed.storage.files.format.pages.compact import I32, CompactReader, CompactWriter

INT96_BYTES = 12

_INT96, _FIXED_BYTES = 3, 7
"""Physical types."""
_SCHEMA, _ROW_GROUPS = 2, 4
_COLUMNS, _CHUNK_METADATA, _TYPE, _TYPE_LENGTH = 1, 3, 1, 2
"""Fields of FileMetaData, RowGroup, ColumnChunk, and of ColumnMetaData and SchemaElement."""


def int96_columns(metadata: Any, schema: pa.Schema) -> frozenset[str]:
    """The columns, at the outermost level, with values of that type."""
    leaves_of_file = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    paths = [leaf.path for leaf in leaves_of_file if leaf.physical_type == "INT96"]
    return frozenset(f.name for f in schema if any(p == f.name or p.startswith(f"{f.name}.") for p in paths))


def footer_with_bytes(footer: bytes) -> bytes:
    """The FileMetaData in which each INT96 is 12 bytes; raises ValueError and IndexError for bytes that are none."""
    reader = CompactReader(footer)
    parts: list[bytes] = []
    done = 0
    for start, end, instead in _edits(reader):
        parts += [footer[done:start], instead]
        done = end
    return b"".join((*parts, footer[done:]))


def _edits(reader: CompactReader) -> Iterator[tuple[int, int, bytes]]:
    for number, kind in reader.fields():
        if number == _SCHEMA:
            for _ in range(reader.list_head()[0]):
                yield from _of_element(reader)
        elif number == _ROW_GROUPS:
            for _ in range(reader.list_head()[0]):
                yield from _of_row_group(reader)
        else:
            reader.skip(kind)


def _of_element(reader: CompactReader) -> Iterator[tuple[int, int, bytes]]:
    """Of a SchemaElement the type, with the length of its values behind it."""
    is_int96 = False
    start = reader.position
    for number, kind in reader.fields():
        if is_int96:
            # The field that follows counts from the length's on.
            writer = CompactWriter()
            writer.integer(_TYPE, _FIXED_BYTES, I32)
            writer.integer(_TYPE_LENGTH, INT96_BYTES, I32)
            writer.field(number, kind)
            yield start, reader.position, writer.to_bytes()
            is_int96 = False
        if number == _TYPE:
            is_int96 = reader.integer() == _INT96
        else:
            reader.skip(kind)


def _of_row_group(reader: CompactReader) -> Iterator[tuple[int, int, bytes]]:
    for number, kind in reader.fields():
        if number != _COLUMNS:
            reader.skip(kind)
            continue
        for _ in range(reader.list_head()[0]):
            for of_chunk, kind_of_chunk in reader.fields():
                if of_chunk == _CHUNK_METADATA:
                    yield from _of_chunk(reader)
                else:
                    reader.skip(kind_of_chunk)


def _of_chunk(reader: CompactReader) -> Iterator[tuple[int, int, bytes]]:
    start = reader.position
    for number, kind in reader.fields():
        if number == _TYPE:
            if reader.integer() == _INT96:
                writer = CompactWriter()
                writer.integer(_TYPE, _FIXED_BYTES, I32)
                yield start, reader.position, writer.to_bytes()
        else:
            reader.skip(kind)
