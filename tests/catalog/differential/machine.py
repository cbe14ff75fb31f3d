"""What the state machines have in common: a call goes to both servers, and the outcomes are compared."""

from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from tests.catalog.differential import events
from tests.catalog.differential.kept import READS, Difference, reason_to_keep
from tests.catalog.differential.sides import Answered, Outcome, Side, Sides, fields_of

Report = Callable[[Difference, list[str]], None]
"""Told of each difference that is not kept, with the calls so far; may raise."""


def fail(difference: Difference, calls: list[str]) -> None:
    """The usual report: the test fails."""
    raise AssertionError("\n".join([str(difference), "after these calls:", *calls]))


class Machine(RuleBasedStateMachine):
    """Base of the state machines; `sides` is set before they run."""

    sides: Sides
    report: Report = staticmethod(fail)

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[str] = []
        self._over = False
        self._untold: frozenset[str] = frozenset()
        self._events_before = self.sides.each(lambda side: side.last_event())

    def call(self, method: str, *arguments: Any) -> Answered | None:
        """Send a call to both; what both answered (Java's own answer), or None if they refused."""
        return self.compare(
            method,
            arguments,
            *self.sides.each(lambda side: None if self._over else side.ask(method, arguments)),
        )

    def call_each(self, method: str, arguments: Callable[[Any], tuple[Any, ...] | None], shown: str) -> Answered | None:
        """The same, with arguments that depend on what each server said before; none, no call."""
        if self._over:
            return None
        java, ours = self.sides.each(arguments)
        if java is None or ours is None:
            return None
        return self.compare(
            method, (shown, *java), self.sides.java.ask(method, java), self.sides.ours.ask(method, ours)
        )

    def compare(
        self, method: str, arguments: tuple[Any, ...], java: Outcome | None, ours: Outcome | None
    ) -> Answered | None:
        """Compare two outcomes, and the directories after the call."""
        if self._over or java is None or ours is None:
            return None
        shown = ", ".join(_shown(argument) for argument in arguments)
        self._calls.append(f"{method}({shown}) # {java}"[:1500])
        self._judge(Difference(method, arguments, java, ours))
        if not self._over and not method.startswith(READS):
            paths = self.sides.each(lambda side: Answered(side.paths()))
            self._judge(Difference(f"paths after {method}", arguments, *paths, after=(java, ours)))
        if method == "alter_function" and isinstance(java, Answered):
            # Java's log does not tell of it (README.md).
            self._untold = events.OF_FUNCTIONS
        return java if isinstance(java, Answered) and not self._over else None

    @property
    def over(self) -> bool:
        """Whether the two hold different things, so that nothing is left to compare."""
        return self._over

    def aside(self, description: str, action: Callable[[Side], object]) -> None:
        """Do something beside the servers, to the files of both."""
        if not self._over:
            self._calls.append(f"# {description}")
            self.sides.each(action)

    def _judge(self, difference: Difference) -> None:
        if difference.java == difference.ours:
            return
        if reason_to_keep(difference, self.sides.kept) is None:
            self.report(difference, self._calls)
        # After a change that only one of the two made there is nothing left to compare.
        self._over = self._over or difference.leaves_them_apart

    def teardown(self) -> None:
        """Compare all that is there, then clear it away."""
        try:
            self.compare_everything()
        finally:
            self.sides.reset()

    def compare_everything(self) -> None:
        """All databases, tables, partitions, functions and events."""
        databases = self.call("get_all_databases")
        for database in databases.value if databases else []:
            self.call("get_database", database)
            self.call("get_functions", database, "*")
            tables = self.call("get_all_tables", database)
            for table in tables.value if tables else []:
                found = self.call("get_table", database, table)
                if found and found.value.get("partitionKeys"):
                    self.call("get_partitions", database, table, -1)
        self.compare_events()

    def compare_events(self) -> None:
        """The notification log since the example began."""
        if not self._over and self.sides.has_events:
            java, ours = (
                events.since(side, before, self._untold)
                for side, before in zip((self.sides.java, self.sides.ours), self._events_before, strict=True)
            )
            java = events.told_once(java, ours)
            self.compare("get_next_notification", (), java, events.as_far_as(java, ours))


def _shown(value: Any) -> str:
    if hasattr(value, "thrift_spec"):
        given = {f: getattr(value, f) for f in fields_of(value) if getattr(value, f) is not None}
        return f"{type(value).__name__}({', '.join(f'{f}={_shown(item)}' for f, item in given.items())})"
    if isinstance(value, list):
        return f"[{', '.join(_shown(item) for item in value)}]"
    return repr(value)
