"""A plan explained: what pruning left over, which deletes apply where, and how often each delete file is read."""

from dataclasses import asdict, dataclass
from typing import Any

from interbed.iceberg.meta.live_file import LiveFile
from interbed.iceberg.plan.plan import FilePlan
from interbed.storage.base.frozen import plain_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFileExplanation:
    """A data file to read, and the paths of the delete files that apply to it. Sizes in bytes."""

    path: str
    rows: int
    bytes: int
    sequence_number: int
    vector: str | None
    position_deletes: tuple[str, ...]
    equality_deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTaskExplanation:
    """Files that are read together; `delete_file_reads` is how many delete files that takes."""

    files: tuple[IcebergFileExplanation, ...]
    delete_file_reads: int


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergExplanation:
    """What a scan of an Iceberg table would do. `str` for people, `to_json` for programs."""

    table: str
    snapshot_id: int | None
    manifests_total: int
    manifests_read: int
    files_total: int
    files: int
    delete_file_reads: int
    tasks: tuple[IcebergTaskExplanation, ...]

    def to_json(self) -> dict[str, Any]:
        """The explanation as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return f"{self.table} has no snapshot; nothing to read"
        lines = [
            f"{self.table} at snapshot {self.snapshot_id}",
            f"  manifests     {self.manifests_read} read of {self.manifests_total}",
            f"  files         {self.files} to read of {self.files_total}",
            f"  delete files  {self.delete_file_reads} reads",
        ]
        for number, task in enumerate(self.tasks, 1):
            lines.append(f"  task {number}: {len(task.files)} files, {task.delete_file_reads} delete files")
            lines += [f"    {_line(file)}" for file in task.files]
        return "\n".join(lines)


def explain(table: str, plan: FilePlan) -> IcebergExplanation:
    """The explanation of a plan."""
    return IcebergExplanation(
        table=table,
        snapshot_id=plan.snapshot_id,
        manifests_total=plan.manifests_total,
        manifests_read=plan.manifests_read,
        files_total=plan.files_total,
        files=plan.files,
        delete_file_reads=plan.delete_file_reads,
        tasks=tuple(
            IcebergTaskExplanation(
                delete_file_reads=len(task.delete_files),
                files=tuple(
                    IcebergFileExplanation(
                        path=file.file.path,
                        rows=file.file.records,
                        bytes=file.file.size,
                        sequence_number=file.file.sequence_number,
                        vector=None if file.deletes.vector is None else file.deletes.vector.path,
                        position_deletes=_paths(file.deletes.positions),
                        equality_deletes=_paths(file.deletes.equality),
                    )
                    for file in task.files
                ),
            )
            for task in plan.tasks
        ),
    )


def _paths(files: tuple[LiveFile, ...]) -> tuple[str, ...]:
    return tuple(file.path for file in files)


def _line(file: IcebergFileExplanation) -> str:
    deletes = [
        *(["a vector"] if file.vector is not None else []),
        *([f"{len(file.position_deletes)} position delete files"] if file.position_deletes else []),
        *([f"{len(file.equality_deletes)} equality delete files"] if file.equality_deletes else []),
    ]
    without = f", without what {', '.join(deletes)} delete" if deletes else ""
    return f"{file.path}: {file.rows:,} rows, {file.bytes / 1024:,.0f} KiB{without}"
