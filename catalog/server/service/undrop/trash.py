"""Trash: the directory to which files of dropped tables, partitions and databases are moved before they are deleted.

It is laid out as Hadoop's. A directory is renamed to `<root>/Current/<its path>`, in one step, with the time in
milliseconds at its end if that name is taken. Periodically `Current` becomes a checkpoint, `<root>/yyMMddHHmmss` (UTC).
A checkpoint is deleted when it is older than the retention: each file is kept for that time at least, and for twice as
long at most.

Only directories on the file system of the trash can be moved there. A directory that cannot be moved stays where it is
and is named in the log: Hive would delete it.
"""

import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError

logger = logging.getLogger(__name__)

DIRECTORY_NAME = ".Trash"
CURRENT = "Current"

_CHECKPOINT = re.compile(r"\d{12}", re.ASCII)
_CHECKPOINT_FORMAT = "%y%m%d%H%M%S"

_ATTEMPTS = 3
"""Attempts of a move: the name may be taken, and `Current` renamed, during a move."""


class Trash:
    """Directory for files dropped less than `keep_seconds` ago. Safe for many threads and processes."""

    def __init__(self, root: str, *, keep_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self._keep_seconds = keep_seconds
        self._clock = clock

    def take(self, location: str) -> bool:
        """Move a directory here; return whether it has left its place. A directory that cannot be moved is logged and
        stays; one that is in the trash already is deleted.
        """
        if files.contains(self.root, location):
            files.delete_directory(location)
            return True
        if files.contains(location, self.root):
            logger.warning("the data in %s was left alone: the trash is inside it", location)
            return False
        if files.file_system_of(location) != files.file_system_of(self.root):
            logger.warning(
                "the data in %s was left alone: the trash %s is on another file system; drop with PURGE to delete it",
                location,
                self.root,
            )
            return False
        reason: MetastoreError | None = None
        for attempt in range(_ATTEMPTS):
            try:
                target = self._target(location, attempt)
                files.make_directory(target.rsplit("/", 1)[0])
                files.rename_directory(location, target)
            except MetastoreError as error:
                reason = error
            else:
                return True
        logger.warning("could not move %s to the trash; it was left alone: %s", location, reason)
        return False

    def expire(self) -> int:
        """Delete the checkpoints beyond the retention, and make a new one of `Current` if there is none younger.
        Returns the number of those deleted. MetastoreError if the trash cannot be read.
        """
        if not files.directory_exists(self.root):
            return 0
        names = files.names_in(self.root)
        checkpoints = {name: age for name in names if (age := self._age(name)) is not None}
        expired = [name for name, age in checkpoints.items() if age >= self._keep_seconds]
        for name in expired:
            files.delete_directory(files.child(self.root, name))
        if CURRENT in names and len(expired) == len(checkpoints):
            stamp = datetime.fromtimestamp(self._clock(), UTC).strftime(_CHECKPOINT_FORMAT)
            try:
                files.rename_directory(files.child(self.root, CURRENT), files.child(self.root, stamp))
            except InvalidOperationError:
                # Another server made one in the same second; the directories in `Current` go into the next one.
                logger.debug("the checkpoint %s of the trash is there already", stamp)
        return len(expired)

    def _target(self, location: str, attempt: int) -> str:
        target = self.root + "/" + CURRENT + files.path_of(location).rstrip("/")
        if attempt or files.directory_exists(target):
            return f"{target}{int(self._clock() * 1000) + attempt}"
        return target

    def _age(self, name: str) -> float | None:
        """Return the seconds since a checkpoint was made; None for other names."""
        if _CHECKPOINT.fullmatch(name) is None:
            return None
        try:
            made = datetime.strptime(name, _CHECKPOINT_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            return None
        return self._clock() - made.timestamp()
