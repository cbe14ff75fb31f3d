"""The command `interbed ingest kafka` on a real broker: normal use, kills at any time, and orderly shutdown."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from interbed.catalog.client.api import Catalog
from tests.ingest.shop import Event, Row, event, lake, rows_of
from tests.support.servers.forked import start_python
from tests.support.servers.kafka import KafkaServer
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(60)


def make_topic(kafka: KafkaServer, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(DEADLINE_SECONDS)


def produce(kafka: KafkaServer, topic: str, events: Sequence[Event]) -> None:
    """Put events into a topic; events with the same key go to one partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for key, value in events:
        content = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, content, None if key is None else json.dumps(key).encode())
    assert producer.flush(DEADLINE_SECONDS) == 0


def command(kafka: KafkaServer, warehouse: Path, *arguments: str) -> list[str]:
    begin = [sys.executable, "-m", "interbed.cli", "ingest", "kafka", "-o", f"warehouse={warehouse}", "--json"]
    return [*begin, "--bootstrap-servers", kafka.bootstrap_servers, *arguments]


def ingest(kafka: KafkaServer, warehouse: Path, *arguments: str) -> dict[str, Any]:
    """Run the command to the end of the topics, and return its last line."""
    done = subprocess.run(
        command(kafka, warehouse, *arguments, "--until-end"),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


def test_topics_become_tables_and_later_runs_continue(kafka: KafkaServer, tmp_path: Path) -> None:
    for table in ("orders", "items"):
        make_topic(kafka, f"one.public.{table}", 2)
        produce(kafka, f"one.public.{table}", [event("c", None, {"id": i, "v": "a"}, table) for i in range(10)])
    arguments = ["--topic-pattern", r"one\.public\..*", "--database", "shop", "--table-option", "bucket=1"]
    first = ingest(kafka, tmp_path, *arguments)
    assert first["event"] == "end"
    assert first["rows"] == {"shop.items": 10, "shop.orders": 10}
    catalog = lake(tmp_path)
    assert [row["id"] for row in rows_of(catalog)] == list(range(10))
    produce(kafka, "one.public.orders", [event("d", {"id": 3, "v": "a"}, None)])
    assert ingest(kafka, tmp_path, *arguments)["rows"] == {"shop.orders": 1}
    assert ingest(kafka, tmp_path, *arguments)["rows"] == {}
    assert [row["id"] for row in rows_of(catalog)] == [0, 1, 2, *range(4, 10)]


@pytest.mark.long
def test_bad_messages_go_to_a_dead_letter_topic(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "bad")
    make_topic(kafka, "bad.letters")
    produce(kafka, "bad", [event("c", None, {"id": 1}), ("k", b"no json")])
    arguments = ["--topic", "bad", "--table", "shop.orders"]
    stopped = subprocess.run(
        command(kafka, tmp_path, *arguments, "--until-end"),
        capture_output=True,
        text=True,
        check=False,
        timeout=at_most(60),
    )
    assert stopped.returncode == 1
    assert "topic bad, partition 0, offset 1 can't be taken: it is no JSON" in stopped.stderr
    assert ingest(kafka, tmp_path, *arguments, "--dead-letter-topic", "bad.letters")["bad"] == 1
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "letters"})
    consumer.assign([confluent_kafka.TopicPartition("bad.letters", 0, 0)])
    letter = consumer.poll(DEADLINE_SECONDS)
    consumer.close()
    assert letter is not None
    assert (letter.key(), letter.value()) == (b'"k"', b"no json")
    headers: Any = letter.headers()
    assert dict(headers)["interbed.offset"] == b"1"


@pytest.mark.long
def test_a_run_that_stores_no_position_warns(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "late")
    produce(kafka, "late", [event("c", None, {"id": 1})])
    arguments = command(kafka, tmp_path, "--topic", "late", "--table", "shop.orders", "--until-end")
    for start, is_warned in (("latest", True), ("earliest", False), ("latest", False)):
        done = subprocess.run(
            [*arguments, "--start", start], capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS
        )
        assert ("No table keeps a position yet" in done.stderr) == is_warned, done.stderr
    assert rows_of(lake(tmp_path)) == [{"id": 1}]


def stream(choice: random.Random, count: int, model: dict[int, Row]) -> list[Event]:
    """Return changes of a table's rows, which are also applied to the model."""
    events: list[Event] = []
    while len(events) < count:
        key = choice.randrange(40)
        row = {"id": key, "v": choice.randrange(1_000_000)}
        before = model.get(key)
        if before is None:
            events.append(event("c", None, row))
        elif choice.random() < 0.3:
            events.append(event("d", before, None))
            del model[key]
            continue
        else:
            events.append(event("u", before, row))
        model[key] = row
    return events


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_process_that_is_killed_repeatedly_loses_and_duplicates_nothing(
    kafka: KafkaServer, tmp_path: Path, kills: int
) -> None:
    """One table stores every event as a row, so that a duplicate shows; the other one has a primary key."""
    choice = random.Random(kills)
    topic = f"killed-{kills}"
    make_topic(kafka, topic, 2)
    catalog = lake(tmp_path)
    catalog.create_database("shop")
    catalog.create_table("shop.log", [{"n": 1}])
    model: dict[int, Row] = {}
    logged = 0
    arguments = ["--topic", topic, "--database", "shop", "--table-option", "bucket=1", "--commit-interval", "50ms"]
    for _ in range(kills):
        log = [event("c", None, {"n": logged + i}, "log") for i in range(20)]
        logged += len(log)
        produce(kafka, topic, [*stream(choice, 30, model), *log])
        with start_python(command(kafka, tmp_path, *arguments), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            # It has committed something, and is in the middle of the next commit.
            process.stdout.readline()
            produce(kafka, topic, stream(choice, 30, model))
            if choice.random() < 0.5:
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
    ingest(kafka, tmp_path, *arguments)
    assert rows_of(catalog) == sorted(model.values(), key=lambda row: row["id"])
    assert [row["n"] for row in rows_of(catalog, "shop.log", "n")] == list(range(logged))
    check_no_snapshot_repeats(catalog)


def check_no_snapshot_repeats(catalog: Catalog) -> None:
    table = catalog.get_table("shop.log")
    for snapshot in table.snapshots():
        rows = table.copy({"scan.snapshot-id": str(snapshot.id)}).scan().to_arrow()["n"].to_pylist()
        assert len(rows) == len(set(rows))


def test_a_terminated_run_commits_the_rows_it_has_read(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "stopped")
    produce(kafka, "stopped", [event("c", None, {"id": i}) for i in range(50)])
    arguments = ["--topic", "stopped", "--table", "shop.orders", "--commit-interval", "1h", "--metrics-port", "0"]
    process = subprocess.Popen(command(kafka, tmp_path, *arguments), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + DEADLINE_SECONDS
    table = tmp_path / "shop.db" / "orders" / "position"
    # The table is created, and its position recorded, with the first messages.
    while not table.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
    process.terminate()
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    last = json.loads(output.splitlines()[-1])
    assert (last["event"], last["rows"]) == ("end", {"shop.orders": 50})
    assert len(rows_of(lake(tmp_path))) == 50


@pytest.mark.long
def test_a_key_update_without_a_large_value_is_a_bad_message(kafka: KafkaServer, tmp_path: Path) -> None:
    topic, word = "moved.public.orders", "__debezium_unavailable_value"
    make_topic(kafka, topic)
    produce(kafka, topic, [event("c", None, {"id": 1, "v": word}), event("d", {"id": 1, "v": None}, None)])
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    key, value = event("c", None, {"id": 2, "v": word})
    headers: Any = {"__debezium.oldkey": json.dumps({"id": 1}).encode()}
    producer.produce(topic, json.dumps(value).encode(), json.dumps(key).encode(), headers=headers)
    assert producer.flush(DEADLINE_SECONDS) == 0
    produce(kafka, topic, [event("c", None, {"id": 3, "v": word})])

    arguments = ["--topic", topic, "--database", "moved", "--until-end"]
    refused = subprocess.run(
        command(kafka, tmp_path, *arguments), capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert refused.returncode != 0
    assert "offset 2" in refused.stderr
    assert "leaves out the column 'v'" in refused.stderr
    ingest(kafka, tmp_path, "--topic", topic, "--database", "moved", "--skip-bad")
    assert rows_of(lake(tmp_path), "moved.orders") == [{"id": 3, "v": word}]
