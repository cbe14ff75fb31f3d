"""First session of a new user on the command line, in an empty home: as processes, and as docs/cli.md shows it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main
from tests.support.pages import Page
from tests.support.waits import at_most

FIRST = "id,name,amount,dt\n1,pen,3.0,2026-01-01\n2,ink,9.5,2026-01-01\n3,,1.5,2026-01-02\n"
SECOND = '{"id": 1, "name": "pen", "amount": 7.0, "dt": "2026-01-01"}\n{"id": 4, "amount": 2.5, "dt": "2026-01-02"}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, which is also the working directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("INTERBED_CONFIG")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shop(home: Path) -> Path:
    """Home of a user with a table `shop.orders` of three rows."""
    (home / ".interbed.toml").write_text(f'[catalog.lake]\nwarehouse = "file:{home}/lake"\n')
    (home / "orders.csv").write_text(FIRST)
    run("catalog create-database shop")
    run("table create shop.orders --from orders.csv --primary-key dt,id --partition-key dt --option bucket=1")
    run("table import shop.orders orders.csv")
    return home


def invoke(line: str, *more: str) -> Result:
    return CliRunner().invoke(main, [*shlex.split(line), *more])


def run(line: str, *more: str) -> str:
    result = invoke(line, *more)
    assert result.exit_code == 0, result.output
    return result.output


def loaded(line: str, *more: str) -> Any:
    return json.loads(run(line, *more, "--json"))


def test_a_whole_session_runs_as_processes(home: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("INTERBED_")}
    environment |= {"INTERBED_CATALOG__LAKE__WAREHOUSE": f"file:{home}/lake", "HOME": str(home)}
    (home / "orders.csv").write_text(FIRST)
    (home / "more.jsonl").write_text(SECOND)

    def process(line: str) -> str:
        program = [sys.executable, "-W", "error", "-m", "interbed.cli", *shlex.split(line)]
        done = subprocess.run(
            program, capture_output=True, text=True, timeout=at_most(120), env=environment, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{line}: {done.stderr}"
        assert "\x1b" not in done.stdout
        return done.stdout

    assert process("catalog create-database shop") == "created the database shop\n"
    process(
        "table create shop.orders --column 'id BIGINT NOT NULL' --column 'name STRING' --column 'amount DOUBLE' "
        "--column 'dt DATE' --primary-key dt,id --partition-key dt --option bucket=1"
    )
    assert process("table import shop.orders orders.csv") == "imported 3 rows into shop.orders: snapshot 1\n"
    assert "│ 3  │ NULL │ 1.5    │ 2026-01-02 │" in process("table head shop.orders")
    filtered = process("table scan shop.orders --filter \"amount > 2 and name = 'ink'\" --columns id --json")
    assert filtered == '{"id": 2}\n'
    assert json.loads(process("table import shop.orders more.jsonl --mode upsert --json"))["snapshot"] == 2
    assert "sorted runs" in process("table levels shop.orders --summary")
    assert process("table compact shop.orders").endswith("snapshot 3\n")
    assert [line.split()[1] for line in process("table snapshots shop.orders").splitlines()] == [
        "APPEND", "APPEND", "COMPACT",
    ]  # fmt: skip
    assert process("table create-tag shop.orders first") == "first is snapshot 3\n"
    assert process("sql 'SELECT sum(amount) AS total FROM shop.orders' --json") == '{"total": 20.5}\n'
    assert process("table drop shop.orders --yes") == "dropped the table shop.orders\n"
    assert process("catalog drop-database shop") == "dropped the database shop\n"
    assert process("catalog list") == "no databases\n"


@pytest.mark.long
def test_the_session_of_the_page_runs_as_written(home: Path) -> None:
    page = Page("cli.md")
    warehouse, _ = page.blocks("toml")
    (home / ".interbed.toml").write_text(warehouse.replace("/tmp/lake", f"{home}/lake"))
    (home / "orders.csv").write_text(page.blocks("csv")[0])
    (home / "more.jsonl").write_text(page.blocks("json")[0])

    assert page.run_console(lambda arguments: invoke("", *arguments).output) == 15
    assert page.check_commands() == 13


def test_the_configuration_of_the_page_is_read(home: Path) -> None:
    (home / ".interbed.toml").write_text(Page("cli.md").blocks("toml")[1])
    assert run("catalog config").startswith("catalog lake\n  warehouse = file:/tmp/lake")
    prod = loaded("catalog config -c prod")["options"]
    assert prod["lock.enabled"]["value"] == "true"
    assert prod["s3.endpoint"] == {"value": "https://s3.example.com", "source": str(home / ".interbed.toml")}


def test_all_output_is_available_as_json(shop: Path) -> None:
    assert loaded("catalog create-database other --comment x") == {"database": "other", "created": True}
    assert loaded("catalog create-database other --if-not-exists") == {"database": "other", "created": False}
    assert loaded("catalog list") == ["other", "shop"]
    assert loaded("table create other.t --column 'a INT'") == {"table": "other.t", "created": True}
    assert loaded("table create other.t --column 'a INT' --if-not-exists") == {"table": "other.t", "created": False}
    assert loaded("table list") == ["other.t", "shop.orders"]
    assert loaded("table list shop") == ["shop.orders"]
    described = loaded("table describe shop.orders")
    assert described["columns"][0] == {
        "name": "id", "type": "BIGINT NOT NULL", "key": "primary key", "default": None, "comment": None,
    }  # fmt: skip
    assert (described["partition_keys"], described["snapshot"]["records"]) == (["dt"], 3)
    assert loaded("table schema shop.orders")["primaryKeys"] == ["dt", "id"]
    assert (
        loaded("table alter other.t --add-column 'b INT' --comment hello --set-option write-only=true")["schema"] == 1
    )
    assert loaded("table alter other.t --change-type 'b BIGINT' --drop-column a --remove-option write-only")
    assert run("table schema other.t") == "b BIGINT\n"
    assert loaded("table rename other.t other.u") == {"table": "other.t", "renamed_to": "other.u"}
    assert loaded("table drop other.u --yes") == {"table": "other.u", "dropped": True}
    assert loaded("table drop other.u --yes --if-exists") == {"table": "other.u", "dropped": False}
    assert loaded("catalog drop-database other") == {"database": "other", "dropped": True}
    assert loaded("catalog drop-database other --if-exists") == {"database": "other", "dropped": False}
    assert loaded("catalog drop-database shop --cascade") == {"database": "shop", "dropped": True}


def test_text_output_has_the_same_contents(shop: Path) -> None:
    assert run("catalog list") == "shop\n"
    assert run("table list") == "shop.orders\n"
    text = run("table describe shop.orders")
    assert f"location  {shop}/lake/shop.db/orders\n" in text
    assert "  dt      DATE NOT NULL    primary key, partition key\n" in text
    assert "snapshot  1, 2" in text
    assert run("table scan shop.orders --limit 1").endswith("1 row\n")
    assert run("table scan shop.orders --filter 'id > 5'").endswith("0 rows\n")
    assert "shop.db" in run("table scan shop.orders$files --columns file_path")
    assert run("table scan shop.orders --format csv --columns id,name --filter 'id = 3'") == '"id","name"\n3,\n'
    written = invoke("table scan shop.orders --output out.parquet")
    assert (written.stdout, written.stderr) == ("", "3 rows in out.parquet\n")


def test_a_text_table_ends_after_a_hundred_rows(shop: Path) -> None:
    (shop / "many.csv").write_text("id,dt\n" + "".join(f"{i},2026-01-05\n" for i in range(150)))
    run("table import shop.orders many.csv")
    assert run("table scan shop.orders").endswith("the first 100 rows; --limit shows more\n")
    assert run("table scan shop.orders --limit 120").endswith("\n120 rows\n")
    assert run("sql 'SELECT * FROM shop.orders'").endswith("the first 100 rows; --limit shows more\n")
    assert len(run("table scan shop.orders --json").splitlines()) == 153
    assert len(run("table head shop.orders -n 3 --json").splitlines()) == 3


def test_sql_joins_tables_and_reads_only_needed_columns(shop: Path) -> None:
    query = (
        "SELECT a.id, b.name FROM shop.orders a JOIN shop.orders b USING (id) "
        "WHERE b.amount > 2 AND a.dt = DATE '2026-01-01' AND b.name <> 'x' ORDER BY id"
    )
    assert run(f'sql "{query}" --format csv') == '"id","name"\n1,"pen"\n2,"ink"\n'
    assert run("sql \"SELECT count(*) AS n FROM 'orders.csv'\" --json") == '{"n": 3}\n'
    assert run("""sql 'SELECT count(*) AS n FROM shop."orders$snapshots"' --json""") == '{"n": 1}\n'
    assert run("sql 'WITH t AS (SELECT max(id) AS n FROM shop.orders) SELECT n FROM t' --json") == '{"n": 3}\n'


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT * FROM shop.ordres",
            "There is no table 'shop.ordres' in the catalog 'lake'. Did you mean 'shop.orders'?",
        ),
        ("SELECT * FROM shp.orders", "Did you mean 'shop'?"),
        ("SELECT * FROM orders", "The table 'orders' lacks its database; write DATABASE.orders."),
        ("SELECT colour FROM shop.orders", "colour"),
        ("SELEC 1", "syntax error"),
        ("DROP VIEW x", "carries out SELECT, INSERT INTO, UPDATE, DELETE FROM and MERGE INTO, not DROP."),
        ("INSERT INTO shop.orders VALUES (1)", "has 1 values for 4 columns"),
        ("SELECT 1; SELECT 2", "takes one statement, not 2 statements."),
        ("", "takes one statement, not 0 statements."),
    ],
)
def test_sql_that_is_no_query_is_refused(shop: Path, query: str, message: str) -> None:
    result = invoke("sql", query)
    assert (result.exit_code, message in result.stderr, result.stdout) == (1, True, ""), result.output


@pytest.mark.parametrize("package", ["duckdb", "sqlglot"])
def test_sql_without_its_packages_names_the_extra(shop: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = invoke("sql 'SELECT 1'")
    assert (result.exit_code, "pip install 'interbed[duckdb]'" in result.stderr) == (1, True), result.output


@pytest.mark.sample(15)
@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (
            "table head shop.ordres",
            1,
            "There is no table 'shop.ordres' in the catalog 'lake'. Did you mean 'shop.orders'?",
        ),
        ("table head shp.orders", 1, "There is no database 'shp'"),
        ("table head shp.orders", 1, "Did you mean 'shop'?"),
        ("table levels shop.order", 1, "Did you mean 'shop.orders'?"),
        ("table list shopp", 1, "Did you mean 'shop'?"),
        ("table head orders", 1, "lacks its database; write 'database.table'"),
        (
            "table head shop.orders --columns id,amout",
            1,
            "has no column 'amout'; it has id, name, amount, dt. Did you mean",
        ),
        ("table scan shop.orders --filter 'amount >'", 1, "The filter is not a condition"),
        ("table scan shop.orders --filter 'amout > 1'", 1, "Did you mean 'amount'?"),
        ("table scan shop.orders --format xml", 2, "'xml' is not one of"),
        ("table scan shop.orders --format csv --json", 2, "Give --json or --format csv, not both."),
        ("table scan shop.orders --output rows.xml", 2, "says no format; give --format."),
        ("table scan shop.orders --output none/rows.csv", 1, "Can't write none/rows.csv: No such file or directory."),
        ("table import shop.orders none.csv", 2, "none.csv"),
        ("table import shop.orders orders.csv --mode replace", 2, "'replace' is not one of"),
        ("table create shop.t", 2, "Give one of --column, --from and --schema"),
        ("table create shop.t --column 'id BIGNT'", 1, "Did you mean 'BIGINT'?"),
        ("table create shop.t --column 'id INT' --option warehouse=x", 2, "'warehouse' is an option of the catalog"),
        ("table create shop.orders --column 'id INT'", 1, "There is a table 'shop.orders'"),
        ("table create shp.t --column 'id INT'", 1, "Did you mean 'shop'?"),
        ("table alter shop.orders", 2, "Give at least one change"),
        ("table alter shop.orders --drop-column nmae", 1, "Did you mean 'name'?"),
        ("table alter shop.orders --rename-column nmae=x", 1, "Did you mean 'name'?"),
        ("table describe 'shop.orders$files'", 1, "is a system table"),
        ("table lvels shop.orders", 2, "No such command 'lvels'. Did you mean 'levels'?"),
        ("tabel list", 2, "No such command 'tabel'. Did you mean 'table'?"),
        ("catalog lst", 2, "Did you mean 'list'?"),
        ("catalog drop-database shop", 1, "still holds 1 tables"),
        ("catalog drop-database shp", 1, "Did you mean 'shop'?"),
        ("-c lkae table list", 1, "No catalog 'lkae' is configured"),
        ("-c lake table list -c other", 2, "Two catalogs are named: lake and other."),
        ("table list -o colour=red", 1, "Unknown catalog option 'colour'"),
        ("table list -o warehouse", 2, "'warehouse' is not KEY=VALUE."),
        ("-c lake server --help", 2, "works on no catalog"),
        ("table drop shop.orders", 1, "This deletes shop.orders with all rows and versions."),
    ],
)
def test_an_error_is_one_line_with_a_remedy(shop: Path, line: str, code: int, message: str) -> None:
    result = invoke(line)
    assert (result.exit_code, message in result.stderr, result.stdout) == (code, True, ""), result.output
    assert isinstance(result.exception, SystemExit)
    assert loaded("table describe shop.orders")["snapshot"]["records"] == 3


def test_a_configuration_error_is_named_with_its_line(shop: Path) -> None:
    (shop / ".interbed.toml").write_text("[catalog.lake]\nwarehouse = \n")
    result = invoke("table list")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"{shop}/.interbed.toml, line 2: " in result.stderr
    # The configuration is not read for a catalog that the options describe in full.
    assert run(f"table list -o warehouse={shop}/lake") == "shop.orders\n"


def test_commands_that_read_create_no_directories(home: Path) -> None:
    for line in ("catalog list", "table list", "table head shop.t", "compact", "sql 'SELECT * FROM shop.t'"):
        result = invoke(f"{line} -o warehouse={home}/lake")
        assert result.exit_code == 1
        assert f"The warehouse {home}/lake does not exist." in result.stderr
    refused = invoke("table list")
    assert (refused.exit_code, f"{home}/.interbed.toml" in refused.stderr) == (1, True)
    assert list(home.iterdir()) == []


def test_options_are_accepted_before_and_after_the_command(home: Path) -> None:
    option = f"-o warehouse={home}/lake"
    run(f"catalog {option} create-database shop")
    assert run(f"{option} catalog list") == run(f"catalog {option} list") == run(f"catalog list {option}") == "shop\n"
    # The later option wins.
    assert run(f"-o warehouse=none catalog list {option}") == "shop\n"
    run(f"table create {option} shop.t --column 'id INT NOT NULL' --primary-key id --option bucket=1")
    run(f"table {option} levels shop.t")
    assert run(f"compact {option} shop") == run(f"{option} compact shop")


def test_drop_asks_before_it_deletes(shop: Path) -> None:
    asked = CliRunner().invoke(main, ["table", "drop", "shop.orders"], input="y\n")
    assert asked.output.endswith("dropped the table shop.orders\n")
    assert interbed.load_catalog("lake").list_tables("shop") == []
