"""Durations of the tests: a table at the end of a run, and the file that orders the next run.

`tests/durations.json` holds the seconds of each test file of `make test` on an idle machine. The longest files, and
places of several files (`tests/support/places.py`), start first, so that the workers end at about the same time; a file
without an entry starts before all others, or before those of its place. After a run
with `--junitxml=report.xml`,

    python -m tests.support.durations report.xml            prints where its time went
    python -m tests.support.durations report.xml --record   writes tests/durations.json and tests/costs.json, too
"""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import costs
from tests.support.places import place_of

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "durations.json"

SHOWN = 10
"""Number of files and tests in the table."""


def recorded(path: Path = RECORDED) -> dict[str, float]:
    """Return the seconds of each test file by its path from the root; empty when nothing has been recorded."""
    if not path.exists():
        return {}
    seconds: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return seconds


def longest_first(items: list[pytest.Item], seconds: Mapping[str, float]) -> None:
    """Sort the tests by the seconds of their places, the longest first, and those of a place by the seconds of their
    files; tests of a file keep their order.

    All processes of a run find the same order: `fsum` gives one sum for every order of a set.
    """
    unknown = float("inf")
    places: dict[str, set[str]] = {}
    for item in items:
        file = file_of(item.nodeid)
        places.setdefault(place_of(file), set()).add(file)
    in_all = {
        place: math.fsum(seconds.get(file, unknown if place == file else 0.0) for file in files)
        for place, files in places.items()
    }

    def order(item: pytest.Item) -> tuple[float, str, float]:
        file = file_of(item.nodeid)
        place = place_of(file)
        return -in_all[place], place, -seconds.get(file, unknown)

    items.sort(key=order)


def file_of(test_id: str) -> str:
    """Return the file of a test."""
    return test_id.partition("::")[0]


def table(tests: Mapping[str, float], shown: int = SHOWN) -> list[str]:
    """Return lines with the slowest files and tests. `tests` are the seconds of each test, fixtures included."""
    files: Counter[str] = Counter()
    for test, seconds in tests.items():
        files[file_of(test)] += seconds  # type: ignore[assignment] # A Counter of seconds.
    lines = [f"{sum(tests.values()):8.1f} s in {len(tests)} tests of {len(files)} files"]
    for name, found in (("files", files), ("tests", tests)):
        lines += ["", f"the slowest {name}:"]
        lines += [f"{seconds:8.1f} s {key}" for key, seconds in _slowest(found, shown)]
    return lines


def _slowest(found: Mapping[str, float], shown: int) -> Iterable[tuple[str, float]]:
    return sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))[:shown]


class DurationsReport:
    """Pytest plugin that adds up the seconds of each test and prints the table at the end of the run."""

    def __init__(self) -> None:
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test. With several processes this runs in the process that collects the reports."""
        self._tests[report.nodeid] += report.duration  # type: ignore[assignment] # A Counter of seconds.

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table before pytest's last lines."""
        if len({file_of(test) for test in self._tests}) < 2:
            return
        terminalreporter.section("where the time went")
        for line in table(self._tests):
            terminalreporter.write_line(line)


def tests_of(report: Path) -> dict[str, float]:
    """Return the seconds of each test in a file of `--junitxml`, fixtures included."""
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        # An interrupted run leaves a case without names.
        classname, name = case.get("classname", ""), case.get("name", "")
        test = f"{classname.replace('.', '/')}.py::{name}"
        seconds[test] = seconds.get(test, 0.0) + float(case.get("time", "0"))
    return seconds


def main(arguments: list[str]) -> None:
    """Print the slowest files and tests of a run, and record the durations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="a file that pytest wrote for --junitxml")
    parser.add_argument("--record", action="store_true", help="write tests/durations.json and tests/costs.json")
    parser.add_argument("--shown", type=int, default=SHOWN, help="how many files and tests to show")
    asked = parser.parse_args(arguments)
    tests = tests_of(asked.report)
    print("\n".join(table(tests, asked.shown)))
    if asked.record:
        files: dict[str, float] = {}
        for test, seconds in tests.items():
            files[file_of(test)] = files.get(file_of(test), 0.0) + seconds
        text = json.dumps({name: round(files[name], 1) for name in sorted(files)}, indent=1)
        RECORDED.write_text(text + "\n", encoding="utf-8")
        found = costs.expensive(tests, known=costs.recorded())
        costs.RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
