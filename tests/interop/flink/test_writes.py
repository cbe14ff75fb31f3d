"""Rows that a streaming job of Flink writes, by checkpoints, are read alike by interbed, Flink and Java Paimon."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.files.test_formats import rows_of, supported
from tests.interop.flink.conftest import Change, SharedLake, by_key, read, rows_after, shared_lake, streamed, types_of
from tests.interop.limits import values_held_by
from tests.support.peers.flink import Flink
from tests.support.peers.java import JavaPaimon
from tests.support.peers.json import TypeJson, comparable, parse_type
from tests.support.shares import each_run

COLUMNS = "id BIGINT, dt STRING, n INT, price DECIMAL(10, 2), name STRING"
KEY = "PRIMARY KEY (id) NOT ENFORCED"
PARTITIONED_KEY = "PRIMARY KEY (dt, id) NOT ENFORCED"

TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "deduplicated": (f"({COLUMNS}, {KEY})", {"bucket": "2", "changelog-producer": "input"}),
    "partitioned": (f"({COLUMNS}, {PARTITIONED_KEY}) PARTITIONED BY (dt)", {"bucket": "1"}),
    "looked_up": (f"({COLUMNS}, {KEY})", {"bucket": "1", "changelog-producer": "lookup"}),
    "fully_compacted": (
        f"({COLUMNS}, {KEY})",
        {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
    ),
    "with_vectors": (f"({COLUMNS}, {KEY})", {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "in_sequence": (f"({COLUMNS}, {KEY})", {"bucket": "1", "sequence.field": "n"}),
    "partly_updated": (
        f"({COLUMNS}, {KEY})",
        {"bucket": "1", "merge-engine": "partial-update", "ignore-delete": "true", "changelog-producer": "lookup"},
    ),
    "aggregated": (
        f"({COLUMNS}, {KEY})",
        {
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "fields.price.aggregate-function": "sum",
            "fields.dt.aggregate-function": "last_value",
            "fields.name.aggregate-function": "last_non_null_value",
        },
    ),
    "first_rows": (
        f"({COLUMNS}, {KEY})",
        {"bucket": "1", "merge-engine": "first-row", "ignore-delete": "true", "changelog-producer": "lookup"},
    ),
    "in_dynamic_buckets": (f"({COLUMNS}, {PARTITIONED_KEY}) PARTITIONED BY (dt)", {"bucket": "-1"}),
    "across_partitions": (f"({COLUMNS}, {KEY}) PARTITIONED BY (dt)", {"bucket": "-1"}),
    "in_orc": (f"({COLUMNS}, {KEY})", {"bucket": "1", "file.format": "orc"}),
    "in_avro": (f"({COLUMNS}, {KEY})", {"bucket": "1", "file.format": "avro"}),
    "indexed": (f"({COLUMNS}, {KEY})", {"bucket": "1", "file-index.bloom-filter.columns": "name"}),
}
APPENDED: dict[str, tuple[str, dict[str, str]]] = {
    "appended": (f"({COLUMNS})", {}),
    "appended_in_buckets": (f"({COLUMNS}) PARTITIONED BY (dt)", {"bucket": "2", "bucket-key": "id"}),
}
EXACT = (
    "deduplicated",
    "partitioned",
    "looked_up",
    "fully_compacted",
    "with_vectors",
    "in_dynamic_buckets",
    "in_orc",
    "in_avro",
    "indexed",
)
"""Tables that keep the newest row of each key."""
TOLD = ("deduplicated", "looked_up", "fully_compacted", "partly_updated", "first_rows")
"""Tables that produce a changelog."""


def random_changes(source: random.Random, count: int) -> list[Change]:
    """Generate changes of some keys; each update retracts the earlier row."""
    rows: dict[int, list[Any]] = {}
    told: list[Change] = []
    while len(told) < count:
        key = source.randrange(15)
        old = rows.pop(key, None)
        if old is not None and source.random() < 0.3:
            told.append(("-D", old))
            continue
        # The partition of a key does not change.
        row = [
            key,
            f"d{key % 2}",
            source.randrange(100),
            f"{source.randrange(1000)}.50",
            source.choice(["a", "b", None]),
        ]
        told += [("+I", row)] if old is None else [("-U", old), ("+U", row)]
        rows[key] = row
    return told


STORY = random_changes(random.Random("a job"), 120)


def table_statement(name: str, columns: str, options: dict[str, str]) -> str:
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TABLE {name} {columns}" + (f" WITH ({given})" if given else "")


@pytest.fixture(scope="module")
def written(
    flink: Flink, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedLake]:
    """The tables of the tests of this run, after one job with several checkpoints has written to them."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    names = {item.callspec.params["name"] for item in tests if "written" in item.fixturenames}
    keyed = {name: table for name, table in TABLES.items() if name in names}
    appended = {name: table for name, table in APPENDED.items() if name in names}
    directory, warehouse = tmp_path_factory.mktemp("changes"), tmp_path_factory.mktemp("written")
    with shared_lake(flink, {"warehouse": f"file:{warehouse}"}) as lake:
        for name, (columns, table_options) in {**keyed, **appended}.items():
            lake.flink.sql(table_statement(name, columns, {**table_options, "write-buffer-size": "4 mb"}))
        changed = f"{COLUMNS}, {KEY}"
        lake.flink.changes("changed", changed, STORY, directory, kinds="all", rows_per_checkpoint=20)
        added = [change for change in STORY if change[0] == "+I"]
        lake.flink.changes("added", COLUMNS, added, directory, rows_per_checkpoint=5)
        lake.flink.sql("SET 'execution.runtime-mode' = 'streaming'")
        lake.flink.sql("SET 'execution.checkpointing.interval' = '50 ms'")
        inserts = [f"INSERT INTO {name} SELECT * FROM changed;" for name in keyed]
        inserts += [f"INSERT INTO {name} SELECT * FROM added;" for name in appended]
        lake.flink.sql("EXECUTE STATEMENT SET BEGIN " + " ".join(inserts) + " END")
        lake.flink.sql("SET 'execution.runtime-mode' = 'batch'")
        yield lake


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [*TABLES, *APPENDED])
def test_rows_equal_those_that_flink_and_java_read(written: SharedLake, java_paimon: JavaPaimon, name: str) -> None:
    table = written.table(name)
    java = java_paimon.table(str(written.directory), f"db.{name}")
    rows = read(table).comparable()
    assert rows == java.read().comparable()
    if name in EXACT:
        assert rows == rows_after(STORY, types_of(table))
    commits = [s for s in table.snapshots() if s.commit_kind == "APPEND"]
    assert len(commits) > 3
    # All read the commits and compactions of interbed.
    data = table.scan().to_arrow().slice(0, 3)
    table.append(data)
    table.compact(full=True)
    rows = read(table).comparable()
    assert rows == java.read().comparable()
    assert rows == written.flink.sql(f"SELECT * FROM {name}").comparable()


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", TOLD)
def test_changes_equal_those_that_java_reads(written: SharedLake, java_paimon: JavaPaimon, name: str) -> None:
    table = written.table(name)
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    told = streamed(table, options)
    plans = java_paimon.table(str(written.directory), f"db.{name}").stream(options=options).plans
    of_java = [change for _, rows in plans for change in zip(rows.kinds, rows.rows, strict=True)]
    types = types_of(table)
    assert by_key(told, types) == by_key(of_java, types)
    assert rows_after(told, types) == read(table).comparable()


def sql_type(of: TypeJson) -> str:
    """Return a type as SQL for CREATE TABLE."""
    if isinstance(of, str):
        return of
    match of["type"].partition(" ")[0]:
        case "ROW":
            fields = ", ".join(f"`{field['name']}` {sql_type(field['type'])}" for field in of["fields"])
            return f"ROW<{fields}>"
        case "MAP":
            return f"MAP<{sql_type(of['key'])}, {sql_type(of['value'])}>"
        case root:
            return f"{root}<{sql_type(of['element'])}>"


FORMATS = list(itertools.product(("parquet", "orc", "avro"), ("keyed", "append")))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("file_format", "kind"), each_run(FORMATS, lambda pair: (pair[0] == "orc") == (pair[1] == "append"))
)
def test_all_types_are_read_by_all_engines(
    hive: SharedLake, java_paimon: JavaPaimon, tmp_path: Path, file_format: str, kind: str
) -> None:
    values = [(of, those) for of, those in values_held_by("java") if of != "TIME(3)"]
    values = values if file_format == "parquet" else supported(file_format, values)
    columns = ", ".join(["id BIGINT NOT NULL", *(f"c{i} {sql_type(of)}" for i, (of, _) in enumerate(values))])
    types = tuple(parse_type(of) for of in ["BIGINT NOT NULL", *(of for of, _ in values)])
    rows = rows_of(values)
    key = f", {KEY}" if kind == "keyed" else ""
    hive.flink.sql(table_statement("t", f"({columns}{key})", {"file.format": file_format}))
    hive.flink.changes("given", columns, [("+I", row) for row in rows], tmp_path)
    hive.flink.sql("INSERT INTO t SELECT * FROM given")
    table = hive.table("t")
    assert types_of(table) == types
    assert read(table).comparable() == comparable(rows, types)
    table.append(table.scan(filter="id = 0").to_arrow())
    table.compact(full=True)
    expected = comparable(rows if key else [*rows, rows[0]], types)
    assert read(table).comparable() == expected
    assert hive.flink.sql("SELECT * FROM t").comparable() == expected
    assert java_paimon.table(str(hive.directory), "db.t").read().comparable() == expected
