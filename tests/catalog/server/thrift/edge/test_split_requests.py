"""A request may arrive in any number of pieces: wherever it is cut, the server knows that it is incomplete."""

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.server.thrift.edge.codec import (
    BinaryCodec,
    Codec,
    CompactCodec,
    IncompleteMessageError,
    MemorySource,
)
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.support.servers.metastore import table


class AddsPartitions:
    """Handler with a method whose request has lists and maps of structures."""

    def add_partitions_req(self, request: object) -> None:
        return None


def request_bytes(protocol: type[TBinaryProtocol | TCompactProtocol], values: list[object]) -> bytes:
    """Encode a request to add a partition."""
    storage = table("d", "t", parameters={"a": "b"}).sd
    partition = ttypes.Partition(values=values, dbName="d", tableName="t", sd=storage, parameters={"a": "b"})
    request = ttypes.AddPartitionsRequest(dbName="d", tblName="t", parts=[partition], ifNotExists=True)
    buffer = TMemoryBuffer()
    writer = protocol(buffer)
    writer.writeMessageBegin("add_partitions_req", TMessageType.CALL, 7)
    ThriftHiveMetastore.add_partitions_req_args(request=request).write(writer)
    writer.writeMessageEnd()
    data: bytes = buffer.getvalue()
    return data


@pytest.mark.parametrize(
    ("codec", "protocol"),
    [(BinaryCodec(), TBinaryProtocol), (CompactCodec(), TCompactProtocol)],
    ids=["binary", "compact"],
)
def test_a_request_that_is_cut_anywhere_is_incomplete(
    codec: Codec, protocol: type[TBinaryProtocol | TCompactProtocol]
) -> None:
    dispatcher = Dispatcher([AddsPartitions()])
    data = request_bytes(protocol, ["1"])
    for length in range(len(data)):
        with pytest.raises(IncompleteMessageError):
            dispatcher.read(codec, MemorySource(data[:length]))
    assert dispatcher.read(codec, MemorySource(data)).arguments.request.parts[0].values == ["1"]


def test_elements_of_another_type_are_bad_input() -> None:
    data = request_bytes(TBinaryProtocol, ["1"])
    # Header of the list of values: field 1, a list of texts, one element. It is replaced by a list of 64-bit numbers.
    before = b"\x0f\x00\x01\x0b\x00\x00\x00\x01\x00\x00\x00\x011"
    assert data.count(before) == 1
    wrong = data.replace(before, b"\x0f\x00\x01\x0a\x00\x00\x00\x01" + b"\x00" * 8)
    with pytest.raises(TProtocolException):
        Dispatcher([AddsPartitions()]).read(BinaryCodec(), MemorySource(wrong))
