"""Spark on an object store with the S3 API, without Hadoop's client for it: Python reads everything."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.servers.http_servers import running_s3


@pytest.fixture
def lake(spark: SparkSession) -> Iterator[str]:
    with running_s3("lake") as store:
        options = ", ".join(f"'{key}' = '{value}'" for key, value in store.items())
        spark.sql(f"CREATE CATALOG on_s3 WITH ('type' = 'interbed', 'warehouse' = 's3a://lake/warehouse', {options})")
        yield "on_s3"
        spark.sql("DROP CATALOG on_s3")


def test_python_reads_where_hadoop_has_no_client(spark: SparkSession, lake: str) -> None:
    spark.sql(f"CREATE DATABASE {lake}.db")
    spark.sql(f"CREATE TABLE {lake}.db.t (id INT, v STRING)")
    spark.sql(f"INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b')")
    assert "native=0 (no hadoop-aws)" in spark.sql(f"EXPLAIN SELECT * FROM {lake}.db.t").collect()[0][0]
    assert sorted(map(tuple, spark.sql(f"SELECT * FROM {lake}.db.t").collect())) == [(1, "a"), (2, "b")]
    # A query that needs no file of the object store reports nothing about it.
    assert "hadoop" not in spark.sql(f"EXPLAIN SELECT * FROM {lake}.db.`t$snapshots`").collect()[0][0]
