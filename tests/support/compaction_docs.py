"""The pictures of docs/compaction.md. `python -m tests.support.compaction_docs` draws them again."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import interbed
from interbed.storage.views.level_drawing import BucketTree
from interbed.storage.views.levels import TableLevels
from interbed.storage.views.simulate.simulation import plot_simulations
from interbed.storage.views.simulate.simulator import simulate
from interbed.storage.views.simulate.workload import KeyDistribution, Workload

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TRIGGER = "num-sorted-run.compaction-trigger"

_AGES_MILLIS = [1000 * seconds for seconds in (40, 95, 600, 1500, 5400, 90_000, 200_000)]


def two_buckets(warehouse: str) -> TableLevels:
    """Return the levels of a table with one compacted bucket and one bucket that waits for its compaction."""
    catalog = interbed.load_catalog(warehouse=warehouse)
    catalog.create_database("shop")
    columns: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("amount", pa.float64()), ("dt", pa.string())]
    schema = pa.schema(columns)
    options = {"bucket": "1", "target-file-size": "60 kb", "compaction.small-file-ratio": "0.1", "write-only": "true"}
    table = catalog.create_table(
        "shop.orders", schema, primary_keys=["dt", "id"], partition_keys=["dt"], options=options
    )
    random = np.random.default_rng(1)

    def write(rows: int, first: int, last: int, day: str) -> None:
        ids, amounts = random.integers(first, last, rows), random.random(rows)
        table.upsert(pa.table({"id": ids, "amount": amounts, "dt": [day] * rows}))

    for day, rows in (("2026-01-01", 18_000), ("2026-01-02", 9000)):
        write(rows, 0, 100_000, day)
        table.compact(partitions={"dt": day})
    for _ in range(5):
        write(1500, 0, 100_000, "2026-01-01")
    table.compact(full=False, partitions={"dt": "2026-01-01"})
    for first in (0, 60_000):
        write(500, first, first + 40_000, "2026-01-01")
    for step in range(6):
        write(900 - 100 * step, 10_000 * step, 10_000 * step + 45_000, "2026-01-02")
    levels = table.levels()
    return replace(levels, trees=tuple(_aged(tree, levels.seen_millis) for tree in levels.trees))


def _aged(tree: BucketTree, now_millis: int) -> BucketTree:
    """Return the tree with runs that seem to have been written over several days."""
    return replace(
        tree,
        runs=tuple(
            replace(run, files=tuple(replace(f, created_millis=now_millis - age) for f in run.files))
            for run, age in zip(tree.runs, _AGES_MILLIS, strict=False)
        ),
    )


def main() -> None:
    """Draw all pictures of the page."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as warehouse:
        two_buckets(warehouse).plot(IMAGES / "levels.svg")
    workload = Workload(commits=200, rows=5000, distribution=KeyDistribution.ZIPF)
    simulations = [simulate(workload, {TRIGGER: value}, label=f"{TRIGGER}={value}") for value in ("3", "5", "10")]
    plot_simulations(simulations, IMAGES / "triggers.svg")


if __name__ == "__main__":
    main()
