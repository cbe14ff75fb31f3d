"""Parts of a plan: shards and slices, which together are all of it.

Rows of append tables are dealt out one by one, also those of one file. Rows of primary-key tables are found by merging
the files of a bucket, so that a shard of them has whole buckets.
"""

from dataclasses import replace

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.scan.split import Plan


def shard_of(plan: Plan, index: int, count: int, *, keyed: bool) -> Plan:
    """The part of that index, counted from 0, among `count` equal ones.

    With `keyed`, of a table with a primary key, it has the buckets whose number divided by `count` leaves `index`.
    """
    if keyed:
        return replace(plan, splits=tuple(s for s in plan.splits if s.bucket % count == index))
    if any(split.tells_changes or not split.raw_convertible for split in plan.splits):
        return replace(plan, splits=plan.splits[index::count])
    rows, more = divmod(sum(split.row_count for split in plan.splits), count)
    start = index * rows + min(index, more)
    return slice_of(plan, start, start + rows + (index < more))


def slice_of(plan: Plan, start: int, end: int) -> Plan:
    """The rows from position `start` up to, but not with, `end`, counted over all files in the order of the plan.

    Rows that deletion vectors mark count, too. Raises InvalidInputError for a plan of changes.
    """
    splits, position = [], 0
    for split in plan.splits:
        if split.tells_changes or not split.raw_convertible:
            raise InvalidInputError("A slice is of the rows of an append table, not of changes between snapshots.")
        files, ranges = [], {}
        for file in split.files:
            low, high = max(start - position, 0), min(end - position, file.row_count)
            position += file.row_count
            if low < high:
                files.append(file)
                if (low, high) != (0, file.row_count):
                    ranges[file.file_name] = (low, high)
        if files:
            splits.append(replace(split, files=tuple(files), row_ranges=ranges))
    return replace(plan, splits=tuple(splits))
