"""Partitions of floating-point numbers: selected, counted and dropped as Spark compares NaN and the two zeros."""

import itertools
import math
import operator

import pyarrow as pa
import pytest

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake
from tests.support.shares import LONG


@pytest.mark.longer
def test_float_partitions_are_selected_as_spark_compares(lake: SparkLake) -> None:
    values = [1.5, math.nan, -0.0, 0.0, None, math.inf]
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "x": values})
    table = load_catalog(warehouse=str(lake.warehouse)).create_table_as("db.floats", rows, partition_keys=["x"])
    kinds = {"NaN": "double('NaN')", "inf": "double('Infinity')", "1.5": "1.5D", "0": "0.0D"}
    ranks = {"NaN": math.inf, "inf": 3.0, "1.5": 1.5, "0": 0.0}
    of_row = [1.5, math.inf, 0.0, 0.0, None, 3.0]
    signs = {"=": operator.eq, ">": operator.gt, "<=": operator.le, "<>": operator.ne}
    # In each run, every number and every sign in some pair.
    for name, sign in list(itertools.product(kinds, signs))[:: 1 if LONG else 3]:
        expected = [(i,) for i, rank in enumerate(of_row) if rank is not None and signs[sign](rank, ranks[name])]
        where = f"FROM {{lake}}.db.floats WHERE x {sign} {kinds[name]}"
        assert lake.tuples(f"SELECT id {where} ORDER BY id") == expected, where
        assert lake.tuples(f"SELECT count(*) {where}") == [(len(expected),)], where
    lake.sql("DELETE FROM {lake}.db.floats WHERE x > 1.5D")
    assert table.count() == 4
    lake.sql("ALTER TABLE {lake}.db.floats DROP PARTITION (x = 1.5D)")
    assert table.count() == 3
