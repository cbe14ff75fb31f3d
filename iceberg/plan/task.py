"""Data files that are read together, because they share deletes. Pure.

Each delete file is read once for each task that needs it, so files that share one are kept together, as far as a task
does not become too large by that.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from interbed.iceberg.meta.live_file import LiveFile
from interbed.iceberg.plan.delete_index import Deletes
from interbed.storage.base.balance import longest_first

TARGET_BYTES = 128 << 20
"""How much a task reads, where its files can be divided so."""
_OPEN_BYTES = 4 << 20
"""What a file costs at least: opening it takes as long as reading so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTask:
    """One data file, and what is deleted of it."""

    file: LiveFile
    deletes: Deletes

    @property
    def cost(self) -> int:
        """What reading it costs, without its deletes, in bytes."""
        return max(self.file.size, _OPEN_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadTask:
    """Data files that one reader takes, the longest first."""

    files: tuple[DataTask, ...]

    @property
    def delete_files(self) -> tuple[LiveFile, ...]:
        """The deletes that it reads, each once."""
        return tuple({file.place: file for task in self.files for file in task.deletes.files}.values())

    @property
    def cost(self) -> int:
        """What all of it costs to read, in bytes."""
        return sum(task.cost for task in self.files) + sum(file.cost for file in self.delete_files)


def tasks_of(files: Sequence[DataTask], target: int = TARGET_BYTES) -> tuple[FileReadTask, ...]:
    """The files in tasks of about `target` bytes, the longest task first; the same files give the same tasks."""
    pieces = chain.from_iterable(_cut(group, target) for group in _groups(files))
    tasks = [FileReadTask(files=tuple(piece)) for piece in _packed(pieces, target)]
    return tuple(tasks[index] for index in longest_first([task.cost for task in tasks]))


def _groups(files: Sequence[DataTask]) -> list[list[DataTask]]:
    """The files that share deletes, directly or by way of others, together."""
    leader = list(range(len(files)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    first_user: dict[tuple[str, int | None], int] = {}
    for number, task in enumerate(files):
        for file in task.deletes.files:
            leader[find(number)] = find(first_user.setdefault(file.place, number))
    groups: dict[int, list[DataTask]] = defaultdict(list)
    for number, task in enumerate(files):
        groups[find(number)].append(task)
    return list(groups.values())


def _cut(group: list[DataTask], target: int) -> Iterable[list[DataTask]]:
    """A group in pieces of at most `target` bytes of data, each file whole."""
    piece: list[DataTask] = []
    size = 0
    for index in longest_first([task.cost for task in group]):
        task = group[index]
        if piece and size + task.cost > target:
            yield piece
            piece, size = [], 0
        piece.append(task)
        size += task.cost
    yield piece


def _packed(pieces: Iterable[list[DataTask]], target: int) -> list[list[DataTask]]:
    """Small pieces together, each into the first task with room for it."""
    found: list[list[DataTask]] = []
    room: list[int] = []
    for piece in sorted(pieces, key=lambda piece: -sum(task.cost for task in piece)):
        size = sum(task.cost for task in piece)
        place = next((number for number, left in enumerate(room) if size <= left), None)
        if place is None:
            found.append(list(piece))
            room.append(target - size)
        else:
            found[place] += piece
            room[place] -= size
    return found
