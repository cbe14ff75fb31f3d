"""Transactions of a real PostgreSQL by a real Debezium and Kafka: readers never see part of a transaction."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.compute as pc
import pytest
from psycopg import sql

from interbed.catalog.client.api import Catalog
from interbed.storage.commit.stream_commits import POSITION_PROPERTY
from tests.ingest.process import DEADLINE_SECONDS, ingesting
from tests.ingest.shop import lake
from tests.support.servers.debezium import running_debezium
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.postgres import postgres_server
from tests.support.servers.schema_registry import SchemaRegistryServer

PREFIX = "money"
TABLES = ("here", "there")
ACCOUNTS = 20
TOTAL = 2 * ACCOUNTS * 100
SETTINGS = {
    "table.include.list": "public.here,public.there",
    "publication.autocreate.mode": "filtered",
    "provide.transaction.metadata": "true",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "3",
    "topic.creation.groups": "one",
    "topic.creation.one.include": r".*\\.transaction",
    "topic.creation.one.partitions": "1",
    "topic.creation.one.replication.factor": "1",
}


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server({"wal_level": "logical"}) as url:
        yield url


def transfer(connection: "psycopg.Connection[Any]", choice: random.Random) -> None:
    """Run one transaction that moves money between accounts of both tables."""
    with connection.transaction():
        for _ in range(choice.randint(1, 4)):
            amount = choice.randint(1, 50)
            for table, sign in ((choice.choice(TABLES), -1), (choice.choice(TABLES), 1)):
                connection.execute(
                    sql.SQL("UPDATE {} SET balance = balance + %s WHERE id = %s").format(sql.Identifier(table)),
                    [sign * amount, choice.randrange(ACCOUNTS)],
                )


def balances(catalog: Catalog) -> dict[str, tuple[int, int]]:
    """Return the sum of both tables' balances and the number of accounts, by the position of the snapshots."""
    found: dict[str, tuple[int, int]] = {}
    for name in TABLES:
        table = catalog.get_table(f"shop.{name}")
        for snapshot in table.snapshots():
            seen = table.copy({"scan.snapshot-id": str(snapshot.id)}).scan(["balance"]).to_arrow()
            position = (snapshot.properties or {})[POSITION_PROPERTY]
            total, accounts = found.get(position, (0, 0))
            found[position] = total + (pc.sum(seen["balance"]).as_py() or 0), accounts + seen.num_rows
    return found


@pytest.mark.long
@pytest.mark.parametrize("written", ["schemas", "bare", "avro"])
def test_readers_see_whole_transactions(
    kafka: KafkaServer, postgres: str, tmp_path: Path, written: str, request: pytest.FixtureRequest
) -> None:
    # As JSON with or without its schemas, or as Avro, which has them in a registry.
    schemas = written == "schemas"
    registry: SchemaRegistryServer | None = request.getfixturevalue("registry") if written == "avro" else None
    options = ["--transactional"]
    if registry is not None:
        options += ["--format", "debezium-avro", "--schema-registry", registry.url]
    prefix = f"{PREFIX}_{written}"
    choice = random.Random(prefix)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(prefix)))
    url = f"{postgres.rpartition('/')[0]}/{prefix}"
    warehouse = tmp_path / "lake"
    topics = ",".join(f"{prefix}.public.{table}" for table in TABLES)
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            name = sql.Identifier(table)
            connection.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, balance int)").format(name))
            connection.execute(sql.SQL("INSERT INTO {} SELECT n, 100 FROM generate_series(0, %s) n").format(name), [19])
        with running_debezium(
            kafka, url, prefix=prefix, schemas=schemas, registry=registry, settings=SETTINGS
        ) as debezium:
            for _ in range(3):
                for _ in range(50):
                    transfer(connection, choice)
                with ingesting(kafka, warehouse, "--topic", topics, *options) as run:
                    assert run.next_commit()
                    for _ in range(50):
                        transfer(connection, choice)
                    for _ in range(choice.randrange(3)):
                        run.next_commit(1)
            wanted: dict[str, dict[int, int]] = {}
            for table in TABLES:
                found = connection.execute(sql.SQL("SELECT id, balance FROM {}").format(sql.Identifier(table)))
                wanted[table] = dict(found.fetchall())
            catalog = lake(warehouse)
            with ingesting(kafka, warehouse, "--topic", topics, *options) as run:
                deadline = time.monotonic() + DEADLINE_SECONDS
                while time.monotonic() < deadline and {t: balances_of(catalog, t) for t in TABLES} != wanted:
                    debezium.check()
                    run.next_commit(1)
                run.stop()
    assert {table: balances_of(catalog, table) for table in TABLES} == wanted
    # The initial rows are those of Debezium's snapshot, which belong to no transaction.
    sums = [total for total, accounts in balances(catalog).values() if accounts == 2 * ACCOUNTS]
    # The number of commits depends on the speed of the machine; each run ends with one.
    assert len(sums) > 1
    assert set(sums) == {TOTAL}


def balances_of(catalog: Catalog, table: str) -> dict[int, int]:
    rows: list[Any] = catalog.get_table(f"shop.{table}").scan().to_arrow().to_pylist()
    return {row["id"]: row["balance"] for row in rows}
