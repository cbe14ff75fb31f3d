"""Dates and times of years beyond Python's types, in Spark: read, filtered, aggregated and written."""

from typing import Any

import pyarrow as pa
import pytest

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake
from tests.support.tally import Tally

DAYS = {
    2_147_483_647: "+5881580-07-11",
    2_932_897: "+10000-01-01",
    -719_528: "0000-01-01",
    -719_529: "-0001-12-31",
    -2_147_483_648: "-5877641-06-23",
    0: "1970-01-01",
}
MOMENTS = {
    9_223_372_036_825_200_000: "+294247-01-10 04:00:25.2",
    253_402_300_800_000_000: "+10000-01-01 00:00:00",
    -62_135_596_800_001_000: "0000-12-31 23:59:59.999",
    0: "1970-01-01 00:00:00",
}
TYPES: dict[str, tuple[Any, dict[int, str]]] = {
    "DATE": (pa.date32(), DAYS),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), MOMENTS),
    "TIMESTAMP": (pa.timestamp("us", "UTC"), MOMENTS),
}


@pytest.mark.long
@pytest.mark.parametrize("of", TYPES)
def test_spark_reads_compares_and_aggregates_far_dates_and_times(lake: SparkLake, of: str, tally: Tally) -> None:
    arrow, values = TYPES[of]
    numbers = pa.array(values, pa.int32() if of == "DATE" else pa.int64()).view(arrow)
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "x": numbers})
    catalog = load_catalog(warehouse=str(lake.warehouse))
    texts = list(values.values())
    order = [text for _, text in sorted(values.items())]
    for name, partition_keys in (("db.plain", []), ("db.split", ["x"])):
        table = catalog.create_table_as(name, rows, partition_keys=partition_keys)
        place = f"{{lake}}.{name}"
        assert lake.tuples(f"SELECT CAST(x AS STRING) FROM {place} ORDER BY id") == [(text,) for text in texts]
        found = lake.tuples(f"SELECT CAST(min(x) AS STRING), CAST(max(x) AS STRING), count(x) FROM {place}")
        assert found == [(order[0], order[-1], len(texts))]
        for number, text in enumerate(texts):
            by_value = f"SELECT id FROM {place} WHERE x = {of} '{text}'"
            assert lake.tuples(by_value) == [(number,)], (name, text)
            below = lake.tuples(f"SELECT count(*) FROM {place} WHERE x < {of} '{text}'")
            assert below == [(order.index(text),)], (name, text)
        lake.sql(f"INSERT INTO {place} SELECT 100 + id, x FROM {place}")
        assert table.count() == 2 * len(texts)
        lake.sql(f"DELETE FROM {place} WHERE x = {of} '{texts[0]}'")
        assert table.count() == 2 * len(texts) - 2
        lake.sql(f"ANALYZE TABLE {place} COMPUTE STATISTICS FOR ALL COLUMNS")
        assert lake.tuples(f"SELECT count(*) FROM {place} WHERE x >= {of} '{order[0]}'") == [(2 * len(texts) - 2,)]
    names = {row[0] for row in lake.tuples("SHOW PARTITIONS {lake}.db.split")}
    assert len(names) == len(texts) - 1
    assert any(texts[1][:12] in name for name in names)
    lake.sql(f"ALTER TABLE {{lake}}.db.split DROP PARTITION (x = {of} '{texts[1]}')")
    assert catalog.get_table("db.split").count() == 2 * len(texts) - 4
    tally("far dates and times in Spark", 2 * (3 * len(texts) + 6))
