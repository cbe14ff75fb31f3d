"""Access to the scheduler while this process schedules, for one thread at a time."""

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
    """The scheduler of this process while it schedules; `lock` guards the scheduler."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._scheduler: Scheduler | None = None
        # Unlike an Event, a SimpleQueue may be used in a handler of signals.
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
        """Stop scheduling: further calls raise NotOnDutyError."""
        with self.lock:
            self._scheduler = None

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        """Call the scheduler. Raises NotOnDutyError, and the errors of the scheduler.

        After a JournalError the state of the scheduler is not valid any more: this process stops scheduling, and the
        caller gets NotOnDutyError.
        """
        with self.lock:
            if self._scheduler is None:
                raise NotOnDutyError("This process does not schedule now; another one does, or will.")
            try:
                return question(self._scheduler)
            except JournalError as error:
                _log.warning("The journal refuses changes of this scheduler, which stops: %s", error)
                self._scheduler = None
                self.wake()
                raise NotOnDutyError(f"This process does not schedule any more: {error}") from error

    def wake(self) -> None:
        """End a running `wait`, or the next one; safe in handlers of signals."""
        if self._woken.empty():
            self._woken.put(None)

    def wait(self, seconds: float) -> None:
        """Wait for a call of `wake`, at most for that time."""
        try:
            self._woken.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return
