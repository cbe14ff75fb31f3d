"""Reading a compacted table in Spark against `spark.read.parquet` of the same files, in the same session."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from rich.console import Console
from rich.table import Table

import interbed
from interbed import spark_ext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPEATS = 5


def measure(warehouse: Path, name: str, console: Console) -> dict[str, Any]:
    """CPU seconds of the whole process tree and wall seconds, warm, the least of several runs."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.appName("interbed bench")
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.catalog.lake", "interbed.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.warehouse", f"file:{warehouse}")
    )
    spark = spark_ext.configure(builder).getOrCreate()
    try:
        table = interbed.load_catalog("bench", warehouse=str(warehouse)).get_table(name)
        files = [split.path_of(file) for split in table.new_scan().plan().splits for file in split.files]
        found: dict[str, Any] = {}
        for what, columns in (("all columns", list(table.schema.names)), ("two columns", ["id", "amount"])):
            with console.status(f"Spark, {what}"):
                ours = _least(lambda c=columns: spark.table(f"lake.{name}").select(*c))  # type: ignore[misc]
                plain = _least(lambda c=columns: spark.read.parquet(*files).select(*c))  # type: ignore[misc]
            found[what] = {"interbed": ours, "parquet": plain}
    finally:
        spark.stop()
    view = Table(title="Spark, compacted table: CPU seconds (wall seconds)", title_justify="left")
    for column in ("work", "interbed", "spark.read.parquet", "ratio parquet / interbed (wall)"):
        view.add_column(column, justify="right")
    for what, figures in found.items():
        ours, plain = figures["interbed"], figures["parquet"]
        cells = [f"{f['cpu_s']:.2f} ({f['wall_s']:.2f})" for f in (ours, plain)]
        view.add_row(what, *cells, f"{plain['wall_s'] / ours['wall_s']:.2f}")
    console.print(view)
    return found


def _least(frame: "Callable[[], DataFrame]") -> dict[str, float]:
    runs = []
    for _ in range(REPEATS):
        cpu, wall = _cpu_seconds(), time.perf_counter()
        frame().write.format("noop").mode("overwrite").save()
        runs.append({"cpu_s": _cpu_seconds() - cpu, "wall_s": time.perf_counter() - wall})
    return min(runs, key=lambda r: r["wall_s"])


def _cpu_seconds() -> float:
    """CPU seconds of this process, the JVM and its Python workers; ended ones are counted by their parents."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
