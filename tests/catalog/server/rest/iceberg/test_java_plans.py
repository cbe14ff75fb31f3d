"""Iceberg 1.12.0 in Java has the server plan its scans, and plans them itself: both plans and their rows are the same.

The catalog `ice` is the Hive catalog over the server's metastore; `planned` is the REST catalog of the same server,
with `scan-planning-mode` = `server`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.server.rest.iceberg.rest_server import IcebergRest, rest_server
from tests.support.peers.iceberg import IcebergPeer, append, deletion_vector, equality_delete, position_delete

pytestmark = pytest.mark.long

FILTERS: list[Any] = [
    True,
    False,
    {"type": "eq", "term": "p", "value": 1},
    {"type": "is-null", "term": "p"},
    {"type": "lt", "term": "p", "value": 2},
    {"type": "in", "term": "id", "values": [1, 2, 77]},
    {"type": "starts-with", "term": "name", "value": "b"},
    {
        "type": "and",
        "left": {"type": "gt-eq", "term": "id", "value": 2},
        "right": {
            "type": "or",
            "left": {"type": "eq", "term": "p", "value": 2},
            "right": {"type": "not-null", "term": "name"},
        },
    },
    {"type": "gt", "term": "day", "value": "2024-01-31"},
    {"type": "lt-eq", "term": "amount", "value": "2.50"},
    {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 3},
]

NEGATIONS: list[Any] = [
    {"type": "not", "child": {"type": "eq", "term": "p", "value": 1}},
    {"type": "not-in", "term": "p", "values": [1, 2]},
]
"""Java excludes a file whose rows all have the value; pyiceberg and the server keep it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
    """Run a server with REST."""
    directory = tmp_path_factory.mktemp("planned")
    with rest_server(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        running.call("POST", "namespaces", {"namespace": ["db"]}).expect(200)
        yield running


@pytest.fixture(scope="module")
def java(server: IcebergRest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergPeer]:
    """Start Spark with both catalogs."""
    name = "spark.sql.catalog.planned"
    settings = {
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.type": "rest",
        f"{name}.uri": server.uri,
        f"{name}.cache-enabled": "false",
        f"{name}.scan-planning-mode": "server",
    }
    warehouse = Path(server.metastore.warehouse)
    with IcebergPeer(warehouse, server.metastore.uri, settings) as running:
        yield running


def _planned(table: str) -> str:
    return table.replace("ice.", "planned.", 1)


def _compare(java: IcebergPeer, table: str, columns: str) -> None:
    for filter_json in FILTERS:
        theirs = java.plan(table, filter_json)
        ours = java.plan(_planned(table), filter_json)
        assert ours.kind == "RESTTableScan"
        assert theirs.kind != ours.kind
        assert ours.tasks == theirs.tasks, filter_json
        assert theirs.tasks or filter_json is not True
    for filter_json in NEGATIONS:
        deletes = {task[0]: task[1] for task in java.plan(_planned(table), filter_json).tasks}
        wanted = {task[0]: task[1] for task in java.plan(table, filter_json).tasks}
        assert wanted.items() <= deletes.items()
    for where in (
        "",
        "WHERE NOT p = 1",
        "WHERE p = 1",
        "WHERE p IS NULL",
        "WHERE id > 2 AND name <> 'b'",
        "WHERE day > DATE'2024-01-31'",
    ):
        query = f"SELECT {columns} FROM {{}} {where} ORDER BY ALL"
        assert java.run(query.format(_planned(table))) == java.run(query.format(table))


@pytest.mark.parametrize("partitioned", ["", "p", "bucket(4, id), p", "truncate(1, name), months(day)"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_plan_of_the_server_is_that_of_java(java: IcebergPeer, version: int, partitioned: str) -> None:
    columns = "id INT, name STRING, p INT, day DATE, amount DECIMAL(9, 2)"
    table = java.new_table(columns, version, partitioned=partitioned)
    rows = "(1, 'a', 1, DATE'2024-01-15', 1.5), (2, 'b', 2, DATE'2024-02-15', 2.5), (3, 'bc', NULL, NULL, NULL)"
    more = "(4, NULL, 1, DATE'2024-03-01', 9.99), (5, 'b', 1, DATE'1969-12-31', -1)"
    java.run(f"INSERT INTO {table} VALUES {rows}")
    java.run(f"INSERT INTO {table} VALUES {more}")
    modes = "'write.delete.mode'='merge-on-read', 'write.delete.granularity'='partition'"
    java.run(f"ALTER TABLE {table} SET TBLPROPERTIES ({modes})")
    java.run(f"INSERT INTO {table} VALUES (6, 'b', 2, DATE'2024-02-16', 2.5), (7, 'b', 2, DATE'2024-02-17', 2.5)")
    java.run(f"DELETE FROM {table} WHERE id = 6")
    java.run(f"ALTER TABLE {table} ADD PARTITION FIELD truncate(10, id)")
    java.run(f"INSERT INTO {table} VALUES (12, 'z', 1, DATE'2024-01-01', 0), (25, 'zz', 2, NULL, 3)")
    _compare(java, table, "id, name, p, day, amount")


@pytest.mark.parametrize("version", [2, 3])
def test_all_kinds_of_deletes_are_found_for_their_files(java: IcebergPeer, version: int) -> None:
    columns = "id INT, name STRING, p INT, day DATE, amount DECIMAL(9, 2)"
    table = java.new_table(columns, version, partitioned="p")
    made = java.together(table, [append([[1, "a", 1, None, None], [2, "b", 1, None, None]])])
    java.together(table, [append([[3, "b", 2, None, None], [1, "c", 2, None, None]])])
    java.together(table, [equality_delete(["id"], [[1]], partition=[1]), append([[1, "new", 1, None, None]])])
    delete = deletion_vector if version == 3 else position_delete
    java.together(table, [delete([(made.paths[0][0], 1)])])
    java.together(table, [equality_delete(["name"], [["c"]], partition=[2])])
    _compare(java, table, "id, name, p")


def test_snapshots_appends_and_statistics_are_those_of_java(java: IcebergPeer) -> None:
    table = java.new_table("id INT, name STRING, p INT", partitioned="p")
    ids = [
        java.together(table, [append([[number, "a", 1]]), append([[number, "b", 2]])]).snapshot_id
        for number in range(3)
    ]
    java.run(f"DELETE FROM {table} WHERE p = 2")
    wanted = {"type": "eq", "term": "p", "value": 1}
    fields: dict[str, Any]
    for fields in ({"snapshot_id": ids[1]}, {"columns": ["id", "name"]}):
        assert java.plan(_planned(table), wanted, **fields).tasks == java.plan(table, wanted, **fields).tasks
    (task,) = {task[3] for task in java.plan(_planned(table), wanted, snapshot_id=ids[0], columns=["name"]).tasks}
    assert task == "{2: '61'}"
    between: dict[str, Any] = {"start_snapshot_id": ids[0], "snapshot_id": ids[2]}
    assert len(java.plan(table, True, **between).tasks) == 4
    assert java.run(f"SELECT * FROM {_planned(table)} VERSION AS OF {ids[0]} ORDER BY p") == [[0, "a", 1], [0, "b", 2]]


def test_partitions_of_all_types_are_read_as_java_has_written_them(java: IcebergPeer) -> None:
    numbers = "b BOOLEAN, l BIGINT, f FLOAT, d DOUBLE, dc DECIMAL(9, 3)"
    names = "b, l, f, d, dc, dt, at, tn, s, bin"
    columns = f"id INT, {numbers}, dt DATE, at TIMESTAMP, tn TIMESTAMP_NTZ, s STRING, bin BINARY"
    table = java.new_table(columns, partitioned=names)
    java.run(
        f"INSERT INTO {table} VALUES (1, true, -9000000000, 1.25, 1e300, -1.5, DATE'0001-01-01', "
        "TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP_NTZ'2024-02-29 10:00:00', 'ü/ =', X'00FF'), "
        "(2, false, 7, 3, -0.1, 0, DATE'9999-12-31', TIMESTAMP'2024-02-29 10:00:00.123', "
        "TIMESTAMP_NTZ'1900-01-01 00:00:00', '', X''), "
        "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    dates = ("WHERE dt < DATE'2000-01-01'", "WHERE at > TIMESTAMP'2000-01-01'")
    for where in ("", *dates, "WHERE dc = -1.5", "WHERE l = 7", "WHERE bin = X'00FF'", "WHERE f > 2"):
        query = f"SELECT id, {names} FROM {{}} {where} ORDER BY id"
        assert java.run(query.format(_planned(table))) == java.run(query.format(table))
