"""The process that forks workers has loaded their modules, and runs no threads."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import interbed
from tests.support.waits import at_most

PROGRAM = """
import os, sys
from interbed.spark_ext.process import daemon
daemon.preload()
ours = ("interbed.spark_ext.process.planner", "interbed.spark_ext.read.reader")
print(*(name in sys.modules for name in (*ours, "pandas")))
print(*(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")))
known = set(sys.modules)
import interbed
catalog = interbed.load_catalog(warehouse=sys.argv[1])
for name in ("plain", "kept", "looked", "stripes"):
    table = catalog.get_table(f"d.{name}")
    rows = table.scan().to_arrow()
    table.upsert(rows)
    table.compact()
print(*sorted(name for name in set(sys.modules) - known if name.startswith(("interbed", "numpy"))))
import pandas
"""
TABLES = {
    "plain": {},
    "kept": {"deletion-vectors.enabled": "true", "file.format": "avro"},
    "looked": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    "stripes": {"merge-engine": "aggregation", "file.format": "orc", "bucket": "-1"},
}


def test_workers_are_forked_with_their_modules_and_without_threads(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    rows = pa.table({"id": [1, 2], "v": ["a", "b"]})
    for name, options in TABLES.items():
        table = catalog.create_table(f"d.{name}", rows.schema, primary_keys=["id"], options={"bucket": "1", **options})
        table.upsert(rows)

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=at_most(120), check=True
    )

    loaded, threads, later = done.stdout.split("\n")[:3]
    assert loaded == "True True False"
    # jemalloc's own thread supports forks.
    assert set(threads.split()[1:]) <= {"jemalloc_bg_thd"}
    # Modules that a task would load after each fork.
    assert later == ""
