"""The reader of each file format."""

from collections.abc import Callable
from functools import cache

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.api import FormatReader


def _parquet() -> FormatReader:
    from interbed.storage.files.format.parquet import ParquetReader

    return ParquetReader()


def _orc() -> FormatReader:
    from interbed.storage.files.format.orc import OrcReader

    return OrcReader()


def _avro() -> FormatReader:
    from interbed.storage.files.format.avro import AvroReader

    return AvroReader()


# Loaded by use: a table seldom has files of two formats.
_READERS: dict[str, Callable[[], FormatReader]] = {"parquet": cache(_parquet), "orc": cache(_orc), "avro": cache(_avro)}


def reader_for(file_format: str, path: str) -> FormatReader:
    """The reader of a format; raises NotSupportedError naming the file for an unknown one."""
    reader = _READERS.get(file_format.lower())
    if reader is None:
        raise NotSupportedError(
            f"The data file {path} is of the format '{file_format}'; this version reads {', '.join(sorted(_READERS))}."
        )
    return reader()
