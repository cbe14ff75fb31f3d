"""pypaimon 2.1 as a client by `metastore` = `rest`: it and interbed's Hive catalog see the same tables."""

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.peers.process import PeerError
from tests.support.peers.pypaimon import PyPaimon, PyPaimonTable
from tests.support.waits import at_most

pytestmark = pytest.mark.long

COLUMNS = [("id", "BIGINT NOT NULL"), ("name", "STRING")]


@pytest.fixture(scope="module")
def pypaimon() -> Iterator[PyPaimon]:
    """Run pypaimon in its own environment."""
    with PyPaimon(timeout_seconds=at_most(120)) as peer:
        yield peer


@pytest.fixture
def peer_table(pypaimon: PyPaimon, rest: RestClient, database: str) -> PyPaimonTable:
    """Return a table of the peer's REST catalog that does not exist yet."""
    return pypaimon.table(f"http://127.0.0.1:{rest.port}/paimon", f"{database}.t")


def _call(table: PyPaimonTable, method: str, *arguments: Any) -> Any:
    return table.peer.call("catalog_call", warehouse=table.warehouse, method=method, arguments=list(arguments))


def _rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def test_both_write_and_read_one_table(peer_table: PyPaimonTable, hive: HiveCatalog) -> None:
    peer_table.create(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    peer_table.write([[1, "a"], [2, "b"]])
    table = hive.get_table(peer_table.name)
    assert _rows(table.to_arrow().to_pylist()) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    table.upsert([{"id": 2, "name": "c"}, {"id": 3, "name": "d"}])
    peer_table.write([[3, "e"], [4, "f"]])
    expected = [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "c"},
        {"id": 3, "name": "e"},
        {"id": 4, "name": "f"},
    ]
    assert _rows(peer_table.read_arrow().to_pylist()) == expected
    assert _rows(table.to_arrow().to_pylist()) == expected
    assert hive.client.get_table(*peer_table.name.split(".")).parameters["interbed.current-snapshot-id"] == "3"


def test_a_table_of_a_hive_catalog_is_read_and_written(peer_table: PyPaimonTable, hive: HiveCatalog) -> None:
    columns: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("name", pa.string())]
    schema = pa.schema(columns)
    table = hive.create_table(peer_table.name, schema)
    table.append(pa.table({"id": [1], "name": ["a"]}, schema=schema))
    assert peer_table.read_arrow().to_pylist() == [{"id": 1, "name": "a"}]
    peer_table.write([[2, "b"]])
    assert _rows(table.to_arrow().to_pylist()) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_schemas_change_for_both(peer_table: PyPaimonTable, hive: HiveCatalog) -> None:
    peer_table.create(COLUMNS)
    peer_table.write([[1, "a"]])
    changes = [
        ["add_column", "x", "INT", "an x"],
        ["rename_column", "name", "title"],
        ["update_column_type", "x", "BIGINT"],
        ["update_comment", "words"],
        ["set_option", "write-buffer-size", "16 mb"],
    ]
    peer_table.peer.call("alter", warehouse=peer_table.warehouse, table=peer_table.name, changes=changes)
    table = hive.get_table(peer_table.name)
    assert [(field.name, str(field.type)) for field in table.fields] == [
        ("id", "BIGINT NOT NULL"),
        ("title", "STRING"),
        ("x", "BIGINT"),
    ]
    assert (table.schema.comment, table.schema.options["write-buffer-size"]) == ("words", "16 mb")
    assert peer_table.read_arrow().to_pylist() == [{"id": 1, "title": "a", "x": None}]


def test_names_and_databases_change_for_both(peer_table: PyPaimonTable, hive: HiveCatalog) -> None:
    database = peer_table.name.split(".")[0]
    peer_table.create(COLUMNS)
    peer_table.write([[1, "a"]])
    _call(peer_table, "rename_table", f"{database}.t", f"{database}.u")
    assert hive.list_tables(database) == ["u"]
    assert hive.get_table(f"{database}.u").to_arrow().to_pylist() == [{"id": 1, "name": "a"}]
    assert database in _call(peer_table, "list_databases")
    with pytest.raises(PeerError, match="not empty"):
        _call(peer_table, "drop_database", database)
    _call(peer_table, "drop_table", f"{database}.u")
    _call(peer_table, "drop_database", database)
    assert database not in hive.list_databases()
    with pytest.raises(PeerError) as refused:
        _call(peer_table, "get_database", database)
    assert refused.value.kind == "DatabaseNotExistException"


def test_tags_branches_and_rollbacks_are_those_of_the_table(peer_table: PyPaimonTable, hive: HiveCatalog) -> None:
    name = peer_table.name
    peer_table.create(COLUMNS)
    peer_table.write([[1, "a"]])
    _call(peer_table, "create_tag", name, "v1", 1, "2 d")
    peer_table.write([[2, "b"]])
    table = hive.get_table(name)
    assert [tag.name for tag in table.versions.tags()] == ["v1"]
    table.versions.create_tag("v2")
    assert _call(peer_table, "list_tags_paged", name) == ["v1", "v2"]
    with pytest.raises(PeerError) as refused:
        _call(peer_table, "create_tag", name, "v1")
    assert refused.value.kind == "TagAlreadyExistException"
    _call(peer_table, "create_branch", name, "b", "v1")
    branch = peer_table.peer.table(peer_table.warehouse, f"{name}$branch_b")
    branch.write([[3, "c"]])
    assert _rows(branch.read_arrow().to_pylist()) == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]
    assert _rows(table.branch("b").to_arrow().to_pylist()) == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]
    assert _call(peer_table, "list_branches", name) == ["b"]
    peer_table.peer.call("rollback", warehouse=peer_table.warehouse, table=name, version="v1")
    assert table.to_arrow().to_pylist() == [{"id": 1, "name": "a"}]
    # A rollback deletes the tags of later snapshots.
    assert _call(peer_table, "list_tags_paged", name) == ["v1"]
    _call(peer_table, "fast_forward", name, "b")
    assert _rows(peer_table.read_arrow().to_pylist()) == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]


def test_partitions_are_registered_and_removed_with_their_rows(peer_table: PyPaimonTable, hive: HiveCatalog) -> None:
    database, name = peer_table.name.split(".")
    peer_table.create(
        [("dt", "STRING"), ("id", "BIGINT")], partition_keys=["dt"], options={"metastore.partitioned-table": "true"}
    )
    peer_table.write([["a", 1], ["b", 2], ["b", 3]])
    assert hive.client.get_partition_names(database, name) == ["dt=a", "dt=b"]
    found = _call(peer_table, "list_partitions_paged", peer_table.name)
    assert [(each["spec"], each["record_count"], each["file_count"]) for each in found] == [
        ({"dt": "b"}, 2, 1),
        ({"dt": "a"}, 1, 1),
    ]
    _call(peer_table, "drop_partitions", peer_table.name, [{"dt": "a"}])
    assert hive.client.get_partition_names(database, name) == ["dt=b"]
    assert hive.get_table(peer_table.name).count() == 2


def test_concurrent_writers_of_rest_and_hive_lose_no_row(peer_table: PyPaimonTable, hive: HiveCatalog) -> None:
    peer_table.create(COLUMNS)
    commits = 6

    def append() -> None:
        table = hive.get_table(peer_table.name)
        for number in range(commits):
            table.append([{"id": number, "name": "hive"}])

    writer = threading.Thread(target=append)
    writer.start()
    for number in range(commits):
        peer_table.write([[number, "rest"]])
    writer.join(timeout=at_most(120))
    assert not writer.is_alive()
    rows = hive.get_table(peer_table.name).to_arrow().to_pylist()
    expected = [(number, name) for name in ("hive", "rest") for number in range(commits)]
    assert sorted((row["id"], row["name"]) for row in rows) == sorted(expected)
