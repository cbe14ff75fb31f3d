"""What the campaigns counted: crash points, power cuts, interleavings; a table at the end of a run.

A test says `tally("crash points of operations on a table", 731)`, and pytest's report carries the number to the process
that prints, however many processes run the tests.
"""

from collections import Counter
from collections.abc import Callable

import pytest

Tally = Callable[[str, int], None]

_MARK = "tally: "


def adding_to(item: pytest.Item) -> Tally:
    """The function by which a test adds to the numbers of the run."""

    def add(what: str, count: int) -> None:
        item.user_properties.append((_MARK + what, count))

    return add


class TallyReport:
    """A pytest plugin: adds up what the tests counted and prints it at the end of the run."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what one test counted; with several processes this runs in the one that collects the reports."""
        if report.when != "call":
            return
        for name, count in report.user_properties:
            if name.startswith(_MARK) and isinstance(count, int):
                self._counts[name.removeprefix(_MARK)] += count

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the numbers before pytest's last lines."""
        if not self._counts:
            return
        terminalreporter.section("what was counted")
        for what, count in sorted(self._counts.items()):
            terminalreporter.write_line(f"{count:10,} {what}")
