"""Compaction by interbed and by Java Paimon, of copies of one table.

    python -m tests.benchmarks.compaction [--rows 4000000] [--json]

Full compaction: a base, five upserts of a twentieth and a deletion of a fiftieth (tests/benchmarks/data.py) in four
buckets. Lookup changelog: the base at the highest level and one upsert above it, compacted with
`changelog-producer` = `lookup`, so that each key's older row is looked up. Figures are CPU seconds of all threads:
cold is the first compaction of a process, warm the least of the others. Both have to end with the same rows, and with
as many changelog records.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import interbed
from tests.benchmarks import data
from tests.support.peers_cache import built_once, fingerprint, java_jars, run

GOALS = {"full compaction": 3.0, "lookup changelog": 1.0}
"""Java's CPU seconds by ours, both warm."""
JAVA = Path(__file__).parent / "java" / "CompactBench.java"
REPEATS = 4
TIMEOUT_SECONDS = 1_800
OPTIONS = {"bucket": "4", "file.format": "parquet", "file.compression": "zstd", "write-only": "true"}
NAME = "t.t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """CPU seconds of the first compaction of a process and of the best later one."""

    cold: float
    warm: float

    @staticmethod
    def of(seconds: list[float]) -> "Figures":
        """The figures of compactions in turn."""
        return Figures(cold=seconds[0], warm=min(seconds[1:]))


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


def _copies(warehouse: Path, scratch: Path) -> list[Path]:
    copies = [scratch / f"copy-{i}" for i in range(2 * REPEATS)]
    for copy in copies:
        shutil.copytree(warehouse, copy, copy_function=_copy)
    return copies


def _copy(source: str, target: str) -> None:
    # No compaction changes a data file, so copies share them; hints at the newest snapshot are overwritten.
    (os.link if source.endswith(".parquet") else shutil.copyfile)(source, target)


def _ours(copies: list[Path], *, full: bool) -> list[float]:
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
    return _answer([sys.executable, "-c", program, "full" if full else "minor", *map(str, copies)])


def _java(copies: list[Path], scratch: Path, *, full: bool) -> list[float]:
    def build(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{java_jars()}/*", JAVA)

    classes = built_once(f"compact-bench-{fingerprint(JAVA)}", build)
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "java.lang", "sun.nio.ch")]
    return _answer(
        [
            *("java", "-Xms2g", "-Xmx4g", "-XX:+UseParallelGC", "-Xss4m", *opens),
            *("-cp", f"{classes}:{java_jars()}/*", "CompactBench", "full" if full else "minor", str(scratch / "spill")),
            *map(str, copies),
        ]
    )


def _answer(command: list[str]) -> list[float]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def _content(warehouse: Path, *, changelog: bool) -> tuple[int, int, int]:
    table = _table(warehouse)
    rows = table.scan(columns=["id", "amount"]).to_arrow()
    latest = table.latest_snapshot()
    records = latest.changelog_record_count or 0 if changelog else 0
    return rows.num_rows, sum(rows.column("amount").to_pylist()), records


def measure(console: Console, rows: int = 4_000_000) -> dict[str, tuple[Figures, Figures]]:
    """Ours and Java's figures; ends the program when the tables differ afterwards."""
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
                copies = _copies(scratch / "lake", scratch)
                ours, theirs = copies[:REPEATS], copies[REPEATS:]
                figures = (Figures.of(_ours(ours, full=full)), Figures.of(_java(theirs, root, full=full)))
            contents = [_content(c[-1], changelog=not full) for c in (ours, theirs)]
            if contents[0] != contents[1]:
                raise SystemExit(f"After the {name} our table has {contents[0]}, Java's {contents[1]}.")
            found[name] = figures
            shutil.rmtree(scratch)
    return found


def show(found: Mapping[str, tuple[Figures, Figures]], console: Console) -> None:
    """The figures as a table."""
    view = Table(title="Compaction: CPU seconds, warm (cold)", title_justify="left")
    for name in ("work", "interbed", "Java Paimon", "ratio warm", "ratio cold", "goal"):
        view.add_column(name, justify="left" if name == "work" else "right")
    for name, (ours, java) in found.items():
        cells = [f"{f.warm:.2f} ({f.cold:.2f})" for f in (ours, java)]
        ratios = [f"{java.warm / ours.warm:.2f}", f"{java.cold / ours.cold:.2f}"]
        view.add_row(name, *cells, *ratios, f"{GOALS[name]:.1f}")
    console.print(view)


def as_json(found: Mapping[str, tuple[Figures, Figures]]) -> dict[str, Any]:
    """The figures for a file."""
    sides = ("interbed", "java")
    return {
        name: {side: {"cold_cpu_s": f.cold, "warm_cpu_s": f.warm} for side, f in zip(sides, figures, strict=True)}
        for name, figures in found.items()
    }


def main() -> None:
    """Parse the command line, measure, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 160)
    found = measure(console, arguments.rows)
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


if __name__ == "__main__":
    main()
