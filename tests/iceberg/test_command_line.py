"""`interbed table` on Iceberg tables: tables of a metastore by name, and tables of directories."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyiceberg.catalog import load_catalog as load_pyiceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

import interbed
import interbed.testing
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.cli import main
from tests.support.servers.metastore import table as hive_table


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Options of a catalog with `shop.ours` (interbed), `shop.theirs` (Iceberg), and `shop.others` of neither."""
    directory = tmp_path_factory.mktemp("lake")
    with interbed.testing.metastore(warehouse=f"file:{directory}") as uri:
        with interbed.load_catalog("lake", metastore="hive", uri=uri) as made:
            made.create_database("shop")
            made.create_table_as("shop.ours", pa.table({"id": [1]}))
            assert isinstance(made, HiveCatalog)
            made.client.create_table(hive_table("shop", "others"))
        with load_pyiceberg("ice", type="hive", uri=uri, warehouse=f"file:{directory}") as theirs:
            schema = Schema(
                NestedField(1, "id", LongType(), required=True, doc="a number"),
                NestedField(2, "v", StringType()),
                identifier_field_ids=[1],
            )
            spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "v"))
            table = theirs.create_table("shop.theirs", schema, partition_spec=spec, properties={"comment": "of others"})
            for first in (1, 4):
                rows = {"id": [first, first + 1, first + 2], "v": ["a", "b", "c"]}
                table.append(pa.table(rows, schema=table.schema().as_arrow()))
            buckets = PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "b"))
            theirs.create_table("shop.empty", Schema(NestedField(1, "id", LongType())), partition_spec=buckets)
        yield ["-o", "metastore=hive", "-o", f"uri={uri}"]


def run(catalog: list[str], *arguments: str) -> Result:
    """Run a command about tables."""
    return CliRunner().invoke(main, ["table", *arguments, *catalog])


def said(catalog: list[str], *arguments: str) -> str:
    """Run a command that has to succeed, and return its output."""
    done = run(catalog, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def location(catalog: list[str]) -> str:
    """Return the location of the Iceberg table."""
    place: str = json.loads(said(catalog, "describe", "shop.theirs", "--json"))["location"]
    return place


def test_all_tables_are_listed_with_their_kinds_on_request(catalog: list[str]) -> None:
    assert said(catalog, "list", "shop") == "shop.ours\n"
    lines = said(catalog, "list", "--all").splitlines()
    assert lines == ["shop.empty   iceberg", "shop.ours    interbed", "shop.theirs  iceberg"]
    assert json.loads(said(catalog, "list", "shop", "--all", "--json"))[1] == {"table": "shop.ours", "kind": "interbed"}
    assert json.loads(said(catalog, "list", "--json")) == ["shop.ours"]


def test_rows_are_shown_like_those_of_interbeds_own_tables(catalog: list[str]) -> None:
    rows = said(catalog, "scan", "shop.theirs", "--filter", "id > 2", "--columns", "v,id", "--json").splitlines()
    assert sorted(map(json.loads, rows), key=lambda row: int(row["id"]))[0] == {"v": "c", "id": 3}
    assert len(rows) == 4
    assert said(catalog, "head", "shop.theirs", "-n", "1", "--format", "csv").count("\n") == 2
    first = json.loads(said(catalog, "snapshots", "shop.theirs", "--json"))[0]["snapshot-id"]
    assert len(said(catalog, "scan", "shop.theirs", "--snapshot", str(first), "--json").splitlines()) == 3
    refused = run(catalog, "scan", "shop.theirs", "--columns", "vv")
    assert refused.exit_code == 1
    assert "no column 'vv'; it has id, v. Did you mean 'v'?" in refused.output


def test_a_scan_is_explained(catalog: list[str]) -> None:
    assert "files         1 to read of 6" in said(catalog, "explain", "shop.theirs", "--filter", "id = 1")
    assert json.loads(said(catalog, "explain", "shop.theirs", "--json"))["files"] == 6
    refused = run(catalog, "explain", "shop.theirs", "--analyze")
    assert refused.exit_code == 1
    assert "--analyze" in refused.output


def test_columns_and_snapshots_are_described(catalog: list[str]) -> None:
    text = said(catalog, "describe", "shop.theirs")
    assert "format    Iceberg, version 2" in text
    assert "comment   of others" in text
    assert "6 records" in text
    assert "id  long    identifier        a number" in text
    assert "v   string  partition source" in text
    found = json.loads(said(catalog, "describe", "shop.theirs", "--json"))
    assert found["partition_keys"] == ["v"]
    assert found["snapshot"]["records"] == 6
    empty = json.loads(said(catalog, "describe", "shop.empty", "--json"))
    assert (empty["partition_keys"], empty["snapshot"]) == (["bucket[2](id)"], None)
    assert "snapshot  none yet" in said(catalog, "describe", "shop.empty")
    lines = said(catalog, "snapshots", "shop.theirs").splitlines()
    assert [line.split()[1] for line in lines] == ["append", "append"]
    assert lines[1].endswith("6 records")


def test_a_table_outside_of_catalogs_is_named_by_its_location(catalog: list[str], tmp_path: Path) -> None:
    place = Path(location(catalog).removeprefix("file:"))
    (metadata,) = place.glob("metadata/00002-*.json")
    assert len(said(catalog, "scan", str(metadata), "--json").splitlines()) == 6
    assert said([], "explain", f"file:{metadata}").startswith(f"file:{metadata} at snapshot")
    assert json.loads(said([], "describe", str(metadata), "--json"))["table"] == str(metadata)
    refused = run([], "scan", str(tmp_path / "nothing"))
    assert refused.exit_code == 1
    assert "no Iceberg table" in refused.output
    assert run([], "describe", str(tmp_path / "nothing")).exit_code == 1


@pytest.mark.parametrize(
    "command",
    [
        ["levels", "shop.theirs"],
        ["changes", "shop.theirs"],
        ["get", "shop.theirs", "id=1"],
        ["schema", "shop.theirs"],
        ["tags", "shop.theirs"],
        ["create-branch", "shop.theirs", "b"],
        ["rescale", "shop.theirs", "--buckets", "2"],
        ["health", "shop.theirs"],
        ["rollback", "shop.theirs", "--snapshot", "1"],
    ],
    ids=lambda command: command[0],
)
def test_commands_for_interbeds_own_tables_are_refused_by_name(catalog: list[str], command: list[str]) -> None:
    refused = run(catalog, *command)
    assert refused.exit_code == 1, refused.output
    assert "'shop.theirs' is a table of Iceberg's; it takes" in refused.output


@pytest.mark.parametrize(
    "command",
    [["drop", "shop.theirs", "--yes"], ["alter", "shop.theirs", "--comment", "x"], ["scan", "shop.others"]],
    ids=lambda command: command[0],
)
def test_changes_and_reads_of_unsupported_tables_are_refused(catalog: list[str], command: list[str]) -> None:
    refused = run(catalog, *command)
    assert refused.exit_code == 1
    assert "is no table of Paimon's format" in refused.output


def test_queries_join_tables_of_both_kinds(catalog: list[str]) -> None:
    query = "SELECT count(*) AS n, sum(t.id)::INT AS s FROM shop.theirs t JOIN shop.ours o ON t.id >= o.id"
    done = CliRunner().invoke(main, ["sql", query, "--json", *catalog])
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"n": 6, "s": 21}), done.output


def test_a_warehouse_of_directories_has_no_iceberg_tables(tmp_path: Path) -> None:
    made = interbed.load_catalog("lake", warehouse=tmp_path)
    made.create_database("shop")
    assert made.list_iceberg_tables("shop") == []
    with pytest.raises(interbed.DatabaseNotFoundError):
        made.list_iceberg_tables("none")


def test_tables_are_optimized_by_name_and_by_location(catalog: list[str], tmp_path: Path) -> None:
    with interbed.testing.metastore(warehouse=f"file:{tmp_path}") as uri:
        with load_pyiceberg("ice", type="hive", uri=uri, warehouse=f"file:{tmp_path}") as theirs:
            theirs.create_namespace("shop")
            table = theirs.create_table("shop.theirs", Schema(NestedField(1, "id", LongType())))
            for number in range(3):
                table.append(pa.table({"id": [number]}))
        there = ["-o", "metastore=hive", "-o", f"uri={uri}"]
        assert "rewrite 3 file(s)" in said(there, "compact", "shop.theirs", "--dry-run")
        assert "3 data file(s) of 3 rows became 1 of 3" in said(there, "compact", "shop.theirs")
        assert said(there, "compact-manifests", "shop.theirs") == "nothing to merge\n"
        expired = json.loads(said(there, "expire-snapshots", "shop.theirs", "--older-than", "2999-01-01", "--json"))
        assert (len(expired["snapshots"]), expired["data_files"]) == (3, 3)
        assert json.loads(said(there, "remove-orphan-files", "shop.theirs", "--json"))["paths"] == []
        assert said(there, "scan", "shop.theirs", "--json").splitlines() == ['{"id": 0}', '{"id": 1}', '{"id": 2}']
        refused = run(there, "expire-snapshots", "shop.theirs", "--max-deletes", "1")
        assert refused.exit_code != 0
        assert "--max-deletes is not for an Iceberg table" in refused.output
        metadata = json.loads(said(there, "describe", "shop.theirs", "--json"))["location"]
        by_file = next(iter(sorted(Path(metadata.removeprefix("file:")).glob("metadata/*.metadata.json"))))
        refused = run([], "compact", f"file:{by_file}")
        assert "opened by its metadata file" in refused.output
