"""Lookup of keys in one data file: the row groups and pages that may have them, and their positions in these.

Row groups are chosen by their statistics, pages by the page index of a Parquet file. `RowRanges` are row groups or
pages with the bounds of their keys. Few keys are looked up in their pages, many keys in whole groups. Columns other
than those of the key are read where a key was found: at first only its row, and the page when another of its rows is
requested. A file of another format counts as one group.

Decoded data is cached for all tables of the process. `lookup.cache-max-memory-size` limits its bytes, and the least
recently used entries are evicted first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import from_numpy, rows_taken, to_numpy
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.file_index.bloom_filter import BloomFilterReader
from interbed.storage.files.file_index.evaluate import ColumnReaders, has_index, with_indexes
from interbed.storage.files.format.api import data_file_errors
from interbed.storage.files.format.pages.footer import Footer, read_footer
from interbed.storage.files.format.pages.index import GroupPages
from interbed.storage.io.api import open_sized
from interbed.storage.lsm.file_read import MAX_INDEXED_ROWS, FileRead, ReadOptions
from interbed.storage.lsm.key_words import KeyColumns, SortedKeys, row_ranks
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta

CACHE = MemoryCache()
"""The cache of this process."""
_SHORT = 0.5
"""The share of a page above which the whole page is read in place of single rows."""
_OVERHEAD = 512
"""The approximate overhead of a cached object in bytes, beside its buffers."""


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """The least and greatest value of one key column by range of rows; null if unknown."""

    least: "pa.Array[Any]"
    greatest: "pa.Array[Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRanges:
    """Consecutive ranges of rows of a file.

    `starts` are the positions in the file at which they begin, and the end of the last; `bounds` are the known bounds
    of the key columns, by their index in the key.
    """

    starts: Positions
    bounds: Mapping[int, KeyBounds]

    @property
    def nbytes(self) -> int:
        """The approximate size in memory in bytes."""
        arrays = sum(b.least.nbytes + b.greatest.nbytes for b in self.bounds.values())
        return _OVERHEAD + self.starts.nbytes + arrays

    def __len__(self) -> int:
        return len(self.starts) - 1

    def holding(self, keys: KeyColumns) -> list[tuple[int, Positions]]:
        """Return the ranges that may contain some of the keys, with the numbers of these keys."""
        may = np.ones((len(self), len(keys[0])), np.bool_)
        for place, bounds in self.bounds.items():
            may &= _inside(bounds, keys[place])
        return [(number, np.flatnonzero(row)) for number, row in enumerate(may) if row.any()]


def whole_file(rows: int) -> RowRanges:
    """Return a single range without known bounds."""
    return RowRanges(starts=np.array([0, rows]), bounds={})


def ranges_of_groups(footer: Footer, names: Sequence[str | None]) -> RowRanges:
    """Return the row groups of a file; `names` are the names of the key columns in it, None for a missing one."""
    found: dict[int, KeyBounds] = {}
    for place, name in enumerate(names):
        known = None if name is None else footer.groups.bounds(name)
        # The bounds of floats do not include NaN, which the file may have.
        if known is not None and not pa.types.is_floating(known[0].type):
            found[place] = KeyBounds(*known)
    return RowRanges(starts=np.array(footer.groups.starts), bounds=found)


def ranges_of_pages(group: GroupPages, start: int, names: Sequence[str | None], schema: pa.Schema) -> RowRanges:
    """Return the pages of a row group that begins at a position: those of the first key column with bounds.

    `schema` is the schema of the file.
    """
    rows: Positions | None = None
    found: dict[int, KeyBounds] = {}
    for place, name in enumerate(names):
        leaf = None if name is None else group.by_name[name][0]
        known = None if leaf is None or name is None else leaf.bounds(schema.field(name).type)
        if leaf is None or known is None or not (rows is None or np.array_equal(leaf.rows, rows)):
            continue
        rows = leaf.rows
        found[place] = KeyBounds(known.least, known.greatest)
    return RowRanges(starts=start + (np.array([0, group.rows]) if rows is None else rows), bounds=found)


def _inside(bounds: KeyBounds, keys: "pa.Array[Any]") -> Mask:
    """Return the mask of the keys (columns) that may be within the bounds (rows); all where a bound is unknown."""
    count = len(bounds.least)
    arrow = bounds.least.type
    joined: Any = pa.concat_arrays([bounds.least, bounds.greatest, keys if keys.type == arrow else keys.cast(arrow)])
    ranks = row_ranks([joined]).values
    low, high, asked = ranks[:count], ranks[count : 2 * count], ranks[2 * count :]
    inside = (asked >= low[:, None]) & (asked <= high[:, None])
    if bounds.least.null_count or bounds.greatest.null_count:
        unknown = to_numpy(bounds.least.is_null()) | to_numpy(bounds.greatest.is_null())
        inside |= unknown[:, None]
    return inside


@dataclass(frozen=True, slots=True)
class _KeysOfRows:
    """The keys of the rows of one range."""

    keys: SortedKeys
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one range."""

    rows: pa.RecordBatch
    nbytes: int


@dataclass(frozen=True, slots=True)
class _FirstFound:
    """The rows of one range that were requested first, and their places in it."""

    rows: pa.RecordBatch
    places: Positions

    @property
    def nbytes(self) -> int:
        """The approximate size in memory in bytes."""
        return self.rows.nbytes + self.places.nbytes + _OVERHEAD


@dataclass(frozen=True, slots=True)
class _Filters:
    """The bloom filters of the key columns, by the index of the column in the key."""

    readers: tuple[tuple[int, BloomFilterReader], ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class PointRows:
    """Rows of one file in key order, and their positions in it."""

    rows: pa.RecordBatch
    positions: Positions


class FileLookup:
    """Looks up keys in the data files of one table; rows have the `columns` of `files`, and the system columns."""

    def __init__(self, store: FileStore, files: FileRead, columns: tuple[DataField, ...]) -> None:
        self._store = store
        self._files = files
        self._columns = columns
        self._keys = store.schema.trimmed_primary_keys
        self._key_columns = tuple(store.schema.fields_named(self._keys))
        self._key_files = FileRead(store, self._key_columns)
        self._limit = store.options.lookup_cache_max_memory_size
        self._indexed = store.options.file_index_read_enabled

    def find(self, file: DataFileMeta, path: str, keys: KeyColumns) -> PointRows | None:
        """Return the rows of these keys, which are distinct; None without any. Raises what FormatReader raises."""
        found: list[tuple[int, pa.RecordBatch, Positions]] = []
        for start, end, asked in self._candidates(file, path, keys):
            places = _places(self._keys_of(file, path, start, end), asked)
            if len(places):
                found.append((start, self._rows_at(file, path, start, end, places), places + start))
        if not found:
            return None
        found.sort(key=lambda f: f[0])
        batches = [rows for _, rows, _ in found]
        joined: Any = batches[0] if len(batches) == 1 else pa.concat_batches(batches)  # type: ignore[attr-defined]
        return PointRows(joined, np.concatenate([positions for _, _, positions in found]))

    # -- candidates -------------------------------------------------------------------------------------------------

    def _candidates(self, file: DataFileMeta, path: str, keys: KeyColumns) -> Iterator[tuple[int, int, KeyColumns]]:
        """Yield the ranges of rows (start, exclusive end) that may have some of the keys, with these keys."""
        groups = CACHE.get(("groups", path), lambda: self._groups(file, path), limit=self._limit)
        asked = groups.holding(keys)
        if any(self._cache_key(path, groups, g) not in CACHE for g, _ in asked):
            # A bloom filter saves decoding; a lookup in decoded rows is as cheap as the filter.
            maybe = self._maybe(file, path, keys)
            asked = [(g, chosen[maybe[chosen]]) for g, chosen in asked]
        for group, chosen in asked:
            if not len(chosen):
                continue
            start, end = groups.starts[group : group + 2].tolist()
            of_group = _chosen(keys, chosen)
            if self._cache_key(path, groups, group) not in CACHE:
                pages = self._pages(file, path, groups, group)
                if 2 * len(chosen) < len(pages):
                    for page, numbers in pages.holding(of_group):
                        first, end_of_page = pages.starts[page : page + 2].tolist()
                        yield first, end_of_page, _chosen(of_group, numbers)
                    continue
            yield start, end, of_group

    def _groups(self, file: DataFileMeta, path: str) -> RowRanges:
        if file.format.lower() != "parquet":
            return whole_file(file.row_count)
        with data_file_errors(path), open_sized(self._store.file_io, path, file.file_size) as source:
            footer = read_footer(source, path, verify=self._store.options.read_verify_checksums)
            if footer.metadata.num_rows != file.row_count:
                raise ValueError(f"it has {footer.metadata.num_rows} rows where the manifest says {file.row_count}")
            if not footer.metadata.num_row_groups:
                return whole_file(file.row_count)
            return ranges_of_groups(footer, self._names(file))

    def _pages(self, file: DataFileMeta, path: str, groups: RowRanges, group: int) -> RowRanges:
        return CACHE.get(("pages", path, group), lambda: self._read_pages(file, path, groups, group), limit=self._limit)

    def _read_pages(self, file: DataFileMeta, path: str, groups: RowRanges, group: int) -> RowRanges:
        start, end = groups.starts[group : group + 2].tolist()
        if file.format.lower() == "parquet":
            with data_file_errors(path), open_sized(self._store.file_io, path, file.file_size) as source:
                footer = read_footer(source, path, verify=self._store.options.read_verify_checksums)
                pages = footer.pages(source).group(group, source)
                if pages is not None:
                    return ranges_of_pages(pages, start, self._names(file), footer.schema)
        return RowRanges(starts=np.array([start, end]), bounds={})

    def _names(self, file: DataFileMeta) -> list[str | None]:
        """Return the names of the key columns in the file."""
        # A key column may have been renamed; its type can't be changed.
        names = {f.id: f.name for f in self._store.schema_of(file.schema_id).fields}
        return [names.get(key.id) for key in self._store.schema.fields_named(self._keys)]

    def _maybe(self, file: DataFileMeta, path: str, keys: KeyColumns) -> Mask:
        """Return the mask of the keys that pass the bloom filters of the file."""
        maybe = np.ones(len(keys[0]), np.bool_)
        if not self._indexed or not has_index(file) or file.row_count > MAX_INDEXED_ROWS:
            return maybe
        filters = CACHE.get(("filters", path), lambda: self._filters(file, path), limit=self._limit)
        for place, reader in filters.readers:
            maybe &= reader.may_hold(keys[place])
        return maybe

    def _filters(self, file: DataFileMeta, path: str) -> _Filters:
        found: list[tuple[int, BloomFilterReader]] = []

        def collect(readers: ColumnReaders) -> None:
            for place, name in enumerate(self._names(file)):
                of_key = readers.of(name or "")
                found.extend((place, reader) for reader in of_key if isinstance(reader, BloomFilterReader))

        written = self._store.schema_of(file.schema_id)
        with data_file_errors(path):
            with_indexes(file, path, {f.name: f for f in written.fields}, self._store.file_io, collect)
        return _Filters(tuple(found), _OVERHEAD + sum(r.nbytes for _, r in found))

    # -- rows -------------------------------------------------------------------------------------------------------

    def _cache_key(self, path: str, groups: RowRanges, group: int) -> object:
        start, end = groups.starts[group : group + 2].tolist()
        return self._cache_key_of_keys(path, start, end)

    def _cache_key_of_keys(self, path: str, start: int, end: int) -> tuple[object, ...]:
        # With the types, because a branch may have another schema with the same id.
        return ("keys", path, start, end, self._key_columns)

    def _keys_of(self, file: DataFileMeta, path: str, start: int, end: int) -> SortedKeys:
        def make() -> _KeysOfRows:
            rows = self._decode(self._key_files, file, path, start, end)
            return _KeysOfRows(SortedKeys([rows.column(k) for k in self._keys]), rows.nbytes + _OVERHEAD)

        return CACHE.get(self._cache_key_of_keys(path, start, end), make, limit=self._limit).keys

    def _rows_at(self, file: DataFileMeta, path: str, start: int, end: int, places: Positions) -> pa.RecordBatch:
        """Return the rows at places of a range; the places ascend."""
        span = int(places[-1] - places[0]) + 1
        few_of_many = file.format.lower() == "parquet" and span <= _SHORT * (end - start)
        if few_of_many and ("rows", path, start, end, self._columns) not in CACHE:

            def make() -> _FirstFound:
                first = start + int(places[0])
                rows = self._decode(self._files, file, path, first, first + span)
                # Copied, so that they do not keep their page in memory.
                return _FirstFound(rows_taken(rows, places - places[0]), places)

            known = CACHE.get(("first found", path, start, end, self._columns), make, limit=self._limit)
            if np.array_equal(known.places, places):
                return known.rows
        return rows_taken(self._rows_of(file, path, start, end), places)

    def _rows_of(self, file: DataFileMeta, path: str, start: int, end: int) -> pa.RecordBatch:
        def make() -> _Rows:
            rows = self._decode(self._files, file, path, start, end)
            return _Rows(rows, rows.nbytes + _OVERHEAD)

        return CACHE.get(("rows", path, start, end, self._columns), make, limit=self._limit).rows

    def _decode(self, files: FileRead, file: DataFileMeta, path: str, start: int, end: int) -> pa.RecordBatch:
        is_whole, has_values = end - start == file.row_count, files is self._files
        options = ReadOptions(
            batch_rows=max(end - start, 1),
            with_sequence=has_values,
            with_kind=has_values,
            use_threads=is_whole,
            wanted=None if is_whole else np.arange(start, end),
        )
        parts = [b for b in files.batches(file, path, options) if b.num_rows]
        rows: Any = parts[0] if len(parts) == 1 else pa.concat_batches(parts)  # type: ignore[attr-defined]
        return rows  # type: ignore[no-any-return]


def _places(keys: SortedKeys, asked: KeyColumns) -> Positions:
    # Ascending places are in key order, even if the requested keys are not.
    places = keys.find(asked)
    return np.sort(places[places >= 0])


def _chosen(keys: KeyColumns, numbers: Positions) -> KeyColumns:
    if len(numbers) == len(keys[0]):
        return keys
    indices: Any = from_numpy(numbers)
    return [k.take(indices) for k in keys]
