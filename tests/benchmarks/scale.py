"""The cost of a growing table: CPU per row, and peaks of memory, from 4 to 100 million rows.

    python -m tests.benchmarks.scale [--rows 4000000 100000000] [--directory …] [--json]

Each table has one bucket per four million rows, at least four. It is written in one commit, a twentieth of it is
upserted twice, and then it is read and compacted. Each stage is a separate process. Costs that grow with the rows are
shown per million rows; the plan and a range of 4,000 keys are not. 100 million rows take 35 GB of disk. A given
directory keeps tables and figures, and stages with figures are not measured again.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as View

import interbed
from interbed.storage.table.table import Table
from tests.benchmarks.command import Figures, in_process, print_figures
from tests.benchmarks.data import rows_for

ROWS = (4_000_000, 20_000_000, 100_000_000)
ROWS_OF_A_BUCKET = 4_000_000
BATCH_ROWS = 250_000
UPSERTS = 2
RANGE_KEYS = 4_000
GROWTH = 1.2
"""Maximal ratio of the cost per row in the largest table to that in the smallest."""
LIMITS_MB = {"base write": 800 + 256, "upsert": 800 + 256, "full scan": 600, "compaction": 800}
"""Limits of memory; writers may take 800 MB beside their buffer, which is 256 MB by default."""
TIMEOUT_SECONDS = 7200
MODULE = "tests.benchmarks.scale"
SCHEMA = pa.schema([f.with_nullable(f.name != "id") for f in rows_for(np.arange(1), 0).schema])


def _table(warehouse: str) -> Table:
    return interbed.load_catalog("bench", warehouse=f"file:{warehouse}").get_table("b.t")


def make_rows(directory: str, rows: int) -> Figures:
    """Write the input rows of all writes to Arrow files, so that their generation is not measured with the writes."""
    random = np.random.default_rng(7)
    # A permutation of 100M keys in batches; each batch has keys of the whole range.
    step = next(s for s in range(int(rows * 0.618) | 1, rows, 2) if np.gcd(s, rows) == 1)
    ids: Iterator[np.ndarray] = (
        (np.arange(start, min(start + BATCH_ROWS, rows)) * step) % rows for start in range(0, rows, BATCH_ROWS)
    )
    _write(Path(directory) / "base.arrow", ids)
    for number in range(UPSERTS):
        size = rows // 20
        upserted: Iterator[np.ndarray] = (
            random.choice(rows, min(BATCH_ROWS, size - start), replace=False) for start in range(0, size, BATCH_ROWS)
        )
        _write(Path(directory) / f"upsert-{number}.arrow", upserted)
    catalog = interbed.load_catalog("bench", warehouse=f"file:{directory}/lake")
    catalog.create_database("b")
    options = {"bucket": str(max(4, rows // ROWS_OF_A_BUCKET)), "write-only": "true"}
    catalog.create_table("b.t", SCHEMA, primary_keys=["id"], options=options)
    return {"rows": rows}


def _write(path: Path, ids: Iterator[np.ndarray]) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for number, some in enumerate(ids):
            writer.write_table(rows_for(some, number).cast(SCHEMA))


def _upsert(directory: str, name: str) -> Figures:
    table = _table(f"{directory}/lake")
    rows = 0
    # Not memory-mapped: read pages of a mapped file would count as memory of this process.
    with pa.OSFile(f"{directory}/{name}.arrow", "rb") as source, table.new_write("bench") as write:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            rows += batch.num_rows
            write.write_arrow(pa.Table.from_batches([batch]))
        table.new_commit("bench").commit(write.prepare_commit())
    Path(f"{directory}/{name}.arrow").unlink()
    return {"rows": rows}


def base_write(directory: str, rows: int) -> Figures:
    """Write all rows in one commit."""
    del rows
    return _upsert(directory, "base")


def upsert(directory: str, rows: int) -> Figures:
    """Upsert a twentieth of the rows twice, in a commit each."""
    del rows
    return {"rows": sum(_upsert(directory, f"upsert-{n}")["rows"] for n in range(UPSERTS))}


def plan(directory: str, rows: int) -> Figures:
    """Plan a read of the whole table."""
    del rows
    return {"files": sum(len(split.files) for split in _table(f"{directory}/lake").access.plan().splits)}


def key_range(directory: str, rows: int) -> Figures:
    """Read a range of keys."""
    found = _table(f"{directory}/lake").scan(filter=f"id between {rows // 2} and {rows // 2 + RANGE_KEYS - 1}")
    return {"found": found.to_arrow().num_rows}


def full_scan(directory: str, rows: int) -> Figures:
    """Read all rows merged, and drop each batch."""
    del rows
    batches = _table(f"{directory}/lake").scan().to_arrow_batch_reader()
    return {"rows": sum(batch.num_rows for batch in batches)}


def compaction(directory: str, rows: int) -> Figures:
    """Compact all runs of each bucket into one."""
    del rows
    result = _table(f"{directory}/lake").compact(full=True)
    return {"rows": result.rows_after}


_AFTER = " after it"
STAGES: dict[str, Callable[[str, int], Figures]] = {
    "rows": make_rows,
    "base write": base_write,
    "upsert": upsert,
    "plan": plan,
    "key range": key_range,
    "full scan": full_scan,
    "compaction": compaction,
    f"plan{_AFTER}": plan,
    f"key range{_AFTER}": key_range,
    f"full scan{_AFTER}": full_scan,
}


def measure(
    console: Console, directory: Path | None = None, sizes: Sequence[int] = ROWS
) -> dict[str, dict[int, Figures]]:
    """Return the figures by stage and number of rows. Without a directory the tables are temporary."""
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
            return measure(console, Path(temporary), sizes)
    found: dict[str, dict[int, Figures]] = {}
    for rows in sizes:
        place = directory / str(rows)
        place.mkdir(parents=True, exist_ok=True)
        known = place / "figures.json"
        done: dict[str, Figures] = json.loads(known.read_text()) if known.exists() else {}
        for stage in STAGES:
            if stage not in done:
                with console.status(f"{rows:,} rows: {stage}"):
                    done[stage] = in_process(MODULE, stage, place, "--rows", rows, timeout=TIMEOUT_SECONDS)
                known.write_text(json.dumps(done))
            if stage != "rows":
                found.setdefault(stage, {})[rows] = done[stage]
    return found


def show(found: dict[str, dict[int, Figures]], console: Console) -> None:
    """Print the figures as a table."""
    sizes = sorted({rows for figures in found.values() for rows in figures})
    view = View(title="A table that grows: CPU s for a million rows (of plans and ranges: in all), peak MB")
    view.add_column("stage")
    for rows in sizes:
        view.add_column(f"{rows / 1e6:g}M", justify="right")
    view.add_column("growth", justify="right")
    view.add_column("goal", justify="right")
    for stage, figures in found.items():
        costs = [_cost(figures[rows]) for rows in sizes]
        cells = [f"{c:.3f} ({figures[r]['peak_mb']:,.0f})" for c, r in zip(costs, sizes, strict=True)]
        limit = LIMITS_MB.get(stage.removesuffix(_AFTER))
        goal = f"{GROWTH}x, {limit} MB" if limit is not None else ""
        view.add_row(stage, *cells, f"{costs[-1] / costs[0]:.2f}x", goal)
    console.print(view)


def _cost(figures: Figures) -> float:
    return figures["cpu_s"] / (figures["rows"] / 1e6 if "rows" in figures else 1)


def as_json(found: dict[str, dict[int, Figures]]) -> dict[str, dict[str, Figures]]:
    """Return the figures as a JSON object."""
    return {stage: {str(rows): f for rows, f in figures.items()} for stage, figures in found.items()}


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--directory", type=Path, help="where the tables are made; a temporary one by default")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stage", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        stage, directory = arguments.stage
        print_figures(STAGES[stage](directory, arguments.rows[0]))
        return
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 120)
    found = measure(console, arguments.directory, arguments.rows)
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


if __name__ == "__main__":
    main()
