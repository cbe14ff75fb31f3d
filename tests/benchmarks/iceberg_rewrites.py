"""Maintenance of Iceberg tables: interbed's compaction against Iceberg's procedures in Spark, on the same files.

    python -m tests.benchmarks.iceberg_rewrites [--rows 4000000] [--json]

The tables are those of tests/benchmarks/iceberg_tables.py. A minor compaction, which turns keys into positions, is
compared with `rewrite_data_files`, Iceberg's only remedy for equality deletes; a full one with `rewrite_data_files` of
all files; and a minor one of position deletes with `rewrite_position_delete_files`. Each engine is warmed up before a
run counts, and the table is restored after each. A ratio is Spark's seconds over interbed's: above 1 interbed is
faster. The last columns are the times of interbed's reads of the table afterwards.
"""

from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.command import Figures, in_process, run_alone
from tests.benchmarks.engines import ratio_text
from tests.benchmarks.iceberg_tables import written_tables

MODULE = "tests.benchmarks.iceberg_jobs"
TIMEOUT_SECONDS = 1800
STAGES = {
    "keys to positions": ("all deletes", "keys"),
    "rewrite all": ("all deletes", "rewrite"),
    "positions together": ("position deletes", "positions"),
}
"""Table and job of each stage."""
GOAL = 3.0

Found = dict[str, dict[str, Figures]]


def measure(console: Console, rows: int = 4_000_000) -> Found:
    """Return the figures by stage and engine."""
    with console.status(f"Iceberg: making {rows:,} rows"):
        tables = written_tables(rows)
    found: Found = {}
    for stage, (kind, job) in STAGES.items():
        directory = tables.metadata[kind].removeprefix("file:").partition("/metadata/")[0]
        for engine in ("interbed", "Spark"):
            with console.status(f"Iceberg, {stage}: {engine}"):
                figures: dict[str, Any] = in_process(
                    MODULE, engine, tables.names[kind], directory, tables.warehouse, job, timeout=TIMEOUT_SECONDS
                )
            found.setdefault(stage, {})[engine] = figures
        counts = {engine: figures["rows"] for engine, figures in found[stage].items()}
        if len(set(counts.values())) != 1:
            raise SystemExit(f"Iceberg, {stage}: the table has {counts} rows afterwards.")
    return found


def show(found: Found, console: Console) -> None:
    """Print the figures as a table."""
    view = Table(
        title="Iceberg tables kept fast: CPU seconds (wall seconds); ratios are Spark / interbed, CPU (wall)",
        title_justify="left",
    )
    view.add_column("stage")
    for name in ("interbed", "Spark", "ratio", "goal", "then read, after interbed", "after Spark"):
        view.add_column(name, justify="right")
    for stage, figures in found.items():
        ours, theirs = figures["interbed"], figures["Spark"]
        view.add_row(
            stage,
            *(f"{f['cpu_s']:.2f} ({f['wall_s']:.2f})" for f in (ours, theirs)),
            ratio_text(theirs, ours),
            f"{GOAL:.1f}",
            *(f"{f['read_cpu_s']:.2f} ({f['read_wall_s']:.2f})" for f in (ours, theirs)),
        )
    console.print(view)


def as_json(found: Found) -> Found:
    """Return the figures for `--json`."""
    return found


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=4_000_000)


if __name__ == "__main__":
    main()
