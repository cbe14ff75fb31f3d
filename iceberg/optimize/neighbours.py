"""Other tables in the folder of an Iceberg table.

A table that was created with an explicit location, or in the place of a dropped one, may have its files in the folder
of another table. Nothing in one table's metadata names the other: it is found by its metadata files, which have another
`table-uuid`.
"""

import json
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.table import Table as Metadata

from interbed.iceberg.read.files import static_table
from interbed.storage.base.avro.records import METADATA_BLOCK_BYTES_MAX
from interbed.storage.base.decoding import TooManyBytesError, plain_content
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.io.api import FileIO, FileStatus

_log = logging.getLogger(__name__)

_ENDS = (".metadata.json", ".metadata.json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourTable:
    """Another table in the folder: its newest metadata, and the paths of all of its metadata files in the folder."""

    metadata: Metadata
    paths: frozenset[str]


def neighbours_of(table: Metadata, file_io: FileIO, root: str, known: Collection[str]) -> Iterator[NeighbourTable]:
    """Yield the other tables with metadata files in the folder `root` of a table.

    `known` are names of files that need not be read, because they are the table's own. Raises what reading metadata
    raises: what such a table names is not known then.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    own = str(table.metadata.table_uuid)
    for status in file_io.list(f"{root.rstrip('/')}/metadata"):
        if status.is_directory or not status.name.endswith(_ENDS) or status.name in known:
            continue
        document = _document(file_io, status)
        identity = document.get("table-uuid")
        if isinstance(identity, str) and identity != own:
            found.setdefault(identity, []).append((int(document.get("last-updated-ms", 0)), status.path))
    for identity, files in found.items():
        _, newest = max(files)
        location = f"{table.location().rstrip('/')}{newest[len(root.rstrip('/')) :]}"
        _log.warning(
            "The folder %s has files of another table, %s (%s). They are kept. Move one of the tables, or delete that "
            "file if its table was dropped.",
            table.location(),
            identity,
            newest,
        )
        yield NeighbourTable(
            metadata=static_table(location, table.io.properties),
            paths=frozenset(path for _, path in files),
        )


def _document(file_io: FileIO, status: FileStatus) -> dict[str, Any]:
    """Return the JSON of a metadata file; an empty object for a file that is none, as killed writers leave."""
    try:
        content = file_io.read_bytes(status.path)
    except FileNotFoundError:
        return {}
    try:
        found = json.loads(plain_content(content, METADATA_BLOCK_BYTES_MAX))
    except TooManyBytesError as error:
        raise CorruptFileError(
            f"The metadata file {status.path} can't be read: {error}. Move it away if no table has it."
        ) from error
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
