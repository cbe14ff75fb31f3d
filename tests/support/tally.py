"""Counters of the test campaigns: crash points, power cuts, interleavings. A table of them ends a run.

A test calls `tally("crash points of operations on a table", 731)`. The report of pytest carries the number to the
process that prints the table, whatever the number of test processes.
"""

from collections import Counter
from collections.abc import Callable

import pytest

Tally = Callable[[str, int], None]

_MARK = "tally: "


def adding_to(item: pytest.Item) -> Tally:
    """Return the function with which a test adds to the counters of the run."""

    def add(what: str, count: int) -> None:
        item.user_properties.append((_MARK + what, count))

    return add


class TallyReport:
    """Pytest plugin that adds up the counters of the tests and prints them at the end of the run."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the counters of one test. With several processes this runs in the process that collects the reports."""
        if report.when != "call":
            return
        for name, count in report.user_properties:
            if name.startswith(_MARK) and isinstance(count, int):
                self._counts[name.removeprefix(_MARK)] += count

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the counters before pytest's last lines."""
        if not self._counts:
            return
        terminalreporter.section("what was counted")
        for what, count in sorted(self._counts.items()):
            terminalreporter.write_line(f"{count:10,} {what}")
