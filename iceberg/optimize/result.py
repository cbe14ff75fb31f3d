"""What an optimization of an Iceberg table did."""

from dataclasses import asdict, dataclass
from typing import Any

from interbed.iceberg.commit.replacement import Replacement
from interbed.iceberg.meta.live_file import Content
from interbed.storage.base.frozen import plain_errors


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCompaction:
    """What was done; `snapshot_id` is None when there was nothing to do. Sizes in bytes.

    `rewritten` data files became `written` ones; the deletes of `converted` ones are in `deletes_written` files now.
    """

    snapshot_id: int | None
    rewritten: int
    rewritten_bytes: int
    rewritten_rows: int
    written: int
    written_bytes: int
    written_rows: int
    converted: int
    deletes_read: int
    deletes_written: int

    @staticmethod
    def of(snapshot_id: int | None, replacement: Replacement) -> "IcebergCompaction":
        """The result of a commit."""
        before = [task.file for task in replacement.rewritten]
        after = [file for file in replacement.added if file.content is Content.DATA]
        deletes = {
            file.place for task in (*replacement.rewritten, *replacement.converted) for file in task.deletes.files
        }
        return IcebergCompaction(
            snapshot_id=snapshot_id,
            rewritten=len(before),
            rewritten_bytes=sum(file.size for file in before),
            rewritten_rows=sum(file.records for file in before),
            written=len(after),
            written_bytes=sum(file.size for file in after),
            written_rows=sum(file.records for file in after),
            converted=len(replacement.converted),
            deletes_read=len(deletes),
            deletes_written=len(replacement.added) - len(after),
        )

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return "nothing to optimize"
        parts = []
        if self.rewritten:
            parts.append(
                f"{self.rewritten} data file(s) of {self.rewritten_rows:,} rows became {self.written} of "
                f"{self.written_rows:,} ({self.rewritten_bytes:,} -> {self.written_bytes:,} bytes)"
            )
        if self.converted:
            parts.append(f"of {self.converted} data file(s) the deletes were put together")
        parts.append(f"{self.deletes_read} delete file(s) became {self.deletes_written}")
        return f"{', '.join(parts)}, snapshot {self.snapshot_id}"

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return asdict(self)
