"""The cost of a table with many commits: a commit, a plan and a scan after 1 to 2,000 commits.

    python -m tests.benchmarks.commits [--commits 2000] [--json]

Each commit upserts 1,000 of 200,000 rows in 4 buckets. pypaimon-rust and interbed do the same work on tables without
compaction. pypaimon-rust makes only 500 commits, because the cost of its commits grows with their number. `interbed,
compacting` is the default: a writer that compacts when there are many runs.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.benchmarks.command import run_alone
from tests.benchmarks.engines import show_pair
from tests.benchmarks.run_stage import Figures, stage

COMMITS = 2_000
STEPS = (2, 10, 100, 500, 1_000, 2_000)
ENGINES = {"interbed": COMMITS, "pypaimon-rust": 500, "interbed, compacting": COMMITS}
"""Maximal number of commits of each engine."""


def measure(console: Console, commits: int = COMMITS) -> dict[str, dict[str, Figures]]:
    """Return the figures by stage and engine."""
    found: dict[str, dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory = Path(temporary)
        for number, (engine, most) in enumerate(ENGINES.items()):
            steps = [n for n in STEPS if n <= min(commits, most)]
            (directory / "facts.json").write_text(json.dumps({"commits": steps}))
            with console.status(f"{commits:,} commits: {engine}"):
                figures = stage(engine, "commits", directory, directory / "lake", f"b.t{number}")
            for name, of_stage in figures.items():
                if isinstance(of_stage, dict):
                    found.setdefault(name, {})[engine] = of_stage
    for name, by_engine in found.items():
        counts = {engine: figures["rows"] for engine, figures in by_engine.items()}
        if name.startswith("scan") and len(set(counts.values())) != 1:
            raise SystemExit(f"{name}: the engines found {counts} rows.")
    return found


def show(found: dict[str, dict[str, Figures]], console: Console) -> None:
    """Print the figures as a table."""
    show_pair("a table with many commits", found, {}, console)


def as_json(found: dict[str, dict[str, Figures]]) -> Any:
    """Return the figures for `--json`."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=COMMITS, option="--commits")


if __name__ == "__main__":
    main()
