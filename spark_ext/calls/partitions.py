"""Calls about partitions."""

from collections.abc import Sequence
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.partition import partitions_of
from interbed.spark_ext.calls.base import Calls
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.partition_values import agrees, spec_from_spark, values_to_spark
from interbed.storage.base.row.binary_row import decode_row
from interbed.thrift_idl.planner.ttypes import PartitionInfo


class PartitionCalls(Calls):
    """What Spark's SupportsAtomicPartitionManagement asks."""

    def listPartitions(self, handle: bytes, specJson: str) -> list[PartitionInfo]:  # noqa: N802, N803
        table = self._table_of(TableHandle.from_bytes(handle))
        fields = table.schema.partition_fields
        spec = spec_from_spark(specJson, fields)
        found = []
        # A table has few partitions beside its rows, and each becomes an object of Thrift's anyway.
        for partition in partitions_of(table):
            values = decode_row(table.partition_of(partition.spec), table.schema.partition_types)
            if agrees(spec, values, fields):
                figures = {
                    "recordCount": str(partition.record_count),
                    "fileSizeInBytes": str(partition.file_size_in_bytes),
                    "fileCount": str(partition.file_count),
                    "lastFileCreationTime": str(partition.last_file_creation_time),
                }
                found.append(PartitionInfo(valuesJson=values_to_spark(values, fields), figures=figures))
        return found

    def createPartitions(self, handle: bytes, specsJson: list[str]) -> None:  # noqa: N802, N803
        catalog, name, specs = self._specs(handle, specsJson)
        catalog.create_partitions(name, specs)

    def dropPartitions(self, handle: bytes, specsJson: list[str]) -> None:  # noqa: N802, N803
        catalog, name, specs = self._specs(handle, specsJson)
        catalog.drop_partitions(name, specs)

    def truncatePartitions(self, handle: bytes, specsJson: list[str]) -> None:  # noqa: N802, N803
        read = TableHandle.from_bytes(handle)
        fields = read.schema.partition_fields
        if specsJson:
            self._table_of(read).truncate([spec_from_spark(text, fields) for text in specsJson])

    def _specs(self, content: bytes, texts: Sequence[str]) -> tuple[Catalog, str, list[dict[str, Any]]]:
        handle = TableHandle.from_bytes(content)
        # Loaded for the check that it is still the same table.
        table = self._table_of(handle)
        catalog = self._catalogs.get(handle.catalog, handle.catalog_options)
        specs = [spec_from_spark(text, table.schema.partition_fields) for text in texts]
        return catalog, f"{handle.database}.{handle.table}", specs
