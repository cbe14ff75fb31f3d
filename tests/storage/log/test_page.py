"""The examples of docs/log-store.md, on a real broker."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

import interbed
from interbed.cli import main
from tests.support.servers.kafka import KafkaServer

PAGE = Path(__file__).parents[3] / "docs" / "log-store.md"


def blocks(language: str, warehouse: Path, kafka: KafkaServer) -> list[str]:
    text = PAGE.read_text(encoding="utf-8").replace("/tmp/lake", str(warehouse))
    text = text.replace("127.0.0.1:9092", kafka.bootstrap_servers)
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.long
def test_the_examples_of_the_page_run_and_fill_the_topic_as_described(
    kafka: KafkaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, before_commit = blocks("python", tmp_path, kafka)
    (record,) = blocks("json", tmp_path, kafka)
    names: dict[str, Any] = {}
    exec(compile(program.replace("idle_seconds=5", "idle_seconds=0"), str(PAGE), "exec"), names)
    assert capsys.readouterr().out == "[{'id': 1, 'amount': 10.0, '_row_kind': 0}]\n"
    exec(compile(before_commit, str(PAGE), "exec"), names)
    told = capsys.readouterr().out
    assert all(f"{{'currency': '{c}', 'rate': {r}, '_row_kind': 0}}" in told for c, r in (("EUR", 1.0), ("USD", 1.08)))
    assert names["rates"].latest_snapshot() is None
    commands = [shlex.split(line) for block in blocks("shell", tmp_path, kafka) for line in block.splitlines()]
    (publish,) = [words[1:] for words in commands if words[0] == "interbed"]
    result = CliRunner().invoke(main, publish)
    assert (result.exit_code, result.output) == (0, "published up to snapshot 1\n")
    messages = read_topic(kafka, "shop.orders", 3)
    values = [json.loads(m.value()) for m in messages if m.value() is not None]
    assert values == [json.loads(record)]
    assert [m.key() for m in messages if m.value() is not None] == [b'{"id":1}']
    for table in ("shop.orders", "shop.rates"):
        interbed.load_catalog("lake", warehouse=f"file:{tmp_path}").drop_table(table)


def read_topic(kafka: KafkaServer, topic: str, count: int) -> list[Any]:
    """The first messages of a topic, as any consumer reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    try:
        return consumer.consume(count, 30)
    finally:
        consumer.close()
