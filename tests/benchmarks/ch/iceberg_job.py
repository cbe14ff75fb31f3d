"""Ingestion of the peer: PostgreSQL's changes by logical replication, and a MERGE INTO Iceberg tables per micro-batch.

    python -m tests.benchmarks.ch.iceberg_job URL WAREHOUSE FORMAT_VERSION COMMIT_SECONDS REWRITE_SECONDS

Iceberg has no reader of replication slots, so interbed's reader reads the slot and returns Arrow. The rest is the usual
code of Spark users: the newest change of each key of the micro-batch, as Parquet, and a merge-on-read MERGE with a
deletion, an update and an insertion; an INSERT if all rows of a table are new. The condition has the bounds of the keys
of the batch, so that Iceberg reads only files that can have them. The replication position is not stored: a restarted
run begins from the start, which saves Iceberg work.

Every REWRITE_SECONDS, unless that is 0, between two micro-batches, the procedures rewrite_data_files,
rewrite_position_delete_files and expire_snapshots maintain the tables.

Each commit is reported as a JSON line, as by `interbed ingest --json`. After a signal to end, the job commits the
changes that are present by then.
"""

import json
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from interbed.ingest.flow.changes import RowChanges
from interbed.ingest.flow.messages import Positions
from interbed.ingest.formats.pgoutput import PgOutput
from interbed.ingest.sources.postgres.source import PostgresSource
from interbed.storage.base.row.kind import RowKind
from tests.benchmarks.ch.reader import session
from tests.benchmarks.ch.tpcc.schema import KEYS
from tests.benchmarks.spark_engines import IcebergEngine
from tests.benchmarks.spark_figures import cpu_by_process, cpu_seconds_between
from tests.support.peers.spark import maven_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMESPACE = "ice.ch"
BUCKETS = 2
BUCKETED = {
    "customer": "c_id",
    "history": "h_id",
    "new_order": "no_o_id",
    "orders": "o_id",
    "order_line": "ol_o_id",
    "item": "i_id",
    "stock": "s_i_id",
}
"""Large tables, and the column by which they are bucketed."""
POLL_SECONDS, POLL_MESSAGES = 0.2, 20_000
_KIND = "_kind"
_MODES = "".join(f", 'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))


def iceberg_settings(warehouse: Path) -> dict[str, str]:
    """Return the settings of a session for Iceberg's tables, without the cache, which would hide commits of other
    processes.
    """
    jars = maven_jars("iceberg", "iceberg-spark-1.12.0").glob("*.jar")
    return {
        "spark.jars": ",".join(map(str, sorted(jars))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **IcebergEngine.settings(warehouse),
        "spark.sql.catalog.ice.cache-enabled": "false",
    }


def newest_by_key(changes: Sequence[pa.Table], key: Sequence[str]) -> pa.Table:
    """Return the last of several changes of each key."""
    rows = pa.concat_tables(changes).append_column("_place", pa.array(np.arange(sum(c.num_rows for c in changes))))
    last = rows.group_by(list(key)).aggregate([("_place", "max")])
    return rows.take(last["_place_max"]).drop(["_place"])


class IcebergSink:
    """Iceberg tables that receive changes."""

    def __init__(self, spark: "SparkSession", warehouse: Path, version: int) -> None:
        self._spark = spark
        self._stage = warehouse / "stage"
        self._stage.mkdir(parents=True, exist_ok=True)
        self._version = version
        self._waiting: dict[str, list[pa.Table]] = {}
        self.rows: dict[str, int] = {}
        """Rows committed so far, by table."""
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")

    def create(self, table: str, rows: pa.Table) -> None:
        """Create a table with these rows."""
        columns = ", ".join(f"{field.name} {_type_of(field.type)}" for field in rows.schema)
        parted = f"PARTITIONED BY (bucket({BUCKETS}, {BUCKETED[table]}))" if table in BUCKETED else ""
        self._spark.sql(
            f"CREATE TABLE {NAMESPACE}.{table} ({columns}) USING iceberg {parted} TBLPROPERTIES "
            f"('format-version' = '{self._version}', 'write.parquet.compression-codec' = 'zstd'{_MODES})"
        )
        self._staged(rows)
        self._spark.sql(f"INSERT INTO {NAMESPACE}.{table} SELECT * FROM changes")
        self.rows[table] = rows.num_rows

    def take(self, changes: RowChanges) -> None:
        """Buffer changes for the next commit."""
        assert changes.source is not None
        kinds = changes.kinds != RowKind.UPDATE_BEFORE
        rows = changes.rows.append_column(_KIND, pa.array(changes.kinds.astype(np.int32)))
        self._waiting.setdefault(changes.source.name, []).append(rows.filter(pa.array(kinds)))

    def commit(self) -> bool:
        """MERGE the buffered changes, table by table, or append them if all are insertions. Return whether there were
        any.
        """
        waiting, self._waiting = self._waiting, {}
        for table, several in waiting.items():
            rows = newest_by_key(several, KEYS[table])
            self._staged(rows)
            only_new = pc.all(pc.equal(rows[_KIND], pa.scalar(RowKind.INSERT.value, pa.int32()))).as_py()
            self._spark.sql(_append(table, rows) if only_new else _merge(table, rows))
            self.rows[table] += rows.num_rows
        return bool(waiting)

    def rewrite(self) -> float:
        """Maintain the tables by Iceberg's procedures, and return the CPU seconds."""
        before = cpu_by_process()
        for table in self.rows:
            # A file is rewritten as soon as a row of it is deleted; small ones are combined, at least five.
            options = "map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
            for call in (
                f"rewrite_data_files(table => 'ch.{table}', options => {options})",
                *([f"rewrite_position_delete_files(table => 'ch.{table}')"] if self._version < 3 else []),
                f"expire_snapshots(table => 'ch.{table}', older_than => now(), retain_last => 10)",
            ):
                self._spark.sql(f"CALL ice.system.{call}").collect()
        return cpu_seconds_between(before, cpu_by_process())

    def _staged(self, rows: pa.Table) -> None:
        """Register the rows in Spark as the view `changes`."""
        file = self._stage / "changes.parquet"
        pq.write_table(rows, file)
        self._spark.read.parquet(str(file)).createOrReplaceTempView("changes")


def _append(table: str, rows: pa.Table) -> str:
    names = ", ".join(name for name in rows.column_names if name != _KIND)
    return f"INSERT INTO {NAMESPACE}.{table} ({names}) SELECT {names} FROM changes"


def _merge(table: str, rows: pa.Table) -> str:
    names = [name for name in rows.column_names if name != _KIND]
    conditions = [f"t.{name} = s.{name}" for name in KEYS[table]]
    for name in KEYS[table]:
        bounds: Any = pc.min_max(rows[name])
        conditions.append(f"t.{name} BETWEEN {bounds['min'].as_py()} AND {bounds['max'].as_py()}")
    sets = ", ".join(f"{name} = s.{name}" for name in names)
    values = ", ".join(f"s.{name}" for name in names)
    return (
        f"MERGE INTO {NAMESPACE}.{table} t USING changes s ON {' AND '.join(conditions)} "
        f"WHEN MATCHED AND s.{_KIND} = {RowKind.DELETE.value} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND s.{_KIND} <> {RowKind.DELETE.value} THEN INSERT ({', '.join(names)}) VALUES ({values})"
    )


def _type_of(data_type: pa.DataType) -> str:
    if isinstance(data_type, pa.Decimal128Type):
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    return {pa.int32(): "INT", pa.int64(): "BIGINT", pa.string(): "STRING"}.get(data_type, "TIMESTAMP_NTZ")


def _say(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


def _fill(source: PostgresSource, decoder: PgOutput, sink: IcebergSink) -> Positions:
    """Create the tables with their present rows, and return the position of the changes after them."""
    source.begin({})
    positions = Positions()
    with source.snapshots(source.tables()) as snapshots:
        for snapshot in snapshots:
            blocks = [changes for m in snapshot.messages() for changes in decoder.decode(m).changes]
            sink.create(snapshot.source.name, pa.concat_tables([changes.rows for changes in blocks]))
            positions = snapshot.positions
            _say("commit", rows=dict(sink.rows))
    return positions


def _follow(source: PostgresSource, decoder: PgOutput, sink: IcebergSink, every: float, rewrite_every: float) -> None:
    """Commit at intervals until a signal comes, and then the remaining changes."""
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    due, rewrite_due = time.monotonic() + every, time.monotonic() + rewrite_every
    ends: Positions | None = None
    while True:
        if stopped and ends is None:
            ends = source.ends()
        at_end = ends is not None and source.has_reached(ends)
        # After the signal the remaining changes are committed at once.
        if (at_end or (ends is None and time.monotonic() >= due)) and source.is_whole(wanted=True):
            due = time.monotonic() + every
            if sink.commit():
                source.note(source.positions())
                _say("commit", rows=dict(sink.rows))
            if at_end:
                return
            if rewrite_every and time.monotonic() >= rewrite_due:
                _say("maintenance", cpu_s=sink.rewrite())
                rewrite_due = time.monotonic() + rewrite_every
        for messages in source.poll(timeout_seconds=POLL_SECONDS, most=POLL_MESSAGES):
            decoded = decoder.decode(messages)
            _check(decoded.bad)
            for changes in decoded.changes:
                if len(changes.kinds):
                    sink.take(changes)


def _check(bad: Iterable[object]) -> None:
    if found := list(bad):
        raise SystemExit(f"{found[0]}")


def main(arguments: Sequence[str] = sys.argv[1:]) -> None:
    """Parse the command line, and run until a signal comes."""
    url, place, version, every, rewrite_every = arguments
    settings: Mapping[str, str] = iceberg_settings(Path(place))
    spark = session(dict(settings), with_interbed=False)
    source = PostgresSource(url, publication="ch", slot="ch")
    decoder = PgOutput(source.catalog)
    sink = IcebergSink(spark, Path(place), int(version))
    source.seek(_fill(source, decoder, sink))
    _follow(source, decoder, sink, float(every), float(rewrite_every))
    source.close()
    _say("end", rows=sink.rows)
    spark.stop()


if __name__ == "__main__":
    main()
