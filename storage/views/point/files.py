"""Finding keys in one data file: which of its row groups can have them, and where in those they are.

A Parquet file's row groups are selected by the statistics of the first key column. Where few keys are looked for in a
group for the first time, only the pages that can have them are read; the second time the group is decoded as a whole
and stays in the cache, for the lookups to come. A file of another format counts as one group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Mask, Positions
from interbed.storage.base.arrow_values import array_of, from_numpy, to_numpy
from interbed.storage.base.predicate.expr import And, In, Predicate
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.file_index.bloom_filter import BloomFilterReader
from interbed.storage.files.file_index.evaluate import ColumnReaders, has_index, with_indexes
from interbed.storage.files.format.api import data_file_errors
from interbed.storage.files.format.pages.footer import read_footer
from interbed.storage.lsm.file_read import MAX_INDEXED_ROWS, ROW_INDEX, FileRead, ReadOptions
from interbed.storage.lsm.lookup.sorted_keys import KeyColumns, SortedKeys, count_below
from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.store import TableStore
from interbed.storage.views.point.cache import CACHE

_OVERHEAD = 512
"""Bytes that a cached object takes besides its buffers, about."""
_FEW_KEYS = 16
"""So many keys of one group are looked for in its pages, of more the group is decoded at once."""
_MANY_ROWS = 32_768
"""Groups with fewer rows, which are about four pages, are decoded at once."""


@dataclass(frozen=True, slots=True)
class _Block:
    """The rows of one row group, and their keys."""

    rows: pa.RecordBatch
    keys: SortedKeys
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Groups:
    """Where each row group begins, with the end of the last; `least` and `greatest` first key values, None unknown."""

    starts: Positions
    least: "pa.Array[Any] | None"
    greatest: "pa.Array[Any] | None"
    nbytes: int = _OVERHEAD


@dataclass(frozen=True, slots=True)
class _Noted:
    """That a group was read before."""

    nbytes: int = _OVERHEAD


@dataclass(frozen=True, slots=True)
class _Filters:
    """The bloom filters of the key columns, by the column's place in the key."""

    readers: tuple[tuple[int, BloomFilterReader], ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class PointRows:
    """Rows of one file in key order, and their positions in it."""

    rows: pa.RecordBatch
    positions: Positions


class FileLookup:
    """Finds keys in the data files of one table; rows have the `columns` that `files` reads, and the system columns."""

    def __init__(self, store: TableStore, files: FileRead, columns: tuple[DataField, ...]) -> None:
        self._store = store
        self._files = files
        self._columns = columns
        self._keys = store.schema.trimmed_primary_keys
        self._limit = store.options.lookup_cache_max_memory_size
        self._indexed = store.options.file_index_read_enabled

    def find(self, file: DataFileMeta, path: str, keys: KeyColumns) -> PointRows | None:
        """The rows of these keys, which are distinct; None without any. Raises what FormatReader raises."""
        groups = CACHE.get(("groups", path), lambda: self._groups(file, path), limit=self._limit)
        found: list[tuple[int, pa.RecordBatch, Positions]] = []
        for group, asked in self._candidates(file, path, groups, keys):
            rows, positions = self._in_group(file, path, groups, group, asked)
            if len(positions):
                found.append((group, rows, positions))
        if not found:
            return None
        found.sort(key=lambda f: f[0])
        batches = [rows for _, rows, _ in found]
        joined: Any = batches[0] if len(batches) == 1 else pa.concat_batches(batches)  # type: ignore[attr-defined]
        return PointRows(joined, np.concatenate([positions for _, _, positions in found]))

    def _in_group(
        self, file: DataFileMeta, path: str, groups: _Groups, group: int, asked: KeyColumns
    ) -> tuple[pa.RecordBatch, Positions]:
        """The rows of the keys in one group, in key order, and their positions in the file."""
        predicate = self._predicate(file, path, groups, group, asked)
        if predicate is None:
            block = self._block(file, path, groups, group)
            places = _places(block.keys, asked)
            return block.rows.take(from_numpy(places)), places + groups.starts[group]
        rows = self._rows(file, path, groups, group, predicate)
        if rows is None:
            return pa.record_batch([], names=[]), np.zeros(0, np.int64)
        places = _places(SortedKeys([rows.column(k) for k in self._keys]), asked)
        hits = rows.take(from_numpy(places))
        return hits.select(hits.schema.names[:-1]), to_numpy(hits.column(ROW_INDEX))

    def _predicate(
        self, file: DataFileMeta, path: str, groups: _Groups, group: int, asked: KeyColumns
    ) -> Predicate | None:
        """What the rows of the keys satisfy, if their pages are to be read alone."""
        name = self._block_name(path, group)
        few = len(asked[0]) <= _FEW_KEYS and groups.starts[group + 1] - groups.starts[group] > _MANY_ROWS
        if not few or file.format.lower() != "parquet" or name in CACHE or ("noted", *name) in CACHE:
            return None
        if not all(_is_plain(k.type) for k in asked):
            return None
        CACHE.get(("noted", *name), _Noted, limit=self._limit)
        return And(tuple(In(column, tuple(key.to_pylist())) for column, key in zip(self._keys, asked, strict=True)))

    def _candidates(
        self, file: DataFileMeta, path: str, groups: _Groups, keys: KeyColumns
    ) -> Iterator[tuple[int, KeyColumns]]:
        """The row groups that can have some of the keys, with those."""
        count = len(groups.starts) - 1
        first = np.zeros(len(keys[0]), np.int64)
        last = np.full(len(keys[0]), count - 1)
        if groups.least is not None and groups.greatest is not None and count > 1:
            first = count_below([groups.greatest], keys[:1], or_equal=False)
            last = count_below([groups.least], keys[:1], or_equal=True) - 1
        asked = [(g, np.flatnonzero((first <= g) & (last >= g))) for g in range(count)]
        asked = [(g, chosen) for g, chosen in asked if len(chosen)]
        if any(self._block_name(path, g) not in CACHE for g, _ in asked):
            # A filter saves decoding; where that is done, looking is as cheap.
            maybe = self._maybe(file, path, keys)
            asked = [(g, chosen[maybe[chosen]]) for g, chosen in asked]
        for group, chosen in asked:
            if len(chosen):
                yield group, keys if len(chosen) == len(keys[0]) else [_taken(k, chosen) for k in keys]

    def _maybe(self, file: DataFileMeta, path: str, keys: KeyColumns) -> Mask:
        """Which of the keys the file's bloom filters let through."""
        maybe = np.ones(len(keys[0]), np.bool_)
        if not self._indexed or not has_index(file) or file.row_count > MAX_INDEXED_ROWS:
            return maybe
        filters = CACHE.get(("filters", path), lambda: self._filters(file, path), limit=self._limit)
        for place, reader in filters.readers:
            maybe &= reader.may_hold(keys[place])
        return maybe

    def _filters(self, file: DataFileMeta, path: str) -> _Filters:
        written = self._store.schema_of(file.schema_id)
        # A key column may have had another name; its type can't be changed.
        names = {f.id: f.name for f in written.fields}
        found: list[tuple[int, BloomFilterReader]] = []

        def collect(readers: ColumnReaders) -> None:
            for place, key in enumerate(self._store.schema.fields_named(self._keys)):
                of_key = readers.of(names.get(key.id, ""))
                found.extend((place, reader) for reader in of_key if isinstance(reader, BloomFilterReader))

        with data_file_errors(path):
            with_indexes(file, path, {f.name: f for f in written.fields}, self._store.file_io, collect)
        return _Filters(tuple(found), _OVERHEAD + sum(r.nbytes for _, r in found))

    def _block_name(self, path: str, group: int) -> tuple[str, str, int, tuple[DataField, ...]]:
        # With their types, because a branch may have another schema of the same number.
        return ("block", path, group, self._columns)

    def _block(self, file: DataFileMeta, path: str, groups: _Groups, group: int) -> _Block:
        return CACHE.get(
            self._block_name(path, group), lambda: self._decode(file, path, groups, group), limit=self._limit
        )

    def _decode(self, file: DataFileMeta, path: str, groups: _Groups, group: int) -> _Block:
        rows = self._rows(file, path, groups, group)
        assert rows is not None
        return _Block(rows, SortedKeys([rows.column(k) for k in self._keys]), rows.nbytes + _OVERHEAD)

    def _rows(
        self, file: DataFileMeta, path: str, groups: _Groups, group: int, predicate: Predicate | None = None
    ) -> pa.RecordBatch | None:
        """The rows of a group; with a predicate some of them, with their positions, or None."""
        start, end = groups.starts[group : group + 2].tolist()
        batches = self._files.batches(
            file,
            path,
            ReadOptions(
                batch_rows=max(end - start, 1),
                with_sequence=True,
                with_kind=True,
                with_position=predicate is not None,
                predicate=predicate,
                use_threads=predicate is None,
                wanted=None if len(groups.starts) == 2 else np.arange(start, end),
            ),
        )
        parts = [b for b in batches if b.num_rows]
        if not parts:
            return None
        rows: Any = parts[0] if len(parts) == 1 else pa.concat_batches(parts)  # type: ignore[attr-defined]
        return rows  # type: ignore[no-any-return]

    def _groups(self, file: DataFileMeta, path: str) -> _Groups:
        whole = _Groups(np.array([0, file.row_count]), None, None)
        if file.format.lower() != "parquet":
            return whole
        verify = self._store.options.read_verify_checksums
        with data_file_errors(path), self._store.file_io.open_input(path) as source:
            metadata = read_footer(source, path, verify=verify).metadata
            if metadata.num_rows != file.row_count:
                raise ValueError(f"it has {metadata.num_rows} rows where the manifest says {file.row_count}")
            groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
            if not groups:
                return whole
            starts = np.cumsum([0, *(g.num_rows for g in groups)])
            ends = self._key_ends(file, metadata, groups)
        return _Groups(starts, *ends)

    def _key_ends(self, file: DataFileMeta, metadata: Any, groups: Sequence[Any]) -> tuple[Any, Any]:
        """The least and greatest value of the first key column in each group; None where they are not known."""
        key = self._store.schema.by_name[self._keys[0]]
        written = self._store.schema_of(file.schema_id)
        name = next((f.name for f in written.fields if f.id == key.id), None)
        places = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
        if not places:
            return None, None
        found = [g.column(places[0]).statistics for g in groups]
        if not all(s is not None and s.has_min_max for s in found):
            return None, None
        arrow = type_to_arrow(key.type)
        try:
            return array_of([s.min for s in found], arrow), array_of([s.max for s in found], arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError):
            # Physical values that are not the type's (decimals in bytes, for one) are of no use here.
            return None, None


def _places(keys: SortedKeys, asked: KeyColumns) -> Positions:
    # Ascending places are in key order; the keys asked for need not be.
    places = keys.find(asked)
    return np.sort(places[places >= 0])


def _is_plain(arrow: pa.DataType) -> bool:
    """Whether pages are chosen by values of the type as they come from Arrow."""
    return pa.types.is_integer(arrow) or pa.types.is_string(arrow) or pa.types.is_date32(arrow)


def _taken(column: "pa.Array[Any]", numbers: Positions) -> "pa.Array[Any]":
    indices: Any = from_numpy(numbers)
    taken: pa.Array[Any] = column.take(indices)
    return taken
