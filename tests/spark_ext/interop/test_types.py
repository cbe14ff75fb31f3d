"""Values of every type, nested types too, and partitions by them: Spark reads the values that Java wrote, and copies
them.
"""

from typing import Any

import pytest

from tests.golden.values import NESTED, SCALARS
from tests.interop.limits import holds_partition, holds_value
from tests.spark_ext.interop.all_readers import AllReaders
from tests.support.peers.json import TypeJson
from tests.support.shares import each_run

ALL: list[tuple[TypeJson, list[Any]]] = [
    (of, values) for of, values in (*SCALARS.items(), *NESTED) if holds_value("java", of)
]
PARTITIONS: list[tuple[TypeJson, list[Any]]] = [
    (of, SCALARS[of]) for of in SCALARS if holds_partition("java", of) and not of.startswith("TIMESTAMP(9)")
]


def _rows(columns: list[tuple[TypeJson, list[Any]]]) -> list[list[Any]]:
    """Return rows with an id, until every column has had each of its values, and a row of nulls."""
    most = max(len(values) for _, values in columns)
    rows: list[list[Any]] = [[i, *(values[i % len(values)] for _, values in columns)] for i in range(most)]
    return [*rows, [most, *(None for _ in columns)]]


@pytest.mark.parametrize("key", [True, False], ids=["primary key", "append"])
def test_values_of_every_type_are_copied_from_java_by_spark(readers: AllReaders, key: bool) -> None:
    columns: list[tuple[str, TypeJson]] = [
        ("id", "INT NOT NULL"),
        *((f"c{i}", of) for i, (of, _) in enumerate(ALL)),
    ]
    options = {"bucket": "1"} if key else {}
    rows = _rows(ALL)
    for name in ("db.t", "db.copy"):
        readers.table(name).create(columns, primary_keys=["id"] if key else [], options=options)
    readers.table("db.t").write(rows[: len(rows) // 2])
    readers.table("db.t").write(rows[len(rows) // 2 - 1 :] if key else rows[len(rows) // 2 :])

    original = readers.agree("db.t", pypaimon=False)
    readers.sql("INSERT INTO {lake}.db.copy SELECT * FROM {lake}.db.t")
    assert readers.agree("db.copy", pypaimon=False) == original
    # Deletions and updates copy the values of the other columns.
    readers.sql("UPDATE {lake}.db.copy SET c0 = NULL WHERE id = 2")
    readers.sql("DELETE FROM {lake}.db.copy WHERE id = 1")
    expected = [[*row[:1], None, *row[2:]] if row[0] == 2 else row for row in original if row[0] != 1]
    assert sorted(readers.agree("db.copy", pypaimon=False), key=repr) == sorted(expected, key=repr)


@pytest.mark.long
@pytest.mark.parametrize("number", each_run(range(4), lambda number: number == 0))
def test_partitions_of_every_type_are_copied_from_java_by_spark(readers: AllReaders, number: int) -> None:
    chosen = PARTITIONS[number::4]
    columns: list[tuple[str, TypeJson]] = [
        ("id", "INT NOT NULL"),
        *((f"p{i}", of) for i, (of, _) in enumerate(chosen)),
    ]
    partitions = [name for name, _ in columns[1:]]
    for name in ("db.t", "db.copy"):
        readers.table(name).create(columns, partition_keys=partitions)
    # An empty string is null as a partition.
    rows = [[None if value == "" else value for value in row] for row in _rows(chosen)]
    readers.table("db.t").write(rows)

    original = readers.agree("db.t", pypaimon=False)
    readers.sql("INSERT INTO {lake}.db.copy SELECT * FROM {lake}.db.t")
    assert readers.agree("db.copy", pypaimon=False) == original
    assert _paths(readers, "db.copy") == _paths(readers, "db.t")
    # Each partition is found by its values.
    values = " AND ".join(f"c.{name} <=> t.{name}" for name in partitions)
    found = readers.sql(f"SELECT count(*) FROM {{lake}}.db.copy c JOIN {{lake}}.db.t t ON c.id = t.id AND {values}")
    assert found[0][0] == len(rows)


def _paths(readers: AllReaders, table: str) -> set[str]:
    return {file.rsplit("/", 1)[0] for file in readers.lake.files(table)}
