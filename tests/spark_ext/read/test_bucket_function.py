"""The bucket function in Java returns the buckets of Java Paimon (tests/golden/bucket_hash.json)."""

import pytest
from pyspark.sql import SparkSession

from tests.golden.load import BucketCase, bucket_cases
from tests.spark_ext.conftest import SparkLake
from tests.support.peers.json import parse_type, rows_to_table

# Queries have no CHAR or TIME type; the JVM hashes such values as the strings and integers that they are in Spark.
SPARK_ROOTS = frozenset(
    [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "CHAR",
        "VARCHAR",
        "BINARY",
        "VARBINARY",
        "DATE",
    ]
)


def _is_comparable(case: BucketCase) -> bool:
    types = [parse_type(source) for source in case.types]
    return all(
        t.root in SPARK_ROOTS or (t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and t.arguments == (6,)) for t in types
    )


CASES = [case for case in bucket_cases() if _is_comparable(case)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: ",".join(str(t) for t in case.types[:4]))
def test_buckets_equal_those_of_java_paimon(spark: SparkSession, lake: SparkLake, case: BucketCase) -> None:
    names = [f"c{i}" for i in range(len(case.types))]
    numbered = rows_to_table(case.rows, names, [parse_type(source) for source in case.types])
    frame = spark.createDataFrame(numbered).coalesce(1)
    buckets = [f"{lake.name}.bucket({n}, {', '.join(names)})" for n in case.num_buckets]

    found = [list(row) for row in frame.selectExpr(*buckets).collect()]

    assert found == case.buckets


@pytest.mark.long
def test_one_column_without_nulls_is_hashed_in_generated_code(spark: SparkSession, lake: SparkLake) -> None:
    golden = {
        "TINYINT": "byte",
        "SMALLINT": "short",
        "INT": "int",
        "BIGINT": "bigint",
        "DATE": "date",
        "STRING": "string",
    }
    for case in bucket_cases():
        if len(case.types) != 1 or str(case.types[0]) not in golden:
            continue
        present = [i for i, row in enumerate(case.rows) if row[0] is not None]
        table = rows_to_table([case.rows[i] for i in present], ["c"], [parse_type(case.types[0])])
        schema = table.schema.set(0, table.schema.field(0).with_nullable(False))
        frame = spark.createDataFrame(
            table.cast(schema).to_pylist(), f"c {golden[str(case.types[0])]} not null"
        ).coalesce(1)
        # The greatest number of buckets distinguishes most; the others are proven above.
        bucketed = frame.selectExpr(f"{lake.name}.bucket({case.num_buckets[-1]}, c)")

        assert "static_invoke" in bucketed.columns[0]
        assert [row[0] for row in bucketed.collect()] == [case.buckets[i][-1] for i in present]


def test_columns_that_have_no_bucket_are_refused(lake: SparkLake) -> None:
    with pytest.raises(Exception, match="cannot be hashed into buckets"):
        lake.sql("SELECT {lake}.bucket(4, array(1))")
    with pytest.raises(Exception, match="number of buckets and one column"):
        lake.sql("SELECT {lake}.bucket(4)")
