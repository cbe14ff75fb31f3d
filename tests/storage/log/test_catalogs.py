"""Tables with a log in catalogs: created with rows, renamed and dropped."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

import interbed
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.table.table import Table
from tests.storage.log.tables import QUICK, SCHEMA, changes_from_files, log_options, new_name, topic_of, warm_up
from tests.storage.log.test_publishing import from_log
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.metastore import metastore
from tests.support.waits import at_most


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('metastore')}") as uri:
        yield uri


@pytest.fixture(params=["filesystem", "hive"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[interbed.Catalog]:
    if request.param == "filesystem":
        with interbed.load_catalog("test", warehouse=f"file:{tmp_path}") as found:
            found.create_database("db")
            yield found
        return
    uri: str = request.getfixturevalue("uri")
    with interbed.load_catalog("test", metastore="hive", uri=uri, warehouse=f"file:{tmp_path}") as found:
        found.create_database("db", ignore_if_exists=True)
        yield found


def create(catalog: interbed.Catalog, kafka: KafkaServer, name: str) -> Table:
    options = {"bucket": "2", **QUICK, **log_options(kafka)}
    return catalog.create_table(name, SCHEMA, primary_keys=["id"], options=options)


def topics(kafka: KafkaServer) -> set[str]:
    return set(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=at_most(10)).topics)


def test_a_renamed_table_keeps_its_topic_and_dropping_it_deletes_the_topic(
    kafka: KafkaServer, catalog: interbed.Catalog
) -> None:
    name = f"db.{new_name()}"
    table = create(catalog, kafka, name)
    table.upsert([{"id": 1, "v": "a"}])
    assert topic_of(table) == name
    assert name in topics(kafka)
    catalog.rename_table(name, f"{name}x")
    renamed = catalog.get_table(f"{name}x")
    renamed.upsert([{"id": 2, "v": "b"}])
    assert topic_of(renamed) == name
    assert from_log(renamed, 1, 2) == changes_from_files(renamed, 1)
    catalog.drop_table(f"{name}x")
    assert name not in topics(kafka)


def test_a_table_created_with_rows_has_them_in_its_log(kafka: KafkaServer, catalog: interbed.Catalog) -> None:
    table = catalog.create_table_as(
        f"db.{new_name()}",
        [{"id": 1, "v": "a"}],
        primary_keys=["id"],
        options={"bucket": "1", **QUICK, **log_options(kafka)},
    )
    assert from_log(table, 1, 1) == [(1, [{"id": 1, "v": "a", "_row_kind": 0}])]


def test_a_table_created_with_rows_may_have_an_eventual_log(kafka: KafkaServer, catalog: interbed.Catalog) -> None:
    table = catalog.create_table_as(
        f"db.{new_name()}",
        [{"id": 1, "v": "a"}],
        primary_keys=["id"],
        options={"bucket": "1", "log.consistency": "eventual", "log.changelog-mode": "upsert"}
        | {**QUICK, **log_options(kafka)},
    )
    table.upsert([{"id": 1, "v": "b"}])
    told = [row for changes in table.stream(log=True, idle_seconds=0) for row in changes.to_arrow().to_pylist()]
    assert told == [{"id": 1, "v": "b", "_row_kind": 0}]


@pytest.mark.long
def test_a_topic_that_cannot_be_deleted_is_named_and_not_used_by_another_table(
    kafka: KafkaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    catalog.create_database("db")
    name = f"db.{new_name()}"
    create(catalog, kafka, name).upsert([{"id": 1, "v": "a"}])
    kafka.kill()
    try:
        with caplog.at_level(logging.WARNING):
            catalog.drop_table(name)
        assert f"'{name}', stays" in caplog.text
        assert not catalog.table_exists(name)
    finally:
        kafka.start()
        warm_up(kafka)
    again = create(catalog, kafka, name)
    again.upsert([{"id": 2, "v": "b"}])
    with pytest.raises(InvalidOptionError, match="log of another table"):
        again.maintenance.publish_log()
