"""Commands on format tables: created, described, filled, read, and refused by name where they need snapshots."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interbed.cli import main
from tests.support.servers.metastore import metastore


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a metastore for the module."""
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('lake')}") as uri:
        yield uri


def run(uri: str, line: str) -> Result:
    """Run a command on the catalog of a metastore."""
    options = ["-o", "metastore=hive", "-o", f"uri={uri}"]
    words = shlex.split(line)
    return CliRunner().invoke(
        main, [*words[:2], *options, *words[2:]] if words[0] != "sql" else ["sql", *options, *words[1:]]
    )


def test_commands_read_and_write_a_format_table(server: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,name,dt\n1,a,x\n2,b,y\n")
    create = (
        "table create shop.f --column 'id BIGINT' --column 'name STRING' --column 'dt STRING' --partition-key dt "
        "--table-option type=format-table --table-option file.format=json"
    )
    for line in ("catalog create-database shop", create, f"table import shop.f {rows}"):
        done = run(server, line)
        assert done.exit_code == 0, done.output
    found = run(server, "table scan shop.f --filter \"dt = 'y'\" --columns id,name --format json")
    assert json.loads(found.output.splitlines()[0]) == {"id": 2, "name": "b"}
    assert "2" in run(server, 'sql "SELECT count(*) AS n FROM shop.f"').output
    described = json.loads(run(server, "table describe shop.f --json").output)
    assert (described["format"], described["files"]["count"]) == ("files of the format json", 2)
    shown = run(server, "table describe shop.f").output
    assert "files     2, " in shown
    listed = run(server, "table list shop --all --json")
    assert json.loads(listed.output) == [{"table": "shop.f", "kind": "files"}]
    assert run(server, f"table import shop.f {rows} --mode overwrite").exit_code == 0
    assert json.loads(run(server, "table describe shop.f --json").output)["files"]["count"] == 2


@pytest.mark.parametrize("line", ["table snapshots shop.g", "table compact shop.g", "table scan shop.g$files"])
def test_commands_that_need_snapshots_are_refused_by_name(server: str, line: str) -> None:
    run(server, "catalog create-database shop --if-not-exists")
    run(server, "table create shop.g --if-not-exists --column 'id INT' --table-option type=format-table")
    refused = run(server, line)
    assert refused.exit_code != 0
    assert "format table 'shop.g'" in refused.output


def test_commands_read_an_object_table(server: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_bytes(b"12345")
    run(server, "catalog create-database shop --if-not-exists")
    place = f"--table-option path=file:{tmp_path}"
    created = run(server, f"table create shop.o --table-option type=object-table {place}")
    assert created.exit_code == 0, created.output
    found = run(server, "table scan shop.o --filter \"name = 'one.txt'\" --columns path,length --format json")
    assert json.loads(found.output.splitlines()[0]) == {"path": "one.txt", "length": 5}
    assert "5" in run(server, "sql \"SELECT length FROM shop.o WHERE name = 'one.txt'\"").output
    assert "files     2, " in run(server, "table describe shop.o").output
    assert json.loads(run(server, "table describe shop.o --json").output)["files"]["count"] == 2
    for line in ("table snapshots shop.o", "table remove-orphan-files shop.o"):
        refused = run(server, line)
        assert refused.exit_code != 0
        assert "is an object table; it takes" in refused.output
    assert run(server, "table drop shop.o --yes").exit_code == 0
    assert (tmp_path / "one.txt").exists()
