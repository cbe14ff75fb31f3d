"""`interbed catalog functions`, and functions of the catalog in `interbed sql`."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from interbed.cli import main
from tests.support.servers.metastore import metastore
from tests.support.servers.paimon_rest import rest_options

AREA = "--param 'x DOUBLE' --param 'y DOUBLE' --returns DOUBLE"


class FunctionTerminal:
    """The command line on a REST catalog."""

    def __init__(self, options: dict[str, str]) -> None:
        self._given = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]

    def run(self, command: str) -> str:
        result = CliRunner().invoke(main, [*self._given, *shlex.split(command)])
        assert result.exit_code == 0, (command, result.output)
        return result.output

    def refusal(self, command: str) -> str:
        result = CliRunner().invoke(main, [*self._given, *shlex.split(command)])
        assert result.exit_code != 0, (command, result.output)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return " ".join(result.output.split())

    def value(self, expression: str) -> Any:
        """Return the value of an expression in DuckDB."""
        [row] = self.run(f'sql --json "SELECT {expression} AS value"').splitlines()
        return json.loads(row)["value"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server for the module; yield the address of its REST catalog."""
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('lake')}") as uri:
        yield uri.paimon


@pytest.fixture
def terminal(server: str) -> Iterator[FunctionTerminal]:
    """Make the database `shop`, without functions."""
    terminal = FunctionTerminal(rest_options(server, "hive"))
    terminal.run("catalog create-database shop")
    yield terminal
    for function in json.loads(terminal.run("catalog functions list shop --json")):
        terminal.run(f"catalog functions drop shop.{function}")
    terminal.run("catalog drop-database shop --cascade")


def test_a_function_is_created_shown_changed_and_dropped(terminal: FunctionTerminal, tmp_path: Path) -> None:
    terminal.run(f"catalog functions create shop.area {AREA} --sql sql='x * y' --comment 'of a box' --set-option k=v")
    assert terminal.run("catalog functions list shop") == "area\n"
    shown = terminal.run("catalog functions show shop.area")
    assert shown == (
        "shop.area(x DOUBLE, y DOUBLE) -> DOUBLE\n  comment: of a box\n  sql (sql): x * y\n  option k = v\n"
    )
    terminal.run(
        "catalog functions alter shop.area --sql sql='y * x' --sql spark='x * y' --comment '' --remove-option k "
        """--definition 'flink={"type": "lambda", "definition": "(x, y) -> x * y", "language": "JAVA"}'"""
    )
    found = json.loads(terminal.run("catalog functions show shop.area --json"))
    assert found["definitions"] == {
        "sql": {"type": "sql", "definition": "y * x"},
        "spark": {"type": "sql", "definition": "x * y"},
        "flink": {"type": "lambda", "definition": "(x, y) -> x * y", "language": "JAVA"},
    }
    assert (found["comment"], found["options"]) == (None, {})
    copy = tmp_path / "area.json"
    copy.write_text(json.dumps(found))
    terminal.run("catalog functions drop shop.area")
    assert terminal.run("catalog functions list shop") == "no functions\n"
    terminal.run(f"catalog functions create shop.area --from {copy}")
    assert json.loads(terminal.run("catalog functions show shop.area --json")) == found
    terminal.run("catalog functions alter shop.area --drop-definition flink")
    assert "flink" not in terminal.run("catalog functions show shop.area")


def test_what_exists_or_is_missing_is_reported(terminal: FunctionTerminal, tmp_path: Path) -> None:
    terminal.run("catalog functions create shop.one --returns INT --sql sql=1")
    assert "function 'shop.one'" in terminal.refusal("catalog functions create shop.one --returns INT --sql sql=1")
    assert "already" in terminal.run("catalog functions create shop.one --returns INT --sql sql=1 --if-not-exists")
    assert "no function 'shop.two'" in terminal.refusal("catalog functions drop shop.two")
    assert "no function shop.two" in terminal.run("catalog functions drop shop.two --if-exists")
    assert "no function 'shop.two'" in terminal.refusal("catalog functions show shop.two")
    assert "at least one change" in terminal.refusal("catalog functions alter shop.one")
    assert "is no definition" in terminal.refusal("catalog functions create shop.f --definition 'a={}'")
    assert "one definition" in terminal.refusal("catalog functions create shop.f --sql a=1 --sql a=2")
    empty = tmp_path / "f.json"
    empty.write_text("[]")
    assert "holds no function" in terminal.refusal(f"catalog functions create shop.f --from {empty}")
    assert "--from takes all" in terminal.refusal(f"catalog functions create shop.f --from {empty} --comment x")


def test_a_query_calls_functions_with_definitions_in_sql(terminal: FunctionTerminal) -> None:
    terminal.run(f"catalog functions create shop.area {AREA} --sql spark='no' --sql duckdb='x * y' --sql sql='0'")
    terminal.run("catalog functions create shop.twice --param 'x INT' --returns INT --sql sql='x + x'")
    terminal.run("catalog functions create shop.of-box --param 'a INT' --returns STRING --sql sql='shop.twice(a) || 1'")
    assert terminal.value("shop.area(2, 1.5)") == 3.0
    assert terminal.value("shop.twice(shop.twice(3))") == 12
    assert terminal.value("shop.twice(NULL)") is None
    assert terminal.value('shop.\\"of-box\\"(4)') == "81"
    assert terminal.value("upper('a')") == "A"
    terminal.run("table create shop.t --column 'twice INT'")
    terminal.run('sql "INSERT INTO shop.t SELECT shop.twice(7)"')
    terminal.run('sql "UPDATE shop.t SET twice = shop.twice(twice) WHERE twice = 14"')
    [row] = terminal.run('sql --json "SELECT shop.twice(twice) AS v FROM shop.t"').splitlines()
    assert json.loads(row) == {"v": 56}


def test_dropped_objects_of_a_server_are_listed_put_back_and_purged(terminal: FunctionTerminal) -> None:
    terminal.run("table create shop.t --column 'id INT'")
    terminal.run("table drop shop.t --yes")
    entry, *_ = json.loads(terminal.run("catalog dropped --database shop --json"))
    assert (entry["name"], entry["kind"]) == ("t", "table")
    assert "shop.t" in terminal.run("catalog dropped")
    assert "table shop.u is back" in terminal.run(f"catalog undrop shop.t --as u --id {entry['id']}")
    terminal.run("table drop shop.u --yes")
    assert "purged 1" in terminal.run("catalog purge shop.u")
    left = json.loads(terminal.run("catalog dropped --database shop --json"))
    assert [each for each in left if each["name"] == "u"] == []
    assert "no dropped object 'shop.u'" in terminal.refusal("catalog undrop shop.u")


def test_a_function_that_is_not_run_is_refused_by_name(terminal: FunctionTerminal) -> None:
    create = "catalog functions create"
    terminal.run(f"""{create} shop.f --definition 'flink={{"type": "lambda", "definition": "x", "language": "J"}}'""")
    terminal.run(f"{create} shop.g --param 'x INT' --sql sql='shop.h(x)'")
    terminal.run(f"{create} shop.h --param 'x INT' --sql sql='shop.g(x)'")
    terminal.run(f"{create} shop.z --param 'x INT' --sql sql='x + z'")
    terminal.run(f"{create} shop.q --sql sql='(SELECT 1)'")
    terminal.run(f"{create} shop.two --sql sql='1) AS a, (2'")
    terminal.run(f"{create} shop.i --param 'x INT' --sql sql='x + x'")
    assert "only 'flink' (lambda)" in terminal.refusal('sql "SELECT shop.f()"')
    assert "calls itself: shop.g -> shop.h -> shop.g" in terminal.refusal('sql "SELECT shop.g(1)"')
    assert "names 'z', which is none of its parameters (x)" in terminal.refusal(
        'sql "SELECT shop.z(1) FROM (SELECT 1 z)"'
    )
    assert "no single expression" in terminal.refusal('sql "SELECT shop.q()"')
    assert "no single expression" in terminal.refusal('sql "SELECT shop.two()"')
    assert "loses digits as x INTEGER" in terminal.refusal('sql "SELECT shop.i(1.5)"')
    assert "has another value each time" in terminal.refusal('sql "SELECT shop.i(random()::INT)"')
    assert "does not exist" in terminal.refusal('sql "SELECT shop.nothing(1)"')
