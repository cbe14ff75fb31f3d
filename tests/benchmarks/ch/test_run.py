"""Transactions are replicated into tables, and queries on the tables return PostgreSQL's answers."""

from datetime import datetime
from pathlib import Path

import psycopg
import pytest

import interbed
from tests.benchmarks.ch.figures import figures_of
from tests.benchmarks.ch.lakes import START_SECONDS_MAX, InterbedLake, has_optimizer, lake_of
from tests.benchmarks.ch.run import RunSettings, database, run
from tests.benchmarks.ch.tpcc.loader import load
from tests.benchmarks.ch.tpcc.schema import CHANGING, KEYS, DatabaseSize
from tests.benchmarks.ch.tpcc.terminals import TerminalPool
from tests.support.spark.spark_process import QUICK_JVM

SIZE = DatabaseSize(warehouses=1, scale=0.01)
ASKED_SIZE = DatabaseSize(warehouses=1, scale=0.05)
"""Size with enough rows that most queries have a non-empty answer."""


@pytest.mark.long
def test_tables_equal_the_database_after_transactions(tmp_path: Path) -> None:
    lake = lake_of("off", tmp_path, commit_seconds=0.5, options={})
    assert isinstance(lake, InterbedLake)
    with database() as url:
        load(url, SIZE, seed=3, now=datetime(2026, 1, 31, 10))
        with lake.ingest(url) as ingestion:
            ingestion.wait_for_commits(len(KEYS), START_SECONDS_MAX)
            terminals = TerminalPool(url, SIZE, count=2, seed=3, transactions=200)
            terminals.start()
            terminals.wait()
            lake.finish(ingestion, url)
        catalog = interbed.load_catalog("ch", warehouse=f"file:{tmp_path}/lake")
        with psycopg.connect(url) as connection:
            for table, key in KEYS.items():
                cursor = connection.execute(f"SELECT * FROM {table} ORDER BY {', '.join(key)}".encode())
                rows = catalog.get_table(f"ch.{table}").scan().to_arrow().sort_by([(k, "ascending") for k in key])
                assert rows.column_names == [column.name for column in cursor.description or ()]
                assert list(zip(*rows.to_pydict().values(), strict=True)) == cursor.fetchall(), table
    shape = lake.shape()
    assert set(shape) == set(CHANGING)
    assert shape["stock"]["runs"] > 1


@pytest.mark.long
@pytest.mark.parametrize("contender", ["off", "iceberg-v3"])
def test_answers_on_the_loaded_rows_equal_those_of_postgresql(contender: str) -> None:
    settings = RunSettings(contender=contender, size=ASKED_SIZE, seconds=0, warm_ups=0, jvm_options=QUICK_JVM)
    record = run(settings)
    assert record.rows_loaded > 30_000
    # With few items none has data that match some queries, and nothing was ordered from a stock.
    assert record.empty_answers <= 6


@pytest.mark.long
@pytest.mark.parametrize(
    "contender", ["off", "writer", "iceberg-v2", "iceberg-v3-rewrites", *(["on"] if has_optimizer() else [])]
)
def test_answers_after_transactions_equal_those_of_postgresql(contender: str) -> None:
    record = run(
        RunSettings(
            contender=contender,
            size=ASKED_SIZE,
            seconds=20,
            warm_ups=0,
            rate=50,
            commit_seconds=1,
            sample_seconds=1,
            jvm_options=QUICK_JVM,
        )
    )
    figures = figures_of(record)
    assert figures["transactions"] > 0
    assert figures["rounds"] > 0
    assert figures["cpu_s"] > 0
    assert record.shapes
