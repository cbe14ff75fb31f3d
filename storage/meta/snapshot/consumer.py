"""Consumers: how far those who read a table's changes as a stream have come.

`consumer/consumer-<id>` holds `{"nextSnapshot": n}`: snapshots from n on are kept for it when others expire. Source:
documentation page `flink/consumer-id`, paimon-core's ConsumerManager. interbed adds `passed`, the commit of the
snapshot before, so that a consumer notices a rollback; Paimon's Consumer passes over members that it does not know.
"""

import json
import re
import time
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.path_name import path_name
from interbed.storage.meta.json_object import read_object
from interbed.storage.meta.paths import TablePaths

_PREFIX = "consumer-"
_NEXT = "nextSnapshot"
_PASSED = "passed"
_MEMBER_TYPES = {_NEXT: int, _PASSED: str}
_PAUSES_SECONDS = (0.01, 0.03, 0.1, 0.3)
"""Java Paimon writes such a file in its place, where it is empty for a moment; it reads them several times, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProgress:
    """The first snapshot that a consumer has not read, and the commit of the one before; None where it is not noted."""

    next_snapshot: int
    passed: str | None = None


class ConsumerManager:
    """The consumers of one table (of one branch of it)."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._directory = paths.consumer("x").rpartition("/")[0]

    def ids(self) -> list[str]:
        """The ids of all consumers, sorted."""
        found = (s.name for s in self._file_io.list(self._directory) if not s.is_directory)
        return sorted(name.removeprefix(_PREFIX) for name in found if name.startswith(_PREFIX))

    def next_snapshot(self, consumer_id: str) -> int | None:
        """The first snapshot that the consumer has not read; None for one that is not known. CorruptFileError."""
        progress = self.progress(consumer_id)
        return None if progress is None else progress.next_snapshot

    def progress(self, consumer_id: str) -> ConsumerProgress | None:
        """How far the consumer has come; None for one that is not known. CorruptFileError."""
        path = self._path(consumer_id)
        members: dict[str, Any] = {}
        for pause in (*_PAUSES_SECONDS, None):
            try:
                content = self._file_io.read_bytes(path)
            except FileNotFoundError:
                return None
            try:
                members = read_object(content, _MEMBER_TYPES, source=path, what="a consumer's file")
                break
            except CorruptFileError as error:
                if pause is None:
                    raise CorruptFileError(f"{error} Reset the consumer.") from error
            time.sleep(pause)
        found = members.get(_NEXT)
        if found is None or found < 1:
            raise CorruptFileError(f"{path} is not a consumer's file: it goes on from {found}. Reset the consumer.")
        return ConsumerProgress(next_snapshot=int(found), passed=members.get(_PASSED))

    def all(self) -> dict[str, int]:
        """How far each consumer has come; those that are deleted meanwhile are left out."""
        found = {consumer_id: self.next_snapshot(consumer_id) for consumer_id in self.ids()}
        return {consumer_id: number for consumer_id, number in found.items() if number is not None}

    def min_next_snapshot(self) -> int | None:
        """The first snapshot that some consumer has not read; None without consumers."""
        return min(self.all().values(), default=None)

    def reset(self, consumer_id: str, next_snapshot: int, *, passed: str | None = None) -> None:
        """Note how far a consumer has come, or make one; raises InvalidInputError for an id that none can have.

        `passed` is the commit of the snapshot before, where that is to be found again.
        """
        if next_snapshot < 1:
            raise InvalidInputError(f"The consumer {consumer_id!r} can't go on from snapshot {next_snapshot}.")
        members = {_NEXT: next_snapshot} if passed is None else {_NEXT: next_snapshot, _PASSED: passed}
        content = json.dumps(members, indent=2)
        self._file_io.overwrite(self._path(check_consumer_id(consumer_id)), content.encode())

    def delete(self, consumer_id: str) -> None:
        """Forget a consumer; one that is not known is no error. Raises StorageAccessError when it stays."""
        self._file_io.delete(self._path(consumer_id))

    def clear(self, including: str = ".*", excluding: str | None = None) -> list[str]:
        """Forget the consumers whose whole ids match `including` and not `excluding`; their ids."""
        chosen = [
            consumer_id
            for consumer_id in self.ids()
            if re.fullmatch(including, consumer_id) and not (excluding and re.fullmatch(excluding, consumer_id))
        ]
        for consumer_id in chosen:
            self.delete(consumer_id)
        return chosen

    def expire(self, before_millis: int) -> list[str]:
        """Forget the consumers whose progress was last noted before that time, since the epoch; their ids.

        Where the store has no modification times no consumer expires.
        """
        gone = [
            found.name.removeprefix(_PREFIX)
            for found in self._file_io.list(self._directory)
            if found.name.startswith(_PREFIX)
            and found.modified_millis is not None
            and found.modified_millis < before_millis
        ]
        for consumer_id in gone:
            self.delete(consumer_id)
        return gone

    def _path(self, consumer_id: str) -> str:
        if not consumer_id.strip():
            raise InvalidInputError(f"Not a consumer id: {consumer_id!r}. It is not blank.")
        return self._paths.consumer(consumer_id)


def check_consumer_id(consumer_id: str) -> str:
    """The id; raises InvalidInputError for one that no new consumer can have."""
    plain = path_name("consumer", consumer_id)
    if not plain.isprintable():
        raise InvalidInputError(f"Not a consumer id: {plain!r}. It is printable.")
    return plain
