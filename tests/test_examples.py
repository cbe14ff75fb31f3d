"""The programs and the notebook in examples/ run, and print the promised results."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark.spark_process import driver_jvm
from tests.support.waits import at_most

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
TIMEOUT_SECONDS = at_most(600)


@pytest.mark.parametrize(
    ("program", "shows"),
    [
        ("change_stream.py", ["    1 ann 10.0 paid", "    -U 3 cid 30.0 new", "A restarted reader continues at 7."]),
        (
            "two_clients.py",
            ["    account 2: 550 in 10 deposits", "No deposit was lost, in 10 commits of two programs."],
        ),
        # The program starts its own Spark.
        pytest.param(
            "spark_merge.py",
            ["    4 dee 40", "    +U 2 25", "Python, without Spark: {'id': 2, 'customer': 'bob', 'amount': 25}"],
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_program_runs(program: str, shows: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error"}
    if program == "spark_merge.py":
        # PySpark leaves sockets to the garbage collector.
        environment["PYTHONWARNINGS"] = "default"
        environment["JDK_JAVA_OPTIONS"] = driver_jvm()
    command = [sys.executable, str(EXAMPLES / program), "--keep", str(tmp_path / "lake")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert [line for line in shows if line not in lines] == [], done.stdout


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; return the value of its last line, None if that is no expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "analysis.ipynb", "exec"), names)
        return None
    del tree.body[-1]
    exec(compile(tree, "analysis.ipynb", "exec"), names)
    return eval(compile(ast.Expression(last.value), "analysis.ipynb", "eval"), names)


def test_the_notebook_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((EXAMPLES / "analysis.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells), "clear the outputs"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    names: dict[str, Any] = {}
    values = [run_cell("".join(cell["source"]), names) for cell in cells]
    printed = capsys.readouterr().out
    assert values[3][1]
    assert {runs for _, _, _, runs, _ in values[4]} == {3}
    assert {runs for _, _, _, runs, _ in values[5]} == {1}
    assert values[6] == 2000
    assert "partitions" in printed
    assert "42 files became 14" in printed
