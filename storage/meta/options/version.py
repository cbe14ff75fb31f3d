"""Options of versions: how long snapshots and tags stay.

Names and defaults are Paimon's (documentation: maintenance/configurations).
"""

from dataclasses import dataclass
from datetime import timedelta

from interbed.storage.meta.options.partition_time import ExpirationStrategy, PartitionTime
from interbed.storage.meta.options.reader import OptionReader
from interbed.storage.meta.snapshot.tag_period import CreationPeriod, PeriodFormatter, TagCreation


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
    def changelog_retain_max(self) -> int:
        """The most changelogs that an expiry leaves, counted with the snapshots."""
        return self.integer("changelog.num-retained.max", self.snapshot_retain_max)

    @property
    def changelog_retain_min(self) -> int:
        """The least changelogs that an expiry leaves, counted with the snapshots."""
        return self.integer("changelog.num-retained.min", self.snapshot_retain_min)

    @property
    def changelog_time_retained_millis(self) -> int:
        """How long a changelog stays after it was made."""
        return self.duration_millis("changelog.time-retained", self.snapshot_time_retained_millis)

    @property
    def changelog_outlives_snapshots(self) -> bool:
        """Whether changelogs stay when their snapshots expire."""
        return (
            self.changelog_retain_max > self.snapshot_retain_max
            or self.changelog_retain_min > self.snapshot_retain_min
            or self.changelog_time_retained_millis > self.snapshot_time_retained_millis
        )

    @property
    def tag_default_time_retained_millis(self) -> int | None:
        """How long new tags stay; None for ever."""
        return self.optional_duration_millis("tag.default-time-retained")

    @property
    def consumer_expire_millis(self) -> int | None:
        """How long a consumer that does not come on is kept; None for ever."""
        return self.optional_duration_millis("consumer.expiration-time")

    @property
    def tag_time_expire_enabled(self) -> bool:
        """Whether tags whose time is over go."""
        return self.boolean("tag.time-expire-enabled", True)

    @property
    def tag_create_success_file(self) -> bool:
        """Whether a success file is written for each automatic tag."""
        return self.boolean("tag.create-success-file", False)

    @property
    def tag_automatic_creation(self) -> TagCreation:
        """What time tags are made by automatically."""
        return self.choice("tag.automatic-creation", TagCreation.NONE)

    @property
    def tag_creation_period(self) -> CreationPeriod:
        """How often a tag is made automatically."""
        return self.choice("tag.creation-period", CreationPeriod.DAILY)

    @property
    def tag_period_formatter(self) -> PeriodFormatter:
        """How automatic tags are called."""
        return self.choice("tag.period-formatter", PeriodFormatter.WITH_DASHES)

    @property
    def tag_period_length(self) -> timedelta | None:
        """A length of periods of its own; None for what `tag.creation-period` says."""
        millis = self.optional_duration_millis("tag.creation-period-duration")
        return None if millis is None else timedelta(milliseconds=millis)

    @property
    def tag_creation_delay_millis(self) -> int:
        """How long after its end a period's tag waits for late rows."""
        return self.duration_millis("tag.creation-delay", 0)

    @property
    def tag_num_retained_max(self) -> int | None:
        """The most automatic tags that stay; None for no bound."""
        return self.optional_integer("tag.num-retained-max")

    @property
    def tag_automatic_completion(self) -> bool:
        """Whether periods without a snapshot of their own get a tag, too."""
        return self.boolean("tag.automatic-completion", False)

    @property
    def tag_batch_name(self) -> str | None:
        """What the tag of batch jobs is called; None for a name by the day."""
        return self.text("tag.batch.customized-name", "") or None

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
