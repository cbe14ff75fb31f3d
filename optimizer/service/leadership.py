"""The scheduler while this process schedules, for the threads that ask it things: one at a time."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from interbed.optimizer.errors import JournalError, NotOnDutyError
from interbed.optimizer.scheduling.scheduler import Scheduler

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Leadership:
    """Whether this process schedules, and with what. `lock` guards the scheduler."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._scheduler: Scheduler | None = None
        # Unlike an event, it may be told from a handler of signals.
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()

    @property
    def is_on(self) -> bool:
        """Whether this process schedules."""
        return self._scheduler is not None

    def begin(self, scheduler: Scheduler) -> None:
        """Schedule from now on."""
        with self.lock:
            self._scheduler = scheduler

    def end(self) -> None:
        """Schedule no more: whoever asks is told so."""
        with self.lock:
            self._scheduler = None

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        """Ask the scheduler. Raises NotOnDutyError, and what the scheduler raises but for JournalError: with a journal
        that it can't tell of changes it has nothing to say, and has to be made anew.
        """
        with self.lock:
            if self._scheduler is None:
                raise NotOnDutyError("This process does not schedule now; another one does, or will.")
            try:
                return question(self._scheduler)
            except JournalError as error:
                _log.warning("The journal takes nothing from this scheduler: %s", error)
                self._scheduler = None
                self.wake()
                raise NotOnDutyError(f"This process does not schedule any more: {error}") from error

    def wake(self) -> None:
        """End a `wait`, or the next one; safe in handlers of signals."""
        if self._woken.empty():
            self._woken.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until somebody wakes it, so long at most."""
        try:
            self._woken.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return
