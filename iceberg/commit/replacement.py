"""A replacement of files of one snapshot by new ones, and its conflicts with newer snapshots. Pure.

Rewritten rows keep the sequence number of the snapshot that they were read from: later equality deletes delete them,
and earlier ones were applied. A data file whose equality deletes became positions keeps its own sequence number. A
`NewTableFile`, data or deletes, has everything for its manifest entry.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.typedef import Record

from interbed.iceberg.meta.live_files import FileContent, LiveFile
from interbed.iceberg.meta.manifests import NEWEST_VERSION
from interbed.iceberg.plan import DataTask, DeleteIndex
from interbed.storage.base.errors import CommitConflictError


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTableFile:
    """A new file; can be sent to another process. Metrics are by the ids of columns, under Iceberg's names of fields.

    `sequence_number` is that of its rows if it is older than the commit. `partition` is as in LiveFile.
    """

    path: str
    content: FileContent
    file_format: str
    spec_id: int
    partition: tuple[object, ...]
    records: int
    size: int
    sequence_number: int | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def live(self, sequence_number: int) -> LiveFile:
        """Return the file as the plan of a reader has it, after a commit with that sequence number."""
        return LiveFile(
            path=self.path,
            content=self.content,
            file_format=self.file_format,
            spec_id=self.spec_id,
            partition=self.partition,
            records=self.records,
            size=self.size,
            sequence_number=sequence_number if self.sequence_number is None else self.sequence_number,
            referenced=self.referenced,
            offset=self.offset,
            length=self.length,
        )

    def entry(self, snapshot_id: int) -> ManifestEntry:
        """Return its entry in a manifest of the snapshot that adds it."""
        file = DataFile.from_args(
            _table_format_version=NEWEST_VERSION,
            content=DataFileContent(int(self.content)),
            file_path=self.path,
            file_format=FileFormat(self.file_format.upper()),
            partition=Record(*map(_value_of, self.partition)),
            record_count=self.records,
            file_size_in_bytes=self.size,
            referenced_data_file=self.referenced,
            content_offset=self.offset,
            content_size_in_bytes=self.length,
            **self.metrics,
        )
        file.spec_id = self.spec_id
        return ManifestEntry.from_args(
            _table_format_version=NEWEST_VERSION,
            status=ManifestEntryStatus.ADDED,
            snapshot_id=snapshot_id,
            sequence_number=self.sequence_number,
            file_sequence_number=None,
            data_file=file,
        )


def _value_of(key: object) -> object:
    """Return the value of a key of `live_file`, which differs for NaN."""
    return float("nan") if key == "NaN" else key


Place = tuple[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReplacement:
    """The result of a job over the snapshot `snapshot_id`.

    `rewritten` are data files to remove, with the deletes that were applied to their rows. `converted` are data files
    that are kept, and whose deletes are all in the added ones now. `known` are the deletes of that snapshot.
    """

    snapshot_id: int
    rewritten: tuple[DataTask, ...]
    converted: tuple[DataTask, ...]
    added: tuple[NewTableFile, ...]
    known: frozenset[Place]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes, except that delete files without effect are removed."""
        return not (self.rewritten or self.converted or self.added)


def files_to_remove(
    replacement: FileReplacement,
    data: Sequence[LiveFile],
    deletes: Sequence[LiveFile],
    is_unpartitioned: Callable[[int], bool],
    sequence_number: int,
) -> frozenset[Place]:
    """Return the live files that the snapshot with that sequence number removes: replaced files, and deletes without
    effect.

    Raises CommitConflictError if another commit changed the files that were read.
    """
    now = {file.path: file for file in data}
    for task in (*replacement.rewritten, *replacement.converted):
        if now.get(task.file.path) != task.file:
            raise CommitConflictError(
                f"Another commit replaced {task.file.path} while it was optimized; plan it again."
            )
    _check_new_positions(replacement, deletes, is_unpartitioned)
    replaced = {task.file.place for task in replacement.rewritten}
    vectors = {task.file.path: task.deletes.vector for task in replacement.converted}
    superseded = {
        file.place for file in deletes if file.is_vector and file.referenced is not None and file.referenced in vectors
    }
    left = [file for file in deletes if file.place not in superseded]
    added = [file.live(sequence_number) for file in replacement.added]
    index = DeleteIndex([*left, *(file for file in added if file.content is not FileContent.DATA)], is_unpartitioned)
    done = {task.file.path: {file.place for file in task.deletes.files} for task in replacement.converted}
    needed: set[Place] = set()
    remaining = [file for file in data if file.place not in replaced]
    for file in (*remaining, *(file for file in added if file.content is FileContent.DATA)):
        needed.update(each.place for each in index.of(file).files if each.place not in done.get(file.path, ()))
    return frozenset(replaced | superseded | {file.place for file in left if file.place not in needed})


def _check_new_positions(
    replacement: FileReplacement, deletes: Iterable[LiveFile], is_unpartitioned: Callable[[int], bool]
) -> None:
    """Refuse newer position deletes of the replaced files: their rows would be restored, or the deletes lost."""
    unknown = [
        file for file in deletes if file.content is FileContent.POSITION_DELETES and file.place not in replacement.known
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
