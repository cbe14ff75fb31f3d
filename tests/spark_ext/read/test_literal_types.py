"""Spark compares columns with literals of other types as docs/sql.md describes, where both have a result."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from interbed import load_catalog
from interbed.storage.base.errors import FilterError
from tests.spark_ext.conftest import SparkLake
from tests.storage.base.predicate.literal_table import COLUMNS, LITERALS, OPERATORS, RefusedError, arrow_values, outcome
from tests.support.shares import LONG
from tests.support.tally import Tally

KNOWN = [column for column in COLUMNS if column.kind != "time"]
"""Column types without TIME, which Spark lacks."""
STRICTER = {("text", kind) for kind in ("number", "date", "timestamp", "boolean", "bytes")}
"""Column and literal where Spark casts the column, and fails at the first text that can not be cast."""
STRICTER_TEXTS = ("'19849'", "'10:30'")
"""Texts that Spark takes for the year 19849 and half past ten of today, where filters have no date."""


@pytest.mark.long
def test_spark_compares_as_the_page_says(lake: SparkLake, tally: Tally) -> None:
    rows = max(len(column.values) for column in KNOWN)
    arrays = {column.name: arrow_values(column) for column in KNOWN}
    padded = {n: pa.concat_arrays([a, pa.nulls(rows - len(a), a.type)]) for n, a in arrays.items()}
    schema = pa.schema([("id", pa.int64()), *((c.name, c.arrow) for c in KNOWN)])
    table = load_catalog(warehouse=str(lake.warehouse)).create_table("db.literals", schema)
    table.append(pa.table({"id": list(range(rows)), **padded}, schema=schema))
    everything = lake.frame("SELECT * FROM {lake}.db.literals")
    lake.spark.createDataFrame(everything.collect(), everything.schema).createOrReplaceTempView("literal_rows")
    pairs = [(column, literal) for column in KNOWN for literal in LITERALS if literal.kind != "time"]
    wrong: list[Any] = []
    pairs = pairs if LONG else pairs[::3]
    for column, literal in pairs:
        conditions = [f"{column.name} {sign} {literal.sql}" for sign in OPERATORS]
        spark: list[list[int]] | None = []
        try:
            found = lake.spark.sql(f"SELECT id, {', '.join(conditions)} FROM literal_rows").collect()
            spark = [sorted(row[0] for row in found if row[i + 1]) for i in range(len(OPERATORS))]
        except PySparkException:
            spark = None
        ours: list[list[int]] | None = None
        try:
            ours = [outcome(column, literal, sign) for sign in OPERATORS]
        except RefusedError:
            with pytest.raises(FilterError):
                table.scan(["id"], filter=conditions[0]).to_arrow()
        stricter = (column.kind, literal.kind) in STRICTER or literal.sql in STRICTER_TEXTS
        if spark != ours and not (ours is None and stricter):
            wrong.append((column.name, literal.sql, spark, ours))
    assert not wrong, "\n".join(map(str, wrong))
    tally("comparisons of a column with a literal in Spark", len(pairs) * len(OPERATORS))
