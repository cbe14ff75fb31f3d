"""The LSM tree of one bucket: its files by level, as sorted runs, and the files that must be merged together.

A sorted run is a list of data files whose key ranges do not overlap, in key order. Level 0 holds the files of flushes,
each a sorted run of its own; every other level is one sorted run. Higher levels hold older records. Source:
documentation page `primary-key-table/compaction`.

A merge cuts files into sections. Key ranges of different sections do not overlap, so that the sections are read one
after the other. Within a section the files are packed into as few sorted runs as possible.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from interbed.storage.base.arrays import Ints
from interbed.storage.base.clock import from_local
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.key_words import sort_groups
from interbed.storage.meta.manifest.entry import DataFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """Data files in key order; within a run every key occurs at most once."""

    files: tuple[DataFileMeta, ...]

    @property
    def row_count(self) -> int:
        """The number of records in the files."""
        return sum(f.row_count for f in self.files)

    @property
    def byte_size(self) -> int:
        """The size of the files in bytes."""
        return sum(f.file_size for f in self.files)

    @property
    def min_sequence_number(self) -> int:
        """The smallest sequence number in the run."""
        return min(f.min_sequence_number for f in self.files)

    @property
    def max_sequence_number(self) -> int:
        """The largest sequence number in the run."""
        return max(f.max_sequence_number for f in self.files)

    @property
    def may_have_deletes(self) -> bool:
        """Whether any file has, or without a count may have, records that delete their key."""
        return any(f.delete_row_count is None or f.delete_row_count > 0 for f in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRun:
    """A sorted run and its level."""

    level: int
    run: SortedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The sorted runs of a bucket, newest first. At `max_level`, the bottom of the tree, delete records are dropped."""

    runs: tuple[LevelRun, ...]
    max_level: int

    @staticmethod
    def of(files: Iterable[DataFileMeta], num_levels: int) -> "Levels":
        """Return the levels of a bucket's files: `num_levels`, or more if a file is already on a higher level."""
        by_level: dict[int, list[DataFileMeta]] = {}
        for file in files:
            by_level.setdefault(file.level, []).append(file)
        # Files with the same largest number are in Paimon's order, which does not decide which of their rows is newer.
        newest_first = sorted(
            by_level.pop(0, []),
            key=lambda f: (-f.max_sequence_number, f.min_sequence_number, f.creation_time_millis, f.file_name),
        )
        runs = [LevelRun(level=0, run=SortedRun(files=(f,))) for f in newest_first]
        runs += [LevelRun(level=level, run=SortedRun(files=tuple(by_level[level]))) for level in sorted(by_level)]
        highest = max((r.level for r in runs), default=0)
        return Levels(runs=tuple(runs), max_level=max(num_levels - 1, highest))

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files, newest runs first."""
        return tuple(f for r in self.runs for f in r.run.files)

    def last_full_millis(self, now_millis: int) -> int | None:
        """Return the time of the last full compaction, in milliseconds since the epoch.

        This is the creation time of the newest file of the highest level; None if that level has no file. Files record
        local time, whose time zone is assumed to be the current one.
        """
        top = [f.creation_time_millis for r in self.runs if r.level == self.max_level for f in r.run.files]
        return from_local(max(top), now_millis) if top else None

    @property
    def byte_size(self) -> int:
        """The size of all files in bytes."""
        return sum(r.run.byte_size for r in self.runs)


def order_in_tree(file: DataFileMeta) -> tuple[int, int, str]:
    """Return the sort key that puts files in the order of their age: higher levels first, the newest of level 0 last.

    Writers that begin together give their rows the same sequence numbers. This order decides which of two such rows is
    newer. The commit of a compaction makes sure that it stays (`commit.changes.check_order`).
    """
    return (-file.level, file.creation_time_millis, file.file_name)


def interval_partition(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[list[SortedRun]]:
    """Return the sections in key order, each a list of sorted runs in no particular order.

    `key_types` are the types of the trimmed primary key. The bounds of the files are BinaryRows of these types.
    """
    if len(files) <= 1:
        return [[SortedRun(files=(f,))] for f in files]
    least, greatest = key_ranks(files, key_types)
    return [
        [SortedRun(files=tuple(files[i] for i in run)) for run in section]
        for section in partition_intervals(least.tolist(), greatest.tolist())
    ]


def key_ranks(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> tuple[Ints, Ints]:
    """Return the ranks of the files' smallest and largest keys among all bounds: ranks compare as the keys do."""
    bounds = [f.min_key for f in files] + [f.max_key for f in files]
    order, starts = sort_groups(decode_rows(bounds, key_types))
    ranks = np.empty(len(bounds), np.int64)
    ranks[order] = np.cumsum(starts)
    return ranks[: len(files)], ranks[len(files) :]


def sections_by_key(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[tuple[DataFileMeta, ...]]:
    """Return the sections of `interval_partition` without their runs; the files of a section are in key order."""
    if len(files) <= 1:
        return [(f,) for f in files]
    least, greatest = key_ranks(files, key_types)
    order = np.lexsort((greatest, least))
    # A section ends where all keys so far are smaller than all that follow.
    reached = np.maximum.accumulate(greatest[order])
    ends = np.flatnonzero(least[order][1:] > reached[:-1]) + 1
    bounds = [0, *ends.tolist(), len(files)]
    placed = [files[i] for i in order.tolist()]
    return [tuple(placed[low:high]) for low, high in pairwise(bounds)]


def partition_intervals(least: Sequence[int], greatest: Sequence[int]) -> list[list[list[int]]]:
    """Partition closed intervals, given by their bounds, into sections of runs of interval numbers.

    Sections are in order and do not overlap. The intervals of a run are in order and do not overlap either.
    """
    sections: list[list[list[int]]] = []
    # A heap of (largest bound so far, run number) of the section that is being filled.
    ends: list[tuple[int, int]] = []
    bound = None
    # Planning handles files, not rows, so a Python loop is fast enough.
    for i in sorted(range(len(least)), key=lambda i: (least[i], greatest[i])):
        if bound is None or least[i] > bound:
            sections.append([])
            ends = []
            bound = greatest[i]
        runs = sections[-1]
        bound = max(bound, greatest[i])
        if ends and ends[0][0] < least[i]:
            _, run = ends[0]
            runs[run].append(i)
            heapq.heapreplace(ends, (greatest[i], run))
        else:
            runs.append([i])
            heapq.heappush(ends, (greatest[i], len(runs) - 1))
    return sections
