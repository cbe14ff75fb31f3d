"""Where data lives, and the few things that a metastore does to it: make, rename and delete directories.

Locations are Hadoop's: `file:/warehouse/db.db/t`, `s3a://bucket/path`, `hdfs://host/path`, or a bare local path. They
are compared and stored as text; a `%` in them stands for itself. Local directories are handled by the operating
system, everything else by the FileIO of its scheme.
"""

import errno
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from interbed.catalog.server.service.directories.locations import LocationRules, parsed, resolved
from interbed.catalog.server.service.directories.remote_files import REMOTE_FILES
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError
from interbed.catalog.server.service.model import DEFAULT_DATABASE, MetastoreDatabase, MetastoreTable, StorageDescriptor
from interbed.storage.base.errors import InterbedError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.disk import LOCAL_DISK
from interbed.storage.base.fileio.hdfs.settings import configuration_directory
from interbed.storage.base.fileio.resolve import file_io_for, one_scheme

logger = logging.getLogger(__name__)

T = TypeVar("T")

LEVELS_MAX = 200
"""Directories in one another that are made for a location: making and deleting them recurses."""

_SLASHES = re.compile("/{2,}")

_OBJECT_STORES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cos")
"""Schemes where a directory is only a prefix: there is nothing to make."""


_HDFS_RETRIES = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "1000",
}
"""How often name nodes are asked where nothing is configured: a port that refuses is reported within seconds."""


class TrashCan(Protocol):
    """Where directories go that are not deleted at once (trash.py)."""

    def take(self, location: str) -> bool:
        """Move a directory there; whether it is gone from its place."""
        ...


class Warehouse:
    """The root under which databases and managed tables get their directories."""

    def __init__(self, root: str, trash: TrashCan | None = None, *, rules: LocationRules | None = None) -> None:
        self.root = normalized_location(root)
        self._trash = trash
        self._rules = rules if rules is not None else LocationRules()

    @property
    def has_trash(self) -> bool:
        """Whether directories go to a trash before they are deleted."""
        return self._trash is not None

    def discard(self, location: str, *, purge: bool) -> bool:
        """Delete a directory, or move it to the trash if there is one and it is not to be purged; whether it is gone.
        Failures are logged: the metadata is gone, and the data is left for its owner.
        """
        if self._trash is not None and not purge:
            return self._trash.take(location)
        return delete_directory(location)

    def empty(self, location: str, *, purge: bool) -> None:
        """Take everything out of a directory, as `discard`. MetastoreError if that fails half-way."""
        if self._trash is None or purge:
            empty_directory(location)
            return
        if not directory_exists(location):
            # Whoever was killed between the two steps below has left none.
            make_directory(location)
            return
        mode = directory_mode(location)
        if not self._trash.take(location):
            raise MetastoreError(f"cannot move the data in {location} to the trash")
        make_directory(location)
        if mode is not None:
            _checked(lambda: os.chmod(_split(location)[1], mode), f"cannot give {location} its permissions back")

    def database_location(self, name: str, catalog_location: str | None = None) -> str:
        """The directory of a database that names none: the root for `default`, `<root>/<name>.db` for others. The
        root is its catalog's location, the warehouse's if there is none.
        """
        root = catalog_location or self.root
        return root if name == DEFAULT_DATABASE else child(root, f"{name}.db")

    def table_location(self, database: MetastoreDatabase, table: MetastoreTable) -> str:
        """The directory of a table that names none: below its database's. A managed table goes to the database's
        managed location if it has one.
        """
        home = database.location or self.database_location(database.name)
        if database.managed_location and not table.is_external:
            home = database.managed_location
        return child(home, table.name)

    def qualified(self, location: str, before: str | None = None) -> str:
        """A location of a client as it is stored: one without a scheme is in the file system of the warehouse, one of
        the local file system has no authority, and none has doubled slashes. `before` is what is stored already, which
        may stay as it is. InvalidLocationError for one that is not taken.
        """
        if before is not None and location == before:
            return location
        if location.startswith("/"):
            root_scheme, path = _split(self.root)
            if root_scheme != "file":
                authority = path[2:].partition("/")[0] if path.startswith("//") else ""
                location = f"{self.root.partition(':')[0]}://{authority}{location}"
        place = self._rules.check(location)
        if place.is_local:
            return f"file:{place.path}"
        _, _, rest = location.partition(":")
        if not rest.startswith("//"):
            return f"{place.scheme}:{_SLASHES.sub('/', rest)}"
        host, slash, path = rest[2:].partition("/")
        return f"{place.scheme}://{host}{_SLASHES.sub('/', slash + path)}"

    def linked(self, location: str | None) -> str | None:
        """The text of the place that a local location leads to by links; None if there are none in it."""
        if location is None or not location.startswith("file:"):
            return None
        try:
            place = parsed(location)
            real = resolved(place)
        except (MetastoreError, OSError, ValueError):
            return None
        return real.text if real.text != place.text else None

    def check_skew(self, storage: StorageDescriptor, before: StorageDescriptor | None = None) -> None:
        """InvalidLocationError for a directory of a frequent value that is not taken, unless it is stored already."""
        known = set() if before is None or before.skew is None else {place for _, place in before.skew.locations}
        for _, location in storage.skew.locations if storage.skew is not None else ():
            if location not in known:
                self._rules.check(location)

    def is_protected(self, location: str) -> bool:
        """Whether a table or database that claims this location must not delete it: it holds the warehouse, or
        everything.
        """
        return contains(location, self.root)


def child(location: str, name: str) -> str:
    """The location of a directory in another."""
    return f"{location.rstrip('/')}/{name}"


def normalized_location(location: str) -> str:
    """A location as it is stored: local ones as `file:/absolute/path`, none with a slash at its end.

    A path that begins with no slash, `file:./warehouse`, is relative to the working directory.
    """
    scheme, path = _split(location)
    if scheme == "file":
        rest = location.removeprefix("file:")
        if not rest.startswith("/"):
            path = rest
        absolute = os.path.abspath(path)
        return f"file:{absolute}"
    return location.rstrip("/") if location.count("/") > 3 else location


def make_directory(location: str) -> bool:
    """Make sure that the directory is there, for good; whether it had to be made. MetastoreError if it cannot be."""
    made: list[str] = []
    make_directories([location], made)
    return bool(made)


def make_directories(locations: Iterable[str], made: list[str]) -> None:
    """Make sure that the directories are there, for good. Those that had to be made are put into `made`, also when
    another cannot be, which is a MetastoreError.
    """
    # One by one, so that what was made is known when one of them cannot be.
    for location in locations:
        if _make_directory(location):
            made.append(location)  # noqa: PERF401
    # The database is durable, and must not know of directories that are gone after a power cut. A new directory is an
    # entry of the one above it, so that many below one take one sync.
    above = dict.fromkeys(os.path.dirname(path) for scheme, path in map(_split, made) if scheme == "file")
    if above:
        _checked(lambda: LOCAL_DISK.sync_names(above), f"unable to create {made[0]} for good")


def _make_directory(location: str) -> bool:
    scheme, path = _split(location)
    if scheme in _OBJECT_STORES:
        REMOTE_FILES.check_free(location)
        return False
    if scheme == "file":
        return _checked(lambda: _made(path), f"{location} is not a directory or unable to create one")

    def make(filesystem: FileIO, remote_path: str) -> bool:
        if filesystem.exists(remote_path):
            return False
        filesystem.make_directories(remote_path)
        return True

    return _on_remote(location, make, f"{location} is not a directory or unable to create one")


def _made(path: str) -> bool:
    try:
        os.mkdir(path)
    except FileNotFoundError:
        if path.count("/") > LEVELS_MAX:
            raise OSError(errno.ENAMETOOLONG, f"it has more than {LEVELS_MAX} levels") from None
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    return True


def directory_exists(location: str) -> bool:
    """Whether there is anything at the location. MetastoreError if it cannot be looked at."""
    scheme, path = _split(location)
    if scheme == "file":
        return os.path.lexists(path)
    return _on_remote(location, _exists, f"cannot look at {location}")


def is_asked(location: str) -> bool:
    """Whether a remote server is asked about directories of this file system; there are none in object stores."""
    scheme = _split(location)[0]
    return scheme != "file" and scheme not in _OBJECT_STORES


def reach(location: str) -> None:
    """Ask the file system of a location once, so that a transaction does not wait for one that does not answer.
    MetastoreError if it cannot be reached.
    """
    if is_asked(location):
        directory_exists(location)


def remove_empty_directory(location: str) -> None:
    """Take back a directory that was just made, unless something is in it by now."""
    scheme, path = _split(location)
    if scheme == "file":
        try:
            os.rmdir(path)
        except OSError as error:
            logger.warning("could not take back the directory %s: %s", location, error)


def remove_empty_parents(location: str, *, below: str | None) -> None:
    """Remove the directories above `location` that are empty now, as long as they lie below another one."""
    scheme, path = _split(location)
    if scheme != "file" or below is None or not contains(below, location):
        return
    top = _split(below)[1].rstrip("/")
    parent = os.path.dirname(path.rstrip("/"))
    while len(parent) > len(top):
        try:
            os.rmdir(parent)
        except OSError:
            # It is not empty, or another partition was just put into it.
            return
        parent = os.path.dirname(parent)


def directory_mode(location: str) -> int | None:
    """The permissions of a local directory. MetastoreError if it cannot be looked at."""
    scheme, path = _split(location)
    if scheme != "file":
        return None
    return _checked(lambda: os.stat(path).st_mode & 0o7777, f"cannot look at {location}")


def delete_directory(location: str) -> bool:
    """Delete the directory and everything in it; whether it is gone. Failures are logged: the metadata is gone, and the
    data is left for its owner.
    """
    scheme, path = _split(location)
    try:
        if scheme == "file":
            if os.path.isfile(path) and not os.path.islink(path):
                os.unlink(path)
            elif os.path.lexists(path):
                shutil.rmtree(path)
            return True
        _on_remote(location, _delete, f"cannot delete {location}", changes=True)
    except (OSError, ValueError, NotImplementedError, RecursionError, MetastoreError) as error:
        logger.warning("could not delete the data in %s: %s", location, error)
        return False
    return True


def rename_directory(old: str, new: str) -> bool:
    """Rename a directory; False if the old one does not exist. InvalidOperationError if the new one does or it cannot
    be done.
    """
    scheme, old_path = _split(old)
    new_scheme, new_path = _split(new)
    if scheme != new_scheme:
        raise InvalidOperationError(f"cannot move data from {old} to {new}: different file systems")
    if scheme == "file":
        if not os.path.lexists(old_path):
            return False
        if os.path.lexists(new_path):
            raise InvalidOperationError(f"New location for this table already exists : {new}")
        _checked(lambda: os.rename(old_path, new_path), f"Unable to access old location {old} or to move it to {new}")
        parents = {os.path.dirname(old_path.rstrip("/")), os.path.dirname(new_path.rstrip("/"))}
        _checked(lambda: LOCAL_DISK.sync_names(parents), f"Unable to move {old} to {new} for good")
        return True
    if not renames_directories(old):
        raise InvalidOperationError(
            f"cannot move data from {old} to {new}: an object store copies a directory file by file, and a crash would "
            "leave a part of it in each; write the data to the new place instead"
        )
    if not _on_remote(old, _exists, f"cannot look at {old}"):
        return False
    REMOTE_FILES.check_free(new)

    def rename(filesystem: FileIO, old_remote: str) -> bool:
        return filesystem.rename(old_remote, _remote(new)[1])

    if not _on_remote(old, rename, f"Unable to access old location {old} or to move it to {new}", changes=True):
        raise InvalidOperationError(f"New location for this table already exists : {new}")
    return True


def names_in(location: str) -> list[str]:
    """The names of what is in a directory. MetastoreError if it cannot be listed."""
    scheme, path = _split(location)
    if scheme == "file":
        return _checked(lambda: os.listdir(path), f"cannot list {location}")
    entries = _on_remote(location, lambda filesystem, path: filesystem.list(path), f"cannot list {location}")
    return [entry.name for entry in entries]


def empty_directory(location: str) -> None:
    """Delete everything in the directory but not the directory. MetastoreError if that fails half-way."""
    scheme, path = _split(location)
    if scheme == "file":
        _checked(lambda: _empty_local(path), f"cannot delete the data in {location}")
        return

    def empty(filesystem: FileIO, remote_path: str) -> None:
        for entry in filesystem.list(remote_path):
            filesystem.delete(entry.path, recursive=True)

    _on_remote(location, empty, f"cannot delete the data in {location}", changes=True)


def same_location(left: str | None, right: str | None) -> bool:
    """Whether two locations name the same directory, whatever the number of slashes and the name of Hadoop's client."""
    if left is None or right is None:
        return False
    return left == right or _comparable(left) == _comparable(right)


def is_root(location: str) -> bool:
    """Whether a location is the root directory of a file system, or of a bucket."""
    scheme, path = _split(location)
    if scheme != "file" and path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return not path.strip("/")


def path_of(location: str) -> str:
    """The path of a location within its file system, with a slash at its beginning."""
    _, path = _split(location)
    return "/" + path[2:].partition("/")[2] if path.startswith("//") else path


def file_system_of(location: str) -> str:
    """What two locations of one file system have in common: scheme and authority."""
    scheme, path = _split(location)
    return f"{scheme}://{path[2:].partition('/')[0]}" if scheme != "file" and path.startswith("//") else f"{scheme}:"


def renames_directories(location: str) -> bool:
    """Whether a directory there can be renamed in one step: object stores have none."""
    return _split(location)[0] not in _OBJECT_STORES


def directories_of(location: str) -> list[str]:
    """The directories that a location lies in, the outermost first, and itself at the end, to be compared by text."""
    parts = _comparable(location).rstrip("/").split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def contains(location: str, inner: str | None) -> bool:
    """Whether `inner` is the directory itself or lies in it."""
    if inner is None:
        return False
    outer_path, inner_path = _comparable(location), _comparable(inner)
    return inner_path == outer_path or inner_path.startswith(outer_path.rstrip("/") + "/")


def _empty_local(path: str) -> None:
    if not os.path.isdir(path):
        return
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _split(location: str) -> tuple[str, str]:
    """Scheme and path; a location without a scheme is local."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return "file", location
    if scheme == "file":
        return "file", "/" + rest.lstrip("/")
    return scheme.lower(), rest


def _comparable(location: str) -> str:
    scheme, path = _split(location)
    return f"{one_scheme(scheme)}:{PurePosixPath(path)}"


def _on_remote(location: str, work: Callable[[FileIO, str], T], message: str, *, changes: bool = False) -> T:
    """Run work on the remote file system of a location, with the path there. MetastoreError if it fails or does not
    end in time.
    """
    return _checked(lambda: REMOTE_FILES.run(location, lambda: work(*_remote(location)), changes=changes), message)


def _exists(filesystem: FileIO, path: str) -> bool:
    return filesystem.exists(path)


def _delete(filesystem: FileIO, path: str) -> bool:
    return filesystem.delete(path, recursive=True)


def _remote(location: str) -> tuple[FileIO, str]:
    """The file system of a location, opened by what the server's environment says, and the path there."""
    scheme = _split(location)[0]
    # Hadoop's own files say how long a name node is asked; without them the server's deadline does.
    is_configured = scheme != "hdfs" or configuration_directory({}) is not None
    return _checked(
        lambda: file_io_for(location, None if is_configured else _HDFS_RETRIES),
        f"cannot open the file system of {location}",
    )


def _checked(action: Callable[[], T], message: str) -> T:
    try:
        return action()
    except (OSError, ValueError, NotImplementedError, RecursionError, InterbedError) as error:
        # Arrow's errors derive from the first three: a bad uri, a file system that this build of Arrow lacks, and
        # input or output. A tree of directories may be deeper than Python recurses.
        raise MetastoreError(f"{message}: {error}") from error
