"""Options of versions: how long snapshots and tags stay.

Names and defaults are Paimon's (documentation: maintenance/configurations).
"""

from dataclasses import dataclass

from interbed.storage.option_reader import OptionReader
from interbed.storage.version.partition_expiry import ExpirationStrategy, PartitionTime


@dataclass(frozen=True, slots=True)
class VersionOptions(OptionReader):
    """The options of versions. Durations in milliseconds."""

    @property
    def snapshot_retain_max(self) -> int:
        """The most snapshots that an expiry leaves."""
        return self.integer("snapshot.num-retained.max", 2**31 - 1)

    @property
    def snapshot_retain_min(self) -> int:
        """The least snapshots that an expiry leaves."""
        return self.integer("snapshot.num-retained.min", 10)

    @property
    def snapshot_time_retained_millis(self) -> int:
        """How long a snapshot stays after it was followed by another."""
        return self.duration_millis("snapshot.time-retained", 3_600_000)

    @property
    def snapshot_expire_limit(self) -> int:
        """The most snapshots that one expiry deletes."""
        return self.integer("snapshot.expire.limit", 50)

    @property
    def tag_default_time_retained_millis(self) -> int | None:
        """How long new tags stay; None for ever."""
        return self.optional_duration_millis("tag.default-time-retained")

    @property
    def partition_expiration_millis(self) -> int | None:
        """How old partitions get; None for no bound."""
        return self.optional_duration_millis("partition.expiration-time")

    @property
    def partition_expiration_strategy(self) -> ExpirationStrategy:
        """What a partition's age is counted from."""
        return self.choice("partition.expiration-strategy", ExpirationStrategy.VALUES_TIME)

    @property
    def partition_expiration_max_num(self) -> int:
        """The most partitions that expire at a time."""
        return self.integer("partition.expiration-max-num", 100)

    @property
    def partition_time(self) -> PartitionTime:
        """How a partition's values name a time."""
        pattern = self.text("partition.timestamp-pattern", "") or None
        return PartitionTime(pattern, self.text("partition.timestamp-formatter", "") or None)
