"""Which data files of a bucket must be merged together, and in how few sorted runs.

Files are cut into sections: key ranges of different sections do not meet, so each section is read by itself, one after
the other. Within a section files are laid end to end into as few sorted runs as possible.
"""

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from interbed.storage.base.arrays import Ints
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.key_words import sort_groups
from interbed.storage.lsm.levels import SortedRun
from interbed.storage.meta.manifest.entry import DataFileMeta


def interval_partition(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[list[SortedRun]]:
    """Sections in key order, each a list of sorted runs in no particular order.

    `key_types` are the types of the trimmed primary key, of which the files' bounds are BinaryRows.
    """
    if len(files) <= 1:
        return [[SortedRun(files=(f,))] for f in files]
    least, greatest = key_ranks(files, key_types)
    return [
        [SortedRun(files=tuple(files[i] for i in run)) for run in section]
        for section in partition_intervals(least.tolist(), greatest.tolist())
    ]


def key_ranks(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> tuple[Ints, Ints]:
    """Ints of the files' least and greatest keys among all bounds: equal keys have equal ranks, order is the keys'."""
    bounds = [f.min_key for f in files] + [f.max_key for f in files]
    order, starts = sort_groups(decode_rows(bounds, key_types))
    ranks = np.empty(len(bounds), np.int64)
    ranks[order] = np.cumsum(starts)
    return ranks[: len(files)], ranks[len(files) :]


def sections_by_key(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[tuple[DataFileMeta, ...]]:
    """The sections of `interval_partition` without their runs; files of a section are in the order of their keys."""
    if len(files) <= 1:
        return [(f,) for f in files]
    least, greatest = key_ranks(files, key_types)
    order = np.lexsort((greatest, least))
    # A section ends where all keys so far are less than those that follow.
    reached = np.maximum.accumulate(greatest[order])
    ends = np.flatnonzero(least[order][1:] > reached[:-1]) + 1
    bounds = [0, *ends.tolist(), len(files)]
    placed = [files[i] for i in order.tolist()]
    return [tuple(placed[low:high]) for low, high in pairwise(bounds)]


def partition_intervals(least: Sequence[int], greatest: Sequence[int]) -> list[list[list[int]]]:
    """Closed intervals, given by their bounds, as sections of runs of interval numbers.

    Sections are in order and do not meet; the intervals of a run are in order and do not meet either.
    """
    sections: list[list[list[int]]] = []
    # A heap of (greatest bound so far, run number) of the section that is being filled.
    ends: list[tuple[int, int]] = []
    bound = None
    # Planning handles files, not rows, so a Python loop will do.
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
