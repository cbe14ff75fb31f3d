"""First calls: interbed against pypaimon-rust, from the start of a process to its end.

    python -m tests.benchmarks.first_calls [--rows 1000000]

The measurement includes loading libraries. CPU seconds are those of the whole process, whose modules are compiled as
pip leaves them. The table is that of the lookups (a base, five upserts, a deletion, 4 buckets), compacted. The command
line has goals instead of a peer.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import interbed
from tests.benchmarks import lookup
from tests.benchmarks.command import run_alone
from tests.benchmarks.engines import show_pair
from tests.benchmarks.run_stage import Figures, better
from tests.support.peers.cache import pypaimon_python

OPEN = {
    "interbed": "import interbed; t = interbed.load_catalog(warehouse={warehouse!r}).get_table('b.lookup'); n = 1",
    "pypaimon-rust": (
        "from pypaimon_rust.datafusion import PaimonCatalog; "
        "t = PaimonCatalog({{'warehouse': {warehouse!r}}}).get_table(('b', 'lookup')); n = 1"
    ),
}
_FILTERED = ".with_filter({{'method': 'equal', 'field': 'id', 'literals': [{key}]}})"
_READ = "n = sum(b.num_rows for b in r.new_read().read(r.new_scan().plan().splits()))"
CALLS = {
    "open": {"interbed": "", "pypaimon-rust": ""},
    "plan": {
        "interbed": "; t.scan(filter='id = {key}').plan",
        "pypaimon-rust": f"; t.new_read_builder({{{{}}}}){_FILTERED}.new_scan().plan()",
    },
    "one row": {
        "interbed": "; n = len([t.get({key})])",
        "pypaimon-rust": f"; r = t.new_read_builder({{{{}}}}){_FILTERED}; {_READ}",
    },
    "ten rows": {
        "interbed": "; n = t.scan(limit=10).to_arrow().num_rows",
        "pypaimon-rust": f"; r = t.new_read_builder({{{{}}}}).with_limit(10); {_READ}; n = min(n, 10)",
    },
}
GOALS = dict.fromkeys(CALLS, 1.0)
COMMANDS = {"interbed --help": 0.3, "interbed table head": 0.8}
"""Limits of the CPU seconds of the commands."""
TURNS = 5


def measure(console: Console, rows: int = 1_000_000) -> dict[str, dict[str, Figures]]:
    """Return the figures by call and engine, and of the commands."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory, warehouse = Path(temporary), Path(temporary) / "lake"
        with console.status(f"first calls: making {rows:,} rows"):
            lookup.make(directory, warehouse, rows, {"bucket": "4", "write-only": "true"})
            catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
            catalog.get_table(lookup.TABLE).copy({"write-only": "false"}).compact(full=True)
        pythons = {"interbed": sys.executable, "pypaimon-rust": str(pypaimon_python())}
        environment = _compiled(directory / "bytecode")
        found: dict[str, dict[str, Figures]] = {}
        for _ in range(TURNS):
            for name, by_engine in CALLS.items():
                for engine, call in by_engine.items():
                    code = (OPEN[engine] + call).format(warehouse=str(warehouse), key=rows // 2) + "; print(n)"
                    with console.status(f"{name}: {engine}"):
                        _keep(found, name, engine, [pythons[engine], "-c", code], environment)
            program = [str(Path(sys.executable).with_name("interbed"))]
            _keep(found, "interbed --help", "interbed", [*program, "--help"], environment)
            head = [*program, "table", "head", lookup.TABLE, "-o", f"warehouse={warehouse}"]
            _keep(found, "interbed table head", "interbed", head, environment)
        return found


def _compiled(bytecode: Path) -> dict[str, str]:
    """Return an environment in which each process finds compiled modules; the first process compiles them.

    pip compiles installed packages. An editable install is compiled at its first use or, if the environment forbids to
    write bytecode, in each process again. Compiled modules of the peer, which is not editable, would then be compared
    with our source text.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(bytecode)}


def _keep(
    found: dict[str, dict[str, Figures]], name: str, engine: str, command: list[str], environment: dict[str, str]
) -> None:
    known = found.setdefault(name, {})
    known[engine] = better(known.get(engine), _process(command, environment))


def _process(command: list[str], environment: dict[str, str]) -> Figures:
    """Return CPU and wall seconds of a process from its start to its end, and the last number of its output."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {text[-2000:]}")
    last = text.split()[-1]
    return {"cpu_s": usage.ru_utime + usage.ru_stime, "wall_s": wall, "rows": int(last) if last.isdigit() else 0}


def show(found: dict[str, dict[str, Figures]], console: Console) -> None:
    """Print the figures as tables."""
    show_pair("first calls, whole processes", {name: found[name] for name in CALLS}, GOALS, console)
    view = Table(title="commands: CPU s (wall s)", title_justify="left")
    for column in ("command", "interbed", "goal"):
        view.add_column(column)
    for name, goal in COMMANDS.items():
        ours = found[name]["interbed"]
        view.add_row(name, f"{ours['cpu_s']:.2f} ({ours['wall_s']:.2f})", f"≤ {goal}")
    console.print(view)


def as_json(found: dict[str, dict[str, Figures]]) -> Any:
    """Return the figures for `--json`."""
    return {f"first calls: {name}": by_engine for name, by_engine in found.items()}


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=1_000_000)


if __name__ == "__main__":
    main()
