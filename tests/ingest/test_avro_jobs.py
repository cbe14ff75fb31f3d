"""Jobs that read Debezium's Avro with schemas of a real registry, which may be unavailable, and the options."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interbed.catalog.client.api import Catalog
from interbed.cli import main
from interbed.ingest.flow.messages import BadMessageError, SchemaRegistryError, SourceUnavailableError
from interbed.ingest.formats.format import decoder_of
from interbed.ingest.job import Ingestion
from interbed.ingest.run_settings import BACKOFF, BadMessages, IngestSettings
from interbed.ingest.sources.schema_registry import SchemaRegistry
from interbed.ingest.tables.source_tables import TableNames
from interbed.ingest.tables.table_sink import TableSettings
from interbed.storage.base.errors import InvalidOptionError
from tests.ingest.formats.avro.events import avro_event, encoded, envelope
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import lake, rows_of
from tests.support.servers.gate import HttpGate, running_gate
from tests.support.servers.schema_registry import SchemaRegistryServer

PATH = "/apis/ccompat/v7"
SECRET = "open-sesame-31"
FIELDS: Sequence[dict[str, Any]] = [
    {"name": "id", "type": "int"},
    {"name": "v", "type": ["null", "string"], "default": None},
]
KEY = {"type": "record", "name": "Key", "namespace": "shop.public.orders", "fields": FIELDS[:1]}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = lake(tmp_path / "lake")
    catalog.create_database("shop")
    return catalog


@pytest.fixture(scope="module")
def source(registry: SchemaRegistryServer) -> MemorySource:
    """Two rows, and a change of the schema between them."""
    pairs: list[tuple[object, object]] = []
    key = registry.register("jobs-key", KEY)
    more = {"name": "w", "type": ["null", "long"], "default": None}
    for i, fields in enumerate([FIELDS, [*FIELDS, more]]):
        schema = envelope(fields)
        number = registry.register("jobs-value", schema)
        event = avro_event("c", None, ROWS[i])
        pairs.append((encoded(key, KEY, {"id": i}), encoded(number, schema, event)))
    return MemorySource({"t": [pairs]})


ROWS: Sequence[dict[str, Any]] = [{"id": 0, "v": "a"}, {"id": 1, "v": "b", "w": 7}]


def avro_job(
    catalog: Catalog, source: MemorySource, url: str, bad: BadMessages = BadMessages.STOP, **more: str
) -> Ingestion:
    return Ingestion(
        catalog,
        source,
        partial(decoder_of, "debezium-avro", SchemaRegistry(url, more)),
        TableNames(database="shop"),
        TableSettings(options={"bucket": "1"}),
        IngestSettings(until_end=True, bad_messages=bad),
        pause=lambda seconds: None,
    )


def test_rows_of_several_schemas_are_in_the_table(
    catalog: Catalog, source: MemorySource, registry: SchemaRegistryServer
) -> None:
    avro_job(catalog, source, registry.url).run()
    assert rows_of(catalog) == ROWS
    table = catalog.get_table("shop.orders")
    assert table.schema.primary_keys == ("id",)
    assert {f.name: str(f.type) for f in table.schema.fields} == {"id": "INT NOT NULL", "v": "STRING", "w": "BIGINT"}


def test_a_temporary_failure_of_the_registry_loses_nothing(
    catalog: Catalog, source: MemorySource, registry: SchemaRegistryServer
) -> None:
    with running_gate(HttpGate(registry.port, answers=[(503, {})] * (BACKOFF.retries or 0))) as gate:
        job = avro_job(catalog, source, f"http://127.0.0.1:{gate.port}{PATH}", BadMessages.SKIP)
        job.run()
    assert job.result.bad == 0
    assert rows_of(catalog) == ROWS


def test_an_unavailable_registry_ends_a_run_that_skips_bad_messages(
    catalog: Catalog, source: MemorySource, registry: SchemaRegistryServer
) -> None:
    with running_gate(HttpGate(registry.port, answers=[(503, {})] * 100)) as gate:
        url = f"http://127.0.0.1:{gate.port}{PATH}"
        with pytest.raises(SourceUnavailableError, match=r"The schema registry does not return a schema .*answers 503"):
            avro_job(catalog, source, url, BadMessages.SKIP).run()
    avro_job(catalog, source, registry.url).run()
    assert rows_of(catalog) == ROWS


def test_a_registry_that_refuses_access_ends_a_run_at_once(
    catalog: Catalog, source: MemorySource, registry: SchemaRegistryServer
) -> None:
    with running_gate(HttpGate(registry.port, authorization="another caller")) as gate:
        url = f"http://127.0.0.1:{gate.port}{PATH}"
        job = avro_job(catalog, source, url, BadMessages.SKIP, **{"bearer.auth.token": SECRET})
        with pytest.raises(SchemaRegistryError, match="it answers 401") as caught:
            job.run()
        assert len(gate.seen) == 1
    assert SECRET not in str(caught.value)


def test_a_message_with_an_unregistered_schema_is_bad(
    catalog: Catalog, source: MemorySource, registry: SchemaRegistryServer
) -> None:
    lost = encoded(1_999_999, KEY, {"id": 1})
    mixed = MemorySource({"t": [[(None, lost), *source.topics["t"][0]]]})
    with pytest.raises(BadMessageError, match=r"offset 0.*has the schema 1999999, .*does not have a schema 1999999"):
        avro_job(catalog, mixed, registry.url).run()
    job = avro_job(catalog, mixed, registry.url, BadMessages.SKIP)
    job.run()
    assert job.result.bad == 1
    assert rows_of(catalog) == ROWS


def test_a_decoder_without_its_registry_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="--schema-registry"):
        decoder_of("debezium-avro")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--format", "debezium-avro"], "Give --schema-registry with --format debezium-avro"),
        (["--schema-registry", "http://host"], "Give --schema-registry with --format debezium-avro"),
        (["--schema-registry-conf", f"basic.auth.user.info=a:{SECRET}"], "Give --schema-registry-conf with"),
        (
            ["--format", "debezium-avro", "--schema-registry", "http://host", "--schema-registry-conf", f"a:{SECRET}"],
            "one of them is not KEY=VALUE",
        ),
        (
            [
                *("--format", "debezium-avro", "--schema-registry", f"http://a:{SECRET}@host"),
                *("--schema-registry-conf", f"basic.auth={SECRET}"),
            ],
            "A schema registry has no setting basic.auth",
        ),
    ],
)
def test_incompatible_options_are_refused_without_showing_secrets(
    tmp_path: Path, options: list[str], reason: str
) -> None:
    begin = ["ingest", "kafka", "-o", f"warehouse={tmp_path}", "--bootstrap-servers", "127.0.0.1:1", "--topic", "t"]
    done = CliRunner().invoke(main, [*begin, "--table", "a.b", *options])
    assert done.exit_code != 0
    said = " ".join(f"{done.output} {done.exception}".split())
    assert reason in said
    assert SECRET not in said
