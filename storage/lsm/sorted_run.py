"""A sorted run: data files of one bucket whose key ranges do not overlap, in key order."""

from dataclasses import dataclass

from interbed.storage.meta.manifest.entry import DataFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """Files in key order; within a run every key occurs at most once."""

    files: tuple[DataFileMeta, ...]

    @property
    def row_count(self) -> int:
        """Records in the files."""
        return sum(f.row_count for f in self.files)

    @property
    def byte_size(self) -> int:
        """Bytes of the files."""
        return sum(f.file_size for f in self.files)

    @property
    def min_sequence_number(self) -> int:
        """The least sequence number in the run."""
        return min(f.min_sequence_number for f in self.files)

    @property
    def max_sequence_number(self) -> int:
        """The greatest sequence number in the run."""
        return max(f.max_sequence_number for f in self.files)

    @property
    def may_have_deletes(self) -> bool:
        """Whether any file holds, or for want of a count might hold, records that delete their key."""
        return any(f.delete_row_count is None or f.delete_row_count > 0 for f in self.files)
