"""The footer of a Parquet file, decoded once for all reads of the file, and where its column chunks lie."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from interbed.storage.base.checksums import (
    check_footer,
    check_index,
    footer_of,
    is_ours,
    metadata_of,
)
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.files.format.pages.index import PageIndex
from interbed.storage.files.format.pages.int96 import footer_with_bytes, int96_columns
from interbed.storage.files.format.pages.row_groups import RowGroups

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Range = tuple[int, int]
"""From one byte to before another."""


class Chunks:
    """The column chunks of a file."""

    def __init__(self, metadata: "pq.FileMetaData") -> None:
        self._metadata = metadata

    def of(self, names: Sequence[str], groups: Sequence[int] | None) -> Iterator[list[Range]]:
        """For each row group (of all when None) in order the bytes of the columns with these names, leaf by leaf."""
        wanted = frozenset(names)
        schema = self._metadata.schema
        # A name with a dot stands for itself, and others are paths to leaves.
        leaves = [
            place
            for place in range(self._metadata.num_columns)
            if schema.column(place).path in wanted or schema.column(place).path.partition(".")[0] in wanted
        ]
        for number in range(self._metadata.num_row_groups) if groups is None else groups:
            group = self._metadata.row_group(number)
            ranges: list[Range] = []
            for place in leaves:
                chunk = group.column(place)
                begins = [chunk.data_page_offset]
                if chunk.dictionary_page_offset:
                    begins.append(chunk.dictionary_page_offset)
                ranges.append((min(begins), min(begins) + chunk.total_compressed_size))
            yield ranges


if TYPE_CHECKING:
    import pyarrow.parquet as pq

_CACHE_BYTES = 32 << 20
"""Of footers so many bytes are kept in memory, for all tables of the process."""
_DECODED = 16
"""How much more memory a decoded footer takes, with the indexes of pages: a rough guess on the safe side."""
_CACHE = MemoryCache()

_DICTIONARY, _PLAIN = "PLAIN_DICTIONARY", "PLAIN"
"""Encodings by the names of pages of version 1, which a dictionary and its indices share; those of version 2 do not
tell whether values stand beside their dictionary."""


class Footer:
    """What a footer says. Safe to share between threads, which may do some of it twice."""

    def __init__(self, content: bytes, *, verify: bool) -> None:
        if verify:
            check_footer(content)
        self._content = content
        self._verify = verify
        self._index: PageIndex | None = None
        self.metadata = metadata_of(content)
        self.schema: pa.Schema = self.metadata.schema.to_arrow_schema()
        self.groups = RowGroups(self.metadata, self.schema)
        self.chunks = Chunks(self.metadata)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about."""
        return _DECODED * len(self._content)

    @cached_property
    def has_dotted_names(self) -> bool:
        """Whether a column's name has a dot. To Arrow it is also the path of a field in another column."""
        return any("." in name for name in self.schema.names)

    @cached_property
    def dictionaries(self) -> frozenset[str]:
        """Columns of texts or bytes, at the outermost level, of which all pages are known to be of dictionaries."""
        kinds = {f.name for f in self.schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)}
        if not kinds or self.has_dotted_names:
            return frozenset()
        groups = [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]
        places = {self.metadata.schema.column(place).path: place for place in range(self.metadata.num_columns)}
        found = kinds & places.keys()
        return frozenset(name for name in found if all(_is_dictionary(group.column(places[name])) for group in groups))

    @cached_property
    def far_timestamps(self) -> frozenset[str]:
        """Columns with timestamps of another writer's that may be out of the range of nanoseconds."""
        return frozenset() if is_ours(self._content) else int96_columns(self.metadata, self.schema)

    @cached_property
    def with_bytes(self) -> "pq.FileMetaData":
        """The same with bytes for those timestamps."""
        return metadata_of(footer_with_bytes(self._content))

    def pages(self, source: Any) -> PageIndex:
        """Where the pages of the file are, which is open; ValueError for a damaged index."""
        if self._index is None:
            if self._verify:
                check_index(source, self._content)
            self._index = PageIndex(self._content, self.schema)
        return self._index


def _is_dictionary(chunk: Any) -> bool:
    return _DICTIONARY in chunk.encodings and _PLAIN not in chunk.encodings


def read_footer(source: pa.NativeFile, path: str, *, verify: bool) -> Footer:
    """The footer of an open file, verified if that is wanted.

    Raises ValueError and what Arrow raises for bytes that are no such file.
    """
    content = footer_of(source)
    # With its bytes, because another file may have taken the place of the one that was read.
    return _CACHE.get((path, content, verify), lambda: Footer(content, verify=verify), limit=_CACHE_BYTES)
