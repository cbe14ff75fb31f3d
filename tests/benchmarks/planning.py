"""Planning a read of a table with many commits: interbed against pypaimon-rust on the same files.

    python -m tests.benchmarks.planning [--commits 500]

Each commit upserts a few rows of four buckets without compaction, so that the plan has four files for each commit.
`first plan` is the first one of a process, including the load of its code, `planning` the best later one. interbed
caches decoded manifests, as Paimon's caching catalog does.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

import interbed
from tests.benchmarks import data
from tests.benchmarks.command import run_alone
from tests.benchmarks.engines import show_pair
from tests.benchmarks.run_stage import Figures, better, stage

GOALS = {"planning": 2.0}
TABLE = "b.planning"
OPTIONS = {"bucket": "4", "write-only": "true"}
ROWS = 20
TURNS = 2


def measure(console: Console, commits: int = 500) -> dict[str, dict[str, Figures]]:
    """Return the figures by stage and engine."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory, warehouse = Path(temporary), Path(temporary) / "lake"
        with console.status(f"planning: making {commits} commits"):
            make(warehouse, commits)
        (directory / "facts.json").write_text(json.dumps({}))
        found: dict[str, dict[str, Figures]] = {}
        for _ in range(TURNS):
            for name in ("first plan", "planning"):
                for engine in ("interbed", "pypaimon-rust"):
                    with console.status(f"{name}: {engine}"):
                        figures = stage(engine, name, directory, warehouse, TABLE)
                    known = found.setdefault(name, {})
                    known[engine] = better(known.get(engine), figures)
        return found


def make(warehouse: Path, commits: int) -> None:
    """Create the table, and commit to it."""
    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("b")
    random = np.random.default_rng(3)
    first = data.rows_for(np.arange(ROWS), 0)
    table = catalog.create_table(TABLE, first.schema, primary_keys=["id"], options=OPTIONS)
    write, commit = table.new_write("bench"), table.new_commit("bench")
    with write:
        for number in range(commits):
            rows: pa.Table = data.rows_for(random.choice(10**6, ROWS, replace=False), number)
            write.write_arrow(rows)
            commit.commit(write.prepare_commit(), identifier=number)


def show(found: dict[str, dict[str, Figures]], console: Console) -> None:
    """Print the figures as a table."""
    show_pair("planning 500 commits", found, GOALS, console)


def as_json(found: dict[str, dict[str, Figures]]) -> Any:
    """Return the figures for `--json`."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=500, option="--commits")


if __name__ == "__main__":
    main()
