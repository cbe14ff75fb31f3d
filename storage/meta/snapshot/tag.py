"""Tags: names for snapshots, which stay readable by them when the snapshot itself expires.

`tag/tag-<name>` holds the snapshot's JSON. A tag with a time to live also has `tagCreateTime` (local time as an array
of year, month, day, hour, minute, second, nanosecond) and `tagTimeRetained` (seconds). Source: documentation page
`maintenance/manage-tags`, paimon-core's Tag.

`tag/.guard-<id>` holds the JSON of a snapshot that a process is about to name. Its files are kept as by a tag, but it
is not listed; a guard that a killed process left is removed with orphan files. interbed's own.
"""

import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from interbed.storage.base.errors import (
    CorruptFileError,
    InterbedError,
    InvalidInputError,
    TagNotFoundError,
    UnsupportedVersionError,
    plain_errors,
)
from interbed.storage.base.path_name import path_name
from interbed.storage.io.api import FileIO
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.snapshot import Snapshot

_log = logging.getLogger(__name__)

_PREFIX = "tag-"
GUARD_PREFIX = ".guard-"
_CREATED = "tagCreateTime"
_RETAINED = "tagTimeRetained"
_Found = TypeVar("_Found")


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """Named snapshot. `created` is local time; `retained` the time to live from then on, both None for ever."""

    name: str
    snapshot: Snapshot
    created: datetime | None = None
    retained: timedelta | None = None

    def to_json(self) -> str:
        """Return the content of the tag's file."""
        if self.retained is None or self.created is None:
            return self.snapshot.to_json()
        # Older readers do not know these members, so only tags that need them have them.
        value: dict[str, Any] = json.loads(self.snapshot.to_json())
        at = self.created
        value[_CREATED] = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond * 1000]
        value[_RETAINED] = self.retained.total_seconds()
        return json.dumps(value, indent=2, ensure_ascii=False)

    @staticmethod
    def from_json(name: str, content: bytes, *, source: str) -> "Tag":
        """Return the tag of a file's content; raises CorruptFileError naming `source`."""
        read = Snapshot.from_json(content, source=source)
        rest = dict(read.unknown)
        created, retained = rest.pop(_CREATED, None), rest.pop(_RETAINED, None)
        try:
            return Tag(
                name=name,
                snapshot=replace(read, unknown=rest),
                created=None if created is None else _local_time(created),
                retained=None if retained is None else timedelta(seconds=float(retained)),
            )
        except (TypeError, ValueError, ArithmeticError) as error:
            raise CorruptFileError(f"{source} is not a tag's file: {error}") from error

    def is_over(self, now: datetime) -> bool:
        """Return whether its time to live has passed."""
        return self.created is not None and self.retained is not None and now > self.created + self.retained

    # -- names of pypaimon -----------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        """Id of the tagged snapshot."""
        return self.snapshot.id

    @property
    def tag_create_time(self) -> datetime | None:
        """Creation time of the tag, in local time."""
        return self.created

    @property
    def tag_time_retained(self) -> timedelta | None:
        """Time to live from the creation on."""
        return self.retained

    def trim_to_snapshot(self) -> Snapshot:
        """Return the snapshot of the tag."""
        return self.snapshot


class TagManager:
    """Tags of one table (of one branch of it)."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._directory = paths.tag("x").rpartition("/")[0]

    def names(self) -> list[str]:
        """Return all names, sorted."""
        found = (s.name for s in self._file_io.list(self._directory) if not s.is_directory)
        return sorted(name.removeprefix(_PREFIX) for name in found if name.startswith(_PREFIX))

    def all(self) -> list[Tag]:
        """Return all tags by the ids of their snapshots, then by name; those that are deleted meanwhile are left out.

        A tag whose file is damaged is left out as well, and logged. Callers that delete files use `judged`.
        """
        tags, damaged = self.judged()
        for name, error in damaged.items():
            _log.warning("The tag %r is left out, because its file can't be read: %s", name, error)
        return tags

    def judged(self) -> tuple[list[Tag], dict[str, InterbedError]]:
        """Return all tags in the order of `all`, and the errors of tags that can't be read, by name."""
        tags, damaged = _readable(self.names(), self.find)
        return sorted(tags, key=lambda tag: (tag.snapshot.id, tag.name)), damaged

    def guarded(self) -> tuple[list[Snapshot], dict[str, InterbedError]]:
        """Return the snapshots that are about to be named, and the errors of guards that can't be read."""
        names = [s.name for s in self._file_io.list(self._directory) if s.name.startswith(GUARD_PREFIX)]
        return _readable(names, self._find_guarded)

    def guard(self, snapshot: Snapshot) -> str:
        """Keep the files of the snapshot until `release` is called with the returned path."""
        path = f"{self._directory}/{GUARD_PREFIX}{uuid.uuid4()}"
        self._file_io.create_exclusive(path, snapshot.to_json().encode())
        return path

    def _find_guarded(self, name: str) -> Snapshot | None:
        path = f"{self._directory}/{name}"
        try:
            return Snapshot.from_json(self._file_io.read_bytes(path), source=path)
        except FileNotFoundError:
            return None

    def release(self, guard: str) -> None:
        """Delete a guard, if it exists."""
        self._file_io.delete_quietly([guard])

    def find(self, name: str) -> Tag | None:
        """Return the tag of that name; None when there is none."""
        path = self._paths.tag(name)
        try:
            return Tag.from_json(name, self._file_io.read_bytes(path), source=path)
        except FileNotFoundError:
            return None

    def get(self, name: str) -> Tag:
        """Return the tag of that name; raises TagNotFoundError naming the existing ones."""
        tag = self.find(check_tag_name(name))
        if tag is None:
            names = self.names()
            known = f"the table has {', '.join(map(repr, names[:20]))}" if names else "the table has no tags"
            raise TagNotFoundError(f"There is no tag {name!r}; {known}.")
        return tag

    def of_snapshot(self, snapshot_id: int) -> Tag | None:
        """Return a tag of the snapshot; None when it has none."""
        return next((tag for tag in self.all() if tag.snapshot.id == snapshot_id), None)

    def modified(self) -> Mapping[str, datetime]:
        """Return the time of the last write of each tag's file, in local time, where the file system has it."""
        return {
            status.name.removeprefix(_PREFIX): datetime.fromtimestamp(status.modified_millis / 1000)
            for status in self._file_io.list(self._directory)
            if status.name.startswith(_PREFIX) and status.modified_millis is not None
        }

    def create(self, tag: Tag) -> bool:
        """Write a tag's file. Return False when the name is taken."""
        check_tag_name(tag.name)
        return self._file_io.create_exclusive(self._paths.tag(tag.name), tag.to_json().encode())

    def replace(self, tag: Tag) -> None:
        """Point an existing tag to another snapshot; raises TagNotFoundError."""
        self.get(tag.name)
        self._file_io.overwrite(self._paths.tag(tag.name), tag.to_json().encode())

    def exists(self, name: str) -> bool:
        """Return whether there is a tag of that name, whatever the content of its file."""
        return self._file_io.exists(self._paths.tag(name))

    def delete(self, name: str) -> None:
        """Delete the tag's file, durably, but not the files that it kept; raises StorageAccessError."""
        self._file_io.delete(self._paths.tag(name))


def new_tag(name: str, snapshot: Snapshot, retained: timedelta | None, clock: Any = time.time) -> Tag:
    """Return a tag created now; with a time to live it records its creation time."""
    if retained is not None and retained <= timedelta(0):
        raise InvalidInputError(f"The tag {name!r} can't be retained for {retained}; give a time such as '7 d'.")
    # Keep whole milliseconds, which system tables show.
    created = None if retained is None else datetime.fromtimestamp(int(clock() * 1000) / 1000)
    return Tag(name=name, snapshot=snapshot, created=created, retained=retained)


def check_tag_name(name: str) -> str:
    """Return the name; raises InvalidInputError for one that no tag can have."""
    plain = path_name("tag", name)
    if not plain.isprintable():
        raise InvalidInputError(f"Not a tag name: {plain!r}. A name is printable.")
    return plain


def _local_time(parts: Any) -> datetime:
    # Java leaves out trailing zeros: [2024, 1, 1, 0, 0] is midnight.
    year, month, day, hour, minute, second, nanos = [*map(int, parts), 0, 0, 0, 0][:7]
    return datetime(year, month, day, hour, minute, second, nanos // 1000)


def _readable(
    names: Iterable[str], find: Callable[[str], _Found | None]
) -> tuple[list[_Found], dict[str, InterbedError]]:
    """Return the objects found by the names, and the errors of those that can't be read; missing ones are left out."""
    found: list[_Found] = []
    damaged: dict[str, InterbedError] = {}
    for name in names:
        try:
            one = find(name)
        except (CorruptFileError, UnsupportedVersionError) as error:
            damaged[name] = error
            continue
        if one is not None:
            found.append(one)
    return found, damaged
