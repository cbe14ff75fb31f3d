"""Compaction as a decision: which files of a bucket are rewritten together, and which only change their level.

Everything here is pure; `interbed.storage.lsm.compact.run` carries a unit out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.compact.strategy import Pick, pick_full
from interbed.storage.lsm.interval_partition import interval_partition
from interbed.storage.lsm.levels import Levels
from interbed.storage.lsm.sorted_run import SortedRun
from interbed.storage.meta.manifest.entry import DataFileMeta

Section = tuple[SortedRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Sections, in key order, whose rows are merged and written anew to the output level."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files of the sections."""
        return tuple(f for section in self.sections for run in section for f in run.files)


class UpgradeRule(StrEnum):
    """What moving a file to another level takes."""

    PLAIN = "plain"
    """Nothing but a change of its metadata."""
    WITH_CHANGELOG = "with changelog"
    """Its rows are news to those who read changes, so that a changelog is written; the file stays as it is."""
    REWRITE = "rewrite"
    """It must be written anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """A file that meets no other and goes to the output level as it is."""

    file: DataFileMeta
    with_changelog: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionUnit:
    """What is done to a bucket. With `drop_deletes` nothing older lies below the output level, so deletes end there."""

    output_level: int
    drop_deletes: bool
    steps: tuple[Rewrite | Upgrade, ...]

    @property
    def files_read(self) -> tuple[DataFileMeta, ...]:
        """The files that are read: all but those of which only the level changes."""
        read: list[DataFileMeta] = []
        for step in self.steps:
            if isinstance(step, Rewrite):
                read += step.files
            elif step.with_changelog:
                read.append(step.file)
        return tuple(read)


def plan_unit(
    pick: Pick,
    levels: Levels,
    key_types: Sequence[DataType],
    *,
    small_file_bytes: int,
    rule: Callable[[DataFileMeta, int], UpgradeRule] = lambda file, level: UpgradeRule.PLAIN,
    deletion_vectors: bool = False,
    is_expired: Callable[[DataFileMeta], bool] = lambda file: False,
    rewrite_all: bool = False,
) -> CompactionUnit | None:
    """How to carry out a pick; None when that changes nothing.

    Large files that meet no other are moved without a rewrite, unless `rule` (of a file and the output level) says
    otherwise or they hold deletes that end at the highest level; files smaller than `small_file_bytes` are rewritten
    together with their neighbours. `is_expired` says of files whether they have rows that end where nothing
    older lies below; `rewrite_all` rewrites every file. Follows Paimon's MergeTreeCompactTask.
    """
    level = pick.output_level
    oldest = max(r.level for r in levels.runs)
    # With deletion vectors older rows are marked where they lie, so that no delete has anything left to hide.
    drop_deletes = level != 0 and (level >= oldest or deletion_vectors)
    steps: list[Rewrite | Upgrade] = []
    pending: list[Section] = []

    def move_or_rewrite(file: DataFileMeta) -> None:
        # An unknown count may hide deletes, which must not reach the highest level.
        deletes = level == levels.max_level and file.delete_row_count != 0
        ends = level >= oldest and is_expired(file)
        if deletes or ends or rewrite_all:
            steps.append(Rewrite(sections=((SortedRun(files=(file,)),),)))
        elif file.level != level:
            how = rule(file, level)
            if how is UpgradeRule.REWRITE:
                steps.append(Rewrite(sections=((SortedRun(files=(file,)),),)))
            else:
                steps.append(Upgrade(file=file, with_changelog=how is UpgradeRule.WITH_CHANGELOG))

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
    """Files of the highest level each written anew by itself, for instance to apply deletion vectors; None for none."""
    steps = tuple(Rewrite(sections=((SortedRun(files=(f,)),),)) for f in files)
    return CompactionUnit(output_level=level, drop_deletes=True, steps=steps) if steps else None


def plan_full_compaction(
    levels: Levels, key_types: Sequence[DataType], *, small_file_bytes: int
) -> CompactionUnit | None:
    """Merge all runs into one at the highest level; None when they are one already."""
    pick = pick_full(levels)
    return None if pick is None else plan_unit(pick, levels, key_types, small_file_bytes=small_file_bytes)
