"""Cutting the files of one bucket into splits. Pure.

Files of a primary-key table whose key ranges meet must be merged together, so a section of them is never torn; sections
and files are packed, in order, into splits of about a target size.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.interval_partition import sections_by_key
from interbed.storage.meta.manifest.entry import DataFileMeta

_T = TypeVar("_T")

Section = tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """The files of one split; `raw_convertible` as Split has it."""

    files: tuple[DataFileMeta, ...]
    raw_convertible: bool


def pack_in_order(items: Sequence[_T], weight: Callable[[_T], int], target: int) -> list[list[_T]]:
    """The items in their order, cut where the next one would make a group heavier than the target.

    Every item is in exactly one group; only a group of one item may be heavier.
    """
    groups: list[list[_T]] = []
    total = 0
    for item in items:
        heft = weight(item)
        if not groups or total + heft > target:
            groups.append([])
            total = 0
        groups[-1].append(item)
        total += heft
    return groups


def sections_of(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[Section]:
    """The files of one bucket in sections, in key order; keys of different sections differ."""
    if _one_sorted_level(files):
        # A level above 0 is a sorted run: no two of its files share a key.
        return [(f,) for f in files]
    return sections_by_key(files, key_types)


def apart(files: Sequence[DataFileMeta]) -> list[Section]:
    """A section for each file, of files of which no two show the same key though their key ranges may meet."""
    return [(f,) for f in files]


def merge_tree_groups(sections: Sequence[Section], *, target_size: int, open_file_cost: int) -> list[FileGroup]:
    """The splits of one bucket of a primary-key table."""
    packed = pack_in_order(sections, lambda s: max(sum(f.file_size for f in s), open_file_cost), target_size)
    return [
        FileGroup(
            files=tuple(f for section in group for f in section),
            # Sections of one file without deletes hold each key once, so they need no merging.
            raw_convertible=all(is_raw(section) for section in group),
        )
        for group in packed
    ]


def append_groups(
    files: Sequence[DataFileMeta],
    *,
    target_size: int,
    open_file_cost: int,
    index_of: Callable[[DataFileMeta], str | None] | None = None,
) -> list[FileGroup]:
    """The splits of one bucket of an append table, in the order in which the rows were written.

    `index_of` is given where no order is promised, and names the index file that a file's deletion vector lies in, if
    it has one: files that share one go to the same split, as far as that is not heavier than the target for it.
    """

    def weight(section: Section) -> int:
        return sum(max(f.file_size, open_file_cost) for f in section)

    ordered = sorted(files, key=lambda f: f.min_sequence_number)
    sections: Iterable[Section] = ((file,) for file in ordered)
    if index_of is not None:
        sharing = sharing_sections(ordered, index_of)
        whole = (((s,) if weight(s) <= target_size else apart(s)) for s in sharing)
        sections = (section for several in whole for section in several)
    packed = pack_in_order(list(sections), weight, target_size)
    return [FileGroup(files=tuple(f for s in group for f in s), raw_convertible=True) for group in packed]


def sharing_sections(files: Sequence[DataFileMeta], index_of: Callable[[DataFileMeta], str | None]) -> list[Section]:
    """The files by the index file that they share, where the first of them stands; files without one are alone."""
    found: dict[tuple[bool, str], list[DataFileMeta]] = {}
    for file in files:
        index = index_of(file)
        found.setdefault((index is None, index or file.file_name), []).append(file)
    return [tuple(section) for section in found.values()]


def is_raw(section: Section) -> bool:
    """Whether the section is one file that holds every row of the table in its key range, and nothing else.

    Old writers did not count deletes. Paimon takes their files for free of them; that is only certain of files that
    left level 0 by a full compaction, so here they are merged, which costs time but no row.
    """
    return len(section) == 1 and section[0].delete_row_count == 0


def _one_sorted_level(files: Sequence[DataFileMeta]) -> bool:
    return all(f.level > 0 for f in files) and len({f.level for f in files}) == 1
