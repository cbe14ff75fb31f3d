"""Threads in the background of the server, none of which ends unnoticed.

A thread that an error has ended leaves its work undone for as long as the process lives: nothing expires any more, or
nothing is answered from the cache. So every thread of the server is a SupervisedThread; one that dies is named in the
log and, as long as its process lives, in the answer of /health/ready (503).
"""

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


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
