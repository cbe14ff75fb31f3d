"""Time that a partition's values name, and the partitions that are too old by it.

Options `partition.timestamp-pattern` and `-formatter`. Source: documentation page `maintenance/manage-partitions`,
paimon-core's PartitionTimeExtractor and the two strategies `values-time` and `update-time`.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError


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
) -> list[dict[str, str]]:
    """Return at most `most` partitions from before a time, in the order of their values.

    `partitions` have values by column, and the time of the last write. A partition whose values name no time is left
    alone, which is logged.
    """
    found = []
    for spec, updated in partitions:
        at = updated if strategy is ExpirationStrategy.UPDATE_TIME else time.of(spec)
        if at is None:
            _log.warning(
                "The partition %s names no time and does not expire. Set 'partition.timestamp-pattern' and "
                "'partition.timestamp-formatter', set 'partition.expiration-strategy' to 'update-time', or drop it.",
                dict(spec),
            )
        elif at < before:
            found.append(dict(spec))
    return sorted(found, key=lambda spec: ",".join(spec.values()))[:most]
