"""Options of sort compaction (documentation page `maintenance/dedicated-compaction`, sort compact)."""

from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.meta.options.reader import OptionReader


class RangeStrategy(StrEnum):
    """What ranges of sorted rows have about the same of."""

    SIZE = "size"
    QUANTITY = "quantity"


@dataclass(frozen=True, slots=True)
class SortOptions(OptionReader):
    """The options of sort compaction."""

    @property
    def sort_range_strategy(self) -> RangeStrategy:
        """Whether the ranges of a sort have the same bytes or the same number of rows."""
        return self.choice("sort-compaction.range-strategy", RangeStrategy.SIZE)

    @property
    def sort_sample_magnification(self) -> int:
        """How many rows are sampled for each range of a sort; a sort takes 20 at least."""
        return self.integer("sort-compaction.local-sample.magnification", 1000)
