"""Checks before a directory is deleted, emptied or moved, and the deletion of local directories by open descriptors.

The checks are independent of those made when the location was stored. A directory may be deleted if it lies strictly
below one of the roots, if no other registered object is in it or above it, and if it holds no file of the server. Local
directories are compared with symbolic links resolved, and by inode. A directory that cannot be checked is kept.

A path is checked first and deleted then. In between another process may swap one of its directories for a link. So
every directory on the way is opened without following links, and the deleted inode must be the one that was checked.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from interbed.catalog.server.service.directories.locations import (
    InvalidLocationError,
    LocationPlace,
    is_at_or_below,
    is_below,
    is_of_kernel,
    parsed,
    resolved,
    stored_place,
)
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.repository import Transaction

Identity = tuple[int, int]
"""Device and inode of a file."""

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A directory on the way need not be readable, only searchable.
_ON_THE_WAY = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)

_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")

WAREHOUSE = "warehouse"
"""The name of the warehouse in the setting `deletion_roots`."""
DATABASES = "databases"
"""The name, in the same setting, of the directories that the server made for databases."""


def identity_of(path: str) -> Identity | None:
    """Return device and inode of a path, links followed; None if they cannot be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def mount_points_in(path: str) -> list[str]:
    """Return the mount points at or below a path without links; none where the system does not list them. OSError."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
            points = [_OCTAL.sub(lambda found: chr(int(found[1], 8)), line.split(" ")[4]) for line in lines]
    except FileNotFoundError:
        return []
    return [point for point in points if point == path or point.startswith(path.rstrip("/") + "/")]


def remove_tree(path: str, identity: Identity) -> None:
    """Delete a file, or a directory with everything in it, if it is still the one of this identity. OSError."""
    with _parent_of(path) as (parent, name):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        _check(path, found, identity)
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)


def empty_tree(path: str, identity: Identity) -> None:
    """Delete everything in a directory, if it is still the one of this identity. OSError."""
    with _parent_of(path) as (parent, name):
        directory = os.open(name, _DIRECTORY | os.O_RDONLY, dir_fd=parent)
        try:
            _check(path, os.fstat(directory), identity)
            with os.scandir(directory) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            for entry_name, is_directory in found:
                if is_directory:
                    shutil.rmtree(entry_name, dir_fd=directory)
                else:
                    os.unlink(entry_name, dir_fd=directory)
        finally:
            os.close(directory)


def remove_empty(path: str, identity: Identity) -> None:
    """Delete a directory that has nothing in it, if it is still the one of this identity. OSError."""
    with _parent_of(path) as (parent, name):
        _check(path, os.stat(name, dir_fd=parent, follow_symlinks=False), identity)
        os.rmdir(name, dir_fd=parent)


@contextmanager
def _parent_of(path: str) -> Iterator[tuple[int, str]]:
    """Open the directory that contains a path without links; yield its descriptor and the name in it. OSError if it
    contains a link by now.
    """
    *above, name = [part for part in path.split("/") if part]
    directory = os.open("/", _ON_THE_WAY)
    try:
        for part in above:
            inner = os.open(part, _ON_THE_WAY, dir_fd=directory)
            os.close(directory)
            directory = inner
        yield directory, name
    finally:
        os.close(directory)


def _check(path: str, found: os.stat_result, identity: Identity) -> None:
    if (found.st_dev, found.st_ino) != identity:
        raise OSError(f"{path} was replaced meanwhile")


class DirectoryKeptError(MetastoreError):
    """A directory is kept, for the reason in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionClaim:
    """The object that a directory is deleted for.

    `table_id` is a table that is still registered: its places do not prevent the deletion, except the location
    `apart`, which the directory must not hold. `made` are the directories that the server created for its database;
    with `is_home` one of these may be deleted itself.
    """

    table_id: int | None = None
    apart: str | None = None
    made: tuple[str, ...] = ()
    is_home: bool = False


NO_CLAIM = DeletionClaim()


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """An existing directory: its place, and for a local one the place with links resolved and the inode."""

    location: str
    place: LocationPlace
    real: LocationPlace
    identity: Identity | None = None

    @property
    def has_links(self) -> bool:
        """Whether its path leads through symbolic links."""
        return self.place.text != self.real.text

    @property
    def texts(self) -> list[str]:
        """The texts of its place, with and without links."""
        return list(dict.fromkeys((self.place.text, self.real.text)))

    @property
    def above(self) -> list[str]:
        """The texts of the directories above it."""
        return list(dict.fromkeys((*self.place.above, *self.real.above)))


class DeletionGuard:
    """The checks of one server. `roots` are locations, WAREHOUSE or DATABASES; `protected` are paths of local files
    and directories that the server needs.
    """

    def __init__(
        self, warehouse: str, roots: Sequence[str] = (WAREHOUSE, DATABASES), protected: Sequence[str] = ()
    ) -> None:
        self._with_made = DATABASES in roots
        self._warehouse = parsed(warehouse)
        places = [warehouse if root == WAREHOUSE else root for root in roots if root != DATABASES]
        self._roots = [parsed(each) for each in places]
        self._protected = [os.path.abspath(each) for each in protected]

    def look(self, location: str) -> Directory | None:
        """Return the directory at a location; None if a local one does not exist. DirectoryKeptError for a symbolic
        link and for a directory that cannot be checked.
        """
        try:
            place = parsed(location)
        except InvalidLocationError as error:
            raise DirectoryKeptError(str(error)) from error
        if not place.names:
            raise DirectoryKeptError("it is the root of a file system")
        if not place.is_local:
            return Directory(location=location, place=place, real=self._with_host(place))
        try:
            parent = resolved(LocationPlace(scheme="file", authority="", names=place.names[:-1]))
            real = LocationPlace(scheme="file", authority="", names=(*parent.names, place.names[-1]))
            found = os.lstat(real.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise DirectoryKeptError(f"it cannot be looked at: {error}") from error
        if stat.S_ISLNK(found.st_mode):
            raise DirectoryKeptError("it is a link")
        return Directory(location=location, place=place, real=real, identity=(found.st_dev, found.st_ino))

    def check(self, transaction: Transaction, found: Directory, claim: DeletionClaim) -> None:
        """Raise DirectoryKeptError with the reason if the directory must be kept."""
        self._check_root(transaction, found, claim)
        if found.real.is_local:
            self._check_local(found)
        self._check_server(found)
        self._check_registered(transaction, found, claim)

    def is_below_root(self, transaction: Transaction, directory: Directory) -> bool:
        """Return whether the roots allow a directory to be moved or deleted."""
        try:
            self._check_root(transaction, directory, NO_CLAIM)
        except DirectoryKeptError:
            return False
        return True

    def check_target(self, transaction: Transaction, location: str, claim: DeletionClaim) -> None:
        """Raise DirectoryKeptError if a directory may not be moved to this location: another object is registered
        there, or it is in another table.
        """
        try:
            place = parsed(location)
            real = resolved(place) if place.is_local else self._with_host(place)
        except (InvalidLocationError, OSError, ValueError) as error:
            raise DirectoryKeptError(f"{location} cannot be checked: {error}") from error
        if place.is_local and is_of_kernel(real):
            raise DirectoryKeptError(f"{location} is in a directory of the kernel")
        target = Directory(location=location, place=place, real=real)
        self._check_server(target)
        self._check_registered(transaction, target, claim)

    def compared(self, location: str) -> tuple[list[str], list[str]] | None:
        """Return the texts by which a client's location is compared with registered ones: those of its place, and of
        the directories above it other than the warehouse. None for a location that cannot be read.
        """
        directory = directory_at(location)
        if directory is None:
            return None
        if not directory.place.is_local:
            directory = Directory(location=location, place=directory.place, real=self._with_host(directory.place))
        roots = {self._warehouse.text, self._real(self._warehouse).text}
        above = [each for each in self._with_hostless(directory.above) if each not in roots]
        return self._with_hostless(directory.texts), above

    def _check_root(self, transaction: Transaction, found: Directory, claim: DeletionClaim) -> None:
        made = claim.made if self._with_made else ()
        text = found.real.text
        if not found.has_links and any(is_below(text, root.text) for root in self._roots if root.is_local):
            # A root above a path without links has none either.
            return
        roots = [self._real(root).text for root in self._roots]
        if any(is_below(text, root) for root in (*roots, *made)):
            return
        if claim.is_home and text in made:
            return
        if self._with_made and any(
            is_below(text, root) for each in transaction.places.databases() for root in each.made
        ):
            return
        raise DirectoryKeptError(
            "it is not below one of the server's deletion_roots, nor in a directory that the server made for a database"
        )

    def _check_local(self, found: Directory) -> None:
        if is_of_kernel(found.real):
            raise DirectoryKeptError("it is in a directory of the kernel")
        try:
            points = mount_points_in(found.real.path)
        except (OSError, ValueError, IndexError) as error:
            raise DirectoryKeptError(f"it is not known what is mounted in it: {error}") from error
        if points:
            raise DirectoryKeptError(f"it holds the mount point {points[0]}")

    def _check_server(self, found: Directory) -> None:
        if found.place.holds(self._warehouse) or found.real.holds(self._with_host(self._warehouse)):
            raise DirectoryKeptError("the warehouse is inside it")
        if not found.real.is_local:
            return
        paths = [*self._protected, *_directories_of_process()]
        if self._warehouse.is_local:
            paths.append(self._warehouse.path)
        for path in paths:
            if is_at_or_below(os.path.realpath(path), found.real.path):
                raise DirectoryKeptError(f"it holds {path}, which the server needs")
            if found.identity is not None and found.identity in _identities_above(path):
                raise DirectoryKeptError(f"it is a directory that holds {path}, which the server needs")

    def _check_registered(self, transaction: Transaction, found: Directory, claim: DeletionClaim) -> None:
        if claim.apart is not None:
            self._check_apart(found, "the table that it is of", claim.apart)
        conflict = transaction.places.conflict(
            self._with_hostless(found.texts), self._with_hostless(found.above), table_id=claim.table_id
        )
        if conflict is not None:
            raise DirectoryKeptError(conflict)
        # The text of a place suffices for databases in the warehouse. The others are few, and may be reached by links.
        for each in transaction.places.databases(outside=self._warehouse.text):
            for location in each.locations:
                self._check_apart(found, each.what, location)

    def _check_apart(self, found: Directory, other: str, location: str) -> None:
        place = stored_place(location)
        if place is None:
            raise DirectoryKeptError(f"it cannot be compared with the location of {other}")
        if found.place.holds(place) or found.real.holds(self._real(place)):
            raise DirectoryKeptError(f"it holds {other}")
        if found.identity is not None and place.is_local and found.identity == identity_of(place.path):
            raise DirectoryKeptError(f"it is the directory of {other}")

    def _real(self, place: LocationPlace) -> LocationPlace:
        """Return a place with links resolved where possible, and with the warehouse's host where it has none."""
        return _resolved(place) if place.is_local else self._with_host(place)

    def _with_host(self, place: LocationPlace) -> LocationPlace:
        """Return a place of HDFS with the warehouse's host where the configuration is to supply it."""
        if place.authority or place.is_local or place.scheme != self._warehouse.scheme:
            return place
        return LocationPlace(scheme=place.scheme, authority=self._warehouse.authority, names=place.names)

    def _with_hostless(self, texts: Sequence[str]) -> list[str]:
        """Return the texts, and those without a host: another location may leave it to the configuration."""
        return list(dict.fromkeys(each for text in texts for each in (text, _hostless(text))))


def directory_at(location: str) -> Directory | None:
    """Return the directory at a stored location, whether it exists or not; None for a location that cannot be read."""
    place = stored_place(location)
    if place is None:
        return None
    return Directory(location=location, place=place, real=_resolved(place) if place.is_local else place)


def _hostless(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("hdfs", "viewfs"):
        return text
    return f"{scheme}://{rest[len(rest.partition('/')[0]) :]}"


def _resolved(place: LocationPlace) -> LocationPlace:
    try:
        return resolved(place)
    except (OSError, ValueError):
        return place


def _directories_of_process() -> list[str]:
    """Return the working directory of the process and the home directory of its user."""
    found = ["/", os.path.expanduser("~"), "/home", "/root", "/tmp", "/usr", "/etc", "/var"]
    # Another process may have deleted it. Then there is nothing to protect.
    with suppress(OSError):
        found.append(os.getcwd())
    return found


def _identities_above(path: str) -> set[Identity]:
    """Return the inodes of a path and of the directories above it, links followed."""
    real = os.path.realpath(path)
    found = set()
    while True:
        identity = identity_of(real)
        if identity is not None:
            found.add(identity)
        if real == "/":
            return found
        real = os.path.dirname(real)
