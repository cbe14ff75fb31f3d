"""What a job makes of files of one snapshot, and whether the table, as it is by now, still may have it. Pure.

Rows that are written anew keep the sequence number of the snapshot that they were read from: keys deleted since then
delete them, older ones were applied. A data file whose keys became positions stays as old as it was.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from interbed.iceberg.commit.new_file import NewTableFile
from interbed.iceberg.meta.live_file import Content, LiveFile
from interbed.iceberg.plan.delete_index import DeleteIndex
from interbed.iceberg.plan.task import DataTask
from interbed.storage.base.errors import CommitConflictError

Place = tuple[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The outcome of a job over the snapshot `snapshot_id`.

    `rewritten` are data files that go, with the deletes that were applied to their rows; `converted` are data files
    that stay, and whose deletes are all in the added ones now. `known` are the deletes of that snapshot.
    """

    snapshot_id: int
    rewritten: tuple[DataTask, ...]
    converted: tuple[DataTask, ...]
    added: tuple[NewTableFile, ...]
    known: frozenset[Place]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes but that deletes of nothing go."""
        return not (self.rewritten or self.converted or self.added)


def files_to_remove(
    replacement: Replacement,
    data: Sequence[LiveFile],
    deletes: Sequence[LiveFile],
    is_unpartitioned: Callable[[int], bool],
    sequence_number: int,
) -> frozenset[Place]:
    """What the snapshot of that number lacks of the files that are live now: what was replaced, and all deletes that
    delete nothing any more. Raises CommitConflictError where others changed the files that were read.
    """
    now = {file.path: file for file in data}
    for task in (*replacement.rewritten, *replacement.converted):
        if now.get(task.file.path) != task.file:
            raise CommitConflictError(
                f"Another commit replaced {task.file.path} while it was optimized; plan it again."
            )
    _check_new_positions(replacement, deletes, is_unpartitioned)
    gone = {task.file.place for task in replacement.rewritten}
    vectors = {task.file.path: task.deletes.vector for task in replacement.converted}
    superseded = {
        file.place for file in deletes if file.is_vector and file.referenced is not None and file.referenced in vectors
    }
    left = [file for file in deletes if file.place not in superseded]
    added = [file.live(sequence_number) for file in replacement.added]
    index = DeleteIndex([*left, *(file for file in added if file.content is not Content.DATA)], is_unpartitioned)
    done = {task.file.path: {file.place for file in task.deletes.files} for task in replacement.converted}
    needed: set[Place] = set()
    remaining = [file for file in data if file.place not in gone]
    for file in (*remaining, *(file for file in added if file.content is Content.DATA)):
        needed.update(each.place for each in index.of(file).files if each.place not in done.get(file.path, ()))
    return frozenset(gone | superseded | {file.place for file in left if file.place not in needed})


def _check_new_positions(
    replacement: Replacement, deletes: Iterable[LiveFile], is_unpartitioned: Callable[[int], bool]
) -> None:
    """Positions are of files: what is deleted by them since the files were read would be back, or lost."""
    unknown = [
        file for file in deletes if file.content is Content.POSITION_DELETES and file.place not in replacement.known
    ]
    if not unknown:
        return
    index = DeleteIndex(unknown, is_unpartitioned)
    for task in replacement.rewritten:
        if index.of(task.file).files:
            raise CommitConflictError(f"Another commit deleted rows of {task.file.path} meanwhile; plan it again.")
    for task in replacement.converted:
        if index.of(task.file).vector is not None:
            raise CommitConflictError(f"Another commit deleted rows of {task.file.path} meanwhile; plan it again.")
