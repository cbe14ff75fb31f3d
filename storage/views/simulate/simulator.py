"""Universal compaction over a workload, without I/O: the strategy and the units of a writer, applied to numbers.

After each commit (or each n-th commit) the compaction of the writer may run, as it does in a table: one pick, executed
at once. Above `num-sorted-run.stop-trigger` the writer waits for an extra compaction.

A bucket exists in memory only: files are sorted arrays of keys, with the metadata that decisions are based on. Flushes
and compaction units change the bucket as they would change files; sizes follow from the number of rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.base.row.binary_row import encode_rows
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.lsm.compact.strategy import (
    CompactionUnit,
    PickContext,
    Rewrite,
    UniversalStrategy,
    UpgradeRule,
    pick_full,
    plan_unit,
)
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.views.simulate.simulation import SimulatedCompaction, Simulation, SimulationStep
from interbed.storage.views.simulate.workload import CommitRows, Workload

KEY_TYPES = (AtomicType(root=TypeRoot.BIGINT, nullable=False),)
"""The key columns of a simulated table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """The rows of a file: distinct positions of keys in order, and the mask of the rows that delete."""

    positions: Ints
    deletes: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """The cost of a compaction unit. Sizes in bytes."""

    files_rewritten: int
    files_moved: int
    bytes_read: int
    bytes_written: int


class SimulatedBucket:
    """The live files of a bucket; `row_bytes` is the size of a row, `file_bytes` the target size of files."""

    def __init__(self, *, num_levels: int, row_bytes: int, file_bytes: int) -> None:
        self._num_levels = num_levels
        self._row_bytes = row_bytes
        self._file_rows = max(1, file_bytes // row_bytes)
        self._files: dict[str, tuple[DataFileMeta, _Records]] = {}
        self._names = 0
        self._sequence = 0

    @property
    def levels(self) -> Levels:
        """The levels of the bucket."""
        return Levels.of((meta for meta, _ in self._files.values()), self._num_levels)

    def flush(self, positions: Ints, deletes: Mask, *, now_millis: int) -> int:
        """Write rows, in write order, as new files of level 0; return the bytes written."""
        # The last row of a key wins, so the first row of each key in reverse order is taken.
        unique, last = np.unique(positions[::-1], return_index=True)
        first_sequence = self._sequence
        self._sequence += len(positions)
        records = _Records(positions=unique, deletes=deletes[::-1][last])
        return self._store(records, level=0, sequences=(first_sequence, self._sequence - 1), now_millis=now_millis)

    def compact(self, unit: CompactionUnit, *, now_millis: int) -> UnitCost:
        """Execute a unit, and return its cost."""
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

    def runs_containing(self, positions: Ints) -> float:
        """Return the mean number of sorted runs with a file whose key range contains a position; positions ascend."""
        if not len(positions) or not self._files:
            return 0.0
        least = np.array([records.positions[0] for _, records in self._files.values()])
        greatest = np.array([records.positions[-1] for _, records in self._files.values()])
        covered = np.searchsorted(positions, greatest, "right") - np.searchsorted(positions, least, "left")
        return float(covered.sum()) / len(positions)

    def rows(self) -> Ints:
        """Return the positions of the live keys, in order."""
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
        """Store the records as files; return their size in bytes."""
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


SAMPLED_KEYS = 1024
"""The number of live keys that are sampled for the read amplification at each commit."""
_ALMOST = 0.9
"""The similarity from 0 to 1 at which a name is taken for a misspelled option."""
_MILLIS_PER_HOUR = 3_600_000


def simulate(
    workload: Workload, options: Mapping[str, str] | None = None, *, compact_every: int = 1, label: str = ""
) -> Simulation:
    """Simulate the writes of a workload into a table with these options.

    The options of compaction, levels, file sizes and the write buffer apply; a row has the same size in the buffer and
    in a file. `compact_every` is the number of commits between compactions. Lookups, changelogs and deletion vectors
    are not counted. Raises InvalidOptionError and InvalidInputError.
    """
    core = _checked(options or {})
    if compact_every < 1:
        raise InvalidInputError(f"Compaction runs every n commits, with n at least 1, not {compact_every}.")
    simulator = _Simulator(workload, core, compact_every)
    steps = tuple(simulator.step(number, rows) for number, rows in enumerate(workload.batches(), start=1))
    return Simulation(
        label=label,
        workload=workload,
        options=dict(options or {}),
        compact_every=compact_every,
        compaction_trigger=core.compaction_trigger,
        stop_trigger=core.stop_trigger,
        steps=steps,
        compactions=tuple(simulator.compactions),
    )


class _RecordingOptions(dict[str, str]):
    """A map that records the keys that were read."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


def _checked(options: Mapping[str, str]) -> CoreOptions:
    """Return the options; raises InvalidOptionError for a misspelled name, which would have no effect.

    Other unknown names are accepted, because they may be options that do not concern compaction.
    """
    recording = _RecordingOptions(options)
    CoreOptions(recording).check()
    for key in options:
        like = [] if key in recording.asked else get_close_matches(key, recording.asked, 1, _ALMOST)
        if like:
            raise InvalidOptionError(f"There is no option '{key}'; is '{like[0]}' meant?")
    return CoreOptions(dict(options))


class _Simulator:
    """The state of a simulation: the bucket, the live keys, and the bytes written so far."""

    def __init__(self, workload: Workload, options: CoreOptions, compact_every: int) -> None:
        self.compactions: list[SimulatedCompaction] = []
        self._workload = workload
        self._options = options
        self._every = compact_every
        self._strategy = UniversalStrategy.of(options)
        target = options.target_file_size_for(primary_key=True)
        self._small_file_bytes = int(target * options.small_file_ratio)
        self._flush_rows = max(1, options.write_buffer_size // workload.row_bytes)
        self._bucket = SimulatedBucket(
            num_levels=options.num_levels, row_bytes=workload.row_bytes, file_bytes=max(1, target)
        )
        self._live = np.zeros(0, np.bool_)
        self._random = np.random.default_rng((workload.seed, 1))
        self._last_full_millis: int | None = None
        self._skipped = 0
        self._flushed = self._compacted = self._given = 0

    def step(self, number: int, rows: CommitRows) -> SimulationStep:
        """Simulate one commit, and the compaction after it."""
        workload = self._workload
        now = (number - 1) * workload.interval_millis
        waited = self._write(number, rows, now)
        self._update_live(rows)
        delta_commits = self._options.full_compaction_delta_commits
        if delta_commits is not None and number % max(1, delta_commits) == 0:
            self._compact(number, now, full=True)
        levels = self._bucket.levels
        live_rows = int(self._live.sum())
        live_bytes = live_rows * workload.row_bytes
        return SimulationStep(
            commit=number,
            runs=len(levels.runs),
            files=len(levels.files),
            total_bytes=levels.byte_size,
            live_bytes=live_bytes,
            given_bytes=self._given,
            flushed_bytes=self._flushed,
            compacted_bytes=self._compacted,
            read_amplification=self._bucket.runs_containing(self._sample(live_rows)),
            waited=waited,
        )

    def _write(self, number: int, rows: CommitRows, now: int) -> bool:
        """Flush the rows, one buffer at a time; return whether the writer waited for a compaction."""
        waited = False
        positions = self._workload.positions(rows.keys)
        for start in range(0, len(positions), self._flush_rows):
            end = start + self._flush_rows
            self._flushed += self._bucket.flush(positions[start:end], rows.deletes[start:end], now_millis=now)
            is_due = number % self._every == 0
            stopped = len(self._bucket.levels.runs) > self._options.stop_trigger
            if is_due or stopped:
                self._compact(number, now)
            waited |= stopped
        self._given += len(positions) * self._workload.row_bytes
        return waited

    def _compact(self, number: int, now: int, *, full: bool = False) -> None:
        levels = self._bucket.levels
        context = PickContext(
            now_millis=now,
            hour=now // _MILLIS_PER_HOUR % 24,
            last_full_millis=self._last_full_millis,
            skipped=self._skipped,
        )
        if full:
            pick = pick_full(levels)
        else:
            pick = self._strategy.pick(levels, context)
            self._skipped = self._strategy.skipped_after(pick, context)
        if pick is None:
            return
        if len(pick.runs) == len(levels.runs):
            self._last_full_millis = now
        unit = plan_unit(
            pick,
            levels,
            KEY_TYPES,
            small_file_bytes=self._small_file_bytes,
            rule=lambda file, level: self._upgrade_rule(file, level, levels.max_level),
            deletion_vectors=self._options.deletion_vectors_enabled,
            rewrite_all=self._options.force_rewrite_all_files,
        )
        if unit is None:
            return
        cost = self._bucket.compact(unit, now_millis=now)
        self._compacted += cost.bytes_written
        self.compactions.append(
            SimulatedCompaction(
                commit=number,
                reason=pick.reason,
                detail=pick.detail,
                output_level=pick.output_level,
                runs_merged=len(pick.runs),
                runs_left=len(self._bucket.levels.runs),
                files_rewritten=cost.files_rewritten,
                files_moved=cost.files_moved,
                bytes_read=cost.bytes_read,
                bytes_written=cost.bytes_written,
            )
        )

    def _upgrade_rule(self, file: DataFileMeta, level: int, max_level: int) -> UpgradeRule:
        """Return the rule of LookupCompactionChanges: incomplete rows of level 0 are rewritten."""
        options = self._options
        if file.level != 0 or not options.needs_lookup:
            return UpgradeRule.PLAIN
        alone = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
        deletes = options.deletion_vectors_enabled and file.delete_row_count != 0
        return UpgradeRule.REWRITE if deletes or not (alone or level == max_level) else UpgradeRule.PLAIN

    def _update_live(self, rows: CommitRows) -> None:
        known = int(rows.keys.max()) + 1
        if known > len(self._live):
            self._live = np.concatenate([self._live, np.zeros(known - len(self._live), np.bool_)])
        # If a key occurs several times, the last assignment wins, as the last row does.
        self._live[rows.keys] = ~rows.deletes

    def _sample(self, live_rows: int) -> Ints:
        """Return the positions of some of the live keys, in order."""
        if not live_rows:
            return np.empty(0, np.int64)
        keys = np.flatnonzero(self._live)[self._random.integers(0, live_rows, SAMPLED_KEYS)]
        return np.sort(self._workload.positions(keys.astype(np.int64)))
