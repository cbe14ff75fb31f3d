"""A full compaction of a table on a disk, and of one in a directory that is as slow as a remote object store.

    python -m tests.benchmarks.stores_waiting --stage near|far WAREHOUSE TABLE WARMING_TABLE LATENCY PACE

Neither a store nor its client takes CPU time beside the compaction (tests/support/paced_files.py): the benchmark shows
how much of the waiting is hidden. Another table is compacted first, so that code is loaded.
"""

import argparse
import time
from pathlib import Path

from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.benchmarks.command import print_figures
from tests.support.paced_files import PacedFiles

PLACE = "s3://far"


def opened(stage: str, warehouse: Path, name: str, latency_seconds: float, bytes_per_second: float) -> Table:
    """Return the table on the disk, or in the slow directory."""
    path = name.replace(".", ".db/")
    if stage == "near":
        return Table(name, open_store(str(warehouse / path)))
    files = PacedFiles(PLACE, warehouse, latency_seconds=latency_seconds, bytes_per_second=bytes_per_second)
    return Table(name, open_store(f"{PLACE}/{path}", files))


def main() -> None:
    """Compact the small table, and then the measured table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", required=True, choices=["near", "far"])
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("table")
    parser.add_argument("warming")
    parser.add_argument("latency_seconds", type=float)
    parser.add_argument("bytes_per_second", type=float)
    given = parser.parse_args()
    model = (given.latency_seconds, given.bytes_per_second)
    warming = opened(given.stage, given.warehouse, given.warming, *model)
    warming.upsert(warming.scan().to_arrow())
    warming.compact(full=True)
    begun = time.perf_counter()
    done = opened(given.stage, given.warehouse, given.table, *model).compact(full=True)
    print_figures({"wall_s": time.perf_counter() - begun, "rows": float(done.snapshot_id or 0)})


if __name__ == "__main__":
    main()
