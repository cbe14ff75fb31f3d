"""The planner: server of planner.thrift for Spark's catalog, scans and writes.

It runs in processes of the driver and has no sessions: each call has its catalog or the handle of a table. The calls
are in `interbed.spark_ext.calls`.

The version of the interface is a digest of planner.thrift, which the jar contains. A jar of another version would
ignore unknown parts of an answer, and return wrong rows instead of an error. Therefore the JVM sends its version: to a
planner with its first call, to workers in an environment variable.

A planner for drivers on other hosts serves planner.thrift over TCP, binary protocol, unframed, with a thread for each
connection. There is no authentication: any client that reaches the port reads and writes what this process may. Bind it
to a network that is as closed as that of the executors.
"""

import hashlib
import logging
import socket
import socketserver
from functools import cache
from pathlib import Path
from typing import BinaryIO

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException

import interbed.thrift_idl
from interbed.spark_ext.calls.catalogs import CatalogPool, NamespaceCalls, ViewCalls
from interbed.spark_ext.calls.jobs import ProcedureCalls, RowChangeCalls, ScanCalls, StreamCalls, TaskCalls, WriteCalls
from interbed.spark_ext.calls.tables import PartitionCalls, PathCalls, StatisticsCalls, TableCalls
from interbed.spark_ext.handle.reports import GuardedHandler
from interbed.storage.base.errors import NotSupportedError
from interbed.thrift_idl.planner import Planner

VARIABLE = "INTERBED_INTERFACE"

_DIGITS = 16


@cache
def interface_version() -> str:
    """Return the version of this Python's interface; hatch_build.py writes the same into the jar."""
    (folder,) = interbed.thrift_idl.__path__
    return hashlib.sha256((Path(folder) / "planner.thrift").read_bytes()).hexdigest()[:_DIGITS]


def check_interface(version: str | None) -> None:
    """Raise NotSupportedError when a JVM has another version of the interface; None is an unknown version."""
    if version is not None and version != interface_version():
        raise NotSupportedError(
            f"The jar of interbed in this Spark application (interface {version}) and interbed in Python (interface "
            f"{interface_version()}) are of different versions. Install the same interbed on every node and for a "
            "remote planner, take the jar that `interbed spark settings` names, and start the application again."
        )


class PlannerHandler(
    NamespaceCalls,
    TableCalls,
    PathCalls,
    ScanCalls,
    TaskCalls,
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

    @property
    def secrets(self) -> set[str]:
        """Secrets of the catalogs that this planner has opened, more with each of them."""
        return self._catalogs.secrets

    def close(self) -> None:
        """Close the connections of the catalogs."""
        self._catalogs.close()


class _Streams:
    """A pair of binary streams with the methods of a Thrift transport that a protocol calls."""

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
    """Answer calls until the driver closes the connection."""
    handler = PlannerHandler()
    processor = Planner.Processor(GuardedHandler(handler, handler.secrets))
    protocol = TBinaryProtocol(_Streams(infile, outfile))
    try:
        while True:
            processor.process(protocol, protocol)
    except EOFError:
        # The driver has closed the connection between two calls.
        return
    finally:
        handler.close()


logger = logging.getLogger(__name__)


class _DriverConnection(socketserver.StreamRequestHandler):
    """One connection of a remote driver."""

    # Buffered, because Thrift writes an answer field by field.
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            serve(self.rfile, self.wfile)  # type: ignore[arg-type]  # Typed as its base class.
        except (OSError, TException, UnicodeDecodeError) as error:
            logger.warning("The connection of the driver at %s ended: %s", self.client_address[0], error)


class PlannerServer(socketserver.ThreadingTCPServer):
    """Server for remote drivers, from its creation until `shutdown`; `port` 0 takes a free one."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _DriverConnection)

    @property
    def endpoint(self) -> str:
        """Value of `spark.interbed.planner` for drivers that use this server."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"thrift://[{name}]:{port}" if ":" in name else f"thrift://{name}:{port}"
