"""Dynamic buckets, and a rescale, by interbed and by Java Paimon on copies of one warehouse.

    python -m tests.benchmarks.buckets [--rows 1000000] [--json]

Dynamic write: the base rows of the main benchmark into an empty table whose buckets hold a twentieth of them each, then
an upsert of a twentieth, whose keys are looked up in the hash indexes. Rescale: a base, five upserts and a deletion in
four buckets become eight buckets. Both engines have their rows in memory before a write is measured, and must end with
the same rows. Figures are CPU seconds of all threads. Java writes row by row, as its writers do.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

import interbed
from tests.benchmarks import data
from tests.benchmarks.command import run_alone
from tests.benchmarks.java_runs import Pair, copies_of, java, pairs_as_json, seconds_of, show_pairs

GOALS = {"dynamic buckets: write": 2.0, "rescale": 2.0}
"""Minimal ratio of Java's CPU seconds to ours, both warm."""
OPTIONS = {"file.format": "parquet", "file.compression": "zstd", "write-only": "true"}
_PROGRAM = """
import json, sys, time, interbed
seconds = []
for warehouse in sys.argv[2:]:
    catalog = interbed.load_catalog("bench", warehouse="file:" + warehouse)
    names = ("base", "changes") if sys.argv[1] == "dynamic" else ()
    commits = [catalog.get_table(f"b.{name}").scan().to_arrow() for name in names]
    start = time.process_time()
    for rows in commits:
        catalog.get_table("b.target").upsert(rows)
    if not commits:
        catalog.get_table("b.target").maintenance.rescale(8)
    seconds.append(time.process_time() - start)
print(json.dumps(seconds))
"""


def _make(warehouse: Path, files: Path, *, dynamic: bool) -> None:
    """Create b.target, and for writes the input rows in tables of one bucket."""
    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("b")
    base = data.read(files / "base.arrow")
    if dynamic:
        share = {"bucket": "-1", "dynamic-bucket.target-row-num": str(max(base.num_rows // 20, 1))}
        catalog.create_table("b.target", base.schema, primary_keys=["id"], options={**OPTIONS, **share})
        for name, rows in (("base", base), ("changes", data.read(files / "upsert-0.arrow"))):
            # Append tables keep the order of their rows.
            catalog.create_table(f"b.{name}", base.schema, options={"bucket": "-1"}).append(rows)
        return
    table = catalog.create_table("b.target", base.schema, primary_keys=["id"], options={**OPTIONS, "bucket": "4"})
    table.upsert(base)
    for turn in range(data.UPSERTS):
        table.upsert(data.read(files / f"upsert-{turn}.arrow"))
    gone = data.read(files / "delete.arrow")
    table.write_changes(gone.append_column("_row_kind", pa.repeat(pa.scalar(3, pa.int8()), gone.num_rows)))


def _content(warehouse: Path) -> tuple[int, int, int]:
    """Return the number of rows, the sum of a column, and the number of buckets."""
    table = interbed.load_catalog("bench", warehouse=f"file:{warehouse}").get_table("b.target")
    rows = table.scan(columns=["amount"]).to_arrow()
    buckets = {split.bucket for split in table.new_scan().plan().splits}
    amounts: Any = rows.column("amount").to_pylist()
    return rows.num_rows, sum(amounts), len(buckets)


def measure(console: Console, rows: int = 1_000_000) -> dict[str, Pair]:
    """Return our figures and Java's. The program ends when the tables differ afterwards."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as directory:
        root = Path(directory)
        (root / "spill").mkdir()
        with console.status(f"making {rows:,} rows"):
            data.make(root, rows)
        for name in GOALS:
            kind = name.split()[0]
            scratch = root / kind
            scratch.mkdir()
            with console.status(f"{name}: {rows:,} rows"):
                _make(scratch / "lake", root, dynamic=kind == "dynamic")
                ours, theirs = copies_of(scratch / "lake", scratch)
                figures = (
                    seconds_of([sys.executable, "-c", _PROGRAM, kind, *map(str, ours)]),
                    java("BucketsBench", kind, root / "spill", *theirs),
                )
            contents = [_content(copies[-1]) for copies in (ours, theirs)]
            if contents[0] != contents[1]:
                raise SystemExit(f"After '{name}' our table has {contents[0]}, Java's {contents[1]}.")
            found[name] = figures
    return found


def show(found: Mapping[str, Pair], console: Console) -> None:
    """Print the figures as a table."""
    show_pairs("Buckets", found, GOALS, console)


def as_json(found: Mapping[str, Pair]) -> Any:
    """Return the figures for `--json`."""
    return pairs_as_json(found)


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=1_000_000)


if __name__ == "__main__":
    main()
