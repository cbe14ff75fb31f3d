"""Topics that are deleted and recreated under the same name, in ingestion rounds on Spark."""

import json
from pathlib import Path

import pytest

import interbed
from interbed.ingest.flow.messages import SourceGapError
from tests.ingest.shop import rows_of
from tests.ingest.sources.kafka.topics import KafkaTopics
from tests.ingest.test_kafka_to_tables import ingest, make_topic
from tests.ingest.test_recreated_topics import write
from tests.spark_ext.ingestion.in_process import run_call
from tests.spark_ext.ingestion.test_rounds import call, called
from tests.support.servers.kafka import KafkaServer


def test_a_call_refuses_a_recreated_topic_and_another_group_reads_it(kafka: KafkaServer, tmp_path: Path) -> None:
    topic, topics = "recreated.spark", KafkaTopics(kafka)
    make_topic(kafka, topic)
    write(kafka, topic, "old", 3)
    called(kafka, tmp_path, topic)
    before = topics.id_of(topic)
    topics.recreate(topic)
    write(kafka, topic, "new", 5)
    with pytest.raises(SourceGapError, match=f"Topic {topic} .*the table shop.orders .* its id was {before}, and is"):
        called(kafka, tmp_path, topic)
    assert called(kafka, tmp_path, topic, group="second")["rows"] == 5
    assert [row["v"] for row in rows_of(interbed.load_catalog("lake", warehouse=str(tmp_path)))] == ["new"] * 5


@pytest.mark.long
def test_a_topic_recreated_within_a_round_is_not_committed(kafka: KafkaServer, tmp_path: Path) -> None:
    topic, topics = "recreated.round", KafkaTopics(kafka)
    make_topic(kafka, topic)
    write(kafka, topic, "old", 3)
    called(kafka, tmp_path, topic)
    write(kafka, topic, "more", 2)

    def meanwhile() -> None:
        topics.recreate(topic)
        write(kafka, topic, "new", 9)

    with pytest.raises(SourceGapError, match=f"Topic {topic} .*the table shop.orders"):
        run_call(call(kafka, tmp_path, topic), meanwhile)
    assert [row["v"] for row in rows_of(interbed.load_catalog("lake", warehouse=str(tmp_path)))] == ["old"] * 3


def test_a_progress_contains_the_ids_of_its_topics(kafka: KafkaServer, tmp_path: Path) -> None:
    topic, topics = "recreated.progress", KafkaTopics(kafka)
    make_topic(kafka, topic)
    write(kafka, topic, "old", 3)
    first = called(kafka, tmp_path, topic, start="latest", progress="{}")
    assert json.loads(first["progress"])["topic_ids"] == {topic: topics.id_of(topic)}
    topics.recreate(topic)
    write(kafka, topic, "new", 5)
    with pytest.raises(SourceGapError, match=f"Topic {topic} .* since it was read"):
        called(kafka, tmp_path, topic, start="latest", progress=first["progress"])


@pytest.mark.long
def test_a_process_and_spark_share_the_ids_of_topics(kafka: KafkaServer, tmp_path: Path) -> None:
    topic, topics = "recreated.turns", KafkaTopics(kafka)
    make_topic(kafka, topic)
    write(kafka, topic, "old", 3)
    ingest(kafka, tmp_path, "--topic", topic, "--database", "shop", "--table-option", "bucket=2")
    topics.recreate(topic)
    write(kafka, topic, "new", 5)
    with pytest.raises(SourceGapError, match=f"Topic {topic} .*the table shop.orders"):
        called(kafka, tmp_path, topic)
