"""What a file-system catalog knows of a database beside its name: `<warehouse>/<database>.db/.database-properties`.

    {"comment": "what we sell", "team": "sales"}

Paimon's file-system catalog drops the properties that a database is given, and passes over files beside tables; so the
file is ours alone, and nothing of the format rests on it.
"""

import json
from collections.abc import Mapping, Sequence

from interbed.storage.base.errors import CorruptFileError, InvalidOptionError
from interbed.storage.io.api import FileIO

FILE_NAME = ".database-properties"
COMMENT = "comment"
LOCATION = "location"


def read_properties(file_io: FileIO, directory: str) -> dict[str, str]:
    """The properties of the database in that directory, its comment among them; raises CorruptFileError."""
    path = f"{directory}/{FILE_NAME}"
    try:
        found = json.loads(file_io.read_bytes(path))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} does not hold the properties of a database: {error}") from error
    if not isinstance(found, dict):
        raise CorruptFileError(f"{path} does not hold the properties of a database, which are an object.")
    return {str(key): str(value) for key, value in found.items()}


def create_properties(file_io: FileIO, directory: str, properties: Mapping[str, str]) -> bool:
    """Give a new database its properties, in one step where the store can; False when it has some already."""
    return file_io.create_exclusive(f"{directory}/{FILE_NAME}", _text(properties))


def write_properties(file_io: FileIO, directory: str, properties: Mapping[str, str]) -> None:
    """Put the properties in place of those that there were, in one step; raises StorageAccessError."""
    path = f"{directory}/{FILE_NAME}"
    if properties:
        file_io.overwrite(path, _text(properties))
    else:
        file_io.delete(path)
        # In a store it may have been all that made the database a directory.
        file_io.make_directories(directory)


def _text(properties: Mapping[str, str]) -> bytes:
    return json.dumps(dict(sorted(properties.items())), ensure_ascii=False, indent=2).encode()


def changed_properties(
    properties: Mapping[str, str], to_set: Mapping[str, str], to_remove: Sequence[str]
) -> dict[str, str]:
    """The properties after a change; an empty comment is none. Raises InvalidOptionError for the location."""
    check_no_location(to_set)
    changed = {key: value for key, value in properties.items() if key not in to_remove} | dict(to_set)
    return {key: value for key, value in changed.items() if key != COMMENT or value}


def check_no_location(to_set: Mapping[str, str]) -> None:
    """Raise InvalidOptionError when the location is among what is to be set."""
    if LOCATION in to_set:
        raise InvalidOptionError(
            "The location of a database can't be changed, for its tables would stay where they are. Create another "
            f"database at {to_set[LOCATION]} in a catalog with 'metastore' = 'hive', and rename the tables into it."
        )
