"""Options of self-optimizing: whether and when the optimizer service of a catalog works on a table.

Names and defaults are Apache Amoro's (documentation: user-guides/configurations), so that a table that Amoro optimizes
needs no others. Its times are milliseconds; here they may also have a unit. Three options are interbed's own: the
greatest read amplification of a table, and the order of its rows with its strategy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.reader import OptionReader

OPTIMIZING_ENABLED = "self-optimizing.enabled"
OPTIMIZING_GROUP = "self-optimizing.group"
OPTIMIZING_QUOTA = "self-optimizing.quota"
OPTIMIZING_TARGET_SIZE = "self-optimizing.target-size"
OPTIMIZING_FILE_COUNT = "self-optimizing.minor.trigger.file-count"
OPTIMIZING_MINOR_INTERVAL = "self-optimizing.minor.trigger.interval"
OPTIMIZING_DUPLICATE_RATIO = "self-optimizing.major.trigger.duplicate-ratio"
OPTIMIZING_FULL_INTERVAL = "self-optimizing.full.trigger.interval"
OPTIMIZING_REWRITES_ALL = "self-optimizing.full.rewrite-all-files"
OPTIMIZING_READ_AMPLIFICATION = "self-optimizing.max-read-amplification"
OPTIMIZING_ORDER_BY = "self-optimizing.order-by"
OPTIMIZING_ORDER_STRATEGY = "self-optimizing.order-strategy"


class OptimizingOrder(StrEnum):
    """Combination of several columns to one order: one after the other, or by a curve through all of them."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True)
class OptimizingOptions(OptionReader):
    """Options of self-optimizing. Sizes in bytes, durations in milliseconds."""

    @property
    def optimizing_enabled(self) -> bool:
        """Whether the optimizer maintains the table."""
        return self.boolean(OPTIMIZING_ENABLED, True)

    @property
    def optimizing_group(self) -> str:
        """Group of the optimizer that works on the table."""
        group = self.text(OPTIMIZING_GROUP, "default").strip()
        if not group:
            raise self._refused(OPTIMIZING_GROUP, f"Option '{OPTIMIZING_GROUP}' takes the name of a group, not ''.")
        return group

    @property
    def optimizing_quota(self) -> float:
        """Share of its group's time that the table may take, at most 1."""
        quota = self.number(OPTIMIZING_QUOTA, 0.5)
        # Amoro also accepts numbers of threads; here only a share of time. NaN is refused, too.
        if not 0 < quota <= 1:
            raise self._invalid(OPTIMIZING_QUOTA, "a share of its group's time, more than 0 and at most 1")
        return quota

    @property
    def optimizing_target_size(self) -> int | None:
        """Target size of files in bytes; None for the target size of the table's files."""
        size = self.optional_memory(OPTIMIZING_TARGET_SIZE)
        if size is not None and size < 1:
            raise self._invalid(OPTIMIZING_TARGET_SIZE, "a size of at least 1 byte")
        return size

    @property
    def optimizing_file_count(self) -> int:
        """Number of small files that makes a minor compaction due."""
        count = self.integer(OPTIMIZING_FILE_COUNT, 12)
        if count < 1:
            raise self._invalid(OPTIMIZING_FILE_COUNT, "a number of at least 1")
        return count

    @property
    def optimizing_minor_interval_millis(self) -> int | None:
        """Time after which fewer small files make a minor compaction due; -1 for never."""
        return self.interval_millis(OPTIMIZING_MINOR_INTERVAL, 3_600_000)

    @property
    def optimizing_duplicate_ratio(self) -> float:
        """Share of a bucket's records that delete or are deleted, from which on a major compaction is due."""
        ratio = self.number(OPTIMIZING_DUPLICATE_RATIO, 0.1)
        if not 0 <= ratio <= 1:
            raise self._invalid(OPTIMIZING_DUPLICATE_RATIO, "a number from 0 to 1")
        return ratio

    @property
    def optimizing_full_interval_millis(self) -> int | None:
        """Interval at which a full compaction is due whatever the files are; -1 for never."""
        return self.interval_millis(OPTIMIZING_FULL_INTERVAL, None)

    @property
    def optimizing_rewrites_all(self) -> bool:
        """Whether a full compaction that is due by time rewrites every file, or only those that need it."""
        return self.boolean(OPTIMIZING_REWRITES_ALL, True)

    @property
    def optimizing_read_amplification(self) -> float | None:
        """Average number of sorted runs that a read merges, above which a compaction is due; None for any number."""
        if OPTIMIZING_READ_AMPLIFICATION not in self.raw:
            return None
        most = self.number(OPTIMIZING_READ_AMPLIFICATION, 1.0)
        if not (most >= 1 and math.isfinite(most)):
            raise self._invalid(
                OPTIMIZING_READ_AMPLIFICATION, "a number of at least 1, which is that of one sorted run"
            )
        return most

    @property
    def optimizing_order_by(self) -> tuple[str, ...]:
        """Columns in whose order the rows of an append table are kept."""
        return self.names(OPTIMIZING_ORDER_BY)

    @property
    def optimizing_order_strategy(self) -> OptimizingOrder:
        """Combination of the columns of `self-optimizing.order-by` to one order."""
        return self.choice(OPTIMIZING_ORDER_STRATEGY, OptimizingOrder.ORDER)

    def _invalid(self, key: str, takes: str) -> InvalidOptionError:
        return self._refused(key, f"Option '{key}' takes {takes}, not '{self.raw.get(key)}'.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfOptimizing:
    """A table's options for the optimizer, as values. Sizes in bytes, times in milliseconds.

    None means: the table's own target for `target_size`, never for the intervals, no bound for
    `max_read_amplification`.
    """

    enabled: bool = True
    group: str = "default"
    quota: float = 0.5
    target_size: int | None = None
    minor_file_count: int = 12
    minor_interval_millis: int | None = 3_600_000
    major_duplicate_ratio: float = 0.1
    full_interval_millis: int | None = None
    full_rewrites_all_files: bool = True
    max_read_amplification: float | None = None
    order_by: tuple[str, ...] = ()
    order_strategy: OptimizingOrder = OptimizingOrder.ORDER

    @staticmethod
    def of(options: Mapping[str, str]) -> "SelfOptimizing":
        """Return the values of the options; raises InvalidOptionError for an invalid value."""
        read = OptimizingOptions(options)
        return SelfOptimizing(
            enabled=read.optimizing_enabled,
            group=read.optimizing_group,
            quota=read.optimizing_quota,
            target_size=read.optimizing_target_size,
            minor_file_count=read.optimizing_file_count,
            minor_interval_millis=read.optimizing_minor_interval_millis,
            major_duplicate_ratio=read.optimizing_duplicate_ratio,
            full_interval_millis=read.optimizing_full_interval_millis,
            full_rewrites_all_files=read.optimizing_rewrites_all,
            max_read_amplification=read.optimizing_read_amplification,
            order_by=read.optimizing_order_by,
            order_strategy=read.optimizing_order_strategy,
        )
