"""Selective reads: interbed against pypaimon-rust on the same files.

    python -m tests.benchmarks.selective [--rows 4000000]

The table is that of the main benchmark, a base, five upserts and a deletion, first not compacted and then compacted.
The reads are a range of 0.1 % of the keys, one key repeatedly, forty keys once each, ten keys at once, all by a filter,
and the first ten rows. For the filters the benchmark also shows the number of rows that interbed decodes for the rows
that it returns.
"""

import json
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

import interbed
from tests.benchmarks import lookup
from tests.benchmarks.command import run_alone
from tests.benchmarks.engines import show_pair
from tests.benchmarks.run_stage import Figures, better, stage

GOALS = {"key range": 1.5, "one key": 1.0}
STAGES = ("key range", "one key", "other keys", "ten keys", "first rows")
TABLE = lookup.TABLE
OPTIONS = {"bucket": "4", "write-only": "true"}
TURNS = 2


def measure(console: Console, rows: int = 4_000_000) -> dict[str, dict[str, Figures]]:
    """Return the figures by stage and engine."""
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory, warehouse = Path(temporary), Path(temporary) / "lake"
        with console.status(f"selective reads: making {rows:,} rows"):
            lookup.make(directory, warehouse, rows, OPTIONS)
        keys = random.Random(6).sample(range(rows), 10)
        facts: dict[str, Any] = {
            "key range": ["between", rows // 2, rows // 2 + rows // 1000 - 1],
            "one key": ["in", rows // 2],
            "other keys": random.Random(8).sample(range(rows), 41),
            "ten keys": ["in", *keys],
            "first rows": [10],
        }
        (directory / "facts.json").write_text(json.dumps(facts))
        found: dict[str, dict[str, Figures]] = {}
        _measure(console, directory, warehouse, "", found)
        _count(warehouse, facts, "", found)
        with console.status("selective reads: compacting"):
            catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
            catalog.get_table(TABLE).copy({"write-only": "false"}).compact(full=True)
        _measure(console, directory, warehouse, ", compacted", found)
        _count(warehouse, facts, ", compacted", found)
        return found


def _count(warehouse: Path, facts: Mapping[str, Any], suffix: str, found: dict[str, dict[str, Figures]]) -> None:
    """Add the rows that interbed decodes to the figures, by reason."""
    table = interbed.load_catalog("bench", warehouse=f"file:{warehouse}").get_table(TABLE)
    for name in STAGES:
        method, *keys = facts[name]
        if method in ("between", "in"):
            text = f"between {keys[0]} and {keys[1]}" if method == "between" else f"in ({', '.join(map(str, keys))})"
            reading = table.explain(f"id {text}", analyze=True).reading
            assert reading is not None
            found[name + suffix]["interbed"]["decoded"] = {part.reason: part.rows for part in reading.decoded}


def _measure(
    console: Console, directory: Path, warehouse: Path, suffix: str, found: dict[str, dict[str, Figures]]
) -> None:
    for _ in range(TURNS):
        for name in STAGES:
            for engine in ("interbed", "pypaimon-rust"):
                with console.status(f"{name}{suffix}: {engine}"):
                    figures = stage(engine, name, directory, warehouse, TABLE)
                known = found.setdefault(name + suffix, {})
                known[engine] = better(known.get(engine), figures)
    for name, figures_of in found.items():
        counts = {engine: figures["rows"] for engine, figures in figures_of.items()}
        if len(set(counts.values())) != 1:
            raise SystemExit(f"{name}: the engines found {counts} rows.")


def show(found: dict[str, dict[str, Figures]], console: Console) -> None:
    """Print the figures as a table."""
    show_pair("reads that ask for little", found, GOALS, console)
    for name, by_engine in found.items():
        for reason, rows in by_engine["interbed"].get("decoded", {}).items():
            returned = by_engine["interbed"]["rows"]
            console.print(f"{name}: {rows:,} rows of {reason}, {rows / max(returned, 1):,.0f} times those returned")


def as_json(found: dict[str, dict[str, Figures]]) -> Any:
    """Return the figures for `--json`."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=4_000_000)


if __name__ == "__main__":
    main()
