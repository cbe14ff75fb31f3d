"""Periods of automatic tags, and how a tag's name encodes the period that it closes.

A daily tag is called `2026-01-31`, an hourly one `2026-01-31 07`, one of a period of a length of its own
`202601310730`; each by the begin of its period. Source: documentation page `maintenance/manage-tags`, paimon-core's
TagPeriodHandler.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

_EPOCH = datetime(1970, 1, 1)


class TagCreation(StrEnum):
    """What time tags are made by, if they are."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class CreationPeriod(StrEnum):
    """How often a tag is made."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class PeriodFormatter(StrEnum):
    """How times in names of tags are written."""

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
    """How long a period is, and how its begin is written; `by_day` reads no more of a name than its day."""

    length: timedelta
    letters: str
    by_day: bool = False

    @staticmethod
    def of(period: CreationPeriod, formatter: PeriodFormatter, length: timedelta | None = None) -> "TagPeriod":
        """The period that the options choose; a `length` of its own is the strongest."""
        if length is not None:
            return TagPeriod(length=length, letters=_MINUTES)
        if period is CreationPeriod.DAILY:
            return TagPeriod(length=_LENGTHS[period], letters=_DAYS[formatter], by_day=True)
        # As in Paimon, two hours are written with dashes whatever the formatter.
        chosen = formatter if period is CreationPeriod.HOURLY else PeriodFormatter.WITH_DASHES
        return TagPeriod(length=_LENGTHS[period], letters=_HOURS[chosen])

    def name_of(self, begin: datetime) -> str:
        """The name of the tag of the period that begins then."""
        # Some C libraries write the years before 1000 with fewer digits.
        return begin.strftime(self.letters.replace("%Y", f"{begin.year:04}"))

    def begin_of(self, name: str) -> datetime | None:
        """The begin of the period in a tag's name; None when the tag was not made automatically."""
        text = name.split(" ")[0] if self.by_day else name
        try:
            begin = datetime.strptime(text, self.letters)
        except ValueError:
            return None
        return begin if self.name_of(begin) == text else None

    def of_names(self, names: Iterable[str]) -> dict[str, datetime]:
        """The begins of the periods, by tag name, of names that encode one."""
        begins = {name: self.begin_of(name) for name in names}
        return {name: begin for name, begin in begins.items() if begin is not None}

    def last_closed(self, moment: datetime) -> datetime:
        """The begin of the last period that is over."""
        return moment - (moment - _EPOCH) % self.length - self.length
