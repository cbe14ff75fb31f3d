"""Directories of the warehouse: their locations, and how the metastore makes, renames and deletes them.

Locations are Hadoop's: `file:/warehouse/db.db/t`, `s3a://bucket/path`, `hdfs://host/path`, or a bare local path. They
are compared and stored as text; a `%` in them is an ordinary character. Local directories are handled by the operating
system, all others by the FileIO of their scheme.
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
from interbed.catalog.server.service.errors import (
    InvalidOperationError,
    MetastoreError,
    StoreAccessError,
    is_of_a_store,
)
from interbed.catalog.server.service.model import DEFAULT_DATABASE, MetastoreDatabase, MetastoreTable, StorageDescriptor
from interbed.storage.base.errors import InterbedError
from interbed.storage.io.api import FileIO
from interbed.storage.io.hdfs.settings import configuration_directory
from interbed.storage.io.local import LOCAL_DISK
from interbed.storage.io.resolve import file_io_for, one_scheme

logger = logging.getLogger(__name__)

T = TypeVar("T")

LEVELS_MAX = 200
"""Depth of directories that are made for a location: making and deleting them recurses."""

_SLASHES = re.compile("/{2,}")

_OBJECT_STORES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cos")
"""Schemes where a directory is only a prefix: there is nothing to make."""


_HDFS_RETRIES = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "1000",
}
"""Retries of name nodes where nothing is configured: a port that refuses is reported within seconds."""


class TrashCan(Protocol):
    """Directory for data whose deletion is delayed (undrop/drops.py)."""

    def take(self, location: str) -> bool:
        """Move a directory there; return whether it has left its place."""
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
        """Delete a directory, or move it to the trash if there is one and `purge` is false; return whether it has left
        its place. Failures are logged: the metadata is deleted already, and the data is left to its owner.
        """
        if self._trash is not None and not purge:
            return self._trash.take(location)
        return delete_directory(location)

    def empty(self, location: str, *, purge: bool) -> None:
        """Remove the content of a directory, as `discard`. MetastoreError if that fails half-way."""
        if self._trash is None or purge:
            empty_directory(location)
            return
        if not directory_exists(location):
            # A process that was killed between the two steps below has left none.
            make_directory(location)
            return
        mode = directory_mode(location)
        if not self._trash.take(location):
            raise MetastoreError(f"cannot move the data in {location} to the trash")
        make_directory(location)
        if mode is not None:
            _checked(lambda: os.chmod(_split(location)[1], mode), f"cannot give {location} its permissions back")

    def database_location(self, name: str, catalog_location: str | None = None) -> str:
        """Return the directory of a database without a location: the root for `default`, `<root>/<name>.db` for others.
        The root is its catalog's location, or the warehouse's if the catalog has none.
        """
        root = catalog_location or self.root
        return root if name == DEFAULT_DATABASE else child(root, f"{name}.db")

    def table_location(self, database: MetastoreDatabase, table: MetastoreTable) -> str:
        """Return the directory of a table without a location: below its database's. A managed table uses the database's
        managed location if it has one.
        """
        home = database.location or self.database_location(database.name)
        if database.managed_location and not table.is_external:
            home = database.managed_location
        return child(home, table.name)

    def qualified(self, location: str, before: str | None = None) -> str:
        """Return a client's location as it is stored: one without a scheme is in the file system of the warehouse, one
        of the local file system has no authority, and none has doubled slashes. `before` is the stored location, which
        may stay as it is. InvalidLocationError for one that is refused.
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
        """Return the target of a local location that contains links, as the text of a place; None if it
        contains none.
        """
        if location is None or not location.startswith("file:"):
            return None
        try:
            place = parsed(location)
            real = resolved(place)
        except (MetastoreError, OSError, ValueError):
            return None
        return real.text if real.text != place.text else None

    def check_skew(self, storage: StorageDescriptor, before: StorageDescriptor | None = None) -> None:
        """Raise InvalidLocationError for a refused directory of a frequent value, unless it is stored already."""
        known = set() if before is None or before.skew is None else {place for _, place in before.skew.locations}
        for _, location in storage.skew.locations if storage.skew is not None else ():
            if location not in known:
                self._rules.check(location)

    def is_protected(self, location: str) -> bool:
        """Return whether a table or database with this location must not delete it: it holds the warehouse, or is the
        root.
        """
        return contains(location, self.root)


def child(location: str, name: str) -> str:
    """Return the location of a directory in another."""
    return f"{location.rstrip('/')}/{name}"


def normalized_location(location: str) -> str:
    """Return a location as it is stored: local ones as `file:/absolute/path`, none with a slash at its end.

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
    """Create the directory durably if it is missing; return whether it was created. MetastoreError if it cannot be."""
    made: list[str] = []
    make_directories([location], made)
    return bool(made)


def make_directories(locations: Iterable[str], made: list[str]) -> None:
    """Create the missing directories durably. The created ones are added to `made`, also when a later one fails with
    MetastoreError.
    """
    # One by one, so that the created ones are known when one of them fails.
    for location in locations:
        if _make_directory(location):
            made.append(location)  # noqa: PERF401
    # The database is durable, and must not refer to directories that a power cut removes. A new directory is an entry
    # of its parent, so that many in one parent take one sync.
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
    """Return whether anything exists at the location. MetastoreError if it cannot be checked."""
    scheme, path = _split(location)
    if scheme == "file":
        return os.path.lexists(path)
    return _on_remote(location, _exists, f"cannot look at {location}")


def is_asked(location: str) -> bool:
    """Return whether a remote server is asked about directories of this file system; object stores have none."""
    scheme = _split(location)[0]
    return scheme != "file" and scheme not in _OBJECT_STORES


def reach(location: str) -> None:
    """Ask the file system of a location once, so that a transaction does not wait for one that does not answer.
    MetastoreError if it cannot be reached.
    """
    if is_asked(location):
        directory_exists(location)


def remove_empty_directory(location: str) -> None:
    """Remove a directory that was just made, unless it has content by now."""
    scheme, path = _split(location)
    if scheme == "file":
        try:
            os.rmdir(path)
        except OSError as error:
            logger.warning("could not take back the directory %s: %s", location, error)


def remove_empty_parents(location: str, *, below: str | None) -> None:
    """Remove the empty directories above `location`, as long as they lie below another one."""
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
    """Return the permissions of a local directory. MetastoreError if they cannot be read."""
    scheme, path = _split(location)
    if scheme != "file":
        return None
    return _checked(lambda: os.stat(path).st_mode & 0o7777, f"cannot look at {location}")


def delete_directory(location: str) -> bool:
    """Delete the directory and its content; return whether it is deleted. Failures are logged: the metadata is deleted
    already, and the data is left to its owner.
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
    """Rename a directory; False if the old one does not exist. InvalidOperationError if the new one exists or the
    rename fails.
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
    """Return the names of the entries of a directory. MetastoreError if it cannot be listed."""
    scheme, path = _split(location)
    if scheme == "file":
        return _checked(lambda: os.listdir(path), f"cannot list {location}")
    entries = _on_remote(location, lambda filesystem, path: filesystem.list(path), f"cannot list {location}")
    return [entry.name for entry in entries]


def with_files(location: str, work: Callable[[FileIO, str], T], message: str, *, changes: bool = False) -> T:
    """Run work on the file system of a location, with the path there. `changes` states that it changes files.

    MetastoreError, which begins with `message`, if it fails; on a remote file system also if it exceeds its deadline.
    """
    if _split(location)[0] == "file":
        return _checked(lambda: work(*file_io_for(location)), message)
    return _on_remote(location, work, message, changes=changes)


def empty_directory(location: str) -> None:
    """Delete the content of the directory but not the directory. MetastoreError if that fails half-way."""
    scheme, path = _split(location)
    if scheme == "file":
        _checked(lambda: _empty_local(path), f"cannot delete the data in {location}")
        return

    def empty(filesystem: FileIO, remote_path: str) -> None:
        for entry in filesystem.list(remote_path):
            filesystem.delete(entry.path, recursive=True)

    _on_remote(location, empty, f"cannot delete the data in {location}", changes=True)


def same_location(left: str | None, right: str | None) -> bool:
    """Return whether two locations name the same directory, whatever the number of slashes and the name of Hadoop's
    client.
    """
    if left is None or right is None:
        return False
    return left == right or _comparable(left) == _comparable(right)


def is_root(location: str) -> bool:
    """Return whether a location is the root directory of a file system, or of a bucket."""
    scheme, path = _split(location)
    if scheme != "file" and path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return not path.strip("/")


def path_of(location: str) -> str:
    """Return the path of a location within its file system, with a slash at its beginning."""
    _, path = _split(location)
    return "/" + path[2:].partition("/")[2] if path.startswith("//") else path


def file_system_of(location: str) -> str:
    """Return the scheme and authority of a location, which locations of one file system share."""
    scheme, path = _split(location)
    return f"{scheme}://{path[2:].partition('/')[0]}" if scheme != "file" and path.startswith("//") else f"{scheme}:"


def renames_directories(location: str) -> bool:
    """Return whether its file system renames directories in one step: object stores do not."""
    return _split(location)[0] not in _OBJECT_STORES


def directories_of(location: str) -> list[str]:
    """Return the texts of the directories above a location, the outermost first, and of itself at the end."""
    parts = _comparable(location).rstrip("/").split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def contains(location: str, inner: str | None) -> bool:
    """Return whether `inner` is the directory itself or lies in it."""
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
    """Return scheme and path; a location without a scheme is local."""
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
    """Run work on the remote file system of a location, with the path there. MetastoreError if it fails or exceeds its
    deadline.
    """
    return _checked(lambda: REMOTE_FILES.run(location, lambda: work(*_remote(location)), changes=changes), message)


def _exists(filesystem: FileIO, path: str) -> bool:
    return filesystem.exists(path)


def _delete(filesystem: FileIO, path: str) -> bool:
    return filesystem.delete(path, recursive=True)


def _remote(location: str) -> tuple[FileIO, str]:
    """Return the file system of a location, opened with the settings of the server's environment, and the
    path there.
    """
    scheme = _split(location)[0]
    # Hadoop's own files limit the time of a request to a name node; without them the server's deadline does.
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
        kind = StoreAccessError if is_of_a_store(error) else MetastoreError
        raise kind(f"{message}: {error}") from error
