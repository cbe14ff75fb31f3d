"""Options of versions: how long snapshots and tags are kept, and the periods of automatic tags.

Names and defaults are Paimon's (documentation: maintenance/configurations). A tag's name encodes the begin of its
period: a daily tag is called `2026-01-31`, an hourly one `2026-01-31 07`, one of a period of another length
`202601310730`. Source: documentation page `maintenance/manage-tags`, paimon-core's TagPeriodHandler.

Time that a partition's values name, and the partitions that are too old by it.

Options `partition.timestamp-pattern` and `-formatter`. Source: documentation page `maintenance/manage-partitions`,
paimon-core's PartitionTimeExtractor and the two strategies `values-time` and `update-time`.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.reader import OptionReader


class ExpirationStrategy(StrEnum):
    """Time from which a partition's age counts."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


_DIRECTIVES = {"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d"}
_DIRECTIVES |= {"HH": "%H", "H": "%H", "mm": "%M", "m": "%M", "ss": "%S", "s": "%S", "SSS": "%f", "SSSSSS": "%f"}
_FORMATTER_PARTS = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")
_PLAIN_TIME = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """Rule by which a partition's values name a time."""

    pattern: str | None = None
    formatter: str | None = None

    def of(self, spec: Mapping[str, str]) -> datetime | None:
        """Return the time; None if the values name none.

        Raises InvalidOptionError for a formatter that is not understood.
        """
        text = next(iter(spec.values())) if self.pattern is None else _filled_in(self.pattern, spec)
        if self.formatter is None:
            return _plain_time(text)
        try:
            return datetime.strptime(text, strptime_format(self.formatter))
        except ValueError:
            return None


def strptime_format(formatter: str) -> str:
    """Return a formatter of Java in Python's form; raises InvalidOptionError naming unknown parts."""
    parts = []
    for match in _FORMATTER_PARTS.finditer(formatter):
        part = match.group()
        if part.startswith("'"):
            parts.append((part[1:-1].replace("''", "'") or "'").replace("%", "%%"))
        elif match.group(1) is None:
            parts.append(part.replace("%", "%%"))
        elif part in _DIRECTIVES:
            parts.append(_DIRECTIVES[part])
        else:
            raise InvalidOptionError(
                f"Option 'partition.timestamp-formatter' = '{formatter}' has {part!r}, which is not understood; use "
                f"{', '.join(sorted(_DIRECTIVES))} and text in quotes."
            )
    return "".join(parts)


def _filled_in(pattern: str, spec: Mapping[str, str]) -> str:
    # Replace longer names first: `$dt` is a prefix of `$dt1`.
    names = "|".join(re.escape(name) for name in sorted(spec, key=len, reverse=True))
    return re.sub(rf"\$({names})", lambda match: spec[match.group(1)], pattern)


def _plain_time(text: str) -> datetime | None:
    match = _PLAIN_TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match.group(7) or "0").ljust(9, "0")[:6])
    try:
        # As in Java, the 32nd of a month is the first of the next.
        days = timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second, microseconds=micros)
        return datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1) + days
    except (ValueError, OverflowError):
        return None


_log = logging.getLogger(__name__)


def outdated(
    partitions: Iterable[tuple[Mapping[str, str], datetime]],
    before: datetime,
    *,
    strategy: ExpirationStrategy,
    time: PartitionTime,
    most: int | None = None,
    readable: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
) -> list[dict[str, str]]:
    """Return at most `most` partitions from before a time, in the order of their values.

    `partitions` have values by column, as in names of directories, and the time of the last write. `readable` returns
    the values with dates and timestamps as SQL has them. A partition whose values name no time is left alone, which is
    logged.
    """
    found = []
    for spec, updated in partitions:
        shown = readable(spec)
        at = updated if strategy is ExpirationStrategy.UPDATE_TIME else time.of(shown) or time.of(spec)
        if at is None:
            _log.warning(
                "The partition %s names no time and does not expire. Set 'partition.timestamp-pattern' and "
                "'partition.timestamp-formatter', set 'partition.expiration-strategy' to 'update-time', or drop it.",
                dict(shown),
            )
        elif at < before:
            found.append(dict(spec))
    return sorted(found, key=lambda spec: ",".join(spec.values()))[:most]


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
