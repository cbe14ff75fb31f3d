"""Values at the edges: null partitions, decimals of 38 digits, years after 9999, and bounds that cannot be decoded."""

from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.transforms import BucketTransform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DecimalType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from interbed.iceberg.meta.live_files import _ManifestPruning
from interbed.iceberg.rest_scan.conditions import column_tests_of, condition_json, parsed_condition
from interbed.iceberg.rest_scan.pages import FileFilter, SpecFilter
from interbed.iceberg.rest_scan.task_json import single_value
from interbed.storage.base.errors import FilterError, NotSupportedError

COLUMNS = Schema(
    NestedField(1, "day", DateType()),
    NestedField(2, "at", TimestampType()),
    NestedField(3, "price", DecimalType(38, 4)),
    NestedField(4, "id", LongType()),
    NestedField(5, "name", StringType()),
)
WIDE = "-1234567890123456789012345678901234.5678"


def _filter(column: str, transform: str, json: dict[str, Any]) -> SpecFilter:
    field = PartitionField(COLUMNS.find_field(column).field_id, 1000, parse_transform(transform), "part")
    return SpecFilter(COLUMNS, PartitionSpec(field), parsed_condition({"term": column, **json}, COLUMNS))


@pytest.mark.parametrize("transform", ["year", "month", "day", "identity"])
@pytest.mark.parametrize(("column", "value"), [("day", "2024-01-01"), ("at", "2024-01-01T00:00:00")])
def test_a_null_partition_of_dates_has_the_rows_without_a_date(column: str, value: str, transform: str) -> None:
    for word in ("lt", "lt-eq", "gt", "gt-eq", "eq"):
        made = _filter(column, transform, {"type": word, "value": value})
        assert not made.keeps(Record(None))
        assert condition_json(made.residual(Record(None))) is False
    for word, is_kept in (("is-null", True), ("not-null", False)):
        made = _filter(column, transform, {"type": word})
        assert made.keeps(Record(None)) is is_kept
        assert condition_json(made.residual(Record(None))) is is_kept
    # Iceberg's "not equal" is true for null; engines add a test for it.
    assert _filter(column, transform, {"type": "not-eq", "value": value}).keeps(Record(None))


@pytest.mark.parametrize("transform", ["year", "month"])
@pytest.mark.parametrize(("column", "value"), [("day", 3_000_000), ("day", -3_000_000), ("at", (1 << 63) - 1)])
@pytest.mark.parametrize("word", ["lt", "gt-eq", "eq"])
def test_a_literal_beyond_the_year_9999_prunes_no_partition(column: str, value: int, transform: str, word: str) -> None:
    json = {"type": word, "term": column, "value": value}
    made = _filter(column, transform, json)
    assert made.keeps(Record(50))
    assert condition_json(made.residual(Record(50))) == json


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("day", "+10000-01-01"), ("day", "-0001-12-31"), ("day", "0000-01-01")),
        *(("at", "+12345-01-01T10:00:00.000001"), ("at", "0000-01-01T00:00:00")),
        *(("price", "1e34"), ("price", "1" * 400), ("price", "1e999999999"), ("price", "1e-999999999")),
        ("price", "0.00001"),
    ],
)
def test_a_literal_beyond_its_type_prunes_nothing_and_is_repeated(column: str, value: str) -> None:
    json = {"type": "lt", "term": column, "value": value}
    made = _filter(column, "identity", json)
    assert made.keeps(Record(None))
    assert condition_json(made.residual(Record(None))) == json


def test_decimals_of_38_digits_are_exact() -> None:
    json = {"type": "eq", "value": WIDE}
    made = _filter("price", "identity", json)
    assert made.keeps(Record(Decimal(WIDE)))
    assert not made.keeps(Record(Decimal(WIDE[:-1] + "9")))
    assert condition_json(made.residual(Record(Decimal(WIDE)))) is True
    bucket = BucketTransform[Decimal](4).transform(DecimalType(38, 4))(Decimal(WIDE))
    assert _filter("price", "bucket[4]", json).keeps(Record(bucket))
    assert single_value(DecimalType(38, 4), Decimal(WIDE)) == WIDE
    assert single_value(DecimalType(38, 4), Decimal(1)) == "1.0000"


@pytest.mark.parametrize("kind", [DateType(), TimeType(), TimestampType(), TimestamptzType(), TimestampNanoType()])
@pytest.mark.parametrize("value", [1 << 62, -(1 << 62)])
def test_a_partition_that_json_cannot_have_is_refused(kind: Any, value: int) -> None:
    given = value * 1000 if kind == TimestampNanoType() else value
    with pytest.raises(NotSupportedError, match=str(given)):
        single_value(kind, given)


def test_nested_transforms_and_values_are_refused() -> None:
    inner = {"type": "transform", "transform": "day", "term": "at"}
    for term in (inner, _nested(inner, "term", 3000)):
        with pytest.raises(FilterError, match="transform of a transform"):
            parsed_condition(
                {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": term}, "value": 1},
                COLUMNS,
            )
    deep: Any = 1
    for _ in range(3000):
        deep = [deep]
    for json in (deep, {"type": "eq", "term": "id", "value": deep}, {"type": "eq", "term": deep, "value": 1}):
        with pytest.raises(FilterError):
            parsed_condition(json, COLUMNS)


def _nested(json: dict[str, Any], part: str, times: int) -> dict[str, Any]:
    for _ in range(times):
        json = {**json, part: json}
    return json


@pytest.mark.parametrize(("column", "bound"), [(5, b"\xc3"), (4, b"\1"), (1, b"")])
def test_bounds_that_cannot_be_decoded_prune_nothing(column: int, bound: bytes) -> None:
    name = COLUMNS.find_column_name(column)
    value: Any = {1: "2024-01-01", 4: 7, 5: "a"}[column]
    condition = parsed_condition({"type": "eq", "term": name, "value": value}, COLUMNS)
    metadata = _metadata()
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.DATA,
        file_path="f",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=1,
        value_counts={column: 1},
        null_value_counts={column: 0},
        lower_bounds={column: bound},
        upper_bounds={column: bound},
    )
    file.spec_id = 0
    assert FileFilter(metadata, COLUMNS, condition).keeps_file(file)
    (test,) = column_tests_of(condition)
    assert test.named is not None
    assert _ManifestPruning(metadata, COLUMNS, test.named(test.column)).keeps_file(file)


def _metadata() -> TableMetadata:
    return TableMetadataV2.model_validate(
        {
            "location": "file:/t",
            "last-updated-ms": 1,
            "last-column-id": 5,
            "schemas": [COLUMNS],
            "current-schema-id": COLUMNS.schema_id,
            "partition-specs": [PartitionSpec(spec_id=0)],
            "default-spec-id": 0,
            "last-partition-id": 1000,
            "last-sequence-number": 0,
            "sort-orders": [],
        }
    )
