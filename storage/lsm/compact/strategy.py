"""The strategy of universal compaction: the sorted runs of a bucket to merge, and the files to rewrite. No I/O.

A bucket is a list of sorted runs, newest first. A pick always takes a prefix of it, so that the result is newer than
all other runs. The rules are tried in this order (documentation page `primary-key-table/compaction`; details from
Paimon's UniversalCompaction, EarlyFullCompaction and ForceUpLevel0Compaction):

1. an early full compaction, by `compaction.optimization-interval` or by the sizes of the bucket;
2. size amplification: the newer runs together are larger than a percentage of the oldest run;
3. size ratio: the newest runs, as long as each is not much larger than all newer ones together;
4. the number of runs;
5. for tables that look up older rows: all of level 0, always or at every n-th opportunity.

If -D rows remove the row of their key, a pick of several runs with -D rows takes all runs. Paimon's does not: a merge
with only newer rows drops the -D row, and values that it removed reappear.

A unit executes a pick: overlapping files are rewritten together, other files only change their level.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.levels import LevelRun, Levels, SortedRun, interval_partition
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.lsm import LookupCompact, LsmOptions

NEVER = 0
"""The value of `force_up_level_0` for level 0 not being forced upward."""


class PickReason(StrEnum):
    """The rule that made a pick."""

    FULL = "full"
    INTERVAL = "optimization interval"
    TOTAL_SIZE = "total size"
    INCREMENTAL_SIZE = "incremental size"
    SIZE_AMPLIFICATION = "size amplification"
    SIZE_RATIO = "size ratio"
    RUN_COUNT = "number of sorted runs"
    LEVEL_0 = "level 0 upward"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPick:
    """The newest runs of a bucket, to be merged to the output level; `detail` is the reason in figures."""

    runs: tuple[LevelRun, ...]
    output_level: int
    reason: PickReason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PickContext:
    """The inputs of a pick in addition to the levels.

    `last_full_millis` is the time of the last full compaction (None if unknown). `skipped` counts the opportunities
    since level 0 was last forced upward. `hour` is the hour of the day in local time.
    """

    now_millis: int = 0
    hour: int = 0
    last_full_millis: int | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalStrategy:
    """The parameters of the rules; sizes in bytes. `force_up_level_0` is NEVER, 1 (always) or n (every n-th time).

    With `removals_take_all` runs with -D rows are merged only with all runs.
    """

    max_size_amplification_percent: int = 200
    size_ratio: int = 1
    compaction_trigger: int = 5
    optimization_interval_millis: int | None = None
    total_size_threshold: int | None = None
    incremental_size_threshold: int | None = None
    off_peak: tuple[int, int, int] = (-1, -1, 0)
    force_up_level_0: int = NEVER
    removals_take_all: bool = False

    @staticmethod
    def of(options: LsmOptions) -> "UniversalStrategy":
        """Return the strategy of a table's options."""
        force_up = 1 if options.force_up_level_0 else NEVER
        if options.needs_lookup:
            gentle = options.lookup_compact is LookupCompact.GENTLE
            force_up = options.lookup_compact_max_interval if gentle else 1
        return UniversalStrategy(
            max_size_amplification_percent=options.max_size_amplification_percent,
            size_ratio=options.size_ratio,
            compaction_trigger=options.compaction_trigger,
            optimization_interval_millis=options.optimization_interval_millis,
            total_size_threshold=options.compaction_total_size_threshold,
            incremental_size_threshold=options.compaction_incremental_size_threshold,
            off_peak=options.off_peak,
            force_up_level_0=force_up,
            # With deletion vectors older rows are marked in their files, so that none reappears.
            removals_take_all=options.deletes_remove_rows and not options.deletion_vectors_enabled,
        )

    def pick(self, levels: Levels, context: PickContext) -> CompactionPick | None:
        """Return the compaction that is due; None if nothing is due."""
        runs = levels.runs
        due = (
            self._early_full(levels, context)
            or self._size_amplification(levels)
            or self._size_ratio(levels, context)
            or self._run_count(levels, context)
        )
        if due is None and self.force_up_level_0 and context.skipped + 1 >= self.force_up_level_0:
            count = sum(r.level == 0 for r in runs)
            if count:
                detail = f"{count} run(s) of level 0"
                due = self._grown(levels, context, count, PickReason.LEVEL_0, detail, forced=True)
        if due is None or (len(due.runs) == 1 and due.runs[0].level == due.output_level):
            return None
        return self._with_removals(levels, due)

    def _with_removals(self, levels: Levels, due: CompactionPick) -> CompactionPick:
        # If the count is unknown there may be -D rows. A single run has each key once, so that no -D row is merged.
        deletes = any(f.delete_row_count != 0 for r in due.runs for f in r.run.files)
        if not self.removals_take_all or not deletes or len(due.runs) in (1, len(levels.runs)):
            return due
        return _full(levels, due.reason, f"{due.detail}; with deletions all runs")

    def skipped_after(self, pick: CompactionPick | None, context: PickContext) -> int:
        """Return the number of opportunities since level 0 was forced upward, after this pick."""
        if pick is not None and pick.reason is not PickReason.LEVEL_0:
            return context.skipped
        count = context.skipped + 1
        return 0 if count >= self.force_up_level_0 else count

    def _early_full(self, levels: Levels, context: PickContext) -> CompactionPick | None:
        runs = levels.runs
        if len(runs) < 2:
            return None
        interval, last = self.optimization_interval_millis, context.last_full_millis
        if interval is not None and (last is None or context.now_millis - last > interval):
            since = "never before" if last is None else f"{context.now_millis - last} ms ago"
            return _full(levels, PickReason.INTERVAL, f"last one {since}, due every {interval} ms")
        if self.total_size_threshold is not None and levels.byte_size < self.total_size_threshold:
            detail = f"{levels.byte_size} bytes in all < {self.total_size_threshold}"
            return _full(levels, PickReason.TOTAL_SIZE, detail)
        if self.incremental_size_threshold is not None:
            above = sum(r.run.byte_size for r in runs if r.level != levels.max_level)
            if above > self.incremental_size_threshold:
                detail = f"{above} bytes outside of level {levels.max_level} > {self.incremental_size_threshold}"
                return _full(levels, PickReason.INCREMENTAL_SIZE, detail)
        return None

    def _size_amplification(self, levels: Levels) -> CompactionPick | None:
        runs = levels.runs
        if not runs or len(runs) < self.compaction_trigger:
            return None
        newer = _size(runs[:-1])
        oldest = runs[-1].run.byte_size
        if newer * 100 <= self.max_size_amplification_percent * oldest:
            return None
        detail = f"{newer} bytes on top of {oldest} > {self.max_size_amplification_percent} %"
        return _full(levels, PickReason.SIZE_AMPLIFICATION, detail)

    def _size_ratio(self, levels: Levels, context: PickContext) -> CompactionPick | None:
        if len(levels.runs) < self.compaction_trigger:
            return None
        detail = f"runs at most {self.size_ratio} % larger than the newer ones together"
        return self._grown(levels, context, 1, PickReason.SIZE_RATIO, detail)

    def _run_count(self, levels: Levels, context: PickContext) -> CompactionPick | None:
        count = len(levels.runs)
        if count <= self.compaction_trigger:
            return None
        detail = f"{count} runs > {self.compaction_trigger}"
        return self._grown(levels, context, count - self.compaction_trigger + 1, PickReason.RUN_COUNT, detail)

    def _grown(
        self, levels: Levels, context: PickContext, count: int, reason: PickReason, detail: str, *, forced: bool = False
    ) -> CompactionPick | None:
        """Return the `count` newest runs, and older ones that are not much larger than all newer ones."""
        runs = levels.runs
        size = _size(runs[:count])
        triggered = forced or count > 1
        ratio = self.size_ratio + self._off_peak_ratio(context.hour)
        for following in runs[count:]:
            weight = following.run.byte_size
            # If something is compacted anyway, level 1 is included whatever its size.
            if size * (100.0 + ratio) / 100.0 < weight and (not triggered or following.level > 1):
                break
            size += weight
            count += 1
            triggered = True
        return _pick(levels, count, reason, detail) if triggered else None

    def _off_peak_ratio(self, hour: int) -> int:
        start, end, ratio = self.off_peak
        if -1 in (start, end) or start == end:
            return 0
        inside = start <= hour < end if start < end else hour >= start or hour < end
        return ratio if inside else 0


def pick_full(levels: Levels) -> CompactionPick | None:
    """Return all runs, for a requested full compaction; None if they are one run of the highest level already."""
    runs = levels.runs
    if not runs or (len(runs) == 1 and runs[0].level == levels.max_level):
        return None
    return _full(levels, PickReason.FULL, "asked for")


def _full(levels: Levels, reason: PickReason, detail: str) -> CompactionPick:
    return CompactionPick(runs=levels.runs, output_level=levels.max_level, reason=reason, detail=detail)


def _pick(levels: Levels, count: int, reason: PickReason, detail: str) -> CompactionPick:
    """Return the `count` newest runs, to the level below that of the next run; more runs if that is level 0."""
    runs = levels.runs
    level = levels.max_level if count == len(runs) else max(0, runs[count].level - 1)
    if level == 0:
        while count < len(runs):
            count += 1
            if runs[count - 1].level != 0:
                level = runs[count - 1].level
                break
    if count == len(runs):
        level = levels.max_level
    return CompactionPick(runs=runs[:count], output_level=level, reason=reason, detail=detail)


def _size(runs: Sequence[LevelRun]) -> int:
    return sum(r.run.byte_size for r in runs)


Section = tuple[SortedRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Sections, in key order, whose rows are merged and rewritten to the output level."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files of the sections."""
        return tuple(f for section in self.sections for run in section for f in run.files)


class UpgradeRule(StrEnum):
    """The work of moving a file to another level."""

    PLAIN = "plain"
    """Only the metadata changes."""
    WITH_CHANGELOG = "with changelog"
    """Its rows are changes, so that a changelog is written. The file itself is kept."""
    REWRITE = "rewrite"
    """The file must be rewritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelUpgrade:
    """A file that overlaps no other, and moves to the output level as it is."""

    file: DataFileMeta
    with_changelog: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionUnit:
    """The steps of a compaction. With `drop_deletes` delete records are dropped, because nothing older is below."""

    output_level: int
    drop_deletes: bool
    steps: tuple[Rewrite | LevelUpgrade, ...]

    @property
    def files_read(self) -> tuple[DataFileMeta, ...]:
        """The files that are read: all but those whose level changes only."""
        read: list[DataFileMeta] = []
        for step in self.steps:
            if isinstance(step, Rewrite):
                read += step.files
            elif step.with_changelog:
                read.append(step.file)
        return tuple(read)


def plan_unit(
    pick: CompactionPick,
    levels: Levels,
    key_types: Sequence[DataType],
    *,
    small_file_bytes: int,
    rule: Callable[[DataFileMeta, int], UpgradeRule] = lambda file, level: UpgradeRule.PLAIN,
    deletion_vectors: bool = False,
    is_expired: Callable[[DataFileMeta], bool] = lambda file: False,
    rewrite_all: bool = False,
) -> CompactionUnit | None:
    """Plan the execution of a pick; return None if it changes nothing.

    Large files that overlap no other are moved without a rewrite, unless `rule` (of a file and the output level)
    requires it, or they have delete records that are dropped at the highest level. Files smaller than
    `small_file_bytes` are rewritten together with their neighbours. `is_expired` returns whether a file has expired
    rows, which are dropped if no older level is below. `rewrite_all` rewrites every file. Follows Paimon's
    MergeTreeCompactTask.
    """
    level = pick.output_level
    oldest = max(r.level for r in levels.runs)
    # With deletion vectors older rows are marked in their files, so that delete records hide nothing.
    drop_deletes = level != 0 and (level >= oldest or deletion_vectors)
    steps: list[Rewrite | LevelUpgrade] = []
    pending: list[Section] = []

    def move_or_rewrite(file: DataFileMeta) -> None:
        # If the count is unknown there may be delete records, which must not reach the highest level.
        deletes = level == levels.max_level and file.delete_row_count != 0
        ends = level >= oldest and is_expired(file)
        if deletes or ends or rewrite_all:
            steps.append(Rewrite(sections=((SortedRun(files=(file,)),),)))
        elif file.level != level:
            how = rule(file, level)
            if how is UpgradeRule.REWRITE:
                steps.append(Rewrite(sections=((SortedRun(files=(file,)),),)))
            else:
                steps.append(LevelUpgrade(file=file, with_changelog=how is UpgradeRule.WITH_CHANGELOG))

    def flush_pending() -> None:
        if len(pending) == 1 and len(pending[0]) == 1:
            for file in pending[0][0].files:
                move_or_rewrite(file)
        elif pending:
            steps.append(Rewrite(sections=tuple(pending)))
        pending.clear()

    files = [f for run in pick.runs for f in run.run.files]
    for section in interval_partition(files, key_types):
        if len(section) > 1:
            pending.append(tuple(section))
            continue
        for file in section[0].files:
            if file.file_size < small_file_bytes:
                pending.append((SortedRun(files=(file,)),))
            else:
                flush_pending()
                move_or_rewrite(file)
    flush_pending()
    return CompactionUnit(output_level=level, drop_deletes=drop_deletes, steps=tuple(steps)) if steps else None


def plan_file_rewrite(files: Sequence[DataFileMeta], level: int) -> CompactionUnit | None:
    """Plan to rewrite single files of the highest level, for example to apply deletion vectors; None without files."""
    steps = tuple(Rewrite(sections=((SortedRun(files=(f,)),),)) for f in files)
    return CompactionUnit(output_level=level, drop_deletes=True, steps=steps) if steps else None


def plan_full_compaction(
    levels: Levels, key_types: Sequence[DataType], *, small_file_bytes: int
) -> CompactionUnit | None:
    """Plan to merge all runs into one at the highest level; return None if they are one already."""
    pick = pick_full(levels)
    return None if pick is None else plan_unit(pick, levels, key_types, small_file_bytes=small_file_bytes)
