"""The command line, called as a program calls it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.cli.forms.file_rows import FORMATS
from interbed.catalog.client.cli.maintenance import compaction
from interbed.catalog.client.cli.table import load
from interbed.cli import main
from interbed.storage.views.simulate.workload import InsertOrder, KeyDistribution
from tests.support.unmeasured import unmeasured_environment
from tests.support.waits import at_most

SCHEMA = pa.schema((("id", pa.int64()), ("amount", pa.float64()), ("dt", pa.string())))


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Warehouse with the table `shop.orders`: two partitions, two snapshots."""
    catalog = interbed.load_catalog(warehouse=tmp_path / "lake")
    catalog.create_database("shop")
    table = catalog.create_table(
        "shop.orders", SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "2"}
    )
    table.upsert(pa.table({"id": [1, 2, 3], "amount": [1.0, 2.0, 3.0], "dt": ["a", "a", "b"]}))
    table.upsert(pa.table({"id": [1], "amount": [9.0], "dt": ["a"]}))
    return tmp_path / "lake"


def run(warehouse: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["table", "-o", f"warehouse={warehouse}", *arguments])


def test_levels_are_shown_as_text_and_as_json(warehouse: Path) -> None:
    shown = run(warehouse, "levels", "shop.orders")
    assert shown.exit_code == 0, shown.output
    assert "level" in shown.output.lower()
    levels = json.loads(run(warehouse, "levels", "shop.orders", "--json").output)
    assert levels == interbed.load_table(f"{warehouse}/shop.db/orders").levels().to_json()


def test_the_health_of_a_table_is_shown_as_text_and_as_json(warehouse: Path) -> None:
    shown = run(warehouse, "health", "shop.orders").output
    assert re.match(r"shop\.orders, snapshot 2: \d+ of 100\n  -\d+ ", shown)
    assert re.search(r"a read merges 1\.\d sorted runs on average", shown)
    assert "buckets to compact" in shown
    found = json.loads(run(warehouse, "health", "shop.orders", "--json").output)
    assert found.pop("table") == "shop.orders"
    assert found == interbed.load_table(f"{warehouse}/shop.db/orders").maintenance.health().to_json()
    run(warehouse, "compact", "shop.orders")
    shown = run(warehouse, "health", "shop.orders").output
    assert "snapshot 3: 100 of 100\n  content" in shown
    assert "buckets to compact" not in shown


def test_only_the_worst_buckets_are_shown_by_default(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=tmp_path / "lake")
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", SCHEMA, partition_keys=["dt"])
    for _ in range(2):
        table.append(pa.table({"id": [1] * 7, "amount": [1.0] * 7, "dt": list("abcdefg")}, schema=SCHEMA))
    assert "2 more buckets to compact; --all shows them" in run(tmp_path / "lake", "health", "shop.orders").output
    shown = run(tmp_path / "lake", "health", "shop.orders", "--all").output
    assert "--all" not in shown
    assert all(f"dt={name}" in shown for name in "abcdefg")


def test_an_explanation_is_shown_as_text_and_as_json(warehouse: Path) -> None:
    shown = run(warehouse, "explain", "shop.orders", "--filter", "dt = 'b'")
    assert shown.exit_code == 0, shown.output
    assert "shop.orders" in shown.output
    one = json.loads(run(warehouse, "explain", "shop.orders", "--json", "--filter", "dt = 'b'").output)
    everything = json.loads(run(warehouse, "explain", "shop.orders", "--json").output)
    assert one != everything
    assert "reading" not in one
    read = json.loads(run(warehouse, "explain", "shop.orders", "--json", "--analyze").output)
    assert read["reading"]["decoded"][0]["rows"] >= read["reading"]["rows"] > 0


def test_snapshots_are_listed_oldest_first(warehouse: Path) -> None:
    lines = run(warehouse, "snapshots", "shop.orders").output.splitlines()
    assert [line.split()[:2] for line in lines] == [["1", "APPEND"], ["2", "APPEND"]]
    found = json.loads(run(warehouse, "snapshots", "shop.orders", "--json").output)
    assert [s["id"] for s in found] == [1, 2]


def test_a_compaction_is_announced_before_it_is_done(warehouse: Path) -> None:
    planned = run(warehouse, "compact", "shop.orders", "--dry-run")
    assert "full (asked for)" in planned.output
    as_json = json.loads(run(warehouse, "compact", "shop.orders", "--dry-run", "--json").output)
    assert {plan["reason"] for plan in as_json} == {"full"}
    assert run(warehouse, "compact", "shop.orders", "--dry-run", "--minor").output == "nothing to compact\n"
    assert run(warehouse, "compact", "shop.orders", "--minor").output == "nothing to compact\n"


def test_a_partition_and_then_the_table_is_compacted(warehouse: Path) -> None:
    table = interbed.load_table(f"{warehouse}/shop.db/orders")
    one = run(warehouse, "compact", "shop.orders", "-p", "dt=a", "--json")
    assert one.exit_code == 0, one.output
    assert [s.commit_kind.value for s in table.snapshots()] == ["APPEND", "APPEND", "COMPACT"]
    everything = run(warehouse, "compact", "shop.orders")
    assert everything.exit_code == 0, everything.output
    assert {level.level for level in table.levels().levels if level.files} == {5}
    amounts: Any = table.scan().to_arrow()["amount"]
    assert sorted(amounts.to_pylist()) == [2.0, 3.0, 9.0]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["levels", "shop.nope"], 1, "shop.nope"),
        (["levels", "nope.orders"], 1, "nope"),
        (["levels", "orders"], 1, "lacks its database"),
        (["explain", "shop.orders", "--filter", "colour = 'red'"], 1, "colour"),
        (["explain", "shop.orders", "--filter", "id >"], 1, "id >"),
        (["compact", "shop.orders", "-p", "colour=red"], 1, "colour"),
        (["compact", "shop.orders", "-p", "dt"], 2, "dt"),
        (["compact", "shop.orders", "--bucket", "two"], 2, "two"),
        (["levels"], 2, "DATABASE.TABLE"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(warehouse: Path, arguments: list[str], code: int, message: str) -> None:
    result = run(warehouse, *arguments)
    assert (result.exit_code, "Traceback" in result.output) == (code, False)
    assert message in result.output
    assert isinstance(result.exception, SystemExit)
    assert len(interbed.load_table(f"{warehouse}/shop.db/orders").snapshots()) == 2


def test_invalid_options_of_the_catalog_are_named() -> None:
    for options, code, message in [
        (["-o", "warehouse"], 2, "KEY=VALUE"),
        (["-o", "colour=red"], 1, "colour"),
        ([], 1, "warehouse"),
        (["-o", "metastore=hive", "-o", "uri=thrift://127.0.0.1:1"], 1, "thrift://127.0.0.1:1"),
    ]:
        result = CliRunner().invoke(main, ["table", *options, "levels", "shop.orders"])
        assert (result.exit_code, message in result.output) == (code, True), result.output


def test_the_program_prints_its_version_and_its_commands() -> None:
    program = [sys.executable, "-W", "error", "-m", "interbed.cli"]
    version = subprocess.run([*program, "--version"], capture_output=True, text=True, timeout=at_most(60), check=True)
    assert version.stdout.strip() == f"interbed, version {interbed.__version__}"
    usage = subprocess.run([*program, "--help"], capture_output=True, text=True, timeout=at_most(60), check=True)
    assert {"server", "table"} <= set(usage.stdout.split())
    server = subprocess.run(
        [*program, "server", "--help"], capture_output=True, text=True, timeout=at_most(60), check=True
    )
    assert "127.0.0.1" in server.stdout


def test_a_server_starts_without_imports_for_tables_and_filters() -> None:
    program = """
import sys
from interbed.cli import main
assert main.get_command(None, "server").name == "server"
print(sorted({"pyarrow", "numpy", "lark", "alembic", "rich"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=at_most(60), check=True
    )
    assert done.stdout.strip() == "[]"


def test_help_imports_no_slow_modules() -> None:
    program = """
import contextlib, io, sys
import click
from interbed.cli import main

def ask(command, path):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        main.main([*path, "--help"], prog_name="interbed", standalone_mode=False)
    assert "Usage: interbed" in printed.getvalue(), path
    if isinstance(command, click.Group):
        context = click.Context(command)
        return 1 + sum(ask(command.get_command(context, n), [*path, n]) for n in command.list_commands(context))
    return 1

asked = ask(main, [])
assert asked > 60, asked
foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(sorted(name for name in foreign if not name.startswith("_")))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        text=True,
        timeout=at_most(60),
        check=False,
        env=unmeasured_environment(),
    )
    assert (done.stdout, done.stderr) == ("['click', 'interbed']\n", "")


def test_the_list_of_commands_describes_each() -> None:
    context = click.Context(main)
    listed = CliRunner().invoke(main, ["--help"]).output
    for name in main.list_commands(context):
        assert f"\n  {name} " in listed
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_choices_are_the_existing_values() -> None:
    def choices(command: click.Command, name: str) -> list[str]:
        [parameter] = [p for p in command.params if p.name == name]
        assert isinstance(parameter.type, click.Choice)
        return list(parameter.type.choices)

    assert choices(compaction, "keys") == list(KeyDistribution)
    assert choices(compaction, "inserts") == list(InsertOrder)
    assert choices(load, "form") == list(FORMATS)
