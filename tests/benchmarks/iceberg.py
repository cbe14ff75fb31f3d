"""Reads of Iceberg tables with deletes: interbed, pyiceberg, and Iceberg's own code in Spark, on the same files.

    python -m tests.benchmarks.iceberg [--rows 4000000] [--json]

The tables are those of tests/benchmarks/iceberg_tables.py. pyiceberg reads no equality deletes, so it is measured on
the table without them. Each engine is a separate process that is warmed up before a read counts. The engines alternate,
and the minimum of each figure counts. CPU seconds are those of all threads and processes of an engine, without its
start. The rows go to the cheapest target of each engine: Arrow batches that are dropped, in Spark the sink `noop`. A
ratio is the peer's seconds over interbed's: above 1 interbed is faster.
"""

from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.command import Figures, in_process, run_alone
from tests.benchmarks.engines import ratio_text
from tests.benchmarks.iceberg_scans import QUERIES
from tests.benchmarks.iceberg_tables import written_tables
from tests.benchmarks.spark_figures import least

MODULE = "tests.benchmarks.iceberg_scans"
TURNS = 2
TIMEOUT_SECONDS = 900
ENGINES = {
    ("all deletes", "interbed"): None,
    ("all deletes", "Spark"): 1.5,
    ("position deletes", "interbed"): None,
    ("position deletes", "Spark"): 1.5,
    ("position deletes", "pyiceberg"): 2.0,
}
"""Engines of each table, and the minimal ratio for a release."""

Found = dict[str, dict[str, Figures]]


def measure(console: Console, rows: int = 4_000_000) -> Found:
    """Return the figures by stage (a query of a table) and engine."""
    with console.status(f"Iceberg: making {rows:,} rows"):
        tables = written_tables(rows)
    runs: dict[str, dict[str, list[Figures]]] = {}
    for _ in range(TURNS):
        for kind, engine in ENGINES:
            with console.status(f"Iceberg, {kind}: {engine}"):
                source = tables.names[kind] if engine == "Spark" else tables.metadata[kind]
                figures: dict[str, Any] = in_process(MODULE, engine, source, tables.warehouse, timeout=TIMEOUT_SECONDS)
            for query in QUERIES:
                runs.setdefault(f"{kind}: {query}", {}).setdefault(engine, []).append(figures[query])
    found = {stage: {name: least(figures) for name, figures in engines.items()} for stage, engines in runs.items()}
    for stage, by_engine in found.items():
        counts = {engine: figures["rows"] for engine, figures in by_engine.items()}
        if len(set(counts.values())) != 1:
            raise SystemExit(f"Iceberg, {stage}: the engines found {counts} rows.")
    return found


def show(found: Found, console: Console) -> None:
    """Print the figures as a table."""
    names = list(dict.fromkeys(engine for _, engine in ENGINES))
    view = Table(
        title="Iceberg tables with deletes: CPU seconds (wall seconds); ratios are peer / interbed, CPU (wall)",
        title_justify="left",
    )
    view.add_column("stage")
    for name in names:
        view.add_column(name, justify="right")
    for name in names[1:]:
        view.add_column(f"ratio to {name}", justify="right")
        view.add_column("goal", justify="right")
    view.add_column("rows", justify="right")
    for stage, figures in found.items():
        kind, ours = stage.partition(":")[0], figures[names[0]]
        cells = [f"{f['cpu_s']:.2f} ({f['wall_s']:.2f})" if (f := figures.get(name)) else "–" for name in names]
        for name in names[1:]:
            known = figures.get(name)
            cells += ["–", ""] if known is None else [ratio_text(known, ours), f"{ENGINES[kind, name]:.1f}"]
        view.add_row(stage, *cells, f"{ours['rows']:,.0f}")
    console.print(view)


def as_json(found: Found) -> Found:
    """Return the figures for `--json`."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=4_000_000)


if __name__ == "__main__":
    main()
