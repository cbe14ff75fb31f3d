"""Options of versions: how long snapshots and tags are kept, and the periods of automatic tags.

Names and defaults are Paimon's (documentation: maintenance/configurations). A tag's name encodes the begin of its
period: a daily tag is called `2026-01-31`, an hourly one `2026-01-31 07`, one of a period of another length
`202601310730`. Source: documentation page `maintenance/manage-tags`, paimon-core's TagPeriodHandler.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from interbed.storage.meta.options.partition_time import ExpirationStrategy, PartitionTime
from interbed.storage.meta.options.reader import OptionReader

_EPOCH = datetime(1970, 1, 1)


class TagCreation(StrEnum):
    """Time by which automatic tags are made, if at all."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class CreationPeriod(StrEnum):
    """Interval between automatic tags."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class PeriodFormatter(StrEnum):
    """Format of times in names of tags."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


_LENGTHS = {
    CreationPeriod.DAILY: timedelta(days=1),
    CreationPeriod.HOURLY: timedelta(hours=1),
    CreationPeriod.TWO_HOURS: timedelta(hours=2),
}
_DAYS = {
    PeriodFormatter.WITH_DASHES: "%Y-%m-%d",
    PeriodFormatter.WITHOUT_DASHES: "%Y%m%d",
    PeriodFormatter.WITHOUT_DASHES_AND_SPACES: "%Y%m%d",
}
_HOURS = {
    PeriodFormatter.WITH_DASHES: "%Y-%m-%d %H",
    PeriodFormatter.WITHOUT_DASHES: "%Y%m%d %H",
    PeriodFormatter.WITHOUT_DASHES_AND_SPACES: "%Y%m%d%H",
}
_MINUTES = "%Y%m%d%H%M"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagPeriod:
    """Length of a period, and the format of its begin; `by_day` reads only the day of a name."""

    length: timedelta
    letters: str
    by_day: bool = False

    @staticmethod
    def of(period: CreationPeriod, formatter: PeriodFormatter, length: timedelta | None = None) -> "TagPeriod":
        """Return the period that the options choose; `length` overrides the others."""
        if length is not None:
            return TagPeriod(length=length, letters=_MINUTES)
        if period is CreationPeriod.DAILY:
            return TagPeriod(length=_LENGTHS[period], letters=_DAYS[formatter], by_day=True)
        # As in Paimon, two hours are written with dashes whatever the formatter.
        chosen = formatter if period is CreationPeriod.HOURLY else PeriodFormatter.WITH_DASHES
        return TagPeriod(length=_LENGTHS[period], letters=_HOURS[chosen])

    def name_of(self, begin: datetime) -> str:
        """Return the name of the tag of the period that begins then."""
        # Some C libraries write the years before 1000 with fewer digits.
        return begin.strftime(self.letters.replace("%Y", f"{begin.year:04}"))

    def begin_of(self, name: str) -> datetime | None:
        """Return the begin of the period in a tag's name; None when the tag was not made automatically."""
        text = name.split(" ")[0] if self.by_day else name
        try:
            begin = datetime.strptime(text, self.letters)
        except ValueError:
            return None
        return begin if self.name_of(begin) == text else None

    def of_names(self, names: Iterable[str]) -> dict[str, datetime]:
        """Return the begins of the periods, by tag name, of names that encode one."""
        begins = {name: self.begin_of(name) for name in names}
        return {name: begin for name, begin in begins.items() if begin is not None}

    def last_closed(self, moment: datetime) -> datetime:
        """Return the begin of the last period that is over."""
        return moment - (moment - _EPOCH) % self.length - self.length


@dataclass(frozen=True, slots=True)
class VersionOptions(OptionReader):
    """Options of versions. Durations in milliseconds."""

    @property
    def snapshot_retain_max(self) -> int:
        """Greatest number of snapshots that an expiry leaves."""
        return self.integer("snapshot.num-retained.max", 2**31 - 1)

    @property
    def snapshot_retain_min(self) -> int:
        """Least number of snapshots that an expiry leaves."""
        return self.integer("snapshot.num-retained.min", 10)

    @property
    def snapshot_time_retained_millis(self) -> int:
        """Time for which a snapshot is kept after its successor was committed."""
        return self.duration_millis("snapshot.time-retained", 3_600_000)

    @property
    def snapshot_expire_limit(self) -> int:
        """Greatest number of snapshots that one expiry deletes."""
        return self.integer("snapshot.expire.limit", 50)

    @property
    def changelog_retain_max(self) -> int:
        """Greatest number of changelogs that an expiry leaves, counted with the snapshots."""
        return self.integer("changelog.num-retained.max", self.snapshot_retain_max)

    @property
    def changelog_retain_min(self) -> int:
        """Least number of changelogs that an expiry leaves, counted with the snapshots."""
        return self.integer("changelog.num-retained.min", self.snapshot_retain_min)

    @property
    def changelog_time_retained_millis(self) -> int:
        """Time for which a changelog is kept after its commit."""
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
        """Time to live of new tags; None for ever."""
        return self.optional_duration_millis("tag.default-time-retained")

    @property
    def consumer_expire_millis(self) -> int | None:
        """Time for which a consumer without progress is kept; None for ever."""
        return self.optional_duration_millis("consumer.expiration-time")

    @property
    def tag_time_expire_enabled(self) -> bool:
        """Whether tags are deleted when their time to live is over."""
        return self.boolean("tag.time-expire-enabled", True)

    @property
    def tag_create_success_file(self) -> bool:
        """Whether a success file is written for each automatic tag."""
        return self.boolean("tag.create-success-file", False)

    @property
    def tag_automatic_creation(self) -> TagCreation:
        """Time by which tags are made automatically."""
        return self.choice("tag.automatic-creation", TagCreation.NONE)

    @property
    def tag_creation_period(self) -> CreationPeriod:
        """Interval at which a tag is made automatically."""
        return self.choice("tag.creation-period", CreationPeriod.DAILY)

    @property
    def tag_period_formatter(self) -> PeriodFormatter:
        """Format of the names of automatic tags."""
        return self.choice("tag.period-formatter", PeriodFormatter.WITH_DASHES)

    @property
    def tag_period_length(self) -> timedelta | None:
        """Length of a custom period; None for that of `tag.creation-period`."""
        millis = self.optional_duration_millis("tag.creation-period-duration")
        return None if millis is None else timedelta(milliseconds=millis)

    @property
    def tag_creation_delay_millis(self) -> int:
        """Time for which a period's tag waits for late rows after its end."""
        return self.duration_millis("tag.creation-delay", 0)

    @property
    def tag_num_retained_max(self) -> int | None:
        """Greatest number of automatic tags that are kept; None for no bound."""
        return self.optional_integer("tag.num-retained-max")

    @property
    def tag_automatic_completion(self) -> bool:
        """Whether periods without a snapshot of their own get a tag, too."""
        return self.boolean("tag.automatic-completion", False)

    @property
    def tag_batch_name(self) -> str | None:
        """Name of the tag of batch jobs; None for a name by the day."""
        return self.text("tag.batch.customized-name", "") or None

    @property
    def partition_expiration_millis(self) -> int | None:
        """Age at which partitions expire; None for never."""
        return self.optional_duration_millis("partition.expiration-time")

    @property
    def partition_expiration_strategy(self) -> ExpirationStrategy:
        """Time from which a partition's age counts."""
        return self.choice("partition.expiration-strategy", ExpirationStrategy.VALUES_TIME)

    @property
    def partition_expiration_max_num(self) -> int:
        """Greatest number of partitions that expire at a time."""
        return self.integer("partition.expiration-max-num", 100)

    @property
    def partition_time(self) -> PartitionTime:
        """Rule by which a partition's values name a time."""
        pattern = self.text("partition.timestamp-pattern", "") or None
        return PartitionTime(pattern, self.text("partition.timestamp-formatter", "") or None)
