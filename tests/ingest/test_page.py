"""The commands of docs/ingest.md, on a real broker."""

import re
import shlex
from pathlib import Path

import pytest

from tests.ingest.formats.avro.events import avro_event, encoded, envelope
from tests.ingest.shop import event, lake, rows_of
from tests.ingest.test_kafka_to_tables import ingest, make_topic, produce
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.schema_registry import SchemaRegistryServer

PAGE = Path(__file__).parents[2] / "docs" / "ingest.md"


def commands() -> list[list[str]]:
    """Return the words of each command of the page after `interbed ingest kafka`, without warehouse and broker."""
    found = []
    for block in re.findall(r"```shell\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line)
            if words[:3] == ["interbed", "ingest", "kafka"]:
                text = shlex.join(words[3:])
                text = text.replace("-o warehouse=file:/tmp/lake", "")
                found.append(shlex.split(text.replace("--bootstrap-servers 127.0.0.1:9092", "")))
    return found


@pytest.mark.long
def test_the_commands_of_the_page_do_what_it_says(
    kafka: KafkaServer, registry: SchemaRegistryServer, tmp_path: Path
) -> None:
    one, many, transactional, avro = commands()
    for table in ("orders", "items", "tmp_x"):
        make_topic(kafka, f"shop.public.{table}")
        produce(kafka, f"shop.public.{table}", [event("r", None, {"id": 1, "v": "a"}, table)])
    assert ingest(kafka, tmp_path / "one", *one)["rows"] == {"shop.orders": 1}
    catalog = lake(tmp_path / "one")
    assert rows_of(catalog) == [{"id": 1, "v": "a"}]
    assert catalog.get_table("shop.orders").options.bucket == 4
    assert ingest(kafka, tmp_path / "many", *many)["rows"] == {"shop.items": 1, "shop.orders": 1}
    assert sorted(lake(tmp_path / "many").list_tables("shop")) == ["items", "orders"]
    key, change = event("c", None, {"id": 2, "v": "b"})
    assert isinstance(change, dict)
    produce(kafka, "shop.public.orders", [(key, {**change, "transaction": {"id": "7:1"}})])
    counts = [{"data_collection": "public.orders", "event_count": 1}]
    make_topic(kafka, "shop.transaction")
    produce(kafka, "shop.transaction", [(None, {"status": "END", "id": "7:2", "data_collections": counts})])
    found = ingest(kafka, tmp_path / "transactional", *transactional)
    assert found["rows"] == {"shop.items": 1, "shop.orders": 2}
    assert found["positions"]["shop.transaction"] == {"0": 1}
    check_avro(kafka, registry, tmp_path / "avro", avro)


OWN_TOPICS = (
    "shop",
    "shop.transaction",
    "shop.schema-changes",
    "shop.heartbeat",
    "schemahistory.shop",
    "shop-heartbeat",
)


def test_no_documented_pattern_matches_internal_topics_of_debezium() -> None:
    """They match no topics of Kafka Connect either, but all topics of tables."""
    texts = [file.read_text(encoding="utf-8") for file in (PAGE, PAGE.parent / "tour.md")]
    found = [p for text in texts for p in re.findall(r"""topic[-_]pattern[ =]+r?['"]([^'"]+)['"]""", text)]
    assert len(found) == 3
    for pattern in found:
        assert re.fullmatch(pattern, "shop.public.orders"), pattern
        assert not [topic for topic in OWN_TOPICS if re.fullmatch(pattern, topic)], pattern


def check_avro(kafka: KafkaServer, registry: SchemaRegistryServer, warehouse: Path, command: list[str]) -> None:
    """Run the command for Avro, whose topic has its own messages here."""
    topic = "shop.public.orders.avro"
    make_topic(kafka, topic)
    schema = envelope([{"name": "id", "type": "int"}, {"name": "v", "type": "string"}])
    number = registry.register(f"{topic}-value", schema)
    message = encoded(number, schema, avro_event("c", None, {"id": 1, "v": "a"}))
    produce(kafka, topic, [({"id": 1}, message)])
    words = [{"shop.public.orders": topic, "http://127.0.0.1:8081": registry.url}.get(word, word) for word in command]
    assert ingest(kafka, warehouse, *words, "--primary-key", "id")["rows"] == {"shop.orders": 1}
    assert rows_of(lake(warehouse)) == [{"id": 1, "v": "a"}]
