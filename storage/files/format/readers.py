"""The reader of each file format."""

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.api import FormatReader
from interbed.storage.files.format.avro import AvroReader
from interbed.storage.files.format.orc import OrcReader
from interbed.storage.files.format.parquet import ParquetReader

_READERS: dict[str, FormatReader] = {"parquet": ParquetReader(), "orc": OrcReader(), "avro": AvroReader()}


def reader_for(file_format: str, path: str) -> FormatReader:
    """The reader of a format; raises NotSupportedError naming the file for an unknown one."""
    reader = _READERS.get(file_format.lower())
    if reader is None:
        raise NotSupportedError(
            f"The data file {path} is of the format '{file_format}'; this version reads {', '.join(sorted(_READERS))}."
        )
    return reader
