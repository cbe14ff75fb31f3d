"""Read of some rows of a row group: of each column only the pages that have them.

Arrow reads whole row groups. So it gets another footer, made from the file's own, whose only row group consists of the
needed pages. Pages that need a dictionary may not follow it in the file; they are copied, together with it, to a small
Parquet file in memory. Columns whose pages begin at the same rows are read together.

A row or a short range of rows in one page, or across two pages, is decoded without Arrow where the pages are of the
most common kinds (`values.py`). Arrow decodes all other pages, and reports damaged ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import one_array
from interbed.storage.base.checksums import MAGIC, metadata_of, opened
from interbed.storage.files.format.pages.compact import I64, LIST, STRUCT, CompactReader, CompactWriter
from interbed.storage.files.format.pages.index import ColumnPages, GroupPages, PageIndex
from interbed.storage.files.format.pages.values import encoded_values, is_known, values_of

MOST_PAGES = 2
MOST_OF_PAGES = 0.5
"""Above this share of a column's pages, or of their rows, Arrow is faster: its set-up cost is amortized."""

_NUM_ROWS, _ROW_GROUPS = 3, 4
_DATA_PAGE_HEADER, _DATA_PAGE_HEADER_V2 = 5, 8
_NUM_VALUES = 1


def read_rows(
    source: Any,
    index: PageIndex,
    group: GroupPages,
    names: Sequence[str],
    start: int,
    end: int,
    *,
    verify: bool,
    use_threads: bool = False,
    noted: Callable[[int, int, int], None] | None = None,
) -> pa.RecordBatch:
    """Return the rows from `start` to before `end` of a row group with the columns named, at least one.

    The pages of the leaves of a column must begin at the same rows (GroupPages.is_even). `verify` checks the pages'
    checksums; `noted` gets the number of decoded values, the number of their columns, and their bytes in memory.
    Raises ValueError, LookupError and Arrow's errors for damaged bytes.
    """
    together: dict[tuple[int, int, bool], list[str]] = {}
    found: dict[str, pa.Array[Any]] = {}
    fields: dict[str, pa.Field[Any]] = {}
    values = nbytes = 0
    for name in names:
        leaves = group.by_name[name]
        low, high = leaves[0].holding(start, end)
        field = index.schema.field(name)
        if _is_short(leaves[0], low, high, end - start) and len(leaves) == 1 and leaves[0].is_simple:
            simple = _without_arrow(source, leaves[0], range(low, high), (start, end), field.type, verify=verify)
            if simple is not None:
                found[name], made, size = simple
                fields[name] = field
                values += made
                nbytes += size
                continue
            leaves[0].leave_to_arrow()
        in_place = all(leaf.begin == leaf.starts[0] for leaf in leaves)
        together.setdefault((int(leaves[0].rows[low]), int(leaves[0].rows[high]), in_place), []).append(name)
    for (first, last, in_place), columns in together.items():
        chosen = frozenset(columns)
        if in_place:
            metadata = metadata_of(_footer_in_place(source, index, group, chosen, first, last))
            table = opened(source, metadata, verify=verify).read(columns=columns, use_threads=use_threads)
        else:
            content = pa.BufferReader(_small_file(source, index, group, chosen, first, last))
            with opened(content, None, verify=verify) as file:
                table = file.read(columns=columns, use_threads=use_threads)
        if table.num_rows != last - first:
            raise ValueError(f"its pages have {table.num_rows} rows instead of {last - first}")
        values += table.num_rows * len(columns)
        nbytes += table.nbytes
        for name in columns:
            found[name] = one_array(table.column(name)).slice(start - first, end - start)
            fields[name] = table.schema.field(name)
    if noted is not None:
        noted(values, len(names), nbytes)
    return pa.RecordBatch.from_arrays([found[n] for n in names], schema=pa.schema([fields[n] for n in names]))


def _is_short(leaf: ColumnPages, low: int, high: int, count: int) -> bool:
    """Return whether `count` rows are a small part of the pages from `low` to before `high`."""
    return high - low <= MOST_PAGES and count <= MOST_OF_PAGES * int(leaf.rows[high] - leaf.rows[low])


def _without_arrow(
    source: Any, leaf: ColumnPages, pages: range, rows: tuple[int, int], arrow: pa.DataType, *, verify: bool
) -> "tuple[pa.Array[Any], int, int] | None":
    """Return the values of the rows, the number of values decoded for them, and the decompressed bytes."""
    if not is_known(leaf.physical, arrow):
        return None
    parts: list[pa.Array[Any]] = []
    made = size = 0
    for page in pages:
        begin, end = leaf.rows[page : page + 2].tolist()
        at = int(leaf.starts[page])
        content = _view_of(source, at, at + int(leaf.sizes[page]))
        try:
            encoded = encoded_values(
                content, rows=end - begin, may_be_null=leaf.may_be_null is True, codec=leaf.codec, verify=verify
            )
            if encoded is None:
                return None
            first, last = max(rows[0], begin) - begin, min(rows[1], end) - begin
            some = values_of(encoded, leaf.physical, arrow, rows=end - begin, start=first, end=last)
        except (ValueError, LookupError, TypeError, OverflowError, MemoryError, OSError, pa.ArrowException):
            # Arrow reports the damage.
            return None
        if some is None:
            return None
        parts.append(some.array)
        made += some.made
        size += encoded.raw_size
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts), made, size


def _footer_in_place(
    source: Any, index: PageIndex, group: GroupPages, names: frozenset[str], first: int, last: int
) -> bytes:
    chunks: list[bytes] = []
    for leaf in group.leaves:
        if leaf.path[0] not in names:
            chunks.append(leaf.unread)
            continue
        low, high = leaf.holding(first, last)
        start, end = int(leaf.starts[low]), int(leaf.starts[high - 1] + leaf.sizes[high - 1])
        values = last - first if len(leaf.path) == 1 else _count_values(leaf, _bytes_of(source, start, end), low, high)
        chunks.append(leaf.chunk(start, pages=end - start, values=values))
    return _footer(index.members, chunks, last - first)


def _small_file(
    source: Any, index: PageIndex, group: GroupPages, names: frozenset[str], first: int, last: int
) -> bytes:
    parts, position = [MAGIC], len(MAGIC)
    chunks: list[bytes] = []
    for leaf in group.leaves:
        if leaf.path[0] not in names:
            chunks.append(leaf.unread)
            continue
        low, high = leaf.holding(first, last)
        dictionary = _bytes_of(source, leaf.begin, int(leaf.starts[0])) if leaf.begin < leaf.starts[0] else b""
        pages = _bytes_of(source, int(leaf.starts[low]), int(leaf.starts[high - 1] + leaf.sizes[high - 1]))
        values = _count_values(leaf, pages, low, high)
        chunks.append(leaf.chunk(position, dictionary=len(dictionary), pages=len(pages), values=values))
        parts += [dictionary, pages]
        position += len(dictionary) + len(pages)
    footer = _footer(index.members, chunks, last - first)
    return b"".join((*parts, footer, len(footer).to_bytes(4, "little"), MAGIC))


def _bytes_of(source: Any, start: int, end: int) -> bytes:
    content = bytes(source.read_at(end - start, start))
    if len(content) != end - start:
        raise ValueError(f"it ends at byte {start + len(content)} in the middle of a page")
    return content


def _view_of(source: Any, start: int, end: int) -> memoryview:
    """Return the bytes as _bytes_of, without a copy where the file is mapped."""
    if not isinstance(source, pa.MemoryMappedFile):
        return memoryview(_bytes_of(source, start, end))
    source.seek(start)
    content = memoryview(source.read_buffer(end - start))
    if len(content) != end - start:
        raise ValueError(f"it ends at byte {start + len(content)} in the middle of a page")
    return content


def _count_values(leaf: ColumnPages, pages: bytes, low: int, high: int) -> int:
    """Return the number of values of the pages: that of rows, and for nested columns that in the pages' headers."""
    if len(leaf.path) == 1:
        return int(leaf.rows[high] - leaf.rows[low])
    total = 0
    for page in range(low, high):
        header = CompactReader(pages, int(leaf.starts[page] - leaf.starts[low])).struct()
        data = header[_DATA_PAGE_HEADER] if _DATA_PAGE_HEADER in header else header[_DATA_PAGE_HEADER_V2]
        total += data[_NUM_VALUES]
    return total


def _footer(members: Mapping[int, tuple[int, bytes]], chunks: Sequence[bytes], rows: int) -> bytes:
    writer = CompactWriter()
    for number in sorted({*members, _NUM_ROWS, _ROW_GROUPS}):
        if number == _NUM_ROWS:
            writer.integer(number, rows, I64)
        elif number == _ROW_GROUPS:
            writer.field(number, LIST)
            writer.list_head(1, STRUCT)
            _row_group(writer, chunks, rows)
        elif number < _EXTENSION:
            kind, content = members[number]
            writer.raw(number, kind, content)
    writer.end()
    return writer.to_bytes()


_EXTENSION = 32767
"""The extension field, which has the checksum of the file's own footer."""


def _row_group(writer: CompactWriter, chunks: Sequence[bytes], rows: int) -> None:
    writer.begin()
    writer.field(1, LIST)
    writer.list_head(len(chunks), STRUCT)
    for chunk in chunks:
        writer.encoded(chunk)
    writer.integer(2, 0)
    writer.integer(3, rows)
    writer.end()
