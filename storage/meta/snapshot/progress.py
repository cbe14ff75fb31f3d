"""Progress of consumers of a table's changes, and of its log: both keep snapshots from expiring.

`consumer/consumer-<id>` holds `{"nextSnapshot": n}`: snapshots from n on are kept for the consumer. Source:
documentation page `flink/consumer-id`, paimon-core's ConsumerManager. interbed adds `passed`, the commit of the
snapshot before, so that a consumer notices a rollback; Paimon's Consumer ignores unknown members.

    <location>/log/LATEST
        {"snapshot": 7, "offsets": {"0": 120, "1": 98}, "line": 0}

All snapshots up to `snapshot` are in the log, before the offsets. Partitions of the log are numbered like buckets.
`line` counts how often the table was rolled back, as far as the log knows. The file is written after the log, so it may
be late but never early. Readers begin there, a commit puts it into its snapshot as `logOffsets`, and snapshots that are
not in the log yet do not expire.
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.decoding import read_object
from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.path_name import path_name
from interbed.storage.io.api import FileIO
from interbed.storage.meta.paths import TablePaths

_log = logging.getLogger(__name__)

_PREFIX = "consumer-"
_NEXT = "nextSnapshot"
_PASSED = "passed"
_MEMBER_TYPES = {_NEXT: int, _PASSED: str}
_BACKOFF = ExponentialBackoff(first_seconds=0.01, longest_seconds=0.3, growth=10**0.5, jitter=NO_JITTER, retries=4)
"""Pauses between reads of a consumer's file: Java Paimon overwrites it in place, so that it is empty for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProgress:
    """First snapshot that a consumer has not read, and the commit of the one before; None where it is not recorded."""

    next_snapshot: int
    passed: str | None = None


class ConsumerManager:
    """Consumers of one table (of one branch of it)."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._directory = paths.consumer("x").rpartition("/")[0]

    def ids(self) -> list[str]:
        """Return the ids of all consumers, sorted."""
        found = (s.name for s in self._file_io.list(self._directory) if not s.is_directory)
        return sorted(name.removeprefix(_PREFIX) for name in found if name.startswith(_PREFIX))

    def next_snapshot(self, consumer_id: str) -> int | None:
        """Return the first snapshot that the consumer has not read; None for an unknown consumer. CorruptFileError."""
        progress = self.progress(consumer_id)
        return None if progress is None else progress.next_snapshot

    def progress(self, consumer_id: str) -> ConsumerProgress | None:
        """Return the progress of the consumer; None for an unknown one. Raises CorruptFileError."""
        path = self._path(consumer_id)
        members: dict[str, Any] = {}
        retries = _BACKOFF.start(f"reading {path}", _log)
        while True:
            try:
                content = self._file_io.read_bytes(path)
            except FileNotFoundError:
                return None
            try:
                members = read_object(content, _MEMBER_TYPES, source=path, what="a consumer's file")
                break
            except CorruptFileError as error:
                if not retries.pause(error):
                    raise CorruptFileError(f"{error} Reset the consumer.") from error
        found = members.get(_NEXT)
        if found is None or found < 1:
            raise CorruptFileError(f"{path} is not a consumer's file: it goes on from {found}. Reset the consumer.")
        return ConsumerProgress(next_snapshot=int(found), passed=members.get(_PASSED))

    def all(self) -> dict[str, int]:
        """Return the next snapshot of each consumer; those that are deleted meanwhile are left out."""
        found = {consumer_id: self.next_snapshot(consumer_id) for consumer_id in self.ids()}
        return {consumer_id: number for consumer_id, number in found.items() if number is not None}

    def min_next_snapshot(self) -> int | None:
        """Return the first snapshot that some consumer has not read; None without consumers."""
        return min(self.all().values(), default=None)

    def reset(self, consumer_id: str, next_snapshot: int, *, passed: str | None = None) -> None:
        """Set the next snapshot of a consumer, or create one; raises InvalidInputError for an invalid id.

        `passed` is the commit of the snapshot before, where a rollback is to be noticed.
        """
        if next_snapshot < 1:
            raise InvalidInputError(f"The consumer {consumer_id!r} can't go on from snapshot {next_snapshot}.")
        members = {_NEXT: next_snapshot} if passed is None else {_NEXT: next_snapshot, _PASSED: passed}
        content = json.dumps(members, indent=2)
        self._file_io.overwrite(self._path(check_consumer_id(consumer_id)), content.encode())

    def delete(self, consumer_id: str) -> None:
        """Delete a consumer; an unknown one is no error. Raises StorageAccessError when it stays."""
        self._file_io.delete(self._path(consumer_id))

    def clear(self, including: str = ".*", excluding: str | None = None) -> list[str]:
        """Delete the consumers whose whole ids match `including` and not `excluding`. Return their ids."""
        chosen = [
            consumer_id
            for consumer_id in self.ids()
            if re.fullmatch(including, consumer_id) and not (excluding and re.fullmatch(excluding, consumer_id))
        ]
        for consumer_id in chosen:
            self.delete(consumer_id)
        return chosen

    def expire(self, before_millis: int) -> list[str]:
        """Delete the consumers whose progress was last recorded before that time, since the epoch. Return their ids.

        Where the file system has no modification times no consumer expires.
        """
        expired = [
            found.name.removeprefix(_PREFIX)
            for found in self._file_io.list(self._directory)
            if found.name.startswith(_PREFIX)
            and found.modified_millis is not None
            and found.modified_millis < before_millis
        ]
        for consumer_id in expired:
            self.delete(consumer_id)
        return expired

    def _path(self, consumer_id: str) -> str:
        if not consumer_id.strip():
            raise InvalidInputError(f"Not a consumer id: {consumer_id!r}. It is not blank.")
        return self._paths.consumer(consumer_id)


def check_consumer_id(consumer_id: str) -> str:
    """Return the id; raises InvalidInputError for one that no new consumer can have."""
    plain = path_name("consumer", consumer_id)
    if not plain.isprintable():
        raise InvalidInputError(f"Not a consumer id: {plain!r}. It is printable.")
    return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Position in the log: all snapshots up to `snapshot` are before `offsets`, the next offset of each partition."""

    snapshot: int
    offsets: Mapping[int, int]
    line: int = 0

    @property
    def as_log_offsets(self) -> dict[str, int]:
        """Offsets in the form that snapshots have."""
        return {str(partition): offset for partition, offset in sorted(self.offsets.items())}

    @staticmethod
    def offsets_of(log_offsets: Mapping[str, int] | None) -> dict[int, int]:
        """Return the offsets of a snapshot, by partition; empty when it has none. Raises CorruptFileError."""
        try:
            return {int(partition): int(offset) for partition, offset in (log_offsets or {}).items()}
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"A snapshot has log offsets that are none: {log_offsets!r}.") from error


class LogPositions:
    """Record of the log position of one table."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._path = paths.log_position

    def read(self) -> LogPosition | None:
        """Return the position, None without a record; raises CorruptFileError naming the file, StorageAccessError."""
        try:
            content = self._file_io.read_bytes(self._path)
        except FileNotFoundError:
            return None
        what = "a note of how far a table is in its log"
        members = {"snapshot": int, "offsets": dict, "line": int}
        found = read_object(content, members, source=self._path, what=what)
        try:
            return LogPosition(
                snapshot=int(found["snapshot"]),
                offsets={int(p): int(o) for p, o in found["offsets"].items()},
                line=int(found.get("line") or 0),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(
                f"{self._path} is not {what}: {error}. Remove it; the next publication writes it again."
            ) from error

    def write(self, position: LogPosition) -> None:
        """Write the position; raises StorageAccessError."""
        content = {"snapshot": position.snapshot, "offsets": position.as_log_offsets, "line": position.line}
        self._file_io.overwrite(self._path, json.dumps(content).encode())

    def delete(self) -> None:
        """Delete the record, if it exists. Raises StorageAccessError."""
        self._file_io.delete(self._path)
