"""A file of a snapshot, data or deletes, with what planning needs of its manifest entry.

Source: Iceberg's table specification, "Manifests"; the numbers of `content` and of the fields are its own.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pyiceberg.manifest import ManifestEntry

from interbed.iceberg.meta.manifest_entries import FIRST_ROW_ID
from interbed.storage.base.errors import CorruptFileError, NotSupportedError

PATH_ID = 2147483546
"""The column `file_path` of position delete files."""
POSITION_ID = 2147483545
"""Their column `pos`."""
_REFERENCED, _OFFSET, _SIZE = 17, 18, 19
"""Places of fields of version 3 in pyiceberg's record, which has no names for them."""


class Content(IntEnum):
    """What a file holds."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A file; sizes in bytes. `sequence_number` is that of its rows, by which deletes are newer than them or not.

    Of position deletes `lower_path` and `upper_path` bound the paths of the data files that they name, in UTF-8; of a
    deletion vector `referenced` is that path, and `offset` and `length` tell where it is in its file. The ids of a data
    file's rows, in version 3, follow `first_row_id`.
    """

    path: str
    content: Content
    file_format: str
    spec_id: int
    partition: tuple[object, ...]
    records: int
    size: int
    sequence_number: int
    equality_ids: tuple[int, ...] = ()
    lower_path: bytes | None = None
    upper_path: bytes | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    first_row_id: int | None = None

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector in a Puffin file."""
        return self.file_format == "puffin"

    @property
    def only_path(self) -> str | None:
        """The one data file that position deletes are of, where that is known."""
        if self.referenced is not None:
            return self.referenced
        if self.lower_path is None or self.lower_path != self.upper_path:
            return None
        return self.lower_path.decode("utf-8", "surrogateescape")

    @property
    def cost(self) -> int:
        """How much there is to read of it, in bytes."""
        return self.size if self.length is None else self.length

    @property
    def place(self) -> tuple[str, int | None]:
        """What tells it from others: several vectors share a file."""
        return self.path, self.offset


def live_file(entry: ManifestEntry) -> LiveFile:
    """The file of an entry; NotSupportedError for an encrypted one, CorruptFileError for one that says too little."""
    file = entry.data_file
    path, content = str(file.file_path), Content(int(file.content))
    if file.key_metadata is not None:
        raise NotSupportedError(f"{path} is encrypted; encrypted Iceberg tables are not read.")
    if entry.sequence_number is None:
        raise CorruptFileError(f"The manifest entry of {path} has no sequence number, and inherits none.")
    equality_ids = tuple(sorted(file.equality_ids or ()))
    if content is Content.EQUALITY_DELETES and not equality_ids:
        raise CorruptFileError(f"The manifest entry of {path} does not say by which columns it deletes.")
    values: list[Any] = file._data
    referenced, offset, length = values[_REFERENCED], values[_OFFSET], values[_SIZE]
    found = LiveFile(
        path=path,
        content=content,
        file_format=str(file.file_format.value).lower(),
        spec_id=file.spec_id,
        partition=tuple(_key_of(file.partition[place]) for place in range(len(file.partition))),
        records=file.record_count,
        size=file.file_size_in_bytes,
        sequence_number=entry.sequence_number,
        equality_ids=equality_ids,
        lower_path=(file.lower_bounds or {}).get(PATH_ID),
        upper_path=(file.upper_bounds or {}).get(PATH_ID),
        referenced=referenced,
        offset=offset,
        length=length,
        first_row_id=values[FIRST_ROW_ID],
    )
    if found.is_vector and (referenced is None or offset is None or length is None):
        raise CorruptFileError(f"The manifest entry of the deletion vector in {path} does not say of which file it is.")
    return found


def _key_of(value: object) -> object:
    """A value of a partition; NaN, which is not itself, as one that is."""
    return "NaN" if isinstance(value, float) and value != value else value
