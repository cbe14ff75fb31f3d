"""Results of compactions, and plans of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interbed.storage.base.errors import plain_errors
from interbed.storage.write.commit_message import CommitMessage

Progress = Callable[[int, int], None]
"""Callback after each bucket, with the number of finished buckets and their total."""


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """Result of a compaction. `snapshot_id` is None when there was nothing to do. Sizes in bytes."""

    snapshot_id: int | None
    buckets: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_before: int
    rows_after: int

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return "nothing to compact"
        return (
            f"{self.buckets} bucket(s): {self.files_before} files of {self.rows_before:,} records became "
            f"{self.files_after} of {self.rows_after:,} ({self.bytes_before:,} -> {self.bytes_after:,} bytes), "
            f"snapshot {self.snapshot_id}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return asdict(self)


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCompaction:
    """Plan of a compaction of one bucket, and its reason. Sizes in bytes; files that move are not rewritten."""

    partition: Mapping[str, str]
    bucket: int
    reason: str
    detail: str
    output_level: int
    files_rewritten: int
    bytes_rewritten: int
    rows_rewritten: int
    files_moved: int
    runs_before: int
    runs_after: int

    def __str__(self) -> str:
        place = "/".join(f"{k}={v}" for k, v in self.partition.items())
        return (
            f"{place + ' ' if place else ''}bucket {self.bucket}: {self.reason} ({self.detail}): rewrite "
            f"{self.files_rewritten} file(s), {self.rows_rewritten:,} records, {self.bytes_rewritten:,} bytes, move "
            f"{self.files_moved}, to level {self.output_level}; {self.runs_before} -> {self.runs_after} sorted runs"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return asdict(self)


def result_of(snapshot_id: int | None, messages: Sequence[CommitMessage]) -> CompactionResult:
    """Return the result of a compaction with these messages."""
    before = [f for m in messages for f in m.compaction.before]
    after = [f for m in messages for f in m.compaction.after]
    return CompactionResult(
        snapshot_id=snapshot_id,
        buckets=len(messages),
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(f.file_size for f in before),
        bytes_after=sum(f.file_size for f in after),
        rows_before=sum(f.row_count for f in before),
        rows_after=sum(f.row_count for f in after),
    )
