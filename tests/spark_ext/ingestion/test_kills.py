"""Queries whose whole application is killed (SIGKILL) between two rounds and within a commit, and restarted.

The kills are at each of STEPS, one run after another.
"""

import random
import signal
from pathlib import Path

import pytest

from tests.ingest.shop import Row, event, lake, rows_of
from tests.ingest.test_kafka_to_tables import check_no_snapshot_repeats, make_topic, produce, stream
from tests.support.servers.kafka import KafkaServer
from tests.support.spark.killed import run_killed

STEPS = (
    # Rows are written, and the table has recorded that a commit has begun.
    "overwrite:*/log/position/*:kill-after:1",
    # One of two tables is committed, and its position is not recorded yet.
    "create_exclusive:*/log/snapshot/snapshot-*:kill-after",
    # A round is committed.
    "delete_quietly:*/orders/snapshot/.write-*:kill-after",
    "create_exclusive:*/log/snapshot/.write-*:kill-before",
    "create_exclusive:*/orders/snapshot/.write-*:kill-after",
    "open_output:*/log/bucket-0/*:kill-before",
    "open_output:*/orders/bucket-*/*:kill-after",
    "exists:*/log/snapshot/.write-*:kill-before",
    "overwrite:*/log/position/*:kill-before",
    "overwrite:*/orders/position/*:kill-after",
    "open_output:*/orders/manifest/*:kill-after",
    "create_exclusive:*/orders/snapshot/snapshot-*:kill-before",
    "create_exclusive:*/orders/snapshot/snapshot-*:kill-after:1",
    "overwrite:*/log/position/*:kill-after:2",
    "delete_quietly:*/log/snapshot/.write-*:kill-before",
)


@pytest.mark.long
def test_a_query_that_is_killed_repeatedly_loses_and_duplicates_nothing(kafka: KafkaServer, tmp_path: Path) -> None:
    """One table stores every event as a row, so that a duplicate shows; the other one has a primary key."""
    choice = random.Random(len(STEPS))
    topic = "spark-killed"
    make_topic(kafka, topic, 2)
    catalog = lake(tmp_path / "lake")
    catalog.create_database("shop")
    catalog.create_table("shop.log", [{"n": 1}])
    model: dict[int, Row] = {}
    logged = 0
    for step in [*STEPS, None]:
        log = [event("c", None, {"n": logged + i}, "log", "n") for i in range(60)]
        logged += len(log)
        produce(kafka, topic, [*stream(choice, 60, model), *log])
        arguments = (str(tmp_path / "lake"), str(tmp_path / "pids"), kafka.bootstrap_servers, topic)
        code = run_killed(tmp_path, "ingest_program.py", *arguments, fault=step)
        assert code == (0 if step is None else -signal.SIGKILL), (step, (tmp_path / "log").read_text()[-3000:])
    assert rows_of(catalog) == sorted(model.values(), key=lambda row: row["id"])
    assert [row["n"] for row in rows_of(catalog, "shop.log", "n")] == list(range(logged))
    check_no_snapshot_repeats(catalog)
