"""Selection of the rows of a row group that a read needs, by its page index, and their read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Ints, Mask, Positions, distinct
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import AlwaysTrue, Comparison, Op, Predicate, columns_of, references_of
from interbed.storage.base.predicate.operands import Reference, column_of
from interbed.storage.base.predicate.stats_filter import select
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.files.format.pages.footer import leaf_of
from interbed.storage.files.format.pages.index import GroupPages, PageBounds, PageIndex
from interbed.storage.files.format.pages.reading import read_rows
from interbed.storage.io.api import prefetch

WORTHWHILE_SHARE = 0.5
"""Above this share of needed rows the whole group is read: it costs no more, and fewer pieces are joined."""

_KEY = "key"
_NOT_KNOWN = -1

Rows = tuple[int, int]
"""A range of rows of a group: the first row and the end."""


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """Columns to read from the file by name, and the predicate over them by which rows may be left out.

    `types` are the columns' Arrow types in the file, `fields` their types in the predicate.
    """

    names: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    fields: Mapping[str, DataField]
    predicate: Predicate | None
    batch_rows: int
    verify: bool
    use_threads: bool = False
    tally: DecodeTally | None = None

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """Columns of the predicate whose types in the file match those in the predicate."""
        named = frozenset[str]() if self.predicate is None else columns_of(self.predicate)
        return tuple(
            n
            for n in self.names
            if n in named and n in self.fields and self.types[n] == type_to_arrow(self.fields[n].type)
        )

    @cached_property
    def asked(self) -> tuple[Reference, ...]:
        """The predicate's references to these columns."""
        found = () if self.predicate is None else references_of(self.predicate)
        return tuple(asked for asked in found if column_of(asked) in self.compared)

    @cached_property
    def is_exact(self) -> bool:
        """Whether the predicate can be evaluated on these columns alone."""
        if self.predicate is None or isinstance(self.predicate, AlwaysTrue):
            return False
        return bool(self.compared) and columns_of(self.predicate) == frozenset(self.compared)

    @cached_property
    def rest(self) -> tuple[str, ...]:
        """The columns that are read only where the predicate is true."""
        return tuple(n for n in self.names if n not in self.compared) if self.is_exact else ()


class PageRead:
    """Reader of row groups of one open file by pages; `source` has `read_at(length, offset)`."""

    def __init__(self, source: Any, index: PageIndex, request: PageRequest) -> None:
        self._source = source
        self._index = index
        self._request = request
        self._is_dense = False

    def group(self, number: int, wanted: Positions | None) -> Iterator[tuple[int, pa.RecordBatch]] | None:
        """Return batches of the needed rows of a row group, each with its first row's number in the group.

        `wanted` are positions in the group. The result is None when the caller should read the whole group: where the
        file has no page index, or most pages are needed. A remote file begins to fetch pages when this is called.
        Raises ValueError, LookupError and Arrow's errors for damaged bytes.
        """
        group = self._index.group(number, self._source)
        if group is None or not self._request.names or not group.is_even(self._request.names):
            return None
        pieces = self._pieces(group, wanted)
        if pieces is None:
            return None
        first = self._request.compared if self._request.is_exact else self._request.names
        prefetch(self._source, partial(_steps, group, first, [[piece] for piece in pieces]))
        return self._read(group, pieces, wanted)

    def _pieces(self, group: GroupPages, wanted: Positions | None) -> list[Rows] | None:
        """Return the rows of pages that may match, in pieces of `batch_rows` rows or of one page; None for all."""
        request = self._request
        known = {asked: found for asked in request.asked if (found := _known(group, asked, request)) is not None}
        # The predicate's columns decide where the others are needed, unless the index shows that nearly all rows match.
        looks_first = bool(request.rest) and not self._is_dense
        if not known and wanted is None and not looks_first:
            return None
        grids = [rows for rows, _ in known.values()] or [group.by_name[request.names[0]][0].rows]
        edges = distinct(np.concatenate(grids))
        chosen = _matching(edges, known, request)
        if wanted is not None:
            chosen &= np.diff(np.searchsorted(wanted, edges)) > 0
        is_much = np.diff(edges)[chosen].sum() > WORTHWHILE_SHARE * group.rows
        if not looks_first and is_much and not _is_short(wanted, group.rows):
            return None
        pieces = _pieces(edges.tolist(), chosen.tolist(), request.batch_rows)
        # The pages of other columns may begin at other rows.
        return pieces if wanted is None else [_clipped(piece, wanted) for piece in pieces]

    def _read(
        self, group: GroupPages, pieces: Sequence[Rows], wanted: Positions | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        request = self._request
        for start, end in pieces:
            if not request.is_exact or request.predicate is None:
                yield start, self._rows(group, request.names, start, end, DecodeTally.PAGES)
                continue
            compared = self._rows(group, request.compared, start, end, DecodeTally.FILTER)
            matches = to_numpy(mask(request.predicate, compared))
            if wanted is not None:
                matches = matches & _flags(wanted, start, end)
            grid = group.by_name[(request.rest or request.compared)[0]][0].rows
            stretches = _stretches(np.flatnonzero(matches) + start, grid)
            self._is_dense |= sum(high - low for low, high in stretches) > WORTHWHILE_SHARE * (end - start)
            if request.rest:
                prefetch(self._source, partial(_steps, group, request.rest, [stretches]))
            for low, high in stretches:
                batch = compared.slice(low - start, high - low)
                if request.rest:
                    rest = self._rows(group, request.rest, low, high, DecodeTally.REST)
                    batch = _side_by_side(batch, rest, request.names)
                yield low, batch.select(list(request.names))

    def _rows(self, group: GroupPages, names: Sequence[str], start: int, end: int, reason: str) -> pa.RecordBatch:
        request = self._request
        tally = request.tally
        return read_rows(
            self._source,
            self._index,
            group,
            names,
            start,
            end,
            verify=request.verify,
            use_threads=request.use_threads,
            noted=None if tally is None else partial(tally.add, reason),
        )


def _steps(group: GroupPages, names: Sequence[str], steps: Sequence[Sequence[Rows]]) -> Iterator[list[tuple[int, int]]]:
    """Yield the byte ranges that each step, a sequence of row ranges, reads from the file."""
    for stretches in steps:
        yield list(_bytes_of(group, names, stretches))


def _bytes_of(group: GroupPages, names: Sequence[str], stretches: Sequence[Rows]) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of the pages of the rows, and of their dictionaries."""
    for name in names:
        for leaf in group.by_name[name]:
            if leaf.begin < leaf.starts[0]:
                yield leaf.begin, int(leaf.starts[0])
            for start, end in stretches:
                low, high = leaf.holding(start, end)
                yield int(leaf.starts[low]), int(leaf.starts[high - 1] + leaf.sizes[high - 1])


def _known(group: GroupPages, asked: Reference, request: PageRequest) -> tuple[Ints, PageBounds] | None:
    """Return the first rows of a reference's pages, and the bounds of its values; None if they are unknown."""
    name = column_of(asked)
    place = leaf_of(asked, request.types[name])
    leaves = group.by_name[name]
    if place is None or place.place >= len(leaves):
        return None
    leaf = leaves[place.place]
    bounds = leaf.bounds(place.type)
    if bounds is None or not place.keys:
        return None if bounds is None else (leaf.rows, bounds)
    all_null = bounds.all_null.copy()
    for key in place.keys:
        # The pages of all leaves of a column begin at the same rows here.
        keys = leaves[key.place].bounds(key.type)
        if keys is not None:
            counts = from_numpy(np.diff(leaf.rows))
            may = select(Comparison(Op.EQ, _KEY, key.key), {_KEY: keys.least}, {_KEY: keys.greatest}, {}, counts)
            all_null |= ~may | keys.all_null
    return leaf.rows, replace(bounds, all_null=all_null, nulls=np.full(len(all_null), _NOT_KNOWN))


def _is_short(wanted: Positions | None, rows: int) -> bool:
    """Return whether the wanted rows are one range of few rows, which can be decoded without the rest of the page."""
    return wanted is not None and bool(len(wanted)) and wanted[-1] - wanted[0] < WORTHWHILE_SHARE * rows


def _flags(wanted: Positions, start: int, end: int) -> Mask:
    """Return for each row from `start` to before `end` whether it is wanted."""
    low, high = np.searchsorted(wanted, (start, end))
    asked = np.zeros(end - start, np.bool_)
    asked[wanted[low:high] - start] = True
    return asked


def _matching(edges: Ints, known: Mapping[Reference, tuple[Ints, PageBounds]], request: PageRequest) -> Mask:
    counts = np.diff(edges)
    if request.predicate is None or not known:
        return np.ones(len(counts), np.bool_)
    least: dict[Reference, pa.Array[Any]] = {}
    greatest: dict[Reference, pa.Array[Any]] = {}
    nulls: dict[Reference, pa.Array[Any]] = {}
    for name, (rows, bounds) in known.items():
        if len(known) == 1:
            # The borders are those of its pages.
            pages = np.arange(len(counts))
            least[name], greatest[name] = bounds.least, bounds.greatest
        else:
            pages = np.searchsorted(rows, edges[:-1], side="right") - 1
            of_segment: Any = from_numpy(pages)
            least[name], greatest[name] = bounds.least.take(of_segment), bounds.greatest.take(of_segment)
        # For a part of a page only two cases are known: no nulls, or only nulls.
        number = np.where(bounds.all_null[pages], counts, 0)
        unknown = ~bounds.all_null[pages] & (bounds.nulls[pages] != 0)
        nulls[name] = from_numpy(number, unknown)
    return select(request.predicate, least, greatest, nulls, from_numpy(counts))


def _pieces(edges: Sequence[int], chosen: Sequence[bool], most: int) -> list[Rows]:
    pieces: list[Rows] = []
    start: int | None = None
    for low, high, is_chosen in zip(edges[:-1], edges[1:], chosen, strict=True):
        if start is not None and (not is_chosen or high - start > most):
            pieces.append((start, low))
            start = None
        if is_chosen and start is None:
            start = low
    if start is not None:
        pieces.append((start, edges[-1]))
    return pieces


def _clipped(piece: Rows, wanted: Positions) -> Rows:
    """Return the range from the first to the last wanted row of the piece, which has at least one."""
    low, high = np.searchsorted(wanted, piece)
    return int(wanted[low]), int(wanted[high - 1]) + 1


def _stretches(matches: Positions, grid: Ints) -> list[Rows]:
    """Return the row ranges to read for the matches; neighbouring pages are joined to one range.

    `grid` has the first rows of the pages. Where most pages have matches, all are read as one range.
    """
    if not len(matches):
        return []
    pages = np.searchsorted(grid, matches, side="right") - 1
    jumps = np.diff(pages)
    if np.count_nonzero(jumps) + 1 > WORTHWHILE_SHARE * (pages[-1] - pages[0] + 1):
        return [(int(matches[0]), int(matches[-1]) + 1)]
    gaps = np.flatnonzero(jumps > 1)
    starts, ends = np.append(0, gaps + 1), np.append(gaps, len(matches) - 1)
    return list(zip(matches[starts].tolist(), (matches[ends] + 1).tolist(), strict=True))


def _side_by_side(left: pa.RecordBatch, right: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    columns = [left.column(n) if n in left.schema.names else right.column(n) for n in names]
    fields = [left.schema.field(n) if n in left.schema.names else right.schema.field(n) for n in names]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
