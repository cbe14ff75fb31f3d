"""Iceberg tables of a metastore are compacted by name, concurrently with commits of Java, from Spark and the command
line.

In each run tests/iceberg/test_command_line.py does it from the shell, and
tests/spark_ext/calls/test_hive_catalog.py from Spark.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import interbed
import interbed.testing
from interbed.cli import main
from interbed.iceberg.table import IcebergTable
from tests.iceberg.java_tables import ordered
from tests.support.peers.iceberg import IcebergPeer

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[IcebergPeer, interbed.Catalog, str]]:
    """A metastore with Iceberg in Java over it, and interbed's catalog."""
    directory = tmp_path_factory.mktemp("lake")
    with (
        interbed.testing.metastore(warehouse=f"file:{directory}/lake") as uri,
        interbed.load_catalog("lake", metastore="hive", uri=uri) as catalog,
        IcebergPeer(Path(f"{directory}/lake"), uri) as peer,
    ):
        peer.run("CREATE DATABASE ice.db")
        yield peer, catalog, uri


def run_cli(*arguments: str) -> str:
    """Run a command that has to succeed, and return its output."""
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_is_compacted_by_name_and_java_continues_it(
    lake: tuple[IcebergPeer, interbed.Catalog, str], version: int
) -> None:
    peer, catalog, _ = lake
    name = peer.new_table("id INT, v STRING", version)
    for start in (0, 10):
        peer.append(name, [[start + number, "x"] for number in range(10)])
    peer.equality_delete(name, ["id"], [[3], [13]])
    table: Any = catalog.get_table(name.removeprefix("ice."))
    assert isinstance(table, IcebergTable)
    before = ordered(peer.rows(name))
    assert table.compact(mode="minor").converted == 2
    peer.run(f"REFRESH TABLE {name}")
    assert ordered(peer.rows(name)) == before
    assert table.compact(mode="full").written == 1
    assert ordered(table.scan().to_arrow()) == before
    peer.run(f"REFRESH TABLE {name}")
    peer.run(f"DELETE FROM {name} WHERE id = 5")
    assert len(ordered(catalog.get_table(name.removeprefix("ice.")).scan().to_arrow())) == len(before) - 1
    client: Any = vars(catalog)["client"]
    parameters = client.get_table("db", name.rpartition(".")[2]).parameters
    assert parameters["table_type"].upper() == "ICEBERG"
    assert parameters["previous_metadata_location"] != parameters["metadata_location"]


def test_the_command_compacts_a_table_and_shows_plans(lake: tuple[IcebergPeer, interbed.Catalog, str]) -> None:
    peer, catalog, uri = lake
    name = peer.new_table("id INT", 2).removeprefix("ice.")
    for number in range(3):
        peer.append(f"ice.{name}", [[number]])
    choice = ["-o", "metastore=hive", "-o", f"uri={uri}"]
    (shown,) = json.loads(run_cli("compact", *choice, name, "--dry-run", "--json"))["tables"]
    assert [(plan["action"], plan["files"]) for plan in shown["plans"]] == [("rewrite", 3)]
    assert "nothing to compact" in run_cli("compact", *choice, name, "--major", "--dry-run")
    (done,) = json.loads(run_cli("compact", *choice, name, "--json"))["tables"]
    assert (done["result"]["rewritten"], done["result"]["written"]) == (3, 1)
    assert catalog.get_table(name).scan().to_arrow().num_rows == 3
