"""Mapping of Paimon's types to Spark's and back."""

import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from interbed.spark_ext.values.spark_types import (
    arrow_for_spark,
    arrow_schema_for_spark,
    batch_for_spark,
    batch_from_spark,
    schema_from_spark,
    schema_to_spark,
    type_to_spark,
)
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.arrow import fields_to_schema
from interbed.storage.base.types.data_type import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    parse_atomic,
)

# Types that survive a round trip through Spark; Spark has fewer forms of the others than Paimon.
ATOMIC = st.sampled_from(
    [
        AtomicType(TypeRoot.BOOLEAN),
        AtomicType(TypeRoot.TINYINT),
        AtomicType(TypeRoot.SMALLINT),
        AtomicType(TypeRoot.INT),
        AtomicType(TypeRoot.BIGINT),
        AtomicType(TypeRoot.FLOAT),
        AtomicType(TypeRoot.DOUBLE),
        AtomicType(TypeRoot.DECIMAL, precision=38, scale=10),
        AtomicType(TypeRoot.CHAR, length=3),
        AtomicType(TypeRoot.VARCHAR, length=7),
        AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH),
        AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH),
        AtomicType(TypeRoot.DATE),
        AtomicType(TypeRoot.TIMESTAMP, precision=6),
        AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6),
    ]
)


def _nested(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    item = st.tuples(children, st.booleans()).map(lambda pair: pair[0].with_nullable(pair[1]))
    rows = st.lists(item, min_size=1, max_size=3).map(
        lambda types: RowType(tuple(DataField(id=0, name=f"f{i}", type=t) for i, t in enumerate(types)))
    )
    maps = st.tuples(children, item).map(lambda pair: MapType(pair[0].with_nullable(False), pair[1]))
    return st.one_of(item.map(ArrayType), maps, rows)


TYPES = st.recursive(ATOMIC, _nested, max_leaves=5)


def _without_ids(data_type: DataType) -> DataType:
    match data_type:
        case RowType(fields=fields):
            plain = tuple(DataField(id=0, name=f.name, type=_without_ids(f.type)) for f in fields)
            return RowType(plain, nullable=data_type.nullable)
        case ArrayType(element=element):
            return ArrayType(_without_ids(element), nullable=data_type.nullable)
        case MapType(key=key, value=value):
            return MapType(_without_ids(key), _without_ids(value), nullable=data_type.nullable)
        case _:
            return data_type


@given(st.lists(st.tuples(TYPES, st.booleans()), min_size=1, max_size=4))
def test_a_schema_survives_a_round_trip_through_spark(columns: list[tuple[DataType, bool]]) -> None:
    fields = [
        DataField(id=i, name=f"c{i}", type=t.with_nullable(nullable), description=f"about {i}")
        for i, (t, nullable) in enumerate(columns)
    ]

    back = schema_from_spark(schema_to_spark(fields))

    assert [(f.name, _without_ids(f.type), f.description) for f in back] == [
        (f.name, f.type, f.description) for f in fields
    ]


@given(st.lists(TYPES, min_size=1, max_size=4))
def test_pyspark_parses_the_schema(columns: list[DataType]) -> None:
    fields = [DataField(id=i, name=f"c{i}", type=t) for i, t in enumerate(columns)]

    parsed = StructType.fromJson(json.loads(schema_to_spark(fields)))

    assert parsed.names == [f.name for f in fields]


@pytest.mark.parametrize(
    ("paimon", "spark"),
    [
        ("TIME(3)", "integer"),
        ("TIMESTAMP(9)", "timestamp_ntz"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "timestamp"),
        ("BINARY(4)", "binary"),
        ("BYTES", "binary"),
        ("STRING", "string"),
        ("VARCHAR(9)", "varchar(9)"),
        ("CHAR(9)", "char(9)"),
        ("DECIMAL(9, 2)", "decimal(9,2)"),
    ],
)
def test_types_map_as_in_paimons_connector(paimon: str, spark: str) -> None:
    assert type_to_spark(parse_atomic(paimon)) == spark


def test_a_multiset_is_a_map_of_counts() -> None:
    assert type_to_spark(MultisetType(AtomicType(TypeRoot.INT))) == {
        "type": "map",
        "keyType": "integer",
        "valueType": "integer",
        "valueContainsNull": False,
    }


def test_field_ids_number_a_level_before_the_levels_below() -> None:
    nested = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
    schema = {
        "type": "struct",
        "fields": [
            {"name": "a", "type": nested, "nullable": True, "metadata": {}},
            {"name": "b", "type": "long", "nullable": True, "metadata": {}},
        ],
    }

    a, b = schema_from_spark(json.dumps(schema))

    assert (a.id, b.id) == (0, 1)
    assert isinstance(a.type, RowType)
    assert a.type.fields[0].id == 2


@pytest.mark.parametrize("kind", ["interval year", "void", "variant", "time(6)"])
def test_types_without_a_counterpart_are_refused_by_name(kind: str) -> None:
    schema = {"type": "struct", "fields": [{"name": "odd", "type": kind, "nullable": True, "metadata": {}}]}

    with pytest.raises(NotSupportedError, match="odd"):
        schema_from_spark(json.dumps(schema))


def test_a_collation_is_refused() -> None:
    metadata = {"__COLLATIONS": {"odd": "icu.UNICODE_CI"}}
    schema = {"type": "struct", "fields": [{"name": "odd", "type": "string", "nullable": True, "metadata": metadata}]}

    with pytest.raises(NotSupportedError, match="collation"):
        schema_from_spark(json.dumps(schema))


def test_batches_reach_spark_in_the_types_of_its_vectors() -> None:
    fields = [
        DataField(id=0, name="ns", type=AtomicType(TypeRoot.TIMESTAMP, precision=9)),
        DataField(id=1, name="ms", type=AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=3)),
        DataField(id=2, name="time", type=AtomicType(TypeRoot.TIME, precision=3)),
        DataField(id=3, name="times", type=ArrayType(AtomicType(TypeRoot.TIMESTAMP, precision=9))),
        DataField(id=4, name="bag", type=MultisetType(AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH))),
    ]
    batch = pa.RecordBatch.from_pylist(
        [
            {"ns": 1_000_001, "ms": 5, "time": 86_399_999, "times": [1999, None], "bag": [("a", 2)]},
            {"ns": None, "ms": None, "time": None, "times": None, "bag": None},
        ],
        schema=fields_to_schema(fields),
    )

    converted = batch_for_spark(batch, arrow_schema_for_spark(fields))

    assert converted.schema.types == [arrow_for_spark(f.type) for f in fields]
    assert converted.column("ns").cast(pa.int64()).to_pylist() == [1000, None]
    assert converted.column("ms").cast(pa.int64()).to_pylist() == [5000, None]
    assert converted.column("time").to_pylist() == [86_399_999, None]
    assert converted.column("times")[0].values.cast(pa.int64()).to_pylist() == [1, None]
    assert converted.column("bag").to_pylist() == [[("a", 2)], None]


def test_a_batch_without_columns_keeps_its_row_count() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3]})

    assert batch_for_spark(batch.select([]), pa.schema([])).num_rows == 3


def test_timestamps_from_spark_are_truncated_to_the_columns_precision() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([datetime(2024, 1, 1, 0, 0, 0, 123456)], pa.timestamp("us", tz="Europe/Berlin"))], names=["ts"]
    )

    cut = batch_from_spark(batch, pa.schema([pa.field("ts", pa.timestamp("ms", tz="UTC"))]))

    assert cut.column("ts").cast(pa.int64()).to_pylist() == [1_704_067_200_123]


def test_values_that_do_not_fit_are_refused_by_column() -> None:
    batch = pa.RecordBatch.from_pydict({"amount": pa.array([Decimal("123.45")], pa.decimal128(10, 2))})

    with pytest.raises(InvalidInputError, match="amount"):
        batch_from_spark(batch, pa.schema([pa.field("amount", pa.decimal128(3, 2))]))
