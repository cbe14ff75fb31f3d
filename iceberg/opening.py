"""Loading of Iceberg tables: from a directory, or from a metadata file."""

from collections.abc import Mapping

from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.table import Table as Metadata

from interbed.iceberg.commit.home import DirectoryHome, TableHome
from interbed.iceberg.read.files import OURS_ALONE, STORE_OPTIONS, static_table, store_options
from interbed.iceberg.table import IcebergTable
from interbed.storage.base.errors import (
    CorruptFileError,
    InterbedError,
    NotSupportedError,
    StorageAccessError,
)
from interbed.storage.io.resolve import file_io_for

_NEWEST_VERSION = 3
_METADATA_FILE = (".metadata.json", ".metadata.json.gz")


def load_iceberg_table(
    location: str, properties: Mapping[str, str] | None = None, *, name: str | None = None
) -> IcebergTable:
    """Load the table at a location: its directory, or one of its metadata files.

    `properties` are pyiceberg's of the object store. A directory has its metadata in files with the numbers of their
    versions, as tables of a Hadoop catalog do. Raises StorageAccessError, CorruptFileError, and NotSupportedError for
    an unknown version of the format.
    """
    given = dict(properties or {})
    home: TableHome | None = None
    try:
        if location.endswith(_METADATA_FILE):
            found: Metadata = static_table(location, given)
        else:
            file_io, path = file_io_for(location, store_options(given))
            home = DirectoryHome(location, given, file_io, path)
            found = home.load()
    except (FileNotFoundError, NoSuchTableError) as error:
        raise StorageAccessError(f"There is no Iceberg table at {location}: {error}") from error
    except OSError as error:
        raise StorageAccessError(f"Can't read {location}: {error.strerror or error}.") from error
    except (ValidationError, ValueError) as error:
        raise _unreadable(location, error) from error
    return IcebergTable(name or location.rstrip("/").rpartition("/")[2], found, home)


def store_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return pyiceberg's properties of the object store for a catalog's options, and interbed's own options."""
    return {
        STORE_OPTIONS.get(key, key): value
        for key, value in options.items()
        if key in STORE_OPTIONS or key.startswith(OURS_ALONE)
    }


def _unreadable(location: str, error: Exception) -> InterbedError:
    if "Unsupported field type" in str(error):
        return NotSupportedError(f"{location} has a column of a type that is not known: {error}")
    if "format version" in str(error).lower() or "format-version" in str(error):
        return NotSupportedError(
            f"{location} is of an unknown version of Iceberg's format; up to {_NEWEST_VERSION} are read: {error}"
        )
    return CorruptFileError(f"{location} is no table metadata of Iceberg: {error}")
