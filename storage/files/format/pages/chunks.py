"""Where the column chunks of a Parquet file lie, for those who fetch them before they are decoded."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

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
