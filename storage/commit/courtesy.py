"""Turns by courtesy of the writers of a table in a store, where no lock of an operating system lets them queue up.

Who has just won the race for a snapshot knows it and what it names, has the next one ready before the others have read
it, and so wins for ever. Therefore a writer that loses again and again leaves a note, `snapshot/.commit-wanted`; and
one that has won several times without losing looks whether there is one, takes it away, and lets the others go first
for about as long as its own commits took.

A matter of fairness alone: whether a snapshot is made is decided by its exclusive creation. A note that can't be
written, read or deleted is none, and one that is left when its writer dies costs one pause.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from interbed.storage.base.fileio.api import FileIO

_log = logging.getLogger(__name__)

NOTE = ".commit-wanted"
LOSSES = 2
"""Who has lost so often leaves a note, and another one with each further loss."""
STREAK = 4
"""Who has won so often in a row looks for one."""
IDLE_SECONDS = 2.0
"""Who lets so much time pass between two commits lets others go first anyway."""
PAUSE_SECONDS_MAX = 2.0
_TABLES_MAX = 1000


@dataclass(slots=True)
class _Streak:
    """Commits of this process to one table, none of which has lost: how many, and when the first began and the last
    ended.
    """

    count: int
    began: float
    ended: float


class Courtesy:
    """That of one commit to the table with that directory of snapshots."""

    def __init__(
        self,
        file_io: FileIO,
        directory: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._file_io = file_io
        self._directory = directory
        self._clock = clock
        self._sleep = sleep
        self._began = clock()

    def let_others_go_first(self) -> None:
        """Pause, if this process has had many turns and somebody waits for one."""
        with _GUARD:
            streak = _STREAKS.get(self._directory)
            if streak is None or streak.count < STREAK or self._began - streak.ended > IDLE_SECONDS:
                return
            del _STREAKS[self._directory]
        if not self._is_wanted():
            return
        self._file_io.delete_quietly([self._note])
        seconds = min(streak.ended - streak.began, PAUSE_SECONDS_MAX)
        _log.info("Others wait to commit to %s; they go first for %.1f s.", self._directory, seconds)
        self._sleep(seconds)
        self._began = self._clock()

    def lost(self, times: int) -> None:
        """Note that somebody waits for a turn, once this commit has lost several times."""
        with _GUARD:
            _STREAKS.pop(self._directory, None)
        if times >= LOSSES:
            try:
                self._file_io.overwrite(self._note, b"", durable=False)
            except OSError as error:
                _log.debug("It can't be noted that a commit waits: %s", error)

    def won(self, losses: int) -> None:
        """Count a commit that was made after so many losses."""
        now = self._clock()
        with _GUARD:
            streak = _STREAKS.pop(self._directory, None)
            if losses == 0:
                if streak is None or self._began - streak.ended > IDLE_SECONDS:
                    streak = _Streak(0, self._began, now)
                _STREAKS[self._directory] = _Streak(streak.count + 1, streak.began, now)
                while len(_STREAKS) > _TABLES_MAX:
                    _STREAKS.popitem(last=False)

    def _is_wanted(self) -> bool:
        try:
            self._file_io.read_bytes(self._note)
        except OSError:
            # FileNotFoundError, or a store that will not say.
            return False
        return True

    @property
    def _note(self) -> str:
        return f"{self._directory}/{NOTE}"


_GUARD = threading.Lock()
_STREAKS: OrderedDict[str, _Streak] = OrderedDict()
"""By directory, the one that was counted last at the end."""
