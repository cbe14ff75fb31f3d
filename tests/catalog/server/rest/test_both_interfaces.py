"""The same tables by Thrift and by Paimon's REST interface, with interbed's own clients on both sides."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import interbed
import interbed.testing
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import DatabaseNotEmptyError, TableNotFoundError
from tests.support.servers.paimon_rest import rest_options

ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Catalog, Catalog]]:
    """Yield the catalog by Thrift and the same one by REST."""
    warehouse = f"file:{tmp_path_factory.mktemp('lake')}"
    with (
        interbed.testing.metastore(warehouse=warehouse) as uri,
        interbed.load_catalog("hive", metastore="hive", uri=uri, warehouse=warehouse) as by_thrift,
        interbed.load_catalog("rest", **rest_options(uri.paimon, "hive")) as by_rest,
    ):
        yield by_thrift, by_rest


def ordered(table: Any) -> list[dict[str, Any]]:
    """Return the rows in order of the key."""
    found: list[dict[str, Any]] = table.scan().to_arrow().sort_by("id").to_pylist()
    return found


def schema() -> pa.Schema:
    """Return the columns of the tables."""
    key: pa.Field[Any] = pa.field("id", pa.int64(), nullable=False)
    return pa.schema([key, pa.field("v", pa.string())])


@pytest.mark.parametrize("first", [0, 1], ids=["made-by-thrift", "made-by-rest"])
def test_a_table_of_one_is_read_written_and_altered_by_the_other(catalogs: tuple[Catalog, Catalog], first: int) -> None:
    one, other = catalogs[first], catalogs[1 - first]
    database = f"shop{first}"
    one.create_database(database)
    assert database in other.list_databases()
    one.create_table(f"{database}.t", schema(), primary_keys=["id"], options={"bucket": "1"}).upsert(ROWS)
    theirs = other.get_table(f"{database}.t")
    assert ordered(theirs) == ROWS
    theirs.upsert([{"id": 2, "v": "c"}, {"id": 3, "v": "d"}])
    assert ordered(one.get_table(f"{database}.t")) == [*ROWS[:1], {"id": 2, "v": "c"}, {"id": 3, "v": "d"}]
    other.alter_table(f"{database}.t", [interbed.SchemaChange.add_column("w", "INT")])
    assert one.get_table(f"{database}.t").schema.names == ("id", "v", "w")
    other.get_table(f"{database}.t").versions.create_tag("kept")
    assert [tag.name for tag in one.get_table(f"{database}.t").versions.tags()] == ["kept"]
    one.rename_table(f"{database}.t", f"{database}.u")
    assert other.list_tables(database) == ["u"]
    with pytest.raises(TableNotFoundError):
        other.get_table(f"{database}.t")
    with pytest.raises(DatabaseNotEmptyError):
        other.drop_database(database)
    other.drop_table(f"{database}.u")
    assert one.list_tables(database) == []
    other.drop_database(database)
    assert database not in one.list_databases()


def test_partitions_and_branches_are_the_same(catalogs: tuple[Catalog, Catalog]) -> None:
    by_thrift, by_rest = catalogs
    by_rest.create_database("parts")
    columns = pa.schema((pa.field("id", pa.int64()), pa.field("dt", pa.string())))
    options = {"metastore.partitioned-table": "true"}
    table = by_rest.create_table("parts.t", columns, partition_keys=["dt"], options=options)
    table.append([{"id": 1, "dt": "x"}, {"id": 2, "dt": "y"}])
    shown = [[p.spec for p in each.list_partitions("parts.t")] for each in catalogs]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 2
    by_rest.drop_partitions("parts.t", [{"dt": "x"}])
    assert [p.spec for p in by_thrift.list_partitions("parts.t")] == [{"dt": "y"}]
    by_rest.get_table("parts.t").versions.create_branch("b")
    by_rest.get_table("parts.t$branch_b").append([{"id": 3, "dt": "z"}])
    assert by_thrift.get_table("parts.t$branch_b").count() == 1
    assert by_thrift.get_table("parts.t").count() == 1
