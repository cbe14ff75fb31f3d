"""How far a table's snapshots are in its log, as whoever wrote last to the log has noted it.

    <location>/log/LATEST
    {"snapshot": 7, "offsets": {"0": 120, "1": 98}, "line": 0}

All snapshots up to `snapshot` are in the log, before the offsets; partitions of the log are numbered like buckets;
`line` counts how often the table was taken back to an earlier snapshot, as far as the log knows. The note is written
after what it says is true, so that it may be late and never early. It is where readers begin, what a commit puts into
its snapshot as `logOffsets`, and what keeps snapshots from expiring that are not in the log yet.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta.json_object import read_object
from interbed.storage.meta.paths import TablePaths


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """All snapshots up to `snapshot` are before `offsets`, which has the next offset of each partition of the log."""

    snapshot: int
    offsets: Mapping[int, int]
    line: int = 0

    @property
    def as_log_offsets(self) -> dict[str, int]:
        """The offsets as a snapshot has them."""
        return {str(partition): offset for partition, offset in sorted(self.offsets.items())}

    @staticmethod
    def offsets_of(log_offsets: Mapping[str, int] | None) -> dict[int, int]:
        """The offsets that a snapshot has, by partition; empty when it has none. CorruptFileError."""
        try:
            return {int(partition): int(offset) for partition, offset in (log_offsets or {}).items()}
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"A snapshot has log offsets that are none: {log_offsets!r}.") from error


class LogPositions:
    """The note of one table."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._path = paths.log_position

    def read(self) -> LogPosition | None:
        """The note, None when there is none; raises CorruptFileError naming the file, StorageAccessError."""
        try:
            content = self._file_io.read_bytes(self._path)
        except FileNotFoundError:
            return None
        what = "a note of how far a table is in its log"
        members = {"snapshot": int, "offsets": dict, "line": int}
        found = read_object(content, members, source=self._path, what=what)
        try:
            return LogPosition(
                snapshot=int(found["snapshot"]),
                offsets={int(p): int(o) for p, o in found["offsets"].items()},
                line=int(found.get("line") or 0),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(
                f"{self._path} is not {what}: {error}. Remove it; the next publication writes it anew."
            ) from error

    def write(self, position: LogPosition) -> None:
        """Note it; raises StorageAccessError."""
        content = {"snapshot": position.snapshot, "offsets": position.as_log_offsets, "line": position.line}
        self._file_io.overwrite(self._path, json.dumps(content).encode())

    def delete(self) -> None:
        """Forget it; it need not be there. Raises StorageAccessError."""
        self._file_io.delete(self._path)
