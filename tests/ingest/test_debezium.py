"""Changes of a real PostgreSQL by a real Debezium and Kafka: after kills at any time the tables equal the source."""

import base64
import datetime
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from interbed.catalog.client.api import Catalog
from tests.ingest.process import DEADLINE_SECONDS, Run, ingesting
from tests.ingest.shop import Row, lake
from tests.support.peers.java import JavaPaimon
from tests.support.servers.debezium import DebeziumServer, running_debezium
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.postgres import postgres_server
from tests.support.servers.schema_registry import SchemaRegistryServer
from tests.support.shares import each_run

KEYS = {"orders": ("id",), "items": ("id", "part"), "log": ("id",)}
"""Columns that identify a row; the log has no primary key, so that a duplicate row shows."""

COLUMNS = """
    id int NOT NULL, part text NOT NULL, n int, price numeric(10, 2) NOT NULL, loose numeric, zoned timestamptz,
    plain timestamp, day date, clock time, flag boolean, raw bytea, doc jsonb, uid uuid, ratio double precision,
    list int[], note text
"""

STATED = {
    "id": "INT NOT NULL",
    "part": "STRING",
    "n": "BIGINT",
    "price": "DECIMAL(10, 2)",
    "loose": "STRING",
    "zoned": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "plain": "TIMESTAMP(6)",
    "day": "DATE",
    "clock": "STRING",
    "flag": "BOOLEAN",
    "raw": "BYTES",
    "doc": "STRING",
    "uid": "STRING",
    "ratio": "DOUBLE",
    "list": "ARRAY<INT>",
    "note": "STRING",
    "extra": "INT",
}
"""The types of Debezium's schemas."""

GUESSED = {
    **STATED,
    "id": "BIGINT NOT NULL",
    "price": "STRING",
    "zoned": "STRING",
    "plain": "BIGINT",
    "day": "BIGINT",
    "clock": "BIGINT",
    "raw": "STRING",
    "list": "ARRAY<BIGINT>",
    "extra": "BIGINT",
}
"""The types that are inferred from JSON."""

_MADE: "list[pa.Field[Any]]" = [
    pa.field("id", pa.int32(), nullable=False),
    *(pa.field(name, pa.string()) for name in ("part", "loose", "raw", "doc", "uid", "note")),
    pa.field("n", pa.int32()),
    pa.field("price", pa.decimal128(10, 2)),
    pa.field("zoned", pa.timestamp("us", "UTC")),
    *(pa.field(name, pa.int64()) for name in ("plain", "day", "clock")),
    pa.field("flag", pa.bool_()),
    pa.field("ratio", pa.float64()),
    pa.field("list", pa.list_(pa.int32())),
]
MADE = pa.schema(_MADE)
"""A table that is created beforehand, for messages without a schema."""

MADE_THEN = {
    **GUESSED,
    **{name: STATED[name] for name in ("id", "price", "zoned", "list")},
}

SETTINGS = {
    "table.include.list": "public.orders,public.items,public.log",
    "publication.autocreate.mode": "filtered",
    "skipped.operations": "none",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "2",
    # A truncation has no key: its order among the other changes is defined only in a topic of one partition.
    "topic.creation.groups": "one",
    "topic.creation.one.include": r".*\\.items",
    "topic.creation.one.partitions": "1",
    "topic.creation.one.replication.factor": "1",
}


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A PostgreSQL with logical replication; each test has its own database."""
    with postgres_server({"wal_level": "logical"}) as url:
        yield url


@pytest.fixture(scope="module")
def java() -> Iterator[JavaPaimon]:
    with JavaPaimon() as peer:
        yield peer


class SourceDatabase:
    """The source: tables with rows of all types that change at random."""

    def __init__(self, url: str, choice: random.Random, *, plainly: Sequence[str]) -> None:
        """Tables named `plainly` have only values whose JSON has the same form within a column."""
        self._connection = psycopg.connect(url, autocommit=True)
        self._choice = choice
        self._plainly = plainly
        self._keys: dict[str, set[int]] = {"orders": set(), "items": set()}
        self._logged = 0
        self.wide = False
        self.extra = False
        self.execute("SET TIME ZONE 'UTC'")
        self.execute(f"CREATE TABLE orders ({COLUMNS}, PRIMARY KEY (id))")
        self.execute(f"CREATE TABLE items ({COLUMNS}, PRIMARY KEY (id, part))")
        self.execute("ALTER TABLE items REPLICA IDENTITY FULL")
        self.execute("CREATE TABLE log (id int, note text)")

    def execute(self, statement: str) -> None:
        self._connection.execute(statement.encode())

    def close(self) -> None:
        self._connection.close()

    def change(self, count: int) -> None:
        """Run some random transactions."""
        for _ in range(count):
            with self._connection.transaction():
                for _ in range(self._choice.randint(1, 3)):
                    self._change_row(self._choice.choice(["orders", "items"]))
                self._insert("log", {"id": self._logged, "note": "n"})
                self._logged += 1

    def add_column(self) -> None:
        for table in self._keys:
            self.execute(f"ALTER TABLE {table} ADD COLUMN extra int")
        self.extra = True

    def widen(self) -> None:
        for table in self._keys:
            self.execute(f"ALTER TABLE {table} ALTER COLUMN n TYPE bigint")
        self.wide = True

    def truncate(self) -> None:
        self.execute("TRUNCATE items")
        self._keys["items"].clear()

    def rows(self, table: str) -> list[Row]:
        """Return the current rows in the form of `canonical`."""
        texts = {"clock", "loose", "doc", "uid"}
        names = [*MADE.names, "extra"] if table in self._keys else ["id", "note"]
        columns = sql.SQL(", ").join(
            sql.SQL("{}::text").format(sql.Identifier(n)) if n in texts else sql.Identifier(n) for n in names
        )
        found = self._connection.execute(sql.SQL("SELECT {} FROM {}").format(columns, sql.Identifier(table)))
        return canonical([dict(zip(names, row, strict=True)) for row in found], KEYS[table])

    def _change_row(self, table: str) -> None:
        keys, choice = self._keys[table], self._choice
        key, other = choice.randrange(60), choice.randrange(60)
        if key not in keys:
            self._insert(table, {"id": key, "part": "a", **self._values(table)})
            keys.add(key)
        elif choice.random() < 0.2:
            self._connection.execute(f"DELETE FROM {table} WHERE id = %s".encode(), [key])
            keys.remove(key)
        elif choice.random() < 0.25 and other not in keys:
            self._update(table, key, {"id": other})
            keys.remove(key)
            keys.add(other)
        elif choice.random() < 0.2 and table == "items":
            # The other half of the key. Unchanged values may be large, and PostgreSQL does not send those.
            self._update(table, key, {"part": choice.choice("abc"), "n": 5})
        else:
            values = self._values(table)
            chosen = choice.sample(sorted(values), choice.randint(1, len(values)))
            self._update(table, key, {name: values[name] for name in chosen})

    def _insert(self, table: str, row: Row) -> None:
        names, marks = ", ".join(row), ", ".join(["%s"] * len(row))
        self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})".encode(), [*row.values()])

    def _update(self, table: str, key: int, values: Row) -> None:
        changes = ", ".join(f"{name} = %s" for name in values)
        self._connection.execute(f"UPDATE {table} SET {changes} WHERE id = %s".encode(), [*values.values(), key])

    def _values(self, table: str) -> Row:
        choice = self._choice
        odd = table not in self._plainly
        moment = datetime.datetime(1901, 1, 1) + datetime.timedelta(microseconds=choice.randrange(2**52))
        moment = choice.choice(
            [moment, moment.replace(microsecond=0), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)]
        )
        values: Row = {
            "n": choice.randrange(-(2**63), 2**63) if self.wide else choice.randrange(-(2**31), 2**31),
            "loose": choice.choice(["0", "-1.50", "1e30", "0.000000000000000000000000000000000000000001"]),
            "zoned": moment.replace(tzinfo=datetime.UTC),
            "plain": moment,
            "day": moment.date(),
            "clock": "24:00" if odd and choice.random() < 0.2 else moment.time(),
            "flag": choice.random() < 0.5,
            "raw": choice.randbytes(choice.randrange(5)),
            "doc": choice.choice(['{"a": [1, null, "ü\\n"], "b": {}}', "[]", '"x"', "null", "1.50", "{}"]),
            "uid": uuid.UUID(bytes=choice.randbytes(16)),
            "ratio": choice.choice([0.1, -0.0, 2.0, 1e300, 5e-324, *([float("nan"), float("-inf")] if odd else [])]),
            "list": choice.choice([[], [1, None, 3], [None], [-(2**31)]]),
            "note": choice.choice(["", "é\"\\'\n\0x".replace("\0", "\t"), "☃" * 3]),
        }
        if table == "items" and choice.random() < 0.3:
            values["note"] = choice.randbytes(5000).hex()
        if self.extra:
            values["extra"] = choice.randrange(100)
        values = {name: None if choice.random() < 0.2 else value for name, value in values.items()}
        return {**values, "price": choice.choice(["0.00", "-99999999.99", "12.30"])}


def canonical(rows: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """Return rows in the order of their key, without nulls, and with each value in one canonical form."""
    found = [{n: _FORMS.get(n, lambda v: v)(v) for n, v in row.items() if v is not None} for row in rows]
    return sorted(found, key=lambda row: [row[name] for name in key])


_EPOCH = datetime.datetime(1970, 1, 1)


def _micros(clock: str | int) -> int:
    if isinstance(clock, int):
        return clock
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?", clock)
    assert found is not None, clock
    hours, minutes, seconds, fraction = found.groups()
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int((fraction or "0").ljust(6, "0"))


_FORMS: dict[str, Callable[[Any], Any]] = {
    "price": str,
    # Debezium removes trailing zeros where the column does not define the scale.
    "loose": Decimal,
    "zoned": lambda v: datetime.datetime.fromisoformat(v) if isinstance(v, str) else v,
    "plain": lambda v: _EPOCH + datetime.timedelta(microseconds=v) if isinstance(v, int) else v,
    "day": lambda v: _EPOCH.date() + datetime.timedelta(days=v) if isinstance(v, int) else v,
    "clock": _micros,
    "raw": lambda v: base64.b64decode(v) if isinstance(v, str) else v,
    # NaN is not equal to itself.
    "ratio": repr,
}


def wait_until_alike(run: Run, shop: SourceDatabase, catalog: Catalog, debezium: DebeziumServer) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if all(read(catalog, table) == shop.rows(table) for table in KEYS):
            return
        debezium.check()
        run.next_commit(1)


def read(catalog: Catalog, table: str) -> list[Row]:
    return canonical(catalog.get_table(f"shop.{table}").scan().to_arrow().to_pylist(), KEYS[table])


def check_no_snapshot_repeats(catalog: Catalog, name: str) -> None:
    table = catalog.get_table(f"shop.{name}")
    for snapshot in table.snapshots():
        seen = table.copy({"scan.snapshot-id": str(snapshot.id)})
        keys = [tuple(row.values()) for row in seen.scan().to_arrow().select(KEYS[name]).to_pylist()]
        assert len(keys) == len(set(keys))


# The tests of transactions read JSON with schemas in each run, and the tests of Kafka alone JSON without them.
@pytest.mark.parametrize("written", each_run(["avro", "with", "without"], lambda written: written == "avro"))
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_tables_equal_those_of_postgresql_after_any_number_of_kills(
    kafka: KafkaServer,
    postgres: str,
    java: JavaPaimon,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    kills: int,
    written: str,
) -> None:
    # As JSON with or without its schemas, or as Avro, which has them in a registry.
    schemas = written != "without"
    registry: SchemaRegistryServer | None = request.getfixturevalue("registry") if written == "avro" else None
    prefix = f"dbz_{kills}_{written}"
    choice = random.Random(prefix)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(prefix)))
    url = f"{postgres.rpartition('/')[0]}/{prefix}"
    warehouse = tmp_path / "lake"
    catalog = lake(warehouse)
    catalog.create_database("shop")
    settings = dict(SETTINGS)
    if not schemas:
        settings["decimal.handling.mode"] = "string"
        catalog.create_table("shop.orders", MADE, primary_keys=["id"], options={"bucket": "2"})
    shop = SourceDatabase(url, choice, plainly=() if schemas else ("items",))
    options = ["--topic-pattern", rf"{prefix}\.public\..*"]
    if registry is not None:
        options += ["--format", "debezium-avro", "--schema-registry", registry.url]
    try:
        shop.change(30)
        with running_debezium(
            kafka, url, prefix=prefix, schemas=schemas, registry=registry, settings=settings
        ) as debezium:
            for turn in range(kills):
                shop.change(20)
                with ingesting(kafka, warehouse, *options) as run:
                    assert run.next_commit()
                    # It has committed something, and is in the middle of the next commit.
                    for happening in _HAPPENINGS.get(turn, ()):
                        happening(shop)
                        shop.change(10)
                    shop.change(20)
                    for _ in range(choice.randrange(3)):
                        run.next_commit(1)
            with ingesting(kafka, warehouse, *options) as run:
                wait_until_alike(run, shop, catalog, debezium)
                run.stop()
        for name in KEYS:
            assert read(catalog, name) == shop.rows(name)
            seen = java.table(warehouse, f"shop.{name}").read().to_arrow().to_pylist()
            assert canonical(seen, KEYS[name]) == shop.rows(name)
            check_no_snapshot_repeats(catalog, name)
        assert types_of(catalog, "orders") == (STATED if schemas else MADE_THEN)
        assert types_of(catalog, "items") == {**(STATED if schemas else GUESSED), "part": "STRING NOT NULL"}
    finally:
        shop.close()


_HAPPENINGS: dict[int, Sequence[Callable[[SourceDatabase], None]]] = {
    0: [SourceDatabase.add_column],
    1: [SourceDatabase.widen, SourceDatabase.truncate],
    7: [SourceDatabase.truncate],
}
"""Changes of the tables in some of the rounds."""


def types_of(catalog: Catalog, table: str) -> dict[str, str]:
    return {field.name: str(field.type) for field in catalog.get_table(f"shop.{table}").schema.fields}
