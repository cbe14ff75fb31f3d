"""Layout of the records of metadata files in the three formats of `manifest.format`.

Names of these files have no suffix: Java Paimon reads all of a table in the format of the option, interbed each in the
format that its first bytes show.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from interbed.storage.base.avro.records import (
    RecordFile,
    codec_of,
    field_names,
    metadata_errors,
    read_records,
    write_records,
)
from interbed.storage.base.columnar_records import (
    ORC,
    ColumnFile,
    format_of,
    orc_schema,
    parquet_schema,
    read_columns,
    write_columns,
)
from interbed.storage.base.columnar_records import codec_of as columnar_codec

T = TypeVar("T")
AVRO = "avro"
_TINY = frozenset({"_KIND", "_FILE_SOURCE"})


class RecordLayout:
    """Schemas of one kind of metadata file; `schema` is the one in Avro."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._known = frozenset(field_names(schema))

    @cached_property
    def parquet(self) -> pa.Schema:
        """Schema of the file in Parquet."""
        return parquet_schema(self.schema, _TINY)

    @cached_property
    def orc(self) -> pa.Schema:
        """Schema of the file in ORC."""
        return orc_schema(self.schema, _TINY)

    def write(self, records: Iterable[Mapping[str, Any]], compression: str, file_format: str) -> bytes:
        """Return the content of a file of the records.

        `compression` is a value of `manifest.compression`, `file_format` of `manifest.format`. Raises
        InvalidOptionError for a codec that the format lacks.
        """
        if file_format == AVRO:
            return write_records(self.schema, records, compression)
        schema = self.orc if file_format == ORC else self.parquet
        return write_columns(schema, records, file_format, columnar_codec(file_format, compression))

    def read(self, content: bytes, make: Callable[[dict[str, Any]], T], *, source: str) -> list[T]:
        """Return the records of a file's content, converted by `make`; a field that the file lacks is absent.

        Raises CorruptFileError naming `source` for other content, and for records that `make` does not accept.
        """
        if format_of(content) is None:
            return read_records(content, self._known, make, source=source)
        with metadata_errors(source):
            return [make(record) for record in read_columns(content).to_pylist()]

    def new_file(self, compression: str, file_format: str) -> RecordFile | ColumnFile:
        """Return a new file without records."""
        if file_format == AVRO:
            return RecordFile(records=[], schema=self.schema, codec=codec_of(compression))
        schema = self.orc if file_format == ORC else self.parquet
        codec = columnar_codec(file_format, compression)
        return ColumnFile(records=[], schema=schema, file_format=file_format, codec=codec)

    def is_wider(self, file: RecordFile | ColumnFile) -> bool:
        """Return whether the file has all current fields; it may have more."""
        return self._known <= (field_names(file.schema) if isinstance(file, RecordFile) else file.names)


def check_codec(compression: str, file_format: str) -> None:
    """Raise InvalidOptionError for a value of `manifest.compression` that the format of manifests lacks."""
    if file_format == AVRO:
        codec_of(compression)
    else:
        columnar_codec(file_format, compression)


def read_file(content: bytes, compression: str, *, source: str) -> RecordFile | ColumnFile:
    """Return the records of a file with all of their fields, in its format.

    Avro files are rewritten with their codec, others with `compression`. Raises CorruptFileError naming `source`, and
    InvalidOptionError.
    """
    found = format_of(content)
    if found is None:
        return RecordFile.read(content, source=source)
    codec = columnar_codec(found, compression)
    with metadata_errors(source):
        return ColumnFile.read(content, codec)
