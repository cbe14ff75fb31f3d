"""Scans of the catalog's system tables: the planner reads them, and the split carries their rows to the worker.

So no executor opens the catalog, and what is masked never leaves the driver.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.global_tables import GlobalTable
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.predicates import conjunction_of
from interbed.thrift_idl.planner.ttypes import ScanPlan, ScanSplit


def plan_global(catalog: Catalog, handle: TableHandle, request: Any, task: bytes) -> ScanPlan:
    """The plan for planner.thrift's ScanRequest, of one split with the rows that it selects, and the ReadTask given."""
    table = GlobalTable.of(catalog, handle.table)
    columns = list(request.columns)
    query = table.scan(columns, conjunction_of(request.filters, handle.fields), request.limit)
    rows = query.to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    split = ScanSplit(
        payload=sink.getvalue().to_pybytes(),
        rowCount=rows.num_rows,
        byteSize=rows.nbytes,
        nativeFiles=[],
        preferredHosts=[],
    )
    return ScanPlan(
        task=task,
        splits=[split],
        rowCount=rows.num_rows,
        byteSize=rows.nbytes,
        description=f"(rows={rows.num_rows}, columns=[{', '.join(columns)}])",
    )


def global_rows(split: bytes) -> Iterator[pa.RecordBatch]:
    """The rows that a split carries."""
    with pa.ipc.open_stream(split) as stream:
        yield from stream
