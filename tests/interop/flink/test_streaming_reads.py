"""Flink's streams of tables that interbed writes and compacts have the changes of interbed's own streams."""

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.table.table import Table
from tests.interop.flink.conftest import KINDS, Change, SharedLake, by_key, read, rows_after, streamed, types_of
from tests.support.peers.flink import FlinkQuery
from tests.support.shares import each_run

PRODUCERS = ("none", "input", "lookup", "full-compaction")
FIELDS: list["pa.Field[Any]"] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("dt", pa.string(), nullable=False),
    pa.field("n", pa.int32()),
    pa.field("price", pa.decimal128(10, 2)),
    pa.field("tags", pa.list_(pa.string())),
]
SCHEMA = pa.schema(FIELDS)
STREAMED = {"continuous.discovery-interval": "10 ms"}
KIND = "_row_kind"
LAST = -1
"""Key of the row that ends a stream."""


def hinted(name: str, options: dict[str, str]) -> str:
    """Return a query of all rows of the table with dynamic options."""
    given = ", ".join(f"'{key}' = '{value}'" for key, value in {**STREAMED, **options}.items())
    return f"SELECT * FROM {name} /*+ OPTIONS({given}) */"


def write(table: Table, source: random.Random) -> None:
    """Commit changes of some keys, deletions included."""
    count = 20
    ids = [source.randrange(12) for _ in range(count)]
    data = pa.table(
        {
            "id": ids,
            "dt": [f"d{i % 2}" for i in ids],
            "n": [source.choice([None, *range(5)]) for _ in ids],
            "price": [Decimal(source.randrange(100)) for _ in ids],
            "tags": [source.choice([None, [], ["a"], ["b", None]]) for _ in ids],
            KIND: pa.array([KINDS.index(source.choice(("+I", "+U", "-D"))) for _ in ids], pa.int8()),
        },
        schema=SCHEMA.append(pa.field(KIND, pa.int8())),
    )
    table.write_changes(data, kind_column=KIND)


def end(table: Table) -> None:
    """Make the commit that is the last one a reader waits for."""
    table.upsert(pa.Table.from_pylist([{"id": LAST, "dt": "d1"}], schema=SCHEMA))
    table.compact(full=True)


def until_the_end(query: FlinkQuery, collected: list[Change]) -> list[Change]:
    """Collect the changes of a query, in addition to those already collected, up to the row that `end` wrote."""
    while not any(row[0] == LAST for _, row in collected):
        found = query.fetch(1)
        assert found, collected
        collected += found
    return collected


def create(lake: SharedLake, producer: str) -> Table:
    """Create the table `t`, which Flink is going to stream."""
    options = {"bucket": "2", "changelog-producer": producer, "num-sorted-run.compaction-trigger": "3"}
    lake.catalog.create_table("db.t", SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options=options)
    lake.flink.sql("SET 'execution.runtime-mode' = 'streaming'")
    return lake.table("t")


def follow(lake: SharedLake, table: Table, options: dict[str, str], source: random.Random) -> list[Change]:
    """Collect Flink's changes from the position in the options while interbed writes and compacts, up to a last row."""
    with lake.flink.query(hinted("t", options)) as query:
        # The stream runs before the rest is written.
        collected = query.fetch(1)
        for step in range(4):
            write(table, source)
            if step % 2:
                table.compact(full=step == 3)
        end(table)
        return until_the_end(query, collected)


@pytest.mark.sample(1)
@pytest.mark.parametrize("producer", each_run(PRODUCERS, lambda producer: producer in ("none", "lookup")))
def test_a_stream_from_a_snapshot_equals_interbeds_own(hive: SharedLake, producer: str) -> None:
    table = create(hive, producer)
    source = random.Random(producer)
    for _ in range(2):
        write(table, source)
    table.compact(full=True)
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    # Without this option Flink derives changes itself for tables without a changelog.
    collected = follow(hive, table, {**options, "scan.remove-normalize": "true"}, source)
    assert by_key(collected, types_of(table)) == by_key(streamed(table, options), types_of(table))
    assert {kind for kind, _ in collected} == ({"+I", "+U", "-D"} if producer in ("none", "input") else set(KINDS))
    if producer != "input":
        # The derived changes also retract rows that never existed.
        assert rows_after(collected, types_of(table)) == read(table).comparable()


@pytest.mark.parametrize("producer", each_run(PRODUCERS, lambda producer: producer == "lookup"))
def test_a_stream_of_all_rows_continues_with_the_changes(hive: SharedLake, producer: str) -> None:
    table = create(hive, producer)
    source = random.Random(f"all {producer}")
    for _ in range(3):
        write(table, source)
    table.compact(full=True)
    options = {"scan.mode": "latest-full"}
    expected = streamed(table, options)
    latest = table.latest_snapshot()
    assert latest is not None
    collected = follow(hive, table, {**options, "scan.remove-normalize": "true"}, source)
    expected += streamed(table, {"scan.mode": "from-snapshot", "scan.snapshot-id": str(latest.id + 1)})
    assert by_key(collected, types_of(table)) == by_key(expected, types_of(table))


@pytest.mark.long
def test_flink_derives_a_changelog_for_tables_without_one(hive: SharedLake) -> None:
    table = create(hive, "none")
    source = random.Random("normalised")
    write(table, source)
    collected = follow(hive, table, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}, source)
    rows: dict[int, list[Any]] = {}
    for kind, row in collected:
        # Each change retracts the one before it, which the stream itself does not store.
        assert (row == rows.pop(row[0])) if kind in ("-U", "-D") else (row[0] not in rows)
        if kind in ("+I", "+U"):
            rows[row[0]] = row
    assert rows_after(collected, types_of(table)) == read(table).comparable()


@pytest.mark.long
def test_appended_rows_are_streamed(lake: SharedLake) -> None:
    lake.catalog.create_table("db.t", SCHEMA, partition_keys=["dt"])
    lake.flink.sql("SET 'execution.runtime-mode' = 'streaming'")
    table = lake.table("t")
    rows = [{"id": i, "dt": f"d{i % 2}", "n": i} for i in range(20)]
    table.append(pa.Table.from_pylist(rows[:5], schema=SCHEMA))
    with lake.flink.query(hinted("t", {})) as query:
        collected = query.fetch(5)
        for start in (5, 10, 15):
            table.append(pa.Table.from_pylist(rows[start : start + 5], schema=SCHEMA))
        # Rows that a compaction moves are not streamed.
        table.compact(full=True)
        table.append(pa.Table.from_pylist([{"id": LAST, "dt": "d0"}], schema=SCHEMA))
        collected = until_the_end(query, collected)
    assert {kind for kind, _ in collected} == {"+I"}
    assert sorted(row[0] for _, row in collected) == [LAST, *range(20)]
    assert rows_after(collected, types_of(table)) == read(table).comparable()


@pytest.mark.long
def test_interbed_respects_a_consumer_of_flink(hive: SharedLake) -> None:
    """A consumer protects the snapshots that it has not read from expiry by any writer."""
    table = create(hive, "none")
    source = random.Random("consumer")
    write(table, source)
    hive.flink.sql("SET 'execution.checkpointing.interval' = '100 ms'")
    options = {"consumer-id": "reports", "consumer.expiration-time": "1 d", "consumer.mode": "at-least-once"}
    with hive.flink.query(hinted("t", options)) as query:
        collected = query.fetch(1)
        end(table)
        until_the_end(query, collected)
    assert set(table.versions.consumers()) == {"reports"}
