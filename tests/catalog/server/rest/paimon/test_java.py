"""Java Paimon 1.4.2 as a client by `metastore` = `rest`: it and interbed's Hive catalog see the same tables."""

from collections.abc import Iterator

import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.waits import at_most

pytestmark = pytest.mark.long

COLUMNS = [("id", "BIGINT NOT NULL"), ("name", "STRING")]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaPaimon]:
    """Run the peer in Java."""
    with JavaPaimon(timeout_seconds=at_most(240)) as peer:
        yield peer


@pytest.fixture
def java_table(java: JavaPaimon, rest: RestClient, database: str) -> JavaTable:
    """Return a table of the peer's REST catalog that does not exist yet."""
    return java.table(f"http://127.0.0.1:{rest.port}/paimon", f"{database}.t")


def test_both_write_and_read_one_table(java_table: JavaTable, hive: HiveCatalog) -> None:
    java_table.create(COLUMNS, primary_keys=["id"], options={"bucket": "1"}, comment="words")
    java_table.write([[1, "a"], [2, "b"]])
    table = hive.get_table(java_table.name)
    assert table.schema.comment == "words"
    table.upsert([{"id": 2, "name": "c"}])
    java_table.write([[3, "d"]])
    expected = [[1, "a"], [2, "c"], [3, "d"]]
    assert java_table.read().comparable() == expected
    rows = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [[row["id"], row["name"]] for row in rows] == expected
    assert hive.client.get_table(*java_table.name.split(".")).parameters["interbed.current-snapshot-id"].isdigit()


def test_schemas_change_for_both(java_table: JavaTable, hive: HiveCatalog) -> None:
    java_table.create(COLUMNS)
    java_table.write([[1, "a"]])
    java_table.alter(
        {"op": "add", "path": ["x"], "type": "INT", "after": "id"},
        {"op": "rename", "path": ["name"], "to": "title"},
        {"op": "update_type", "path": ["x"], "type": "BIGINT"},
        {"op": "set_option", "key": "write-buffer-size", "value": "16 mb"},
    )
    table = hive.get_table(java_table.name)
    assert [(f.name, str(f.type)) for f in table.fields] == [
        ("id", "BIGINT NOT NULL"),
        ("x", "BIGINT"),
        ("title", "STRING"),
    ]
    assert java_table.read().rows == [[1, None, "a"]]
    java_table.drop()
    assert hive.list_tables(java_table.name.split(".")[0]) == []
