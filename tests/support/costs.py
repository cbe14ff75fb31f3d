"""Selection of the parameters that `make test` can afford: each test function gets a few seconds of it.

`tests/costs.json` holds, for each expensive function, the seconds of one of its parameter sets on a quiet machine. If
all of them together cost more than FUNCTION_SECONDS, `make test` runs as many as fit. Those with values that no other
chosen set has come first. The others get the mark `long`. `python -m tests.support.durations report.xml --record`
records the seconds.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

import pytest

RECORDED = Path(__file__).resolve().parents[1] / "costs.json"

FUNCTION_SECONDS = 0.5
"""The seconds of `make test` for all parameter sets of one function; one set runs whatever it costs."""

LEAST_SECONDS = 0.001
"""The least seconds that are recorded for a parameter set."""

Values = frozenset[tuple[str, str | bytes]]
"""The names of parameters with their values: texts and bytes, which may be long, as they are, others as text."""


def recorded(path: Path = RECORDED) -> dict[str, float]:
    """Return the seconds of a parameter set by function, `tests/test_x.py::test_y`."""
    seconds: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return seconds


def function_of(test_id: str) -> str:
    """Return the id of a test without its parameters."""
    return test_id.partition("[")[0]


def expensive(tests: Mapping[str, float], known: Collection[str] = ()) -> dict[str, float]:
    """Return the mean seconds of a parameter set, for functions that cost more than FUNCTION_SECONDS in all.

    `tests` are the seconds of each test of a run. Functions that are `known` as expensive stay: the run took a part of
    their parameter sets.
    """
    found: dict[str, list[float]] = {}
    for test, seconds in tests.items():
        found.setdefault(function_of(test), []).append(seconds)
    return {
        name: max(round(sum(each) / len(each), 3), LEAST_SECONDS)
        for name, each in sorted(found.items())
        if name in known or (len(each) > 1 and sum(each) > FUNCTION_SECONDS)
    }


def mark_unaffordable(items: Iterable[pytest.Item], costs: Mapping[str, float]) -> None:
    """Mark as `long` the parameter sets that exceed the seconds of their function."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = function_of(item.nodeid)
        if name in costs and item.get_closest_marker("long") is None:
            groups.setdefault(name, []).append(item)
    for name, group in groups.items():
        wanted = max(1, int(FUNCTION_SECONDS / costs[name]))
        if wanted < len(group):
            kept = affordable([_values(item) for item in group], wanted)
            for number, item in enumerate(group):
                if number not in kept:
                    item.add_marker(pytest.mark.long)


def affordable(sets: Sequence[Values], wanted: int) -> set[int]:
    """Return the numbers of `wanted` parameter sets that have as many different values as possible."""
    kept: set[int] = set()
    seen: set[tuple[str, str | bytes]] = set()
    while len(kept) < min(wanted, len(sets)):
        # Of sets with equally many new values, take the one that is farthest from the chosen ones.
        best = max(
            (number for number in range(len(sets)) if number not in kept),
            key=lambda number: (
                len(sets[number] - seen),
                min((abs(number - other) for other in kept), default=0),
                -number,
            ),
        )
        kept.add(best)
        seen |= sets[best]
    return kept


def _values(item: pytest.Item) -> Values:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return frozenset()
    # Rows of several parameters have one index; their plain values show which rows have one in common.
    return frozenset((name, _value(value, callspec.indices.get(name))) for name, value in callspec.params.items())


def _value(value: object, index: int | None) -> str | bytes:
    if isinstance(value, (str, bytes)) and not isinstance(value, Enum):
        return value
    return f"{type(value).__name__} {value!r}" if isinstance(value, _PLAIN) else str(index)


_PLAIN = (str, bytes, int, float, Enum, type(None))
