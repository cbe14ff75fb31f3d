"""The writer of each file format."""

from typing import Any

from interbed.storage.files.format.api import FileWriter
from interbed.storage.files.format.avro_writer import AvroFileWriter
from interbed.storage.files.format.file_kind import DataFileKind
from interbed.storage.files.format.layout import DataFileLayout
from interbed.storage.files.format.orc_writer import OrcFileWriter
from interbed.storage.files.format.parquet_writer import ParquetFileWriter


def open_writer(kind: DataFileKind, layout: DataFileLayout, sink: Any) -> FileWriter:
    """The writer of a file of that kind into a file object that the caller opened and closes."""
    match kind.file_format:
        case "orc":
            return OrcFileWriter(sink, layout.arrow, layout.options, codec=kind.codec)
        case "avro":
            return AvroFileWriter(sink, layout.fields, layout.arrow, layout.options, codec=kind.codec)
        case _:
            return ParquetFileWriter(
                sink,
                layout.arrow,
                layout.options,
                codec=kind.codec,
                page_rows=kind.page_rows,
                ascending=layout.ascending,
            )
