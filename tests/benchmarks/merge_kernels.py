"""The merge alone, without files: runs in memory through Java Paimon's loser tree and through ours, one thread each.

    python -m tests.benchmarks.merge_kernels [--rows 2000000] [--runs 6] [--only NAME] [--profile] [--json]

A run has each key with a probability of one half, so that a key has three rows on average; a quarter of the values are
null. Both sides compute the rows by the same formula and sum up the results, which must agree. Java runs in a separate
warmed-up JVM for each case (tests/benchmarks/java/MergeBench.java), with C2. Figures are CPU seconds, the minimum of
several repetitions, and million input rows per CPU second.
"""

import argparse
import cProfile
import json
import pstats
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.sort_merge import MergePlan, RunBatch, RunInput, merge_runs
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import Schema
from tests.support.peers.cache import built_once, fingerprint, java_jars, run

GOAL = 3.0
JAVA = Path(__file__).parent / "java" / "MergeBench.java"
JAVA_REPEATS = 8
REPEATS = 5
TIMEOUT_SECONDS = 600
PAYLOAD = {"a": "long", "b": "long", "d": "double", "text": "text", "wide": "text"}
GROUPED = {"seq1": "sequence", "seq2": "sequence", **PAYLOAD}
GROUPS = {"merge-engine": "partial-update", "fields.seq1.sequence-group": "a,b", "fields.seq2.sequence-group": "d,wide"}
_TYPES: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "sequence": pa.int64(),
    "double": pa.float64(),
    "text": pa.string(),
    "array": pa.list_(pa.int32()),
}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)

Numbers = npt.NDArray[np.uint64]


def _functions(**by_column: str) -> dict[str, str]:
    functions = {f"fields.{column}.aggregate-function": function for column, function in by_column.items()}
    return {"merge-engine": "aggregation", **functions}


CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "deduplicate": (PAYLOAD, {}),
    "first-row": (PAYLOAD, {"merge-engine": "first-row"}),
    "partial-update": (PAYLOAD, {"merge-engine": "partial-update"}),
    "sequence groups": (GROUPED, GROUPS),
    "groups with aggregates": (
        GROUPED,
        {**GROUPS, "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"},
    ),
    "sum, max, last": (PAYLOAD, _functions(a="sum", b="max", d="sum")),
    "product, first, text max": (
        PAYLOAD,
        _functions(a="product", b="first_value", d="first_non_null_value", text="max", wide="min"),
    ),
    "listagg": ({"text": "text"}, _functions(text="listagg")),
    "collect": ({"l": "array"}, _functions(l="collect")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFigures:
    """Figures of one side: CPU seconds, input rows, and sums over the result by column."""

    cpu_s: float
    rows: int
    sums: Mapping[str, int]

    @property
    def rate(self) -> float:
        """Million input rows per CPU second."""
        return self.rows / self.cpu_s / 1e6


def _mix(numbers: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        z = numbers * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def make_runs(columns: Mapping[str, str], runs: int, rows: int) -> list[pa.RecordBatch]:
    """Return one batch per run, with the column `id` and the given columns, by name and kind."""
    keys = np.arange(2 * rows // runs, dtype=np.uint64)
    made = []
    for number in range(runs):
        own = keys[(_mix(keys * np.uint64(64) + np.uint64(number)) & np.uint64(1)) == 0]
        seeds = (own * np.uint64(64) + np.uint64(number)) * np.uint64(16)
        arrays: dict[str, Any] = {"id": pa.array(own.astype(np.int64))}
        for place, (name, kind) in enumerate(columns.items(), 1):
            arrays[name] = _column(name, kind, _mix(seeds + np.uint64(place + (1 << 50))))
        fields = [pa.field(n, a.type, nullable=n != "id") for n, a in arrays.items()]
        made.append(pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields)))
    return made


def _column(name: str, kind: str, mixed: Numbers) -> "pa.Array[Any]":
    missing = (mixed & np.uint64(3)) == 0
    numbers = (mixed >> np.uint64(40)).astype(np.int64)
    if kind in ("long", "sequence"):
        return pa.array(numbers, mask=None if kind == "sequence" else missing)
    if kind == "double":
        return pa.array(numbers.astype(np.float64), mask=missing)
    nulls: Any = pa.array(missing)
    if kind == "array":
        sizes = np.where(missing, 0, numbers % 4)
        ends = np.cumsum(sizes)
        elements = np.repeat(numbers - ends + sizes, sizes) + np.arange(int(ends[-1]))
        offsets = np.concatenate(([0], ends)).astype(np.int32)
        starts: Any = pa.array(offsets, mask=np.append(missing, False))
        return pa.ListArray.from_arrays(starts, pa.array(elements.astype(np.int32)))
    shifts = np.arange(60, -4, -4, dtype=np.uint64)
    digits = _HEX[((mixed[:, None] >> shifts) & np.uint64(15)).astype(np.int64)]
    if name.startswith("wide"):
        digits = np.tile(digits, 4)
    ends = np.arange(len(mixed) + 1, dtype=np.int32) * digits.shape[1]
    texts = pa.StringArray.from_buffers(len(mixed), pa.py_buffer(ends), pa.py_buffer(digits.tobytes()))
    # Nulls take no bytes, as in a column of a file reader.
    found: pa.Array[Any] = pc.if_else(nulls, pa.scalar(None, pa.string()), texts)
    return found


def _inputs(runs: list[pa.RecordBatch]) -> list[RunInput]:
    def batches(run_number: int, batch_rows: int) -> Iterator[RunBatch]:
        rows = runs[run_number]
        for start in range(0, rows.num_rows, batch_rows):
            yield RunBatch(rows.slice(start, batch_rows), run_number)

    def opened(run_number: int) -> RunInput:
        return RunInput(row_count=runs[run_number].num_rows, open=lambda batch_rows: batches(run_number, batch_rows))

    return [opened(i) for i in range(len(runs))]


def measure_ours(case: str, runs: int, rows: int, *, profile: bool = False) -> MergeFigures:
    """Measure the merge by this project's kernel."""
    columns, options = CASES[case]
    made = make_runs(columns, runs, rows)
    schema = Schema.from_pyarrow_schema(
        made[0].schema, primary_keys=["id"], options={"bucket": "1", **options}
    ).to_table_schema()
    function = merge_function_for(schema, CoreOptions(schema.options), drop_deletes=True)
    plan = MergePlan(keys=("id",), output=tuple(made[0].schema.names), ordered=True)

    def merge() -> None:
        # Batches are dropped at once, as Java's side reuses its arrays.
        for _ in merge_runs(_inputs(made), plan, function):
            pass

    least = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        merge()
        least = min(least, time.process_time() - start)
    if profile:
        profiler = cProfile.Profile(time.process_time)
        profiler.runcall(merge)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(22)
    sums = _sums(merge_runs(_inputs(made), plan, function))
    return MergeFigures(cpu_s=least, rows=sum(r.num_rows for r in made), sums=sums)


def _sums(merged: Iterable[pa.RecordBatch]) -> dict[str, int]:
    sums = {"rows": 0}
    for batch in merged:
        sums["rows"] += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            numbers: Any = column
            if pa.types.is_list(column.type):
                numbers = numbers.flatten().cast(pa.int64())
            elif pa.types.is_string(column.type):
                numbers = pc.binary_length(numbers).cast(pa.int64())
            elif pa.types.is_floating(column.type):
                numbers = pc.cast(numbers, pa.int64(), safe=False)
            # Sums wrap around as Java's do.
            total = int(numbers.fill_null(0).to_numpy(zero_copy_only=False).sum(dtype=np.int64))
            sums[name] = (sums.get(name, 0) + total + 2**63) % 2**64 - 2**63
    return sums


def measure_java(case: str, runs: int, rows: int) -> MergeFigures:
    """Measure the merge by Java Paimon's."""
    columns, options = CASES[case]

    def build(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{java_jars()}/*", JAVA)

    classes = built_once(f"merge-bench-{fingerprint(JAVA)}", build)
    command = {"columns": columns, "options": options, "runs": runs, "rows": rows, "repeats": JAVA_REPEATS}
    done = subprocess.run(
        [
            "java",
            "-Xms3g",
            "-Xmx3g",
            "-XX:+UseSerialGC",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "-cp",
            f"{classes}:{java_jars()}/*",
            "MergeBench",
            json.dumps(command),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    answer = json.loads(done.stdout)
    return MergeFigures(cpu_s=min(answer["cpu_s"]), rows=answer["rows_in"], sums=answer["sums"])


def measure(
    console: Console, *, rows: int = 2_000_000, runs: int = 6, only: str | None = None
) -> dict[str, tuple[MergeFigures, MergeFigures]]:
    """Return our figures and Java's by case. The program ends when they merge to different rows."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    found = {}
    for case in CASES:
        if only not in (None, case):
            continue
        with console.status(f"merging {rows:,} rows: {case}"):
            ours, java = measure_ours(case, runs, rows), measure_java(case, runs, rows)
        if (ours.rows, ours.sums) != (java.rows, java.sums):
            raise SystemExit(f"Java merges {java.rows} rows to {java.sums}, we {ours.rows} to {ours.sums} in '{case}'.")
        found[case] = (ours, java)
    pa.set_cpu_count(threads)
    return found


def show(found: Mapping[str, tuple[MergeFigures, MergeFigures]], console: Console) -> None:
    """Print the figures as a table."""
    view = Table(title="Merge alone: CPU seconds (million rows by CPU second), one thread", title_justify="left")
    for name in ("merge", "interbed", "Java Paimon", "ratio", "goal"):
        view.add_column(name, justify="left" if name == "merge" else "right")
    for case, (ours, java) in found.items():
        cells = [f"{f.cpu_s:.3f} ({f.rate:.1f})" for f in (ours, java)]
        view.add_row(case, *cells, f"{java.cpu_s / ours.cpu_s:.2f}", f"{GOAL:.1f}")
    console.print(view)


def as_json(found: Mapping[str, tuple[MergeFigures, MergeFigures]]) -> dict[str, Any]:
    """Return the figures for a file."""
    return {
        case: {"cpu_s": ours.cpu_s, "java_cpu_s": java.cpu_s, "ratio": java.cpu_s / ours.cpu_s}
        for case, (ours, java) in found.items()
    }


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--only", choices=list(CASES))
    parser.add_argument("--profile", action="store_true", help="profile ours instead")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 160)
    if arguments.profile:
        pa.set_cpu_count(1)
        for case in CASES:
            if arguments.only in (None, case):
                figures = measure_ours(case, arguments.runs, arguments.rows, profile=True)
                console.print(f"{case}: {figures.cpu_s:.3f} CPU-s, {figures.rate:.1f} M rows/CPU-s")
        return
    found = measure(console, rows=arguments.rows, runs=arguments.runs, only=arguments.only)
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


if __name__ == "__main__":
    main()
