"""A table as one of its metadata files describes it, without a catalog."""

import gzip
import zlib
from collections.abc import Mapping

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataUtil

from interbed.iceberg.read.files import store_options
from interbed.iceberg.read.store_inputs import StoreInputs

_NAME = "static-table"
_GZIP = b"\x1f\x8b"


def static_table(location: str, properties: Mapping[str, str]) -> StaticTable:
    """The table of a metadata file; `properties` are pyiceberg's of the store.

    Raises FileNotFoundError and StorageAccessError, ValueError for a damaged file, and as pyiceberg does for what is no
    table's metadata. pyiceberg's own function asks a store twice.
    """
    with StoreInputs(store_options(properties)).new_input(location).open() as stream:
        content = stream.read()
    if content.startswith(_GZIP):
        # Both `v1.gz.metadata.json` and `v1.metadata.json.gz` are names of compressed ones.
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"it is damaged: {error}") from error
    metadata = TableMetadataUtil.parse_raw(content.decode())
    return StaticTable(
        identifier=(_NAME, location),
        metadata_location=location,
        metadata=metadata,
        io=load_file_io({**properties, **metadata.properties}, location=location),
        catalog=NoopCatalog(_NAME),
    )
