"""Paths of the Iceberg metadata of a table, as Paimon has them, and file access for pyiceberg.

<table>/metadata/…                                  with the storage location `table-location`
<warehouse>/iceberg/<database>/<table>/metadata/…   with `catalog-location`, of <warehouse>/<database>.db/<table>

v<snapshot id>.metadata.json   the table as of a snapshot of interbed's
version-hint.text              the number of the newest one
snap-<n>-<uuid>.avro           manifest lists
<uuid>-m<n>.avro               manifests
<index file>.puffin            the deletion vectors of an index file of the table, which Java Paimon does not write

Source: paimon-core's IcebergPathFactory and IcebergCommitCallback.

A written file stays in memory until `flush`, so no partial file is ever visible.
"""

import io
import re
import uuid
import zlib
from dataclasses import dataclass, field, replace
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from interbed.iceberg.publish.settings import STORAGE_LOCATION, StorageLocation
from interbed.iceberg.read.files import StoreInput
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.path_name import entry_name
from interbed.storage.io.api import FileIO as StoreFiles
from interbed.storage.io.api import write_file
from interbed.storage.io.resolve import normalize_path, respelled

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION_HINT = "version-hint.text"
RETIRE_PENDING = "retire-pending"
"""Java's marker file: a rollback may have left newer versions."""

PUFFIN = ".puffin"

_DATABASE = ".db"
_VERSION = re.compile(r"v(\d+)\.metadata\.json")
_PUFFIN = re.compile(r"(.+?)(\.at-[0-9a-f]{8})?\.puffin")


@dataclass(frozen=True, slots=True)
class PublishPlace:
    """The directory of metadata of one table; `name` and `numbers` make the names of new files of one run."""

    directory: str
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    numbers: "Iterator[int]" = field(default_factory=lambda: count(1))

    @staticmethod
    def of(table_location: str, kind: StorageLocation) -> "PublishPlace":
        """Return the directory of a table. Raises InvalidOptionError if the table is in no warehouse."""
        if kind is StorageLocation.TABLE_LOCATION:
            return PublishPlace(f"{table_location}/metadata")
        database, _, table = table_location.rpartition("/")
        warehouse, _, name = database.rpartition("/")
        if not name.endswith(_DATABASE):
            raise InvalidOptionError(
                f"The table at {table_location} is in no directory <database>.db, beside which its Iceberg metadata "
                f"would be; set '{STORAGE_LOCATION}' = '{StorageLocation.TABLE_LOCATION}'."
            )
        return PublishPlace(f"{warehouse}/iceberg/{name.removesuffix(_DATABASE)}/{table}/metadata")

    def spelled_as(self, location: str) -> "PublishPlace":
        """Return the same directory with the scheme of a location, for paths within metadata."""
        return replace(self, directory=respelled(self.directory, location))

    @property
    def hint(self) -> str:
        """The file with the number of the newest version."""
        return f"{self.directory}/{VERSION_HINT}"

    def version(self, number: int) -> str:
        """Return the metadata file of a version."""
        return f"{self.directory}/v{number}.metadata.json"

    def new_manifest(self) -> str:
        """Return a path that no manifest has."""
        return f"{self.directory}/{self.name}-m{next(self.numbers)}.avro"

    def new_list(self, snapshot_id: int) -> str:
        """Return a path that no manifest list has."""
        return f"{self.directory}/snap-{snapshot_id}-{self.name}.avro"

    def vectors(self, index_file: str, spelling: str | None) -> str:
        """Return the Puffin file of an index file's vectors.

        It names data files, so there is another file if the location of the table has a `spelling` other than its own.
        """
        other = "" if spelling is None else f".at-{zlib.crc32(spelling.encode()):08x}"
        return f"{self.directory}/{entry_name(index_file, self.directory)}{other}{PUFFIN}"


def index_file_of(path: str) -> str:
    """Return the name of the index file of the vectors in a file: its Puffin file, or the index file itself."""
    name = path.rpartition("/")[2]
    found = _PUFFIN.fullmatch(name)
    return name if found is None else found.group(1)


def version_of(name: str) -> int | None:
    """Return the number of a metadata file; None for any other file."""
    found = _VERSION.fullmatch(name)
    return None if found is None else int(found.group(1))


def own_names(table_location: str) -> tuple[str, str]:
    """Return database and table by the directories of a table."""
    database, _, table = table_location.rpartition("/")
    return database.rpartition("/")[2].removesuffix(_DATABASE), table


class StoreIO(FileIO):
    """Opens files for pyiceberg, however their paths spell the scheme; `written` are flushed files, in the spelling of
    the file system.
    """

    def __init__(self, files: StoreFiles) -> None:
        super().__init__()
        self.files = files
        self.written: list[str] = []
        self._waiting: dict[str, _OutputBuffer] = {}

    def new_input(self, location: str) -> InputFile:
        return StoreInput(location, self.files, normalize_path(location))

    def new_output(self, location: str) -> OutputFile:
        content = self._waiting[location] = _OutputBuffer()
        return _Output(self, location, content)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.files.delete(normalize_path(location if isinstance(location, str) else location.location))

    def flush(self) -> None:
        """Write the pending files. Raises StorageAccessError naming the file."""
        while self._waiting:
            location = next(iter(self._waiting))
            path = normalize_path(location)
            write_file(self.files, path, self._waiting[location].getvalue())
            del self._waiting[location]
            self.written.append(path)


class _OutputBuffer(io.BytesIO):
    """Bytes that are kept after they are closed."""

    def close(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _Output(OutputFile):
    def __init__(self, store: StoreIO, location: str, content: _OutputBuffer) -> None:
        super().__init__(location)
        self._store = store
        self._content = content

    def __len__(self) -> int:
        return len(self._content.getvalue())

    def exists(self) -> bool:
        return self._store.files.exists(normalize_path(self.location))

    def to_input_file(self) -> InputFile:
        return self._store.new_input(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return self._content
