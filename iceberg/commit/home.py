"""The home of a table's metadata files: which file is the newest, and how the next one replaces it.

A catalog does both itself. In a directory without one (a Hadoop catalog's), version N is `metadata/vN.metadata.json`.
The exclusive creation of that file is the commit. `metadata/version-hint.text` names approximately the newest version.
Files are plain JSON, or compressed as their names say. Source: Iceberg's table specification, "File System Tables".
"""

import gzip
import re
from collections.abc import Mapping
from typing import Protocol

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as Metadata
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import IcebergBaseModel

from interbed.iceberg.read.files import static_table
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import check_exclusive

_CODEC = "write.metadata.compression-codec"


def metadata_suffix(metadata: TableMetadata) -> str:
    """Return the end of the name of a metadata file, by the table's properties."""
    is_gzip = metadata.properties.get(_CODEC, "none").lower() == "gzip"
    return ".gz.metadata.json" if is_gzip else ".metadata.json"


def metadata_bytes(metadata: TableMetadata, name: str) -> bytes:
    """Return the content of a metadata file of that name."""
    # pyiceberg's own function refuses metadata of version 3, although its output would be complete.
    content = IcebergBaseModel.model_dump_json(metadata).encode()
    return gzip.compress(content, mtime=0) if ".gz" in name else content


_HINT = "version-hint.text"
_VERSION = re.compile(r"v(\d+)\.(gz\.)?metadata\.json(\.gz)?")
_DELETES_OLD = "write.metadata.delete-after-commit.enabled"


class TableHome(Protocol):
    """Access to the place where a table's metadata are kept."""

    def load(self) -> Metadata:
        """Load the table in its present state."""
        ...

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """Update the table. Raises CommitFailedException if another commit was faster: nothing was changed then.

        After any other error it is not known whether the table was updated.
        """
        ...


class CatalogHome:
    """A catalog of pyiceberg; `table` is any state of the table."""

    def __init__(self, table: Metadata) -> None:
        self._table = table

    def load(self) -> Metadata:
        """Load the table; see TableHome."""
        return self._table.catalog.load_table(self._table.name())

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """Update the table; see TableHome."""
        self._table.catalog.commit_table(base, requirements, updates)


class DirectoryHome:
    """A directory without a catalog; `properties` are pyiceberg's of the object store, `file_io` opens the
    directory.
    """

    def __init__(self, location: str, properties: Mapping[str, str], file_io: FileIO, path: str) -> None:
        self._location = location.rstrip("/")
        self._properties = dict(properties)
        self._file_io = file_io
        self._metadata = f"{path.rstrip('/')}/metadata"

    def load(self) -> Metadata:
        """Load the table; see TableHome. Raises FileNotFoundError for a directory without a table."""
        _, name = self._newest()
        return static_table(f"{self._location}/metadata/{name}", self._properties)

    def commit(
        self, base: Metadata, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """Update the table; see TableHome."""
        check_exclusive(self._file_io, self._location, "Change the table by way of a catalog.")
        version, name = self._newest()
        if base.metadata_location.rpartition("/")[2] != name:
            raise CommitFailedException(f"{self._location} is at version {version} by now")
        for requirement in requirements:
            requirement.validate(base.metadata)
        made = update_table_metadata(base.metadata, updates, metadata_location=base.metadata_location)
        following = f"v{version + 1}{metadata_suffix(made)}"
        if self._find(version + 1) is not None or not self._file_io.create_exclusive(
            f"{self._metadata}/{following}", metadata_bytes(made, following)
        ):
            raise CommitFailedException(f"Another commit has made version {version + 1} of {self._location}")
        self._after(version + 1, base.metadata, made)

    def _after(self, version: int, before: TableMetadata, made: TableMetadata) -> None:
        """Write the hint and delete old metadata. It may fail: readers look for versions newer than the hint."""
        try:
            self._file_io.overwrite(f"{self._metadata}/{_HINT}", str(version).encode(), durable=False)
        except StorageAccessError:
            return
        self._file_io.delete_quietly(
            f"{self._metadata}/{path.rpartition('/')[2]}" for path in metadata_to_delete(before, made)
        )

    def _newest(self) -> tuple[int, str]:
        """Return the newest version and the name of its file."""
        version, name = 0, None
        try:
            hint = self._file_io.read_bytes(f"{self._metadata}/{_HINT}").decode().strip()
            if hint.isdecimal():
                version, name = int(hint), self._find(int(hint))
        except FileNotFoundError:
            pass
        if name is None:
            # There is no hint, or it names a missing file.
            found = [
                (int(match[1]), status.name)
                for status in self._file_io.list(self._metadata)
                if (match := _VERSION.fullmatch(status.name)) is not None
            ]
            if not found:
                raise FileNotFoundError(f"no metadata of a version in {self._metadata}")
            version, name = max(found)
        while (following := self._find(version + 1)) is not None:
            version, name = version + 1, following
        return version, name

    def _find(self, version: int) -> str | None:
        """Return the name of a version's file, which may be compressed; None if there is none."""
        names = (f"v{version}.metadata.json", f"v{version}.gz.metadata.json", f"v{version}.metadata.json.gz")
        return next((name for name in names if self._file_io.exists(f"{self._metadata}/{name}")), None)


def metadata_to_delete(before: TableMetadata, made: TableMetadata) -> list[str]:
    """Return the metadata files that a commit has dropped from the log, if the table wants them deleted."""
    if made.properties.get(_DELETES_OLD, "false").lower() != "true":
        return []
    kept = {entry.metadata_file for entry in made.metadata_log}
    return [entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in kept]


def home_of(table: Metadata) -> TableHome | None:
    """Return the catalog that a table was loaded from; None if it was loaded from a file."""
    return None if isinstance(table.catalog, NoopCatalog) else CatalogHome(table)
