"""Where Iceberg tables come from: a directory, a metadata file, or what a metastore says of one."""

from collections.abc import Mapping

from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.table import StaticTable

from interbed.iceberg.read.files import STORE_OPTIONS
from interbed.iceberg.table import IcebergTable
from interbed.storage.base.errors import (
    CorruptFileError,
    InterbedError,
    InvalidOptionError,
    NotSupportedError,
    StorageAccessError,
)

METADATA_LOCATION = "metadata_location"
"""The parameter of a metastore's table that names its metadata file."""

_NEWEST_VERSION = 3


def load_iceberg_table(
    location: str, properties: Mapping[str, str] | None = None, *, name: str | None = None
) -> IcebergTable:
    """The table at a location: its directory, or one of its metadata files. `properties` are pyiceberg's of the store.

    A directory has to have `metadata/version-hint.text`, as tables of a Hadoop catalog do. Raises StorageAccessError,
    CorruptFileError, and NotSupportedError for a version of the format that is not known.
    """
    try:
        found = StaticTable.from_metadata(location, dict(properties or {}))
    except (FileNotFoundError, NoSuchTableError) as error:
        raise StorageAccessError(f"There is no Iceberg table at {location}: {error}") from error
    except OSError as error:
        raise StorageAccessError(f"Can't read {location}: {error.strerror or error}.") from error
    except (ValidationError, ValueError) as error:
        raise _unreadable(location, error) from error
    return IcebergTable(name or location.rstrip("/").rpartition("/")[2], found)


def registered_table(name: str, parameters: Mapping[str, str], options: Mapping[str, str]) -> IcebergTable:
    """The table of a metastore's entry; `options` are the catalog's. Raises as load_iceberg_table does, and
    InvalidOptionError where the entry names no metadata.
    """
    location = parameters.get(METADATA_LOCATION)
    if not location:
        raise InvalidOptionError(f"The metastore's entry of the Iceberg table '{name}' has no '{METADATA_LOCATION}'.")
    properties = {STORE_OPTIONS[key]: value for key, value in options.items() if key in STORE_OPTIONS}
    return load_iceberg_table(location, properties, name=name)


def _unreadable(location: str, error: Exception) -> InterbedError:
    if "Unsupported field type" in str(error):
        return NotSupportedError(f"{location} has a column of a type that is not known: {error}")
    if "format version" in str(error).lower() or "format-version" in str(error):
        return NotSupportedError(
            f"{location} is of an unknown version of Iceberg's format; up to {_NEWEST_VERSION} are read: {error}"
        )
    return CorruptFileError(f"{location} is no table metadata of Iceberg: {error}")
