"""Schedules, scheduled queries with their executions, and statistics of runs, as values, and the repositories of them.

Times are seconds since the epoch. HiveServer2 asks for queries that are due, runs them, and reports their state. The
metastore keeps the schedule and ensures that a query runs once at a time.

Schedules are Quartz's cron expressions, as in Hive:

    second minute hour day-of-month month day-of-week [year]

A field is `*`, a number or a name (JAN, MON), a range `a-b`, a list `a,b`, or one of the first three with a step `/n`.
Days of the week count from 1 for Sunday. One of the two fields of days is `?`, the other may have `L` (the last day,
or with a number the last such day of the week), `L-n`, `W` after a number (the nearest weekday), `LW`, and `d#n` (the
n-th such day of the week in the month). Times are those of the server's time zone, as in Hive.

Specified by Quartz's CronTrigger tutorial, and by cron-utils, which Hive uses.
"""

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from typing import Protocol

CHARACTERS_MAX = 256
"""Characters in a schedule, the limit of Hive's own database: the rules for days are tried on each day until one
matches.
"""

_MONTHS = {
    "JAN": 1,
    "FEB": 2,
    "MAR": 3,
    "APR": 4,
    "MAY": 5,
    "JUN": 6,
    "JUL": 7,
    "AUG": 8,
    "SEP": 9,
    "OCT": 10,
    "NOV": 11,
    "DEC": 12,
}
_WEEKDAYS = {"SUN": 1, "MON": 2, "TUE": 3, "WED": 4, "THU": 5, "FRI": 6, "SAT": 7}

_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?", re.ASCII)

DayRule = Callable[[date], bool]


class QueryState(IntEnum):
    """State of an execution; the numbers are Hive's."""

    INITED = 0
    EXECUTING = 1
    FAILED = 2
    FINISHED = 3
    TIMED_OUT = 4
    AUTO_DISABLED = 5


ENDED = frozenset({QueryState.FAILED, QueryState.FINISHED, QueryState.TIMED_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledQuery:
    """A query with its schedule; its name is unique in a namespace, which is that of a cluster of HiveServer2."""

    namespace: str
    name: str
    enabled: bool = False
    schedule: str | None = None
    user: str | None = None
    query: str | None = None
    next_execution: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledExecution:
    """One run of a scheduled query. `updated` is the time of its executor's last report; None once it has ended."""

    id: int
    query_id: int
    state: QueryState
    started: int
    updated: int | None
    ended: int | None = None
    executor_query_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatistics:
    """Statistics of a run: bytes that only Hive understands, and the number of operators that they describe."""

    create_time: int
    weight: int
    payload: bytes


class Queries(Protocol):
    """Scheduled queries by namespace and name, and their executions, which are removed with them."""

    def find(self, namespace: str, name: str, *, for_update: bool = False) -> tuple[int, ScheduledQuery] | None:
        """Return the query with the id of its row."""
        ...

    def add(self, query: ScheduledQuery) -> bool:
        """Store a new query; False if the name is taken."""
        ...

    def replace(self, query_id: int, query: ScheduledQuery) -> None: ...
    def remove(self, query_id: int) -> None: ...
    def due(self, namespace: str, now: int) -> tuple[int, ScheduledQuery] | None:
        """Return the enabled query of the namespace that is overdue longest and does not run, and lock it for this
        transaction; queries that another transaction has locked are skipped.
        """
        ...

    def start(self, query_id: int, next_execution: int | None, now: int) -> int:
        """Store that the query runs from now on and when it runs next; return the id of the execution."""
        ...

    def execution(self, execution_id: int) -> ScheduledExecution | None:
        """Return an execution, locked for this transaction."""
        ...

    def store_execution(self, execution: ScheduledExecution) -> None:
        """Replace the execution; if it has ended, its query may run again."""
        ...

    def silent(self, updated_before: int) -> list[int]:
        """Return the ids of running executions whose last report came before a time."""
        ...

    def expire_executions(self, started_before: int) -> int:
        """Remove the executions that have ended and began before a time; return their number."""
        ...


class RunStatistics(Protocol):
    """Statistics of query runs."""

    def add(self, statistics: RuntimeStatistics) -> None: ...
    def newest(self, created_before: int | None) -> list[RuntimeStatistics]:
        """Return those created before a time (all if None), newest first."""
        ...

    def expire(self, created_before: int) -> int:
        """Remove those created before a time; return their number."""
        ...


YEAR_MIN, YEAR_MAX = 1970, 2099


class ScheduleError(ValueError):
    """The text is not a valid schedule; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """A parsed schedule: sorted times of the day, and the rules of its days."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: frozenset[int]
    years: frozenset[int]
    is_day: DayRule

    def next_after(self, seconds: float) -> int | None:
        """Return the first time after this one (both in seconds since the epoch); None if there is none."""
        start = datetime.fromtimestamp(seconds, UTC).astimezone()
        day = start.date()
        while day.year <= YEAR_MAX:
            if day.year not in self.years:
                day = date(day.year + 1, 1, 1)
            elif day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            else:
                found = self._in_day(day, seconds) if self.is_day(day) else None
                if found is not None:
                    return found
                day += timedelta(days=1)
        return None

    def _in_day(self, day: date, after: float) -> int | None:
        for hour in self.hours:
            # An hour that the clock repeats is counted twice; for an hour that it skips the next one is used.
            for fold in (0, 1):
                last = datetime(day.year, day.month, day.day, hour, 59, 59, fold=fold).timestamp()
                if last <= after:
                    continue
                for minute in self.minutes:
                    for second in self.seconds:
                        found = datetime(day.year, day.month, day.day, hour, minute, second, fold=fold).timestamp()
                        if found > after:
                            return int(found)
        return None


def parse_schedule(text: str) -> CronSchedule:
    """Read a schedule. ScheduleError."""
    if len(text) > CHARACTERS_MAX:
        raise ScheduleError(f"a schedule of {len(text)} characters is too long: {CHARACTERS_MAX} are allowed")
    fields = text.upper().split()
    if len(fields) not in (6, 7):
        raise ScheduleError(f"a schedule has 6 or 7 fields, this one has {len(fields)}")
    second, minute, hour, day, month, weekday = fields[:6]
    if (day == "?") == (weekday == "?"):
        raise ScheduleError("either the day of the month or the day of the week has to be ?")
    return CronSchedule(
        seconds=tuple(sorted(_numbers("second", second, 0, 59))),
        minutes=tuple(sorted(_numbers("minute", minute, 0, 59))),
        hours=tuple(sorted(_numbers("hour", hour, 0, 23))),
        months=_numbers("month", month, 1, 12, _MONTHS),
        years=_numbers("year", fields[6] if len(fields) == 7 else "*", YEAR_MIN, YEAR_MAX),
        is_day=_any_of(weekday, _weekday_rule) if day == "?" else _any_of(day, _day_rule),
    )


def _numbers(
    what: str, text: str, least: int, most: int, names: dict[str, int] | None = None, *, wraps: bool = False
) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ScheduleError(f"{part:.50} is no {what}")
        begin, end, step = match.groups()
        if begin == "*":
            if end is not None:
                raise ScheduleError(f"{part:.50} is no {what}")
            first, last = least, most
        else:
            first = _number(what, begin, least, most, names)
            last = first if step is None else most
            if end is not None:
                last = _number(what, end, least, most, names)
        if step is not None and int(step) == 0:
            raise ScheduleError(f"{part:.50} has the step 0")
        if last < first:
            if not wraps:
                raise ScheduleError(f"{part:.50} ends before it begins")
            last += most - least + 1
        found.update((each - least) % (most - least + 1) + least for each in range(first, last + 1, int(step or 1)))
    return frozenset(found)


def _number(what: str, text: str, least: int, most: int, names: dict[str, int] | None) -> int:
    if names is not None and text in names:
        return names[text]
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ScheduleError(f"{text:.50} is no {what}: one from {least} to {most} is wanted")
    return int(text)


def _any_of(text: str, rule_of: Callable[[str], DayRule]) -> DayRule:
    rules = [rule_of(part) for part in text.split(",")]
    return lambda day: any(rule(day) for rule in rules)


def _day_rule(part: str) -> DayRule:
    if part == "L":
        return lambda day: day.day == _last_of_month(day)
    if part == "LW":
        return lambda day: day == _nearest_weekday(day, _last_of_month(day))
    if match := re.fullmatch(r"L-(\d{1,2})", part, re.ASCII):
        before = int(match[1])
        return lambda day: day.day == _last_of_month(day) - before
    if match := re.fullmatch(r"(\d{1,2})W", part, re.ASCII):
        wanted = _number("day of the month", match[1], 1, 31, None)
        return lambda day: wanted <= _last_of_month(day) and day == _nearest_weekday(day, wanted)
    numbers = _numbers("day of the month", part, 1, 31)
    return lambda day: day.day in numbers


def _weekday_rule(part: str) -> DayRule:
    if part == "L":
        part = "7"
    if match := re.fullmatch(r"(\w+)#(\d)", part, re.ASCII):
        weekday = _number("day of the week", match[1], 1, 7, _WEEKDAYS)
        place = _number("place in the month", match[2], 1, 5, None)
        return lambda day: _weekday(day) == weekday and (day.day - 1) // 7 + 1 == place
    if len(part) > 1 and part.endswith("L") and (part[:-1] in _WEEKDAYS or part[:-1].isdecimal()):
        last = _number("day of the week", part[:-1], 1, 7, _WEEKDAYS)
        return lambda day: _weekday(day) == last and day.day + 7 > _last_of_month(day)
    numbers = _numbers("day of the week", part, 1, 7, _WEEKDAYS, wraps=True)
    return lambda day: _weekday(day) in numbers


def _weekday(day: date) -> int:
    """Return 1 for Sunday to 7 for Saturday."""
    return day.isoweekday() % 7 + 1


def _last_of_month(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _nearest_weekday(day: date, wanted: int) -> date:
    """Return the day from Monday to Friday that is nearest to a day of the month, in the same month."""
    found = day.replace(day=wanted)
    if found.isoweekday() == 6:
        return found - timedelta(days=1) if wanted > 1 else found + timedelta(days=2)
    if found.isoweekday() == 7:
        return found + timedelta(days=1) if wanted < _last_of_month(day) else found - timedelta(days=2)
    return found
