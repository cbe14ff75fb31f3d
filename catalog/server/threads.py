"""Threads of the server, none of which ends unnoticed, and the state of the connection whose call a thread serves.

A thread that an error has ended leaves its work undone for as long as the process lives: nothing expires any more, or
nothing is answered from the cache. So every thread of the server is a SupervisedThread; one that dies is named in the
log and, as long as its process lives, in the answer of /health/ready (503).

The state of a connection is the settings of its client (`setMetaConf`), whether it is open, and whether its client may
be answered later.
"""

import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar

logger = logging.getLogger(__name__)

session_settings: ContextVar[dict[str, str] | None] = ContextVar("session_settings", default=None)
"""The settings of the connection that this thread serves; None outside of one."""


class ThreadDeaths:
    """The threads of this process that an error has ended. Safe for many threads.

    `on_death` gets the text of `problem` when it has changed.
    """

    def __init__(self, on_death: Callable[[str], None] = lambda problem: None) -> None:
        self._on_death = on_death
        self._guard = threading.Lock()
        self._errors: dict[str, str] = {}

    def add(self, name: str, error: BaseException) -> None:
        """Record that a thread of this name was ended by this error."""
        with self._guard:
            self._errors[name] = type(error).__name__
        problem = self.problem()
        if problem is not None:
            self._on_death(problem)

    def problem(self) -> str | None:
        """Return the threads that have died, None if none has."""
        with self._guard:
            died = [f"{name} ({error})" for name, error in self._errors.items()]
        return f"ended by an error: {', '.join(died)}; the log says more, restart the server" if died else None


class SupervisedThread(threading.Thread):
    """A daemon thread that runs `work`; an error that ends it is logged and recorded in `deaths`."""

    def __init__(self, work: Callable[[], None], *, name: str, deaths: ThreadDeaths) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._deaths = deaths

    def run(self) -> None:
        """Run the work. Does not raise."""
        try:
            self._work()
        except Exception as error:
            logger.exception("the thread %s has ended by an error: the server is not ready any more", self.name)
            self._deaths.add(self.name, error)


class ClientLink:
    """An open connection of a client.

    `speaks_for_client` is False where a client may have a connection for each request (HTTP): its end does not mean
    that the client has ended. `is_in_process` is True where the client is this process itself, without a connection:
    it ends with the process. `waits_until` is the time on the monotonic clock until when the served request may wait.
    """

    __slots__ = ("is_closed", "is_in_process", "speaks_for_client", "waits_until")

    def __init__(self, *, speaks_for_client: bool = True, is_in_process: bool = False) -> None:
        self.speaks_for_client = speaks_for_client and not is_in_process
        self.is_in_process = is_in_process
        self.is_closed = False
        self.waits_until: float | None = None


class AnswerLaterError(Exception):
    """The request is to be served again later: `start` is called with a function that does so, from any thread.

    A call may raise it where `may_answer_later` is set, before it has made a change that must not be made twice. No
    thread is occupied meanwhile.
    """

    def __init__(self, start: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("the request is served again later")
        self.start = start


current_link: ContextVar[ClientLink | None] = ContextVar("current_link", default=None)
"""The connection that this thread serves; None outside of one."""

current_catalog: ContextVar[str] = ContextVar("current_catalog", default="hive")
"""The catalog of names that a call gives without one."""

may_answer_later: ContextVar[bool] = ContextVar("may_answer_later", default=False)
"""Whether the call that this thread serves may raise AnswerLaterError."""
