"""Ingestion rounds that read Avro, whose tasks look up the schemas themselves."""

from pathlib import Path

import pytest

from interbed.spark_ext.procedures.procedure import ProcedureArgumentError
from tests.ingest.formats.avro.events import avro_event, encoded, envelope
from tests.ingest.shop import lake, rows_of
from tests.ingest.test_kafka_to_tables import make_topic, produce
from tests.spark_ext.ingestion.in_process import procedure_call, run_call
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.schema_registry import SchemaRegistryServer


@pytest.mark.long
def test_tasks_look_up_schemas(kafka: KafkaServer, registry: SchemaRegistryServer, tmp_path: Path) -> None:
    make_topic(kafka, "spark_avro")
    schema = envelope([{"name": "id", "type": "int"}, {"name": "v", "type": "string"}])
    number = registry.register("spark_avro-value", schema)
    events = [avro_event("c", None, {"id": n, "v": "a"}) for n in range(3)]
    produce(kafka, "spark_avro", [({"id": n}, encoded(number, schema, each)) for n, each in enumerate(events)])
    call = procedure_call(
        tmp_path,
        bootstrap_servers=kafka.bootstrap_servers,
        topic="spark_avro",
        format="debezium-avro",
        schema_registry=registry.url,
        table="shop.orders",
        primary_keys="id",
        table_options={"bucket": "2"},
    )
    assert run_call(call)["rows"] == 3
    assert rows_of(lake(tmp_path)) == [{"id": n, "v": "a"} for n in range(3)]


def test_avro_requires_a_registry(tmp_path: Path) -> None:
    call = procedure_call(
        tmp_path, bootstrap_servers="127.0.0.1:1", topic="t", format="debezium-avro", table="shop.orders"
    )
    with pytest.raises(ProcedureArgumentError, match="schema_registry"):
        run_call(call)
