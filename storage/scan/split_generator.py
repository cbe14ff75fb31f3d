"""Packing of the files of one bucket into splits. Pure.

Files of a primary-key table whose key ranges overlap must be merged together, so a section of them is never divided.
Sections and files are packed, in order, into splits of about a target size.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.levels import sections_by_key
from interbed.storage.meta.manifest.entry import DataFileMeta

_T = TypeVar("_T")

Section = tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files of one split; `raw_convertible` as in Split."""

    files: tuple[DataFileMeta, ...]
    raw_convertible: bool


def pack_in_order(items: Sequence[_T], weight: Callable[[_T], int], target: int) -> list[list[_T]]:
    """Return the items in their order, in groups that end before their weight would exceed the target.

    Every item is in exactly one group; only a group of one item may exceed it.
    """
    groups: list[list[_T]] = []
    total = 0
    for item in items:
        item_weight = weight(item)
        if not groups or total + item_weight > target:
            groups.append([])
            total = 0
        groups[-1].append(item)
        total += item_weight
    return groups


def sections_of(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[Section]:
    """Return the files of one bucket in sections, in key order; keys of different sections differ."""
    if _one_sorted_level(files):
        # A level above 0 is a sorted run: no two of its files share a key.
        return [(f,) for f in files]
    return sections_by_key(files, key_types)


def apart(files: Sequence[DataFileMeta]) -> list[Section]:
    """Return one section for each file. No two files show the same key, though their key ranges may overlap."""
    return [(f,) for f in files]


def merge_tree_groups(sections: Sequence[Section], *, target_size: int, open_file_cost: int) -> list[FileGroup]:
    """Return the splits of one bucket of a primary-key table."""
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
    """Return the splits of one bucket of an append table, in the order in which the rows were written.

    `index_of` is given where rows have no promised order. It names the index file of a file's deletion vector, if it
    has one: files that share one go to the same split, if they do not exceed the target together.
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
    """Return the files grouped by the index file that they share; files without one are alone.

    Groups are in order of first appearance.
    """
    found: dict[tuple[bool, str], list[DataFileMeta]] = {}
    for file in files:
        index = index_of(file)
        found.setdefault((index is None, index or file.file_name), []).append(file)
    return [tuple(section) for section in found.values()]


def is_raw(section: Section) -> bool:
    """Return whether the section is one file that holds exactly the rows of the table in its key range.

    Old writers did not count deletes. Paimon assumes that their files have none; that is only certain of files that
    left level 0 by a full compaction, so here they are merged, which costs time but no row.
    """
    return len(section) == 1 and section[0].delete_row_count == 0


def _one_sorted_level(files: Sequence[DataFileMeta]) -> bool:
    return all(f.level > 0 for f in files) and len({f.level for f in files}) == 1
