"""A bucket that exists in memory only: files are sorted arrays of keys, with the metadata that decisions are made on.

Flushes and compaction units change it as they would change files; sizes follow from the number of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.lsm.compact.unit import CompactionUnit, Rewrite
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.manifest.data_file import DataFileMeta

KEY_TYPES = (AtomicType(root=TypeRoot.BIGINT, nullable=False),)
"""A simulated table has one key column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """Rows of a file: distinct positions of keys in order, and which of the rows delete."""

    positions: Ints
    deletes: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """What a compaction unit took. Sizes in bytes."""

    files_rewritten: int
    files_moved: int
    bytes_read: int
    bytes_written: int


class SimulatedBucket:
    """The live files of a bucket; `row_bytes` is the size of a row, `file_bytes` that at which files are rolled."""

    def __init__(self, *, num_levels: int, row_bytes: int, file_bytes: int) -> None:
        self._num_levels = num_levels
        self._row_bytes = row_bytes
        self._file_rows = max(1, file_bytes // row_bytes)
        self._files: dict[str, tuple[DataFileMeta, _Records]] = {}
        self._names = 0
        self._sequence = 0

    @property
    def levels(self) -> Levels:
        """The bucket's levels."""
        return Levels.of((meta for meta, _ in self._files.values()), self._num_levels)

    def flush(self, positions: Ints, deletes: Mask, *, now_millis: int) -> int:
        """Rows in the order of writing as new sorted runs of level 0; the bytes written."""
        # The last row of a key wins, so that the first of each key is looked for from behind.
        unique, last = np.unique(positions[::-1], return_index=True)
        first_sequence = self._sequence
        self._sequence += len(positions)
        records = _Records(positions=unique, deletes=deletes[::-1][last])
        return self._store(records, level=0, sequences=(first_sequence, self._sequence - 1), now_millis=now_millis)

    def compact(self, unit: CompactionUnit, *, now_millis: int) -> UnitCost:
        """Carry a unit out, and return its cost."""
        age = {f.file_name: i for i, run in enumerate(self.levels.runs) for f in run.run.files}
        read = written = rewritten = moved = 0
        for step in unit.steps:
            if not isinstance(step, Rewrite):
                _, records = self._files[step.file.file_name]
                self._files[step.file.file_name] = (step.file.upgraded(unit.output_level), records)
                moved += 1
                continue
            newest_first = sorted(step.files, key=lambda f: age[f.file_name])
            merged = self._merge(newest_first, drop_deletes=unit.drop_deletes)
            sequences = (
                min(f.min_sequence_number for f in newest_first),
                max(f.max_sequence_number for f in newest_first),
            )
            for file in newest_first:
                del self._files[file.file_name]
            read += sum(f.file_size for f in newest_first)
            rewritten += len(newest_first)
            written += self._store(merged, level=unit.output_level, sequences=sequences, now_millis=now_millis)
        return UnitCost(files_rewritten=rewritten, files_moved=moved, bytes_read=read, bytes_written=written)

    def runs_met(self, positions: Ints) -> float:
        """How many sorted runs have a file whose range of keys holds a position: the mean over positions, in order."""
        if not len(positions) or not self._files:
            return 0.0
        least = np.array([records.positions[0] for _, records in self._files.values()])
        greatest = np.array([records.positions[-1] for _, records in self._files.values()])
        covered = np.searchsorted(positions, greatest, "right") - np.searchsorted(positions, least, "left")
        return float(covered.sum()) / len(positions)

    def rows(self) -> Ints:
        """The positions of the keys that a scan finds, in order."""
        runs = [f for run in self.levels.runs for f in run.run.files]
        return self._merge(runs, drop_deletes=True).positions

    def _merge(self, newest_first: Sequence[DataFileMeta], *, drop_deletes: bool) -> _Records:
        records = [self._files[f.file_name][1] for f in newest_first]
        if not records:
            return _Records(positions=np.empty(0, np.int64), deletes=np.empty(0, np.bool_))
        positions, first = np.unique(np.concatenate([r.positions for r in records]), return_index=True)
        deletes = np.concatenate([r.deletes for r in records])[first]
        if drop_deletes:
            return _Records(positions=positions[~deletes], deletes=np.zeros(int((~deletes).sum()), np.bool_))
        return _Records(positions=positions, deletes=deletes)

    def _store(self, records: _Records, *, level: int, sequences: tuple[int, int], now_millis: int) -> int:
        """The records as files; the bytes of them all."""
        count = len(records.positions)
        starts = range(0, count, self._file_rows)
        ends = [min(start + self._file_rows, count) for start in starts]
        bounds = [records.positions[[start, end - 1]] for start, end in zip(starts, ends, strict=True)]
        keys = encode_rows([from_numpy(np.concatenate(bounds))], KEY_TYPES) if bounds else []
        for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
            part = _Records(positions=records.positions[start:end], deletes=records.deletes[start:end])
            self._names += 1
            name = f"data-{self._names:08d}.parquet"
            meta = DataFileMeta(
                file_name=name,
                file_size=(end - start) * self._row_bytes,
                row_count=end - start,
                min_key=keys[2 * i],
                max_key=keys[2 * i + 1],
                min_sequence_number=sequences[0],
                max_sequence_number=sequences[1],
                schema_id=0,
                level=level,
                creation_time_millis=now_millis,
                delete_row_count=int(part.deletes.sum()),
            )
            self._files[name] = (meta, part)
        return count * self._row_bytes
