"""A table as one of its metadata files describes it, without a catalog."""

from collections.abc import Mapping

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable

from interbed.iceberg.read.files import store_options
from interbed.iceberg.read.store_inputs import StoreInputs

_NAME = "static-table"


def static_table(location: str, properties: Mapping[str, str]) -> StaticTable:
    """The table of a metadata file; `properties` are pyiceberg's of the store.

    Raises FileNotFoundError and StorageAccessError, and as pyiceberg does for what is no table's metadata. pyiceberg's
    own function asks a store twice.
    """
    metadata = FromInputFile.table_metadata(StoreInputs(store_options(properties)).new_input(location))
    return StaticTable(
        identifier=(_NAME, location),
        metadata_location=location,
        metadata=metadata,
        io=load_file_io({**properties, **metadata.properties}, location=location),
        catalog=NoopCatalog(_NAME),
    )
