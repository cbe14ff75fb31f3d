"""The bytes of a table's metadata file, plain or compressed as its name says."""

import gzip

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import IcebergBaseModel

_CODEC = "write.metadata.compression-codec"


def metadata_suffix(metadata: TableMetadata) -> str:
    """The end of the file's name, by the table's properties."""
    is_gzip = metadata.properties.get(_CODEC, "none").lower() == "gzip"
    return ".gz.metadata.json" if is_gzip else ".metadata.json"


def metadata_bytes(metadata: TableMetadata, name: str) -> bytes:
    """What a file of that name holds."""
    # Metadata of version 3 refuse their own function, though what it would write is complete.
    content = IcebergBaseModel.model_dump_json(metadata).encode()
    return gzip.compress(content, mtime=0) if ".gz" in name else content
