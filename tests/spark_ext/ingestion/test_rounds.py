"""Ingestion rounds of topics: the tables equal those of one `interbed ingest` process, whatever happens in between."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import BadMessageError, SourceChangedError, SourceGapError
from interbed.ingest.formats.format import decoder_of
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import IngestSettings
from interbed.ingest.sources.kafka.source import KafkaSource
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.spark_ext.ingestion import reading, writing
from interbed.spark_ext.procedures import ingestion_rounds
from interbed.spark_ext.procedures.procedure import Job, ProcedureArgumentError, ProcedureCall
from interbed.storage.base.errors import CommitFailedError, InvalidInputError, SchemaMismatchError
from interbed.storage.version.orphans import named_files
from tests.ingest.shop import Event, Row, event, rows_of
from tests.ingest.test_ended_tables import CanalMessages
from tests.ingest.test_kafka_to_tables import DEADLINE_SECONDS, make_topic, produce, stream
from tests.spark_ext.ingestion.in_process import procedure_call, run_call
from tests.support.servers.kafka import KafkaServer
from tests.support.shares import each_run


def call(kafka: KafkaServer, warehouse: Path, topic: str, **arguments: Any) -> ProcedureCall:
    """Return a call that reads a topic into tables of the database `shop`."""
    given = {"topic": topic, "database": "shop", "table_options": {"bucket": "2"}, **arguments}
    return procedure_call(warehouse, bootstrap_servers=kafka.bootstrap_servers, **given)


def called(kafka: KafkaServer, warehouse: Path, topic: str, **arguments: Any) -> dict[str, Any]:
    return run_call(call(kafka, warehouse, topic, **arguments))


def of_one_process(kafka: KafkaServer, warehouse: Path, topic: str) -> None:
    """Read the topic to its end as `interbed ingest kafka` does."""
    source = KafkaSource(kafka.bootstrap_servers, [topic], group="interbed")
    catalog = interbed.load_catalog("lake", warehouse=str(warehouse))
    names, tables = TableNames(database="shop"), TableSettings(options={"bucket": "2"})
    settings = IngestSettings(until_end=True)
    try:
        Ingestion(catalog, source, lambda: decoder_of("debezium-json"), names, tables, settings).run()
    finally:
        source.close()


def described(warehouse: Path) -> dict[str, tuple[list[str], list[Row]]]:
    """Return the columns and rows of all tables."""
    catalog = interbed.load_catalog("lake", warehouse=str(warehouse))
    return {
        name: (
            [str(field) for field in catalog.get_table(f"shop.{name}").schema.fields],
            rows_of(catalog, f"shop.{name}"),
        )
        for name in catalog.list_tables("shop")
    }


def stated(op: str, row: Row, kind: str) -> Event:
    """Return an event of the table `sums` with Kafka Connect's schema, where `n` has that type."""
    columns = [{"field": "id", "type": "int32"}, {"field": "n", "type": kind, "optional": True}]
    source = [{"field": name, "type": "string", "optional": True} for name in ("db", "schema", "table")]
    fields = [
        {"field": "before", "type": "struct", "fields": columns, "optional": True},
        {"field": "after", "type": "struct", "fields": columns, "optional": True},
        {"field": "source", "type": "struct", "fields": source},
        {"field": "op", "type": "string"},
    ]
    place = {"db": "shop", "schema": "public", "table": "sums"}
    payload = {"before": None, "after": row, "source": place, "op": op}
    whole = {"schema": {"type": "struct", "fields": fields}, "payload": payload}
    # As Kafka Connect writes it, without whitespace.
    return {"id": row["id"]}, json.dumps(whole, separators=(",", ":")).encode()


def keyed(old: int, row: Row, table: str = "orders") -> Sequence[Event]:
    """Return the events of an update that changes the key, as Debezium sends them."""
    return [event("d", {"id": old}, None, table), (({"id": old}), None), event("c", None, row, table)]


def test_the_tables_equal_those_of_one_process(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "same", 2)
    choice = random.Random(5)
    steps: list[list[Event]] = [
        [
            *stream(choice, 300, {}),
            *(event("c", None, {"id": i, "n": i}, "items") for i in range(200)),
            *(stated("c", {"id": i, "n": i}, "int32") for i in range(20)),
        ],
        # Another column, a wider type, a key change by two events and by one, and another table.
        [
            event("u", {"id": 3}, {"id": 3, "v": 1, "note": "x", "deep": {"a": [1, 2]}}),
            stated("u", {"id": 4, "n": 2**40}, "int64"),
            stated("u", {"id": 5, "n": 6}, "int32"),
            *keyed(5, {"id": 505, "v": 5}),
            event("u", {"id": 6, "n": 6}, {"id": 606, "n": 6}, "items"),
            event("c", None, {"id": 1, "t": "2026-01-01"}, "days"),
        ],
        [event("c", None, {"id": 2, "v": "text"}, "days"), event("c", None, {"id": 3, "v": "1"}, "days")],
    ]
    for events in steps:
        produce(kafka, "same", events)
        called(kafka, tmp_path / "spark", "same")
        of_one_process(kafka, tmp_path / "process", "same")
        assert described(tmp_path / "spark") == described(tmp_path / "process")
    assert sorted(described(tmp_path / "spark")) == ["days", "items", "orders", "sums"]


KINDS = [
    {"bucket": "-2"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "7"},
    {"bucket": "2", "merge-engine": "first-row", "changelog-producer": "lookup"},
    {"bucket": "4"},
    {"bucket": "-1"},
    {"bucket": "2", "changelog-producer": "input"},
    {"bucket": "2", "deletion-vectors.enabled": "true"},
]


# Tables whose rows take other paths; the other tests cover the other kinds.
@pytest.mark.parametrize("options", each_run(KINDS, lambda options: options in KINDS[:3]))
def test_tables_of_all_kinds_equal_those_of_one_process(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setattr(ingestion_rounds, "TASK_MESSAGES_MIN", 50)
    topic = f"kinds{abs(hash(frozenset(options.items())))}"
    make_topic(kafka, topic, 3)
    model: dict[int, Row] = {}
    choice = random.Random(7)
    only_new = options.get("merge-engine") == "first-row"
    for _ in range(3):
        events = [e for e in stream(choice, 200, model) if not only_new or e[1]["op"] == "c"]  # type: ignore[index]
        produce(kafka, topic, events)
        called(kafka, tmp_path, topic, table_options=options)
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    table = catalog.get_table("shop.orders")
    if options["bucket"] == "-2":
        table.compact()
    found = rows_of(catalog)
    if only_new:
        assert len({row["id"] for row in found}) == len(found)
    else:
        assert found == sorted(model.values(), key=lambda row: row["id"])


def test_partitions_and_computed_columns(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "parts")
    produce(kafka, "parts", [event("c", None, {"id": i, "day": f"2026-01-0{1 + i % 3}"}) for i in range(30)])
    arguments = {
        "computed_columns": "month=date_format(day,'yyyy-MM'); short=substring(day,8)",
        "partition_keys": "day",
        "primary_keys": "id, day",
        "table_options": {"bucket": "-1"},
    }
    assert called(kafka, tmp_path, "parts", **arguments)["rows"] == 30
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    assert rows_of(catalog)[4] == {"id": 4, "day": "2026-01-02", "month": "2026-01", "short": "02"}
    assert catalog.get_table("shop.orders").partition_keys == ["day"]


def test_a_truncation_keeps_its_order_among_the_changes(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "cut")
    truncation = event("t", None, None)
    others = [event("c", None, {"id": i}, "items") for i in range(4)]
    produce(kafka, "cut", [event("c", None, {"id": 1}), others[0], truncation, others[1], event("c", None, {"id": 2})])
    produce(kafka, "cut", [truncation, others[2], event("c", None, {"id": 3}), others[3]])
    answer = called(kafka, tmp_path, "cut")
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    assert rows_of(catalog) == [{"id": 3}]
    assert rows_of(catalog, "shop.items") == [{"id": i} for i in range(4)]
    assert answer["messages"] == 9
    produce(kafka, "cut", [truncation])
    assert called(kafka, tmp_path, "cut")["messages"] == 1
    assert rows_of(catalog) == []
    assert called(kafka, tmp_path, "cut")["messages"] == 0


def test_the_end_of_a_source_table_ends_the_call_after_the_rows_before_it(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "ended")
    form = CanalMessages()
    messages = [form.row(1), form.row(1, "items"), form.drop(), form.create(), form.row(2), form.row(2, "items")]
    produce(kafka, "ended", messages)
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    for _ in range(2):
        with pytest.raises(SourceChangedError, match=r"shop\.orders .*was dropped, .* topic ended, .* offset 2 says"):
            called(kafka, tmp_path, "ended", format="canal-json")
        assert [rows_of(catalog, f"shop.{name}") for name in ("orders", "items")] == [[{"id": 1}], [{"id": 1}]]
    catalog.get_table("shop.orders").delete("id IS NOT NULL")
    called(kafka, tmp_path, "ended", format="canal-json", accept_changed_source="shop.orders")
    assert rows_of(catalog) == [{"id": 2}]
    assert rows_of(catalog, "shop.items") == [{"id": 1}, {"id": 2}]
    # Ends of tables that the catalog lacks, or has no rows of, are skipped.
    produce(kafka, "ended", [form.drop("others"), form.drop("orders", "past"), form.row(3)])
    called(kafka, tmp_path, "ended", format="canal-json")
    assert rows_of(catalog) == [{"id": 2}, {"id": 3}]


def test_bad_messages_stop_the_call_or_are_skipped_or_go_to_a_topic(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "bad.s")
    make_topic(kafka, "bad.s.letters")
    produce(kafka, "bad.s", [event("c", None, {"id": 1}), ("k", b"no json"), event("c", None, {"id": 2})])
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    with pytest.raises(BadMessageError, match=r"topic bad.s, partition 0, offset 1 can't be taken: it is no JSON"):
        called(kafka, tmp_path, "bad.s")
    assert rows_of(catalog) == []
    answer = called(kafka, tmp_path, "bad.s", dead_letter_topic="bad.s.letters")
    assert (answer["bad_messages"], answer["messages"], answer["rows"]) == (1, 3, 2)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "letters"})
    consumer.assign([confluent_kafka.TopicPartition("bad.s.letters", 0, 0)])
    letter = consumer.poll(DEADLINE_SECONDS)
    consumer.close()
    assert letter is not None
    assert (letter.key(), letter.value()) == (b'"k"', b"no json")
    assert rows_of(catalog) == [{"id": 1}, {"id": 2}]
    # A value that does not fit its column, in a table with a typed column.
    produce(kafka, "bad.s", [event("c", None, {"id": "no number"}), event("c", None, {"id": 3})])
    with pytest.raises((BadMessageError, SchemaMismatchError)):
        called(kafka, tmp_path, "bad.s")


def test_one_of_two_runs_of_a_group_reads_again(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "two")
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("shop")
    catalog.create_table("shop.log", [{"n": 1}])
    produce(kafka, "two", [event("c", None, {"n": i}, "log", "n") for i in range(10)])
    other: list[dict[str, Any]] = []

    def meanwhile() -> None:
        if not other:
            other.append(called(kafka, tmp_path, "two"))

    answer = run_call(call(kafka, tmp_path, "two"), meanwhile)
    assert (answer["rows"], other[0]["rows"]) == (0, 10)
    assert [row["n"] for row in rows_of(catalog, "shop.log", "n")] == list(range(10))
    check_nothing_is_left(catalog, "shop.log")


def test_a_result_reports_the_lag_of_later_messages(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "since", 2)
    produce(kafka, "since", [event("c", None, {"id": i}) for i in range(10)])
    more = [event("c", None, {"id": i}) for i in range(3)]
    answer = run_call(call(kafka, tmp_path, "since"), lambda: produce(kafka, "since", more))
    assert (answer["messages"], answer["lag"]) == (10, 3)
    assert called(kafka, tmp_path, "since")["lag"] == 0


@pytest.mark.long
def test_a_rolled_back_table_gets_its_messages_again(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "back")
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    produce(kafka, "back", [event("c", None, {"id": 1}), event("c", None, {"id": 1}, "items")])
    first = called(kafka, tmp_path, "back", progress="{}")
    produce(kafka, "back", [event("c", None, {"id": 2}), event("c", None, {"id": 2}, "items")])
    second = called(kafka, tmp_path, "back", progress=first["progress"])
    catalog.get_table("shop.orders").versions.rollback_to(1)
    assert rows_of(catalog) == [{"id": 1}]
    third = called(kafka, tmp_path, "back", progress=second["progress"])
    assert rows_of(catalog) == rows_of(catalog, "shop.items") == [{"id": 1}, {"id": 2}]
    assert third["rows"] == 5


def test_a_start_position_applies_to_later_rounds_too(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "late")
    produce(kafka, "late", [event("c", None, {"id": 1})])
    first = called(kafka, tmp_path, "late", start="latest", progress="{}")
    assert first["messages"] == 0
    produce(kafka, "late", [event("c", None, {"id": 2})])
    called(kafka, tmp_path, "late", start="latest", progress=first["progress"])
    assert rows_of(interbed.load_catalog("lake", warehouse=str(tmp_path))) == [{"id": 2}]


@pytest.mark.long
def test_a_task_with_too_large_results_is_reduced(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 1_000)
    monkeypatch.setattr(reading, "_GIVEN_BYTES", 30_000)
    monkeypatch.setattr(ingestion_rounds, "TASK_MESSAGES_MIN", 10)
    make_topic(kafka, "much")
    rows = [{"id": i, "v": random.Random(i).randbytes(100).hex()} for i in range(1000)]
    produce(kafka, "much", [event("c", None, row) for row in rows])
    assert called(kafka, tmp_path, "much")["rows"] == 1000
    assert rows_of(interbed.load_catalog("lake", warehouse=str(tmp_path))) == rows


def test_rounds_end_after_the_configured_number_of_rows(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "many", 2)
    produce(kafka, "many", [event("c", None, {"id": i}) for i in range(100)])
    answer = called(kafka, tmp_path, "many", commit_rows=30)
    assert (answer["rows"], answer["messages"]) == (100, 100)
    assert answer["commits"] >= 4


@pytest.mark.long
def test_a_call_without_an_end_waits_for_more_messages(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion_rounds, "WAIT_SECONDS", 0)
    make_topic(kafka, "endless")
    asked = call(kafka, tmp_path, "endless", until_end=False, commit_interval="1 ms")
    resume = asked.procedure.resume
    assert resume is not None
    answer = asked.procedure.call(asked)
    for _ in range(2):
        assert isinstance(answer, Job)
        assert not answer.tasks
        answer = resume(asked, answer.token, [])
    produce(kafka, "endless", [event("c", None, {"id": 1})])
    assert isinstance(answer, Job)
    answer = resume(asked, answer.token, [])
    assert isinstance(answer, Job)
    assert answer.description == "Read 1 offsets of Kafka for interbed"


def test_rows_that_are_lost_between_tasks_are_not_committed() -> None:
    with pytest.raises(CommitFailedError, match="made other rows"):
        writing.write(b"{}", writing.payload_of({"000000//0": 3}), iter(()))


def test_deleted_messages_are_a_gap(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "gone")
    produce(kafka, "gone", [event("c", None, {"id": 1})])
    progress = '{"read": {"gone": {"0": 5}}}'
    with pytest.raises(SourceGapError, match="offset 5 was to be read next"):
        called(kafka, tmp_path, "gone", progress=progress)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "shop.t"}, "either it or 'database'"),
        ({"topic": ""}, "either it or 'topic_pattern'"),
        ({"format": "xml"}, "is one of canal-json"),
        ({"bad_messages": "drop"}, "is one of stop, skip, dead-letter"),
        ({"bad_messages": "dead-letter"}, "where a 'dead_letter_topic' is given"),
        ({"commit_rows": 0}, "positive number"),
    ],
)
def test_invalid_arguments_are_named(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    given = {"bootstrap_servers": "127.0.0.1:1", "topic": "t", "database": "shop", **arguments}
    with pytest.raises(ProcedureArgumentError, match=message):
        run_call(procedure_call(tmp_path, **given))


def check_nothing_is_left(catalog: Catalog, name: str) -> None:
    """Assert that every file belongs to a snapshot, and that no job marker is left."""
    table = catalog.get_table(name)
    files = {str(file) for file in Path(table.location).glob("bucket-*/*")}
    assert files <= set(named_files(table.store))
    assert not list(Path(table.location, "snapshot").glob(".write-*"))


@pytest.mark.long
def test_a_source_table_with_another_key_ends_the_call(kafka: KafkaServer, tmp_path: Path) -> None:
    make_topic(kafka, "changed")
    produce(kafka, "changed", [event("c", None, {"id": 1, "tenant": 1})])
    called(kafka, tmp_path, "changed")
    key, value = event("c", None, {"id": 1, "tenant": 2})
    produce(kafka, "changed", [({"id": 1, "tenant": 2}, value), (key, value)])
    before = described(tmp_path)
    for _ in range(2):
        with pytest.raises(SourceChangedError, match=r"partition 0, offset 1: it was \(id\), and is \(id, tenant\)"):
            called(kafka, tmp_path, "changed")
        assert described(tmp_path) == before
    # A process of the same group reports the same.
    with pytest.raises(SourceChangedError):
        of_one_process(kafka, tmp_path, "changed")
    called(kafka, tmp_path, "changed", accept_changed_source="shop.orders")
    assert rows_of(interbed.load_catalog("lake", warehouse=str(tmp_path))) == [{"id": 1, "tenant": 2}]
    source = {"db": "shop", "schema": "audit", "table": "orders"}
    produce(kafka, "changed", [(key, {**value, "source": source})])  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError, match=r"public\.orders and audit\.orders .* both go to 'shop\.orders'"):
        called(kafka, tmp_path, "changed")
