"""What a simulation notes: a step for each commit, every compaction, and quantities as curves over the commits."""

from dataclasses import dataclass
from statistics import fmean

from interbed.storage.lsm.compact.strategy import PickReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The bucket after a commit and its compaction. Sizes in bytes; what was given, flushed and compacted adds up.

    `waited` says whether the writer had more sorted runs than the stop trigger allows.
    """

    commit: int
    runs: int
    files: int
    total_bytes: int
    live_bytes: int
    given_bytes: int
    flushed_bytes: int
    compacted_bytes: int
    read_amplification: float
    waited: bool

    @property
    def write_amplification(self) -> float:
        """Bytes written so far for each byte given."""
        return (self.flushed_bytes + self.compacted_bytes) / self.given_bytes

    @property
    def space_amplification(self) -> float:
        """Bytes of files for each byte of live rows; 1 while there is nothing."""
        if not self.live_bytes:
            return 1.0 if not self.total_bytes else float("inf")
        return self.total_bytes / self.live_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCompaction:
    """One compaction: after which commit, why, and what it took. Sizes in bytes."""

    commit: int
    reason: PickReason
    detail: str
    output_level: int
    runs_merged: int
    runs_left: int
    files_rewritten: int
    files_moved: int
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One quantity over the commits."""

    name: str
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """The value at the end."""
        return self.values[-1]

    @property
    def mean(self) -> float:
        """The mean over the commits."""
        return fmean(self.values)

    @property
    def highest(self) -> float:
        """The greatest value."""
        return max(self.values)
