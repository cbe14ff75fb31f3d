"""Program of tests/support/peers/iceberg.py, in a separate process: Iceberg's Java code, in Spark and without it.

Commands are JSON lines (`spark_program.serve`). Operations without a Spark statement are done by the classes in
tests/peers/iceberg/java, which take an Iceberg table and JSON. py4j converts each boxed number to a Python number, so
Python cannot give a record the `Long` that its field needs.
"""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from tests.support.spark.spark_program import serve


class IcebergCommands:
    """Commands in a session with Iceberg's catalogs; tables have their SQL names."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._session = spark._jsparkSession
        jvm: Any = spark._jvm
        self._iceberg = jvm.org.apache.iceberg
        self._own = jvm.interbed.tests.iceberg

    def version(self) -> str:
        """Return the version of Spark."""
        return self._spark.version

    def run(self, sql: str) -> list[list[Any]]:
        """Return the rows of a statement."""
        return [[plain(value) for value in row] for row in self._spark.sql(sql).collect()]

    def arrow(self, sql: str, path: str) -> int:
        """Write the result of a query to an Arrow IPC file, and return the number of its rows."""
        return written(self._spark.sql(sql), Path(path))

    def create(self, table: str, schema: Any, partition: list[Any], properties: dict[str, str]) -> None:
        """Create a table from a schema in the form of Iceberg's metadata, with types without SQL names."""
        catalog, _, name = table.partition(".")
        of = self._iceberg.SchemaParser.fromJson(json.dumps(schema))
        spec = self._iceberg.PartitionSpecParser.fromJson(of, json.dumps({"spec-id": 0, "fields": partition}))
        tables = self._iceberg.spark.Spark3Util.loadIcebergCatalog(self._session, catalog)
        tables.createTable(self._iceberg.catalog.TableIdentifier.parse(name), of, spec, properties)

    def add_column(self, table: str, name: str, type: str, default: Any) -> None:  # noqa: A002 - the field's word
        """Add a column; its default holds for existing and for new rows."""
        of = self._iceberg.types.Types.fromPrimitiveString(type)
        update = self._table(table).updateSchema()
        if default is None:
            update.addColumn(name, of).commit()
        else:
            update.addColumn(name, of, self._iceberg.expressions.Expressions.lit(default).to(of)).commit()

    def together(self, table: str, operations: list[dict[str, Any]], branch: str | None) -> dict[str, Any]:
        """Commit these operations in one snapshot, and return the snapshot and the paths of the files of each
        operation.
        """
        found: dict[str, Any] = json.loads(
            self._own.Commit.operations(self._table(table), json.dumps(operations), branch)
        )
        return found

    def files(self, table: str) -> list[dict[str, Any]]:
        """Return the data and delete files of the current snapshot."""
        found: list[dict[str, Any]] = json.loads(self._own.Files.list(self._table(table)))
        return found

    def records(self, table: str, snapshot_id: int | None) -> list[list[Any]]:
        """Return the rows by Iceberg's generic reader, without Spark."""
        found: list[list[Any]] = json.loads(self._own.Files.rows(self._table(table), snapshot_id))
        return found

    def plan(self, table: str, filter: str, fields: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
        """Return the tasks of a scan as Iceberg plans it, and the class of the scan."""
        of = self._table(table)
        start = fields.get("start_snapshot_id")
        if start is None:
            scan = of.newScan()
            if fields.get("snapshot_id") is not None:
                scan = scan.useSnapshot(fields["snapshot_id"])
        else:
            scan = of.newScan().appendsBetween(start, fields["snapshot_id"])
        scan = scan.filter(self._iceberg.expressions.ExpressionParser.fromJson(filter))
        if fields.get("columns") is not None:
            scan = scan.select(fields["columns"]).includeColumnStats(fields["columns"])
        tasks = []
        found = scan.planFiles()
        each_task = found.iterator()
        while each_task.hasNext():
            task = each_task.next()
            deletes = sorted(f"{each.location()} {each.contentOffset()}" for each in task.deletes())
            bounds = task.file().lowerBounds() or {}
            lower = {number: self._bytes(bounds[number]).hex() for number in sorted(bounds)}
            tasks.append([task.file().location(), deletes, task.residual().toString(), str(lower)])
        found.close()
        return {"kind": scan.getClass().getSimpleName(), "tasks": sorted(tasks)}

    def _bytes(self, buffer: Any) -> bytes:
        return bytes(self._iceberg.util.ByteBuffers.toByteArray(buffer))

    def metadata(self, table: str) -> str:
        """Return the path of the current metadata file of the table."""
        location: str = self._table(table).operations().current().metadataFileLocation()
        return location

    def _table(self, name: str) -> Any:
        return self._iceberg.spark.Spark3Util.loadIcebergTable(self._session, name)


def written(answer: DataFrame, path: Path) -> int:
    """Write a result as Arrow, and return the number of its rows."""
    table: pa.Table = answer.toArrow()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    return table.num_rows


def plain(value: Any) -> Any:
    """Return a value of a row in the form of JSON: times as ISO text, decimals as text, bytes hexadecimal, maps as
    lists of pairs.
    """
    match value:
        case datetime.date() | datetime.time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case dict():
            return [[plain(key), plain(of)] for key, of in value.items()]
        case Row() | list():
            return [plain(one) for one in value]
        case _:
            return value


def answer(spark: SparkSession, request: dict[str, Any]) -> Any:
    """Return the answer of one command."""
    command = request.pop("command")
    return getattr(IcebergCommands(spark), command)(**request)


if __name__ == "__main__":
    serve(answer)
