"""Tables with a log, what becomes of them, and what their streams tell."""

import random
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import interbed
from interbed.storage.table.table import Table
from tests.support.servers.kafka import KafkaServer

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
QUICK = {"commit.sync": "none"}
Row = dict[str, Any]


def create(kafka: KafkaServer, warehouse: Path, *, keyed: bool = True, name: str = "", **options: str) -> Table:
    """A table (id BIGINT, v STRING) with two buckets and a log in a topic of its own."""
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    settings = {"bucket": "2", **({} if keyed else {"bucket-key": "id"}), **QUICK, **log_options(kafka), **named}
    return catalog.create_table(
        f"db.{name or new_name()}", SCHEMA, primary_keys=["id"] if keyed else [], options=settings
    )


def warm_up(kafka: KafkaServer) -> None:
    """Wait until a broker that was just started takes transactions, which commits do not wait for so long."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "warm-up"})
    producer.init_transactions(120)


def log_options(kafka: KafkaServer) -> dict[str, str]:
    return {"log.system": "kafka", "kafka.bootstrap.servers": kafka.bootstrap_servers}


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def change(table: Table, seed: int, commits: int) -> None:
    """So many commits of changes of few keys, which follow from the seed."""
    draw = random.Random(seed)
    for _ in range(commits):
        ids = draw.sample(range(12), draw.randint(1, 5))
        kinds = [draw.choice([0, 0, 2, 3]) if table.primary_keys else 0 for _ in ids]
        rows = {"id": ids, "v": [f"{draw.random():.6f}" for _ in ids], "_row_kind": pa.array(kinds, pa.int8())}
        table.write_changes(pa.table(rows))


def told(changes: Iterable[Any]) -> list[tuple[int | None, list[Row]]]:
    """What a stream hands out: the rows by snapshot, each key's in order."""
    return [(c.snapshot_id, sorted(c.to_arrow().to_pylist(), key=lambda row: row["id"])) for c in changes]


def told_by_files(table: Table, from_snapshot: int) -> list[tuple[int | None, list[Row]]]:
    return [(i, rows) for i, rows in told(table.stream(from_snapshot=from_snapshot, idle_seconds=0)) if rows]


def topic_of(table: Table) -> str:
    return table.options.kafka_topic


def cut_log(kafka: KafkaServer, table: Table, offsets: dict[int, int]) -> None:
    """Forget the records before the offsets, as retention does."""
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    wanted = [TopicPartition(topic_of(table), p, offset) for p, offset in offsets.items()]
    for done in client.delete_records(wanted).values():
        done.result(30)
