"""Tables with a log, changes to them, and the changes that their streams return."""

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
from tests.support.waits import at_most

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
    """Wait until a broker that was just started accepts transactions; commits do not wait for so long."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "warm-up"})
    producer.init_transactions(120)


def log_options(kafka: KafkaServer) -> dict[str, str]:
    return {"log.system": "kafka", "kafka.bootstrap.servers": kafka.bootstrap_servers}


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def change(table: Table, seed: int, commits: int) -> None:
    """Make a number of commits with changes of few keys, determined by the seed."""
    draw = random.Random(seed)
    for _ in range(commits):
        ids = draw.sample(range(12), draw.randint(1, 5))
        kinds = [draw.choice([0, 0, 2, 3]) if table.primary_keys else 0 for _ in ids]
        rows = {"id": ids, "v": [f"{draw.random():.6f}" for _ in ids], "_row_kind": pa.array(kinds, pa.int8())}
        table.write_changes(pa.table(rows))


def rows_of(table: Table) -> dict[int, Row]:
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


def silently(table: Table) -> Table:
    """The table for a writer that does not use the log."""
    return table.copy({"log.system": "none", "log.consistency": "transactional"})


def change_somehow(table: Table, draw: random.Random, value: str) -> bool:
    """Change few keys in a random way that an eventual log records or does not record.

    Values begin with the given text. Returns whether it was a commit that the log records.
    """
    ids = draw.sample(range(12), draw.randint(1, 5))
    rows = {"id": ids, "v": [f"{value} {draw.random():.4f}" for _ in ids]}
    kinds = pa.array([draw.choice([0, 0, 2, 3]) for _ in ids], pa.int8())
    match draw.randint(0, 7):
        case 0:
            with table.new_write("never") as write:
                write.write_arrow(pa.table(rows), kinds)
        case 1:
            silently(table).write_changes(pa.table({**rows, "_row_kind": kinds}))
        case 2:
            table.overwrite(pa.table(rows))
        case 3:
            table.compact()
        case _:
            table.write_changes(pa.table({**rows, "_row_kind": kinds}))
            return True
    return False


def apply_change(rows: dict[int, Row], kind: int, row: Row, *, is_strict: bool = True) -> None:
    """Apply a change to rows by id. If it is strict, assert that the change fits them."""
    held = rows.pop(row["id"], None)
    if is_strict:
        assert held == (row if kind in (1, 3) else None), (kind, row, held)
    if kind in (0, 2):
        rows[row["id"]] = row


def changes_by_snapshot(changes: Iterable[Any]) -> list[tuple[int | None, list[Row]]]:
    """The changes of a stream by snapshot, those of each key in order."""
    return [(c.snapshot_id, sorted(c.to_arrow().to_pylist(), key=lambda row: row["id"])) for c in changes]


def changes_from_files(table: Table, from_snapshot: int) -> list[tuple[int | None, list[Row]]]:
    return [
        (i, rows) for i, rows in changes_by_snapshot(table.stream(from_snapshot=from_snapshot, idle_seconds=0)) if rows
    ]


def topic_of(table: Table) -> str:
    return table.options.kafka_topic


def cut_log(kafka: KafkaServer, table: Table, offsets: dict[int, int]) -> None:
    """Delete the records before the offsets, as retention does."""
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    wanted = [TopicPartition(topic_of(table), p, offset) for p, offset in offsets.items()]
    for done in client.delete_records(wanted).values():
        done.result(at_most(30))
