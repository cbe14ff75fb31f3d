"""The tasks of a table's compaction in bundles for workers that take one after the other. Pure.

A task may be a bucket of a few kilobytes: what it costs to hand it out is more than what it takes. So there are a few
bundles for each worker, about equal, and the longest comes first; the more there are, the less a slow worker delays the
others at the end.
"""

from collections.abc import Sequence

from interbed.storage.base.balance import longest_first, spread
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.upkeep.compact_tasks import CompactionTask

BUNDLES_OF_A_WORKER = 4

_Unit = list[CompactionTask]


def balanced_tasks(
    tasks: Sequence[CompactionTask], *, workers: int, most_bytes: int | None = None
) -> list[tuple[CompactionTask, ...]]:
    """The tasks in at most BUNDLES_OF_A_WORKER bundles for each worker, which cost about the same, greatest first.

    With `most_bytes` there are as many as it takes that none of several tasks costs more. Tasks that share index files
    are in one bundle, but for ranges of one sort, which were made to be carried out at the same time.
    """
    units = _units(tasks)
    costs = [_cost(unit) for unit in units]
    number = max(1, workers) * BUNDLES_OF_A_WORKER
    dealt = spread(costs, number)
    if most_bytes is not None:
        while any(len(each) > 1 and sum(costs[i] for i in each) > most_bytes for each in dealt):
            # Ends with as many bundles as there are units.
            number += max(1, number // 8)
            dealt = spread(costs, number)
    bundles = [tuple(task for i in each for task in units[i]) for each in dealt]
    return [bundles[i] for i in longest_first([_cost(bundle) for bundle in bundles])]


def _units(tasks: Sequence[CompactionTask]) -> list[_Unit]:
    """The tasks by what has to stay together, in the order of the first of each."""
    units: list[_Unit] = []
    of_index: dict[tuple[BucketId, str], _Unit] = {}
    for task in tasks:
        names = [] if task.range_count > 1 else [(task.bucket_id, f.file_name) for f in task.index_files]
        shared = {id(unit): unit for name in names if (unit := of_index.get(name)) is not None}
        first, *others = shared.values() or [[]]
        for unit in others:
            # It shares index files with both, so that these are one.
            first += unit
            unit.clear()
            of_index.update({name: first for name, known in of_index.items() if known is unit})
        if not first:
            units.append(first)
        first.append(task)
        of_index.update(dict.fromkeys(names, first))
    return [unit for unit in units if unit]


def _cost(tasks: Sequence[CompactionTask]) -> int:
    return sum(task.cost for task in tasks)
