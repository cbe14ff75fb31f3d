"""Thrift's structures as JSON and back, and the comparison of their fields."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.migration.compare import different_fields
from interbed.catalog.server.migration.record import (
    CONSTRAINTS,
    STRUCTURES,
    Key,
    RecordKind,
    fields_of,
    from_json,
    struct_of,
    to_json,
)
from interbed.thrift_idl.hive_metastore import ttypes

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
maps = st.none() | st.dictionaries(texts, texts, max_size=3)
columns = st.builds(ttypes.FieldSchema, name=texts, type=texts, comment=st.none() | texts)
storages = st.builds(
    ttypes.StorageDescriptor,
    cols=st.lists(columns, max_size=3),
    location=st.none() | texts,
    compressed=st.booleans(),
    numBuckets=st.integers(-1, 5),
    serdeInfo=st.builds(ttypes.SerDeInfo, name=texts, parameters=maps),
    sortCols=st.lists(st.builds(ttypes.Order, col=texts, order=st.integers(0, 1)), max_size=2),
    skewedInfo=st.builds(
        ttypes.SkewedInfo,
        skewedColNames=st.lists(texts, max_size=2),
        skewedColValueLocationMaps=st.dictionaries(st.lists(texts, max_size=2).map(tuple), texts, max_size=2),
    ),
)
tables = st.builds(
    ttypes.Table,
    tableName=texts,
    dbName=texts,
    createTime=st.integers(0, 2**31 - 1),
    sd=st.none() | storages,
    partitionKeys=st.lists(columns, max_size=2),
    parameters=maps,
)
statistics = st.builds(
    ttypes.ColumnStatisticsObj,
    colName=texts,
    colType=texts,
    statsData=st.builds(
        ttypes.ColumnStatisticsData,
        doubleStats=st.builds(
            ttypes.DoubleColumnStatsData,
            lowValue=st.none() | st.floats(allow_nan=False),
            numNulls=st.integers(0, 9),
            numDVs=st.integers(0, 9),
            bitVectors=st.none() | st.binary(max_size=5),
        ),
    ),
)


@given(tables | statistics)
def test_a_structure_is_restored_from_its_json(struct: Any) -> None:
    text = json.dumps(to_json(struct), allow_nan=False)
    back = from_json(type(struct), json.loads(text))
    assert back == struct


def test_numbers_that_json_lacks_are_written_as_texts() -> None:
    data = ttypes.DoubleColumnStatsData(lowValue=math.nan, highValue=-math.inf, numNulls=0, numDVs=1)
    assert to_json(data) == {"lowValue": "nan", "highValue": "-inf", "numNulls": 0, "numDVs": 1}
    back = from_json(ttypes.DoubleColumnStatsData, to_json(data))
    assert math.isnan(back.lowValue)
    assert back.highValue == -math.inf


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nonsense": 1}, "no field 'nonsense'"),
        ({"tableName": 1}, "tableName has to be a string"),
        ({"createTime": "x"}, "createTime has to be a whole number"),
        ({"createTime": True}, "createTime has to be a whole number"),
        ({"temporary": 1}, "temporary has to be true or false"),
        ({"partitionKeys": {}}, "partitionKeys has to be a list"),
        ({"sd": []}, "StorageDescriptor has to be an object"),
        ({"sd": {"cols": [{"nme": "x"}]}}, "no field 'nme'"),
        ({"parameters": {"a": 1}}, "parameters has to be a string"),
    ],
)
def test_fields_of_a_wrong_type_are_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(ttypes.Table, fields)


@given(tables)
def test_fields_that_a_server_adds_or_omits_are_no_difference(table: ttypes.Table) -> None:
    kept = fields_of(RecordKind.TABLE, table)
    filled = from_json(ttypes.Table, to_json(table))
    filled.catName, filled.ownerType, filled.writeId, filled.id = "hive", ttypes.PrincipalType.USER, 7, 9
    filled.privileges, filled.temporary = ttypes.PrincipalPrivilegeSet(), False
    filled.parameters = table.parameters or {}
    assert list(different_fields(kept, fields_of(RecordKind.TABLE, filled))) == []
    key = Key(kind=RecordKind.TABLE, catalog="hive", database=table.dbName, name=table.tableName)
    assert fields_of(RecordKind.TABLE, struct_of(key, kept)) == kept


def test_every_kind_of_object_has_a_structure() -> None:
    access = {RecordKind.ROLE, RecordKind.ROLE_MEMBER, RecordKind.GRANT}
    assert {*STRUCTURES, RecordKind.CONSTRAINT, *access} == set(RecordKind)
    for about in CONSTRAINTS.values():
        assert all(hasattr(about.structure(), name) for name in (about.database, about.table, about.name))


def test_differences_are_reported_by_their_path() -> None:
    left = {"sd": {"cols": [{"name": "a"}, {"name": "b"}]}, "n": 0, "parameters": {"x": "1", "y": ""}, "view": None}
    right = {"sd": {"cols": [{"name": "a"}, {"name": "c"}, {"name": "d"}]}, "parameters": {"x": "2"}, "flag": False}
    assert list(different_fields(left, right)) == [
        ("parameters.x", "1", "2"),
        ("parameters.y", "", None),
        ("sd.cols[1].name", "b", "c"),
        ("sd.cols[2].name", None, "d"),
    ]
