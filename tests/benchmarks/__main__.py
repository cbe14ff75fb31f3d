"""`make bench`: the same work by interbed, pypaimon-rust and pypaimon on the same files in one run, with ratios;
then Spark on interbed's tables, on Iceberg's and on Delta's, ingestion from Kafka and the same by Spark, merging,
compaction and buckets by Java Paimon, the same load on the catalog server and on Hive's metastore in Java, a table of a
million partitions, one of 100 million rows, one with 2,000 commits, the cost of syncs and checksums,
the latency from a commit to a reader of its log, the balance of two workers that compact unequal buckets, the cost of a
step of the optimizer's scheduler, Iceberg tables read by interbed, pyiceberg and Spark, and a table in an object
store behind a network.

    python -m tests.benchmarks [--rows 4000000] [--json] [--skip-pypaimon] [--skip-spark] [--skip-metastore]
                                [--skip-partitions] [--skip-at-size] [--skip-formats] [--skip-reads] [--skip-java]
                                [--skip-soak] [--skip-scale] [--skip-commits] [--skip-safety] [--skip-ingest]
                                [--skip-log] [--skip-balance] [--skip-optimizer] [--skip-iceberg]
                                [--skip-stores]

`--json` prints one object of all figures, with the machine, the commit and the time.

A ratio is the peer's seconds over interbed's: above 1 interbed is faster. `scan` keeps all rows in memory;
`streamed scan` drops each batch, so its peak is the memory that a scan needs; `decoding` is the time of Arrow for the
same rows in plain Parquet files. Each stage runs in a separate process. The three engines alternate, so that a slow
minute of the machine does not affect only one of them.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks import (
    at_size,
    balance,
    buckets,
    commits,
    compaction,
    data,
    deletion_vectors,
    first_calls,
    formats,
    iceberg,
    iceberg_rewrites,
    log_latency,
    lookup,
    memory,
    merge_kernels,
    metastore,
    optimizer,
    partitions,
    planning,
    safety,
    scale,
    selective,
    soak,
    spark_compaction,
    spark_peers,
    stores,
)
from tests.benchmarks.engines import ratio_text
from tests.benchmarks.ingest import comparison as from_kafka
from tests.benchmarks.ingest import memory as ingest_memory
from tests.benchmarks.origin import origin
from tests.benchmarks.run_stage import Figures, better, stage

TURNS = 2
GOALS = {"base write": 1.0, "upsert": 1.0, "scan": 1.4, "streamed scan": 1.4, "two columns": 2.5}
"""Minimal ratios against pypaimon-rust for a release."""


def measure(directory: Path, warehouse: Path, engines: list[str], console: Console) -> dict[str, dict[str, Figures]]:
    """Return figures by stage and engine."""
    found: dict[str, dict[str, Figures]] = {}

    def note(name: str, engine: str, table: str) -> None:
        with console.status(f"{name}: {engine}"):
            figures = stage(engine, name, directory, warehouse, table)
        found.setdefault(name, {})[engine] = better(found.get(name, {}).get(engine), figures)

    for turn in range(TURNS):
        for engine in engines:
            if engine == "pypaimon" and turn:
                continue  # Ten times slower than the others; one turn is enough.
            table = f"b.{engine.replace('-', '_')}_{turn}"
            note("base write", engine, table)
            note("upsert", engine, table)
    table = f"b.interbed_{TURNS - 1}"
    note("delete", "interbed", table)
    for turn in range(TURNS):
        for name in ("scan", "streamed scan", "two columns", "lookup"):
            for engine in engines:
                if engine == "pypaimon" and turn:
                    continue
                note(name, engine, table)
    for name in ("decoding", "decoding of two columns"):
        note(name, "interbed", table)
    note("compaction", "interbed", table)
    for engine in engines:
        note("scan after compaction", engine, table)
    expected = json.loads((directory / "facts.json").read_text())["rows_at_the_end"]
    for name in ("scan", "two columns", "streamed scan", "decoding", "scan after compaction"):
        for engine, figures in found[name].items():
            if figures["rows"] != expected:
                raise SystemExit(f"{engine} found {figures['rows']} rows in '{name}', {expected} are there.")
    return found


def show(found: dict[str, dict[str, Figures]], engines: list[str], console: Console) -> None:
    """Print the figures as a table."""
    view = Table(title="CPU seconds (wall seconds); ratios are peer / interbed, CPU (wall)", title_justify="left")
    view.add_column("stage")
    for engine in engines:
        view.add_column(engine, justify="right")
    for peer in engines[1:]:
        view.add_column(f"ratio to {peer}", justify="right")
    view.add_column("goal", justify="right")
    view.add_column("our peak MB", justify="right")
    for name, by_engine in found.items():
        ours = by_engine["interbed"]
        cells = [f"{f['cpu_s']:.3f} ({f['wall_s']:.3f})" if (f := by_engine.get(e)) else "–" for e in engines]
        ratios = [ratio_text(by_engine[p], ours) if p in by_engine else "–" for p in engines[1:]]
        goal = f"{GOALS[name]:.1f}" if name in GOALS else ""
        view.add_row(name, *cells, *ratios, goal, f"{ours['peak_mb']:.0f}")
    console.print(view)


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--skip-pypaimon", action="store_true", help="leave the slowest peer out")
    parser.add_argument("--skip-formats", action="store_true")
    parser.add_argument("--skip-reads", action="store_true", help="leave lookups, planning and deletion vectors out")
    parser.add_argument("--skip-java", action="store_true", help="leave out what is held against Java Paimon")
    parser.add_argument("--skip-soak", action="store_true", help="leave peaks of memory and the soak out")
    parser.add_argument("--skip-spark", action="store_true")
    parser.add_argument("--skip-metastore", action="store_true")
    parser.add_argument("--skip-partitions", action="store_true")
    parser.add_argument("--skip-at-size", action="store_true", help="leave 64 clients of a large catalog out")
    parser.add_argument("--skip-scale", action="store_true", help="leave the table of 100 million rows out")
    parser.add_argument("--skip-commits", action="store_true", help="leave the table of many commits out")
    parser.add_argument("--skip-safety", action="store_true", help="leave out what syncs and checksums cost")
    parser.add_argument("--skip-ingest", action="store_true", help="leave ingestion from Kafka out")
    parser.add_argument("--skip-log", action="store_true", help="leave the log of a table in Kafka out")
    parser.add_argument("--skip-balance", action="store_true", help="leave the compaction of unequal buckets out")
    parser.add_argument("--skip-optimizer", action="store_true", help="leave the optimizer's scheduler out")
    parser.add_argument("--skip-iceberg", action="store_true", help="leave reading Iceberg's tables out")
    parser.add_argument("--skip-stores", action="store_true", help="leave a table in a store out")
    arguments = parser.parse_args()
    measured = origin(sys.argv[1:])
    # Output to a file is not wrapped.
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 160)
    engines = ["interbed", "pypaimon-rust"] + ([] if arguments.skip_pypaimon else ["pypaimon"])
    with tempfile.TemporaryDirectory(prefix="interbed-bench-") as temporary:
        directory, warehouse = Path(temporary), Path(temporary) / "lake"
        with console.status(f"making {arguments.rows:,} rows"):
            data.make(directory, arguments.rows)
        found = measure(directory, warehouse, engines, console)
        show(found, engines, console)
    in_spark = {} if arguments.skip_spark else spark_peers.measure(console, arguments.rows)
    if in_spark:
        spark_peers.show(in_spark, console)
        by_statement = spark_compaction.measure(console, arguments.rows // 4)
        spark_compaction.show(by_statement, console)
        in_spark |= {f"by CALL: {stage}": figures for stage, figures in by_statement.items()}
    ingested: dict[str, Any] = {}
    if not arguments.skip_ingest:
        streamed, steady = from_kafka.measure(console, arguments.rows // 4), ingest_memory.measure(console)
        from_kafka.show(streamed, console)
        ingest_memory.show(steady, console)
        ingested = {"stream": from_kafka.as_json(streamed), "memory": ingest_memory.as_json(steady)}
    by_format = {} if arguments.skip_formats else formats.measure(console)
    if by_format:
        formats.show(by_format, console)
    reads: dict[str, dict[str, Figures]] = {}
    for benchmark in () if arguments.skip_reads else (first_calls, lookup, selective, planning, deletion_vectors):
        figures = benchmark.measure(console)
        benchmark.show(figures, console)
        reads |= benchmark.as_json(figures)
    in_java: dict[str, Any] = {}
    if not arguments.skip_java:
        merged, compacted = merge_kernels.measure(console), compaction.measure(console, arguments.rows)
        merge_kernels.show(merged, console)
        compaction.show(compacted, console)
        spread = buckets.measure(console, arguments.rows // 4)
        buckets.show(spread, console)
        in_java = {
            "merge": merge_kernels.as_json(merged),
            "compaction": compaction.as_json(compacted),
            "buckets": buckets.as_json(spread),
        }
    peaks = {} if arguments.skip_soak else memory.measure(console)
    curve = [] if arguments.skip_soak else soak.measure(console)
    if curve:
        memory.show(peaks, console)
        soak.show(curve, console)
    peers = [] if arguments.skip_metastore else metastore.measure(console)
    if peers:
        metastore.show(peers, console)
    many = {} if arguments.skip_partitions else partitions.measure(console)
    if many:
        partitions.show(many, console)
    large = {} if arguments.skip_at_size else at_size.measure(console)
    if large:
        at_size.show(large, console)
    grown = {} if arguments.skip_scale else scale.measure(console)
    if grown:
        scale.show(grown, console)
    often = {} if arguments.skip_commits else commits.measure(console)
    if often:
        commits.show(often, console)
    costs = {} if arguments.skip_safety else safety.measure(console)
    if costs:
        safety.show(costs, console)
    latency = {} if arguments.skip_log else log_latency.measure(console)
    if latency:
        log_latency.show(latency, console)
    shared = {} if arguments.skip_balance else balance.measure(console)
    if shared:
        balance.show(shared, console)
    scheduled = {} if arguments.skip_optimizer else optimizer.measure(console)
    if scheduled:
        optimizer.show(scheduled, console)
    theirs = {} if arguments.skip_iceberg else iceberg.measure(console, arguments.rows)
    if theirs:
        iceberg.show(theirs, console)
    stored = {} if arguments.skip_stores else stores.measure(console, arguments.rows)
    if stored:
        stores.show(stored, console)
    kept = {} if arguments.skip_iceberg else iceberg_rewrites.measure(console, arguments.rows)
    if kept:
        iceberg_rewrites.show(kept, console)
    if arguments.json:
        found_all = {
            **measured,
            "rows": arguments.rows,
            "stages": found,
            "spark": in_spark,
            "ingest": ingested,
            "formats": formats.as_json(by_format),
            "reads": reads,
            "java": in_java,
            "memory": memory.as_json(peaks),
            "soak": soak.as_json(curve),
            "metastore": metastore.as_json(peers),
            "partitions": many,
            "at size": at_size.as_json(large),
            "scale": scale.as_json(grown),
            "commits": commits.as_json(often),
            "safety": safety.as_json(costs),
            "log": log_latency.as_json(latency),
            "balance": balance.as_json(shared),
            "optimizer": optimizer.as_json(scheduled),
            "iceberg": iceberg.as_json(theirs),
            "stores": stores.as_json(stored) if stored else {},
            "iceberg rewrites": iceberg_rewrites.as_json(kept),
        }
        print(json.dumps(found_all, indent=2))


if __name__ == "__main__":
    main()
