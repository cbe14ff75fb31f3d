"""The planner: answers what Spark's catalog, scans and writes ask (planner.thrift).

It runs in processes of the driver and holds no session: each call names its catalog or brings a table's handle. The
calls themselves are in `interbed.spark_ext.calls`.
"""

from typing import BinaryIO

from thrift.protocol.TBinaryProtocol import TBinaryProtocol

from interbed.spark_ext.calls.base import CatalogPool
from interbed.spark_ext.calls.namespaces import NamespaceCalls
from interbed.spark_ext.calls.partitions import PartitionCalls
from interbed.spark_ext.calls.paths import PathCalls
from interbed.spark_ext.calls.procedures import ProcedureCalls
from interbed.spark_ext.calls.row_changes import RowChangeCalls
from interbed.spark_ext.calls.scans import ScanCalls
from interbed.spark_ext.calls.statistics import StatisticsCalls
from interbed.spark_ext.calls.streams import StreamCalls
from interbed.spark_ext.calls.tables import TableCalls
from interbed.spark_ext.calls.views import ViewCalls
from interbed.spark_ext.calls.writes import WriteCalls
from interbed.spark_ext.handle.errors import Guarded
from interbed.spark_ext.process.interface import check_interface
from interbed.thrift_idl.planner import Planner


class PlannerHandler(
    NamespaceCalls,
    TableCalls,
    PathCalls,
    ScanCalls,
    StreamCalls,
    WriteCalls,
    PartitionCalls,
    ViewCalls,
    StatisticsCalls,
    ProcedureCalls,
    RowChangeCalls,
):
    """The service's methods under their IDL names; they raise interbed's errors."""

    def __init__(self) -> None:
        self._catalogs = CatalogPool()

    def checkInterface(self, version: str) -> None:  # noqa: N802 - Thrift's name.
        check_interface(version)

    def close(self) -> None:
        """Give back the catalogs' connections."""
        self._catalogs.close()


class _Streams:
    """A pair of binary streams, as much of a Thrift transport as a protocol over an open connection calls."""

    def __init__(self, infile: BinaryIO, outfile: BinaryIO) -> None:
        self._in = infile
        self._out = outfile

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name.
        content = self._in.read(size)
        if len(content) < size:
            raise EOFError
        return content

    def write(self, content: bytes) -> None:
        self._out.write(content)

    def flush(self) -> None:
        self._out.flush()


def serve(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Answer calls until the driver hangs up."""
    handler = PlannerHandler()
    processor = Planner.Processor(Guarded(handler))
    protocol = TBinaryProtocol(_Streams(infile, outfile))
    try:
        while True:
            processor.process(protocol, protocol)
    except EOFError:
        # Between two calls: the driver has no more of them.
        return
    finally:
        handler.close()
