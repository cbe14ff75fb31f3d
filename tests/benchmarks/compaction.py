"""Compaction by interbed and by Java Paimon, of copies of one table.

    python -m tests.benchmarks.compaction [--rows 4000000] [--json]

Full compaction: a base, five upserts of a twentieth and a deletion of a fiftieth (tests/benchmarks/data.py) in four
buckets. Lookup changelog: the base at the highest level and one upsert above it, compacted with
`changelog-producer` = `lookup`, so that each key's older row is looked up. Figures are CPU seconds of all threads:
cold is the first compaction of a process, warm the minimum of the others. Both must end with the same rows and the same
number of changelog records.
"""

import shutil
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
from tests.benchmarks.java_runs import Pair, RunFigures, copies_of, java, pairs_as_json, seconds_of, show_pairs

GOALS = {"full compaction": 3.0, "lookup changelog": 1.0}
"""Minimal ratio of Java's CPU seconds to ours, both warm."""
OPTIONS = {"bucket": "4", "file.format": "parquet", "file.compression": "zstd", "write-only": "true"}
NAME = "t.t"


def _table(warehouse: Path) -> Any:
    return interbed.load_catalog("bench", warehouse=f"file:{warehouse}").get_table(NAME)


def _make(warehouse: Path, files: Path, *, changelog: bool) -> None:
    catalog = interbed.load_catalog("bench", warehouse=f"file:{warehouse}")
    catalog.create_database("t")
    base = data.read(files / "base.arrow")
    options = {**OPTIONS, "changelog-producer": "lookup"} if changelog else OPTIONS
    table = catalog.create_table(NAME, base.schema, primary_keys=["id"], options=options)
    table.upsert(base)
    if changelog:
        table.compact(full=True)
        table.upsert(data.read(files / "upsert-0.arrow"))
        return
    for turn in range(data.UPSERTS):
        table.upsert(data.read(files / f"upsert-{turn}.arrow"))
    gone = data.read(files / "delete.arrow")
    table.write_changes(gone.append_column("_row_kind", pa.repeat(pa.scalar(3, pa.int8()), gone.num_rows)))


def _ours(copies: list[Path], kind: str) -> RunFigures:
    program = (
        "import json, sys, time, interbed\n"
        "seconds = []\n"
        "for warehouse in sys.argv[2:]:\n"
        "    start = time.process_time()\n"
        f"    table = interbed.load_catalog('bench', warehouse='file:' + warehouse).get_table('{NAME}')\n"
        "    table.compact(full=sys.argv[1] == 'full')\n"
        "    seconds.append(time.process_time() - start)\n"
        "print(json.dumps(seconds))\n"
    )
    return seconds_of([sys.executable, "-c", program, kind, *map(str, copies)])


def _content(warehouse: Path, *, changelog: bool) -> tuple[int, int, int]:
    table = _table(warehouse)
    rows = table.scan(columns=["id", "amount"]).to_arrow()
    latest = table.latest_snapshot()
    records = latest.changelog_record_count or 0 if changelog else 0
    return rows.num_rows, sum(rows.column("amount").to_pylist()), records


def measure(console: Console, rows: int = 4_000_000) -> dict[str, Pair]:
    """Return our figures and Java's. The program ends when the tables differ afterwards."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as directory:
        root = Path(directory)
        (root / "spill").mkdir()
        with console.status(f"making {rows:,} rows"):
            data.make(root, rows)
        for name in GOALS:
            full, scratch = name.startswith("full"), root / name.split()[0]
            scratch.mkdir()
            with console.status(f"{name} of {rows:,} rows"):
                _make(scratch / "lake", root, changelog=not full)
                ours, theirs = copies_of(scratch / "lake", scratch)
                kind = "full" if full else "minor"
                figures = (_ours(ours, kind), java("CompactBench", kind, root / "spill", *theirs))
            contents = [_content(c[-1], changelog=not full) for c in (ours, theirs)]
            if contents[0] != contents[1]:
                raise SystemExit(f"After the {name} our table has {contents[0]}, Java's {contents[1]}.")
            found[name] = figures
            shutil.rmtree(scratch)
    return found


def show(found: Mapping[str, Pair], console: Console) -> None:
    """Print the figures as a table."""
    show_pairs("Compaction", found, GOALS, console)


def as_json(found: Mapping[str, Pair]) -> Any:
    """Return the figures for `--json`."""
    return pairs_as_json(found)


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    run_alone(__doc__, measure, show, as_json, default=4_000_000)


if __name__ == "__main__":
    main()
