"""The generated client without a wrapper: every method of the interface."""

from collections.abc import Iterator
from contextlib import contextmanager

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client

TIMEOUT_MS = 120_000


@contextmanager
def raw_client(port: int) -> Iterator[Client]:
    """Connect a client to the server on this port."""
    socket = TSocket("127.0.0.1", port)
    socket.setTimeout(TIMEOUT_MS)
    transport = TBufferedTransport(socket)
    transport.open()
    try:
        yield Client(TBinaryProtocolAccelerated(transport))
    finally:
        transport.close()
