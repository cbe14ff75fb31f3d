"""The files that may hold the first rows in the order of a column: bounds in metadata rule the others out.

For the `n` rows with the least values every file matters whose least value is not above T, where T is such that files
with at least `n` rows hold no value above it. Java Paimon picks the `n` splits with the least bounds for this.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import Any

from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.split import Split
from interbed.storage.scan.summary.aggregates import Aggregate, AggregateFunction, aggregated

FILES_MAX = 10_000
"""With more files it would take longer to compare them than it spares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The first `count` rows in the order of a column."""

    column: str
    count: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    """A file whose rows' values are known: the first and the last of them in the order asked for, and how many."""

    first: Any
    last: Any
    values: int
    nulls: int


def splits_of_top(store: TableStore, splits: Sequence[Split], top: Top) -> tuple[Split, ...]:
    """The splits with those of their files that may hold rows of the top; the splits must not be filtered any further.

    What metadata does not know exactly stays: files that are merged or have deletion vectors, columns of other types
    than integers, decimals, dates and timestamps.
    """
    if sum(len(split.files) for split in splits) > FILES_MAX:
        return tuple(splits)
    # A loop over files, of which there are few beside their rows.
    known = [[_known(store, _alone(split, file), top) for file in split.files] for split in splits]
    reach = _Reach.of((k for found in known for k in found if k is not None), top)
    kept = (
        [f for f, k in zip(split.files, found, strict=True) if k is None or reach.includes(k)]
        for split, found in zip(splits, known, strict=True)
    )
    return tuple(_with_files(split, files) for split, files in zip(splits, kept, strict=True) if files)


def _alone(split: Split, file: DataFileMeta) -> Split:
    return replace(split, files=(file,), deletion_files=_deletions(split, [file]))


def _with_files(split: Split, files: Sequence[DataFileMeta]) -> Split:
    if len(files) == len(split.files):
        return split
    return replace(split, files=tuple(files), deletion_files=_deletions(split, files))


def _deletions(split: Split, files: Iterable[DataFileMeta]) -> dict[str, Any]:
    return {f.file_name: split.deletion_files[f.file_name] for f in files if f.file_name in split.deletion_files}


def _known(store: TableStore, split: Split, top: Top) -> _Known | None:
    functions = (AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.COUNT)
    asked = [Aggregate(function=f, column=top.column) for f in functions]
    rows = aggregated(store, [split], [*asked, Aggregate(function=AggregateFunction.COUNT_ROWS)])
    if rows is None:
        return None
    least, greatest, values, count = (v for v in rows[0])
    first, last = (greatest, least) if top.descending else (least, greatest)
    return _Known(first, last, int(str(values)), int(str(count)) - int(str(values)))


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far the top reaches: whether to nulls and to values, and, where it is `bounded`, to which value."""

    top: Top
    nulls: bool
    values: bool
    bounded: bool
    last: Any = None

    @staticmethod
    def of(files: Iterable[_Known], top: Top) -> "_Reach":
        found = list(files)
        nulls = sum(f.nulls for f in found)
        if top.nulls_first and nulls >= top.count:
            return _Reach(top, nulls=True, values=False, bounded=True)
        count = 0
        in_order = cmp_to_key(lambda a, b: _compare(a, b, top))
        for file in sorted((f for f in found if f.values), key=lambda f: in_order(f.last)):
            count += file.values
            if count >= top.count:
                return _Reach(top, nulls=top.nulls_first, values=True, bounded=True, last=file.last)
        return _Reach(top, nulls=True, values=True, bounded=False)

    def includes(self, file: _Known) -> bool:
        if self.nulls and file.nulls:
            return True
        return bool(
            self.values and file.values and (not self.bounded or _compare(file.first, self.last, self.top) <= 0)
        )


def _compare(left: Any, right: Any, top: Top) -> int:
    # Spark orders text by its bytes.
    a, b = (v.encode() if isinstance(v, str) else v for v in (left, right))
    return 0 if a == b else (-1 if (a < b) != top.descending else 1)
