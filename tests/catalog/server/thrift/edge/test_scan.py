"""The end and the weight of a message are found without decoding it, in whatever pieces it arrives."""

import random
import struct
import tracemalloc
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.server.thrift.edge.codec import BinaryCodec, Codec, CompactCodec, MemorySource
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.support.servers.metastore import table

BYTES_MAX = 1 << 24

CODECS = pytest.mark.parametrize(
    ("codec", "protocol"),
    [(BinaryCodec(), TBinaryProtocol), (CompactCodec(), TCompactProtocol)],
    ids=["binary", "compact"],
)


class RequestHandler:
    """Handler of methods whose requests have all kinds of values."""

    def add_partitions_req(self, request: object) -> None:
        return None

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> None:
        return None

    def update_table_column_statistics(self, stats_obj: object) -> None:
        return None

    def alter_table_with_environment_context(self, *_: object) -> None:
        return None


def encoded(protocol: Any, name: str, arguments: Any) -> bytes:
    buffer = TMemoryBuffer()
    writer = protocol(buffer)
    writer.writeMessageBegin(name, TMessageType.CALL, 70_000)
    arguments.write(writer)
    writer.writeMessageEnd()
    data: bytes = buffer.getvalue()
    return data


def partitions(count: int, columns: int = 20) -> Any:
    kinds = [(f"column_{number}", "decimal(10,2)") for number in range(columns)]
    found = []
    for number in range(count):
        # Each partition has columns of its own, as clients send them.
        storage = table("d", "t", *kinds, parameters={"a": "b"}, location=f"hdfs://n:1/w/d.db/t/p={number}").sd
        found.append(
            ttypes.Partition(values=[str(number)], dbName="d", tableName="t", sd=storage, parameters={"a": "b"})
        )
    request = ttypes.AddPartitionsRequest(dbName="d", tblName="t", parts=found, ifNotExists=True)
    return ThriftHiveMetastore.add_partitions_req_args(request=request)


def statistics() -> Any:
    numbers = ttypes.DoubleColumnStatsData(
        numNulls=3, numDVs=2, lowValue=-1.5, highValue=2.5, bitVectors=b"\x00\xff" * 9
    )
    each = ttypes.ColumnStatisticsObj(
        colName="a", colType="double", statsData=ttypes.ColumnStatisticsData(doubleStats=numbers)
    )
    described = ttypes.ColumnStatisticsDesc(isTblLevel=True, dbName="d", tableName="t")
    return ThriftHiveMetastore.update_table_column_statistics_args(
        stats_obj=ttypes.ColumnStatistics(statsDesc=described, statsObj=[each] * 3)
    )


def altered() -> Any:
    context = ttypes.EnvironmentContext(properties={"x": "ü" * 20, "y": ""})
    return ThriftHiveMetastore.alter_table_with_environment_context_args(
        dbname="d",
        tbl_name="t",
        new_tbl=table("d", "t", partition_keys=(("p", "string"),)),
        environment_context=context,
    )


def messages(protocol: Any) -> list[bytes]:
    names = ThriftHiveMetastore.get_table_objects_by_name_args(dbname="d", tbl_names=["x" * 300, "", "é"])
    return [
        encoded(protocol, "add_partitions_req", partitions(2)),
        encoded(protocol, "update_table_column_statistics", statistics()),
        encoded(protocol, "alter_table_with_environment_context", altered()),
        encoded(protocol, "get_table_objects_by_name", names),
    ]


@CODECS
def test_the_end_is_found_wherever_a_message_is_cut(codec: Codec, protocol: Any) -> None:
    cuts = 0
    for message in messages(protocol):
        following = message + b"\x80\x01\x00"
        for cut in range(len(message) + 1):
            scanner = codec.scanner(BYTES_MAX)
            first = scanner.scan(following[:cut])
            assert first == (len(message) if cut == len(message) else None)
            if first is None:
                assert scanner.scan(following) == len(message)
            cuts += 1
    print(f"cuts of messages: {cuts}")


@CODECS
def test_a_message_that_arrives_byte_by_byte_is_scanned_once(codec: Codec, protocol: Any) -> None:
    message = encoded(protocol, "add_partitions_req", partitions(3))
    scanner = codec.scanner(BYTES_MAX)
    gathered = bytearray()
    for number in range(len(message)):
        assert scanner.scan(gathered) is None
        gathered += message[number : number + 1]
    assert scanner.scan(gathered) == len(message)
    whole = codec.scanner(BYTES_MAX)
    whole.scan(message)
    assert scanner.weight == whole.weight


@CODECS
def test_the_scanner_and_the_decoder_find_the_same_end(codec: Codec, protocol: Any) -> None:
    dispatcher = Dispatcher([RequestHandler()])
    for message in messages(protocol):
        end = codec.scanner(BYTES_MAX).scan(message * 2)
        assert end is not None
        source = MemorySource(message * 2)
        dispatcher.read(codec, source)
        assert len(source.rest()) == 2 * len(message) - end


@CODECS
def test_the_weight_of_a_message_is_at_least_its_decoded_size(codec: Codec, protocol: Any) -> None:
    dispatcher = Dispatcher([RequestHandler()])
    empty = ThriftHiveMetastore.add_partitions_req_args(
        request=ttypes.AddPartitionsRequest(
            dbName="d", tblName="t", parts=[ttypes.Partition() for _ in range(20_000)], ifNotExists=True
        )
    )
    for arguments in (partitions(200), empty):
        message = encoded(protocol, "add_partitions_req", arguments)
        scanner = codec.scanner(BYTES_MAX)
        assert scanner.scan(message) == len(message)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        request = dispatcher.read(codec, MemorySource(message))
        taken = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert taken <= scanner.weight <= 6 * taken
        del request


@CODECS
def test_ten_thousand_partitions_are_within_the_default_limits(codec: Codec, protocol: Any) -> None:
    message = encoded(protocol, "add_partitions_req", partitions(100))
    scanner = codec.scanner(BYTES_MAX)
    scanner.scan(message)
    assert len(message) * 100 < 16 << 20
    assert scanner.weight * 100 < 256 << 20


@CODECS
def test_damaged_messages_raise_no_unexpected_error(codec: Codec, protocol: Any) -> None:
    source = random.Random(11)
    whole = encoded(protocol, "add_partitions_req", partitions(2))
    outcomes = {"error": 0, "more": 0, "end": 0}
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            end = codec.scanner(BYTES_MAX).scan(data)
        except TException:
            outcomes["error"] += 1
        else:
            outcomes["more" if end is None else "end"] += 1
    assert min(outcomes.values()) > 0
    print(f"damaged messages scanned: {sum(outcomes.values())}")


def test_lengths_beyond_the_limits_are_refused_before_their_bytes_arrive() -> None:
    head = struct.pack("!Ii", 0x80010001, 1) + b"m" + struct.pack("!i", 1)
    long_text = struct.pack("!bhi", 11, 1, 2000)
    with pytest.raises(TException, match="2000"):
        BinaryCodec().scanner(1000).scan(head + long_text)
    many = struct.pack("!bhbi", 15, 1, 12, 1_000_001)
    with pytest.raises(TException, match="1000001"):
        BinaryCodec().scanner(BYTES_MAX).scan(head + many)
    with pytest.raises(TException, match="64 deep"):
        BinaryCodec().scanner(BYTES_MAX).scan(head + b"\x0c\x00\x01" * 100)
    with pytest.raises(TException, match="message_bytes_max"):
        BinaryCodec().scanner(1000).scan(
            head + struct.pack("!bhi", 11, 1, 900) + b"x" * 900 + long_text[:3] + b"\0\0\0\xff"
        )
