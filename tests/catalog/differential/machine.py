"""Base of the state machines: each call goes to both servers, and the outcomes are compared."""

from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from tests.catalog.differential import events
from tests.catalog.differential.accepted import READS, OutcomeDifference, reason_to_accept
from tests.catalog.differential.servers import CallAnswer, ComparedServer, Outcome, ServerPair, fields_of

Report = Callable[[OutcomeDifference, list[str]], None]
"""Called with each difference that is not accepted, and with the calls so far; may raise."""


def fail(difference: OutcomeDifference, calls: list[str]) -> None:
    """Report the difference by a failure of the test."""
    raise AssertionError("\n".join([str(difference), "after these calls:", *calls]))


class ComparingMachine(RuleBasedStateMachine):
    """Base of the state machines; `servers` is set before they run."""

    servers: ServerPair
    report: Report = staticmethod(fail)

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[str] = []
        self._has_diverged = False
        self._unlogged_events: frozenset[str] = frozenset()
        self._events_before = self.servers.each(lambda server: server.last_event())

    def call(self, method: str, *arguments: Any) -> CallAnswer | None:
        """Send a call to both servers; return Java's answer, or None if not both have answered."""
        return self.compare(
            method,
            arguments,
            *self.servers.each(lambda server: None if self._has_diverged else server.ask(method, arguments)),
        )

    def call_each(
        self, method: str, arguments: Callable[[Any], tuple[Any, ...] | None], shown: str
    ) -> CallAnswer | None:
        """Send a call whose arguments depend on earlier answers of each server; without arguments there is no call."""
        if self._has_diverged:
            return None
        java, ours = self.servers.each(arguments)
        if java is None or ours is None:
            return None
        return self.compare(
            method, (shown, *java), self.servers.java.ask(method, java), self.servers.ours.ask(method, ours)
        )

    def compare(
        self, method: str, arguments: tuple[Any, ...], java: Outcome | None, ours: Outcome | None
    ) -> CallAnswer | None:
        """Compare two outcomes, and the directories after the call."""
        if self._has_diverged or java is None or ours is None:
            return None
        shown = ", ".join(_text_of(argument) for argument in arguments)
        self._calls.append(f"{method}({shown}) # {java}"[:1500])
        self._check_difference(OutcomeDifference(method, arguments, java, ours))
        if not self._has_diverged and not method.startswith(READS):
            paths = self.servers.each(lambda server: CallAnswer(server.paths()))
            self._check_difference(OutcomeDifference(f"paths after {method}", arguments, *paths, after=(java, ours)))
        if method == "alter_function" and isinstance(java, CallAnswer):
            # Java's log has no event of this change (README.md).
            self._unlogged_events = events.OF_FUNCTIONS
        return java if isinstance(java, CallAnswer) and not self._has_diverged else None

    @property
    def has_diverged(self) -> bool:
        """Whether the two servers store different objects, so that no further comparison makes sense."""
        return self._has_diverged

    def change_files(self, description: str, action: Callable[[ComparedServer], object]) -> None:
        """Change the files of both servers without a call."""
        if not self._has_diverged:
            self._calls.append(f"# {description}")
            self.servers.each(action)

    def _check_difference(self, difference: OutcomeDifference) -> None:
        if difference.java == difference.ours:
            return
        if reason_to_accept(difference, self.servers.accepted) is None:
            self.report(difference, self._calls)
        # After a change that only one of them made, no further comparison makes sense.
        self._has_diverged = self._has_diverged or difference.makes_servers_diverge

    def teardown(self) -> None:
        """Compare all objects, then drop them."""
        try:
            self.compare_everything()
        finally:
            self.servers.reset()

    def compare_everything(self) -> None:
        """Compare all databases, tables, partitions, functions and events."""
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
        """Compare the notification logs since the example began."""
        if not self._has_diverged and self.servers.has_events:
            java, ours = (
                events.since(server, before, self._unlogged_events)
                for server, before in zip((self.servers.java, self.servers.ours), self._events_before, strict=True)
            )
            java = events.without_repeated_event(java, ours)
            self.compare("get_next_notification", (), java, events.limited_to_common_fields(java, ours))


def _text_of(value: Any) -> str:
    if hasattr(value, "thrift_spec"):
        given = {f: getattr(value, f) for f in fields_of(value) if getattr(value, f) is not None}
        return f"{type(value).__name__}({', '.join(f'{f}={_text_of(item)}' for f, item in given.items())})"
    if isinstance(value, list):
        return f"[{', '.join(_text_of(item) for item in value)}]"
    return repr(value)
