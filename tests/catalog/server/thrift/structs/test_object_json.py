"""Structures as JSON text, compatible with Thrift's own protocol."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.server.thrift.structs.event_messages import from_names, to_json
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.examples import examples

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
_tables = st.builds(
    ttypes.Table,
    tableName=_texts,
    createTime=st.integers(-(2**31), 2**31 - 1),
    parameters=st.dictionaries(_texts, _texts, max_size=3),
    partitionKeys=st.lists(st.builds(ttypes.FieldSchema, name=_texts, type=_texts), max_size=2),
    sd=st.builds(
        ttypes.StorageDescriptor,
        cols=st.lists(st.builds(ttypes.FieldSchema, name=_texts, comment=st.none() | _texts), max_size=3),
        compressed=st.booleans(),
        bucketCols=st.lists(_texts, max_size=2),
        sortCols=st.lists(st.builds(ttypes.Order, col=_texts, order=st.integers(0, 1)), max_size=2),
    ),
)


@settings(max_examples=examples(80), deadline=None)
@given(_tables)
def test_the_json_text_is_that_of_thrift(table: ttypes.Table) -> None:
    text = to_json(table)
    read = ttypes.Table()
    read.read(TJSONProtocol(TMemoryBuffer(text.encode())))
    assert read == table
    buffer = TMemoryBuffer()
    table.write(TJSONProtocol(buffer))
    # Thrift does not escape control characters, which strict readers of JSON refuse.
    assert json.loads(text) == json.loads(buffer.getvalue().decode(), strict=False)


def test_statistics_are_decoded_from_field_names() -> None:
    statistics = from_names(
        ttypes.ColumnStatistics,
        {
            "statsDesc": {"isTblLevel": True, "dbName": "d", "tableName": "t"},
            "statsObj": [
                {"colName": "id", "colType": "bigint", "statsData": {"longStats": {"numNulls": 1, "numDVs": 2}}},
                {"colName": "n", "colType": "x", "statsData": {"binaryStats": {"bitVectors": "AP8="}}, "unknown": 1},
            ],
        },
    )
    assert statistics.statsObj[0].statsData.longStats.numDVs == 2
    assert statistics.statsObj[1].statsData.binaryStats.bitVectors == b"\x00\xff"
    read = ttypes.ColumnStatistics()
    read.read(TJSONProtocol(TMemoryBuffer(to_json(statistics).encode())))
    assert read == statistics


def test_locations_of_skewed_values_are_left_out() -> None:
    skewed = ttypes.SkewedInfo(skewedColNames=["a"], skewedColValues=[["1"]], skewedColValueLocationMaps={("1",): "x"})
    assert json.loads(to_json(skewed))["3"] == {"map": ["lst", "str", 0, {}]}
