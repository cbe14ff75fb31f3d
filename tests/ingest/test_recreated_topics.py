"""Topics that are deleted and recreated under the same name, between the runs of a job and during a run.

The new topic has more messages than were read from the old one, so its offsets alone reveal nothing.
"""

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from interbed.ingest.flow.messages import Positions, SourceGapError
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import IngestSettings
from interbed.ingest.sources.kafka.source import KafkaSource
from interbed.ingest.sources.kafka.topics import KafkaTopicIds
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.storage.commit.stream_commits import SOURCE_PROPERTY
from tests.ingest.shop import event, job, lake, rows_of
from tests.ingest.sources.kafka.topics import KafkaTopics
from tests.ingest.test_kafka_to_tables import command, ingest, make_topic, produce
from tests.support.servers.kafka import KafkaServer
from tests.support.waits import at_most


def write(kafka: KafkaServer, topic: str, value: str, count: int) -> None:
    produce(kafka, topic, [event("c", None, {"id": i, "v": value}) for i in range(count)])


def note(warehouse: Path) -> Path:
    return warehouse / "shop.db" / "orders" / "position" / "position-interbed"


def test_a_run_refuses_a_recreated_topic_and_another_group_reads_it(kafka: KafkaServer, tmp_path: Path) -> None:
    topic, topics = "recreated.between", KafkaTopics(kafka)
    make_topic(kafka, topic)
    write(kafka, topic, "old", 3)
    arguments = ["--topic", topic, "--table", "shop.orders"]
    ingest(kafka, tmp_path, *arguments)
    before = topics.id_of(topic)
    topics.recreate(topic)
    write(kafka, topic, "new", 5)

    stopped = subprocess.run(
        command(kafka, tmp_path, *arguments, "--until-end"),
        capture_output=True,
        text=True,
        check=False,
        timeout=at_most(60),
    )
    assert stopped.returncode == 1
    error_text = " ".join(stopped.stderr.split())
    for each in (topic, "the table shop.orders", f"its id was {before}", f"is {topics.id_of(topic)} now", "--group"):
        assert each in error_text
    assert {row["v"] for row in rows_of(lake(tmp_path))} == {"old"}

    assert ingest(kafka, tmp_path, *arguments, "--group", "second")["rows"] == {"shop.orders": 5}
    assert [row["v"] for row in rows_of(lake(tmp_path))] == ["new"] * 5


@pytest.mark.long
def test_a_group_continues_with_its_other_topics(kafka: KafkaServer, tmp_path: Path) -> None:
    topics, names = KafkaTopics(kafka), ("recreated.left", "recreated.stays")
    for topic in names:
        make_topic(kafka, topic)
        write(kafka, topic, "old", 2)
    ingest(kafka, tmp_path, "--topic", ",".join(names), "--table", "shop.orders")
    topics.recreate("recreated.left")
    write(kafka, "recreated.left", "new", 5)
    write(kafka, "recreated.stays", "more", 1)
    assert ingest(kafka, tmp_path, "--topic", "recreated.stays", "--table", "shop.orders")["rows"] == {"shop.orders": 1}


def test_messages_of_a_topic_recreated_during_a_run_are_not_committed(kafka: KafkaServer, tmp_path: Path) -> None:
    topic, topics, catalog = "recreated.meanwhile", KafkaTopics(kafka), lake(tmp_path)
    make_topic(kafka, topic)
    write(kafka, topic, "old", 3)
    source = KafkaSource(kafka.bootstrap_servers, [topic], group="interbed")
    run = Ingestion(
        catalog,
        source,
        DebeziumJson,
        TableNames(database="shop"),
        TableSettings(options={"bucket": "1"}),
        IngestSettings(commit_rows=1),
    )

    def committed() -> None:
        topics.recreate(topic)
        write(kafka, topic, "new", 5)

    with closing(source), pytest.raises(SourceGapError, match=f"Topic {topic} .*the table shop.orders"):
        run.run(lambda: run.result.rows.get("shop.orders", 0) > 3, committed)
    assert (run.result.messages, run.result.rows) == (5, {"shop.orders": 3})
    assert [row["v"] for row in rows_of(catalog)] == ["old"] * 3


@pytest.mark.long
def test_positions_of_earlier_versions_get_the_topic_id_with_the_next_commit(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    topic, topics, catalog = "recreated.earlier", KafkaTopics(kafka), lake(tmp_path)
    make_topic(kafka, topic)
    write(kafka, topic, "a", 2)
    arguments = ["--topic", topic, "--table", "shop.orders"]
    ingest(kafka, tmp_path, *arguments)
    kept = json.loads(note(tmp_path).read_text())
    # Earlier versions can still read the position, because they ignore the source.
    assert Positions.from_json(kept["position"], "the note") == Positions({topic: {0: 2}})
    note(tmp_path).write_text(json.dumps({n: v for n, v in kept.items() if not n.startswith("source")}))
    produce(kafka, topic, [event("c", None, {"id": 7, "v": "b"})])
    assert ingest(kafka, tmp_path, *arguments)["rows"] == {"shop.orders": 1}
    snapshot = catalog.get_table("shop.orders").latest_snapshot()
    assert snapshot is not None
    source = (snapshot.properties or {})[SOURCE_PROPERTY]
    assert {name: value for name, value in json.loads(source).items() if name != "source tables"} == {
        topic: topics.id_of(topic)
    }
    assert json.loads(note(tmp_path).read_text())["source"] == source


def test_brokers_without_topic_ids_are_read_as_before(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, catalog = "recreated.unknown", lake(tmp_path)
    make_topic(kafka, topic)
    monkeypatch.setattr(KafkaTopicIds, "of", lambda self, topics: {})
    for value in ("a", "b"):
        write(kafka, topic, value, 2)
        with closing(KafkaSource(kafka.bootstrap_servers, [topic], group="interbed")) as source:
            job(catalog, source).run()
    assert [row["v"] for row in rows_of(catalog)] == ["b"] * 2
    assert list(json.loads(json.loads(note(tmp_path).read_text())["source"])) == ["source tables"]
