"""Iceberg 1.12.0 in Java as an independent writer and reader: tables with deletes of all kinds.

Spark SQL runs everything that it has statements for. Iceberg's own writers create data files, equality deletes,
position deletes and deletion vectors one by one, and Iceberg's own commits add them, because Spark writes no equality
deletes and chooses its files by itself.

Rows are Python values (`datetime`, `Decimal`, `bytes`, `UUID`, lists, pairs for maps). Rows of a table and values of a
struct are lists in the order of the columns, or dicts by their names.
"""

import contextlib
import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pyarrow as pa

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.flink import Flink, FlinkSession
from tests.support.peers.spark import PEERS, SparkProcess, iceberg_settings, maven_jars

CATALOG = "ice"
ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).resolve().parents[1] / "spark" / "iceberg_program.py"

Format = Literal["parquet", "orc", "avro"]
Row = Sequence[Any] | Mapping[str, Any]
Deletes = Sequence[tuple[str | int, int]]
"""Data files with positions in them. A file is a path or, within one commit, the number of the operation that wrote it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Files of one kind for a commit, created by the method of the same name of the class."""

    op: str
    fields: Mapping[str, Any]

    def json(self) -> dict[str, Any]:
        """Return the operation in the form of the program."""
        return {"op": self.op, **{name: plain(value) for name, value in self.fields.items() if value is not None}}


def append(
    rows: Sequence[Row],
    partition: Sequence[Any] | None = None,
    format: Format = "parquet",  # noqa: A002 - the field's word
    spec_id: int | None = None,
) -> Operation:
    """Add one data file. The partition (values after the transforms) is by default that of its rows, which must all be
    in one partition.
    """
    return Operation(op="append", fields={"rows": rows, "partition": partition, "format": format, "spec_id": spec_id})


def equality_delete(
    columns: Sequence[str],
    rows: Sequence[Row],
    partition: Sequence[Any] | None = None,
    format: Format = "parquet",  # noqa: A002
    spec_id: int | None = None,
) -> Operation:
    """Add one equality delete file of these columns; it applies to all partitions when its spec (by number) has no
    fields.
    """
    return Operation(
        op="equality_delete",
        fields={"columns": columns, "rows": rows, "partition": partition, "format": format, "spec_id": spec_id},
    )


def position_delete(
    deletes: Deletes,
    partition: Sequence[Any] | None = None,
    format: Format = "parquet",  # noqa: A002
    spec_id: int | None = None,
) -> Operation:
    """Add one position delete file in the partition of its first data file; only tables of version 2 accept it."""
    return Operation(
        op="position_delete",
        fields={"deletes": deletes, "partition": partition, "format": format, "spec_id": spec_id},
    )


def deletion_vector(deletes: Deletes) -> Operation:
    """Add vectors of all the data files in one Puffin file; they include the earlier deletes of these files."""
    return Operation(op="deletion_vector", fields={"deletes": deletes})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFiles:
    """A committed snapshot, and the paths of the files of each of its operations."""

    snapshot_id: int
    sequence_number: int
    operation: str
    paths: list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a snapshot; `content` is data, position_deletes (also for a vector, whose format is puffin) or
    equality_deletes.
    """

    content: str
    path: str
    format: str
    spec_id: int
    partition: dict[str, Any]
    record_count: int
    sequence_number: int
    file_sequence_number: int
    first_row_id: int | None
    equality_ids: list[int] | None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaPlan:
    """The class of a scan, and its tasks: path, deletes, residual filter and lower bounds as texts."""

    kind: str
    tasks: list[tuple[str, list[str], str, str]]


class IcebergPeer(SparkProcess):
    """Spark session with the catalog `ice` in a warehouse: a Hadoop catalog, or a metastore when `uri` names one.

    `further` settings may add catalogs. Tables have their SQL names: `ice.db.t`. Commands that Spark or Iceberg refuses
    raise PeerError.
    """

    def __init__(self, warehouse: Path, uri: str | None = None, further: Mapping[str, str] | None = None) -> None:
        self.warehouse = warehouse
        self._numbers = itertools.count(1)
        settings = iceberg_settings(uri or "", warehouse, CATALOG)
        if uri is None:
            del settings[f"spark.sql.catalog.{CATALOG}.uri"]
            settings[f"spark.sql.catalog.{CATALOG}.type"] = "hadoop"
        settings["spark.jars"] += f",{_classes()}"
        settings["spark.sql.warehouse.dir"] = f"file:{warehouse}"
        # The program imports from the tests, which are not on the path of its own folder.
        super().__init__(
            PROGRAM, {"spark.master": "local[1]", **settings, **(further or {})}, variables={"PYTHONPATH": str(ROOT)}
        )

    def run(self, sql: str) -> list[list[Any]]:
        """Return the rows of a statement: times as ISO text, decimals as text, bytes hexadecimal, maps as lists of
        pairs.
        """
        answer: list[list[Any]] = self._process.call("run", sql=sql)
        return answer

    def arrow(self, sql: str) -> pa.Table:
        """Return the result of a query as an Arrow table."""
        with tempfile.TemporaryDirectory(prefix="interbed-iceberg-") as directory:
            path = Path(directory) / "answer.arrow"
            self._process.call("arrow", sql=sql, path=str(path))
            with pa.OSFile(str(path), "rb") as file, pa.ipc.open_file(file) as answer:
                return answer.read_all()

    def rows(
        self,
        table: str,
        columns: str = "*",
        *,
        snapshot_id: int | None = None,
        ref: str | None = None,
    ) -> pa.Table:
        """Return the rows as Spark reads them: the newest ones, or those of a snapshot, a tag or a branch."""
        version = f" VERSION AS OF {snapshot_id}" if snapshot_id is not None else ""
        if ref is not None:
            version = f" VERSION AS OF '{ref}'"
        return self.arrow(f"SELECT {columns} FROM {table}{version}")

    def records(self, table: str, snapshot_id: int | None = None) -> list[list[Any]]:
        """Return the rows as Iceberg's generic reader finds them, for types that Spark lacks; values are as in JSON.

        That reader refuses deletes by a column that was dropped since; Spark accepts them.
        """
        answer: list[list[Any]] = self._process.call("records", table=table, snapshot_id=snapshot_id)
        return answer

    def files(self, table: str) -> list[TableFile]:
        """Return the data and delete files of the current snapshot."""
        return [TableFile(**file) for file in self._process.call("files", table=table)]

    def plan(
        self,
        table: str,
        filter: Any,  # noqa: A002 - the field's word
        *,
        snapshot_id: int | None = None,
        start_snapshot_id: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> "JavaPlan":
        """Return the plan of a scan with a filter in JSON, of Iceberg's library or of the server that it asks."""
        fields = {"snapshot_id": snapshot_id, "start_snapshot_id": start_snapshot_id, "columns": columns}
        answer = self._process.call("plan", table=table, filter=json.dumps(filter), fields=fields)
        return JavaPlan(kind=answer["kind"], tasks=[tuple(task) for task in answer["tasks"]])

    def metadata(self, table: str) -> str:
        """Return the path of the current metadata file of the table."""
        location: str = self._process.call("metadata", table=table)
        return location

    def new_table(self, columns: str, version: int = 2, partitioned: str = "", properties: str = "") -> str:
        """Create a table with SQL columns and partition fields, and return its unique name."""
        name = f"{CATALOG}.db.t{next(self._numbers)}"
        by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        more = f", {properties}" if properties else ""
        self.run(
            f"CREATE TABLE {name} ({columns}) USING iceberg {by} TBLPROPERTIES ('format-version' = '{version}'{more})"
        )
        return name

    def create(
        self,
        table: str,
        fields: Sequence[Mapping[str, Any]],
        partition: Sequence[Mapping[str, Any]] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a table from fields and partition fields in the form of Iceberg's metadata, for types without SQL
        names.

        Iceberg assigns new field ids. `format-version` is a property.
        """
        schema = {"type": "struct", "fields": [dict(one) for one in fields]}
        spec = [dict(one) for one in partition]
        self._process.call("create", table=table, schema=schema, partition=spec, properties=dict(properties or {}))

    def add_column(self, table: str, name: str, type: str, default: Any = None) -> None:  # noqa: A002
        """Add a column; its default, in tables of version 3, holds for existing and for new rows."""
        self._process.call("add_column", table=table, name=name, type=type, default=plain(default))

    def together(self, table: str, operations: Sequence[Operation], branch: str | None = None) -> CommittedFiles:
        """Commit these operations in one snapshot, as Flink's upserts commit rows and deletes in one snapshot."""
        answer = self._process.call(
            "together", table=table, operations=[one.json() for one in operations], branch=branch
        )
        return CommittedFiles(**answer)

    def append(self, table: str, rows: Sequence[Row], **arguments: Any) -> str:
        """Commit one data file (`append`), and return its path."""
        return self.together(table, [append(rows, **arguments)]).paths[0][0]

    def equality_delete(self, table: str, columns: Sequence[str], rows: Sequence[Row], **arguments: Any) -> str:
        """Commit one equality delete file (`equality_delete`), and return its path."""
        return self.together(table, [equality_delete(columns, rows, **arguments)]).paths[0][0]

    def position_delete(self, table: str, deletes: Deletes, **arguments: Any) -> str:
        """Commit one position delete file (`position_delete`), and return its path."""
        return self.together(table, [position_delete(deletes, **arguments)]).paths[0][0]

    def deletion_vector(self, table: str, deletes: Deletes) -> str:
        """Commit vectors in one Puffin file (`deletion_vector`), and return its path."""
        return self.together(table, [deletion_vector(deletes)]).paths[0][0]


@contextlib.contextmanager
def flink_session(warehouse: Path) -> Iterator[FlinkSession]:
    """Open a session of Flink 1.20 with Iceberg 1.10.0, whose catalog `ice` is that of a peer over this warehouse.

    A stream commits with each checkpoint. Its upserts need tables of version 2: for a key that occurs twice in one
    checkpoint this version writes a position delete file, which Iceberg refuses in tables of version 3.
    """
    settings = {"execution.runtime-mode": "streaming", "execution.checkpointing.interval": "200ms"}
    jars = sorted(maven_jars("iceberg_flink", "iceberg-flink-1.10.0").glob("*.jar"))
    with Flink(jars) as flink, flink.session(settings) as session:
        session.sql(
            f"CREATE CATALOG {CATALOG} WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', "
            f"'warehouse' = 'file:{warehouse}')"
        )
        yield session


def plain(value: Any) -> Any:
    """Return a Python value in the form of JSON."""
    match value:
        case date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case bytes():
            return value.hex()
        case Mapping():
            return {name: plain(of) for name, of in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return value


def _classes() -> Path:
    """Return a jar of the classes in tests/peers/iceberg/java."""
    jars = maven_jars("iceberg", "iceberg-spark-1.12.0")
    sources = sorted((PEERS / "iceberg" / "java").glob("*.java"))

    def build(directory: Path) -> None:
        classes = directory / "classes"
        run("javac", "-proc:none", "-nowarn", "-d", classes, "-cp", f"{jars}/*", *sources)
        run("jar", "--create", "--file", directory / "writer.jar", "-C", classes, ".")

    return built_once(f"iceberg-writer-{fingerprint(PEERS / 'iceberg' / 'pom.xml', *sources)}", build) / "writer.jar"
