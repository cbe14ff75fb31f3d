"""Answers of the planner that get to executors: no secret of the catalog is in them, whatever the statement."""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.spark_ext.process.planner import PlannerHandler
from interbed.spark_ext.process.worker import task_writer
from interbed.spark_ext.read.reader import read_split
from interbed.thrift_idl.planner.ttypes import (
    CatalogRef,
    ProcedureCall,
    ScanRequest,
    StreamLimits,
    TableRef,
    TimeTravel,
    WriteMode,
    WriteRequest,
)

SECRETS = {
    "token": "hush-token",
    "credential": "etl:hush-credential",
    "header.X": "hush-header",
    "dlf.access-key-secret": "hush-dlf",
    "security.kerberos.login.principal": "etl@EXAMPLE.ORG",
    "security.kerberos.login.keytab": "/etc/security/hush.keytab",
}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})
_ENCODED = re.compile(rb'"([A-Za-z0-9+/]{32,}={0,2})"')


def whole(content: bytes) -> bytes:
    """Return the bytes, followed by what they contain in base64."""
    inner = [whole(b64decode(found[1])) for found in _ENCODED.finditer(content) if len(found[1]) % 4 == 0]
    return b"\n".join([content, *inner])


class DriverPlanner:
    """The planner with a catalog of the test."""

    def __init__(self, warehouse: Path) -> None:
        self.planner = PlannerHandler()
        self.catalog = CatalogRef(name="lake", options={"warehouse": str(warehouse), **SECRETS})

    def loaded(self, name: str) -> Any:
        """Load a table of the database."""
        return self.planner.loadTable(TableRef(catalog=self.catalog, database="db", table=name), TimeTravel())

    def scan(self, name: str, *filters: str) -> list[bytes]:
        """Plan a read, and carry it out."""
        info = self.loaded(name)
        request = ScanRequest(
            columns=[field["name"] for field in json.loads(info.schemaJson)["fields"]],
            filters=list(filters),
            options={},
            schemaJson=info.schemaJson,
        )
        plan: Any = self.planner.planScan(info.handle, request)
        for split in plan.splits:
            list(read_split(plan.task, split.payload))
        return [plan.task, *(split.payload for split in plan.splits)]

    def write(self, name: str, mode: int = WriteMode.APPEND, *, stream: bool = False) -> list[bytes]:
        """Plan a write, write in a task, and commit."""
        info = self.loaded(name)
        request = WriteRequest(mode=mode, filters=[], schemaJson=info.schemaJson, queryId="query", options={})
        plan: Any = (self.planner.planEpoch if stream else self.planner.planWrite)(info.handle, request)
        writer = task_writer(plan.task)
        writer.write(ROWS.to_batches()[0])
        message = writer.finish()
        if stream:
            self.planner.commitEpoch(plan.token, 0, [message])
        else:
            self.planner.commitWrite(plan.token, [message])
        return [plan.task, message]

    def micro_batch(self, name: str) -> list[bytes]:
        """Plan the first batch of a stream."""
        info = self.loaded(name)
        columns = [field["name"] for field in json.loads(info.schemaJson)["fields"]]
        request = ScanRequest(columns=columns, filters=[], options={}, schemaJson=info.schemaJson)
        stream: Any = self.planner.openStream(info.handle, request)
        start = self.planner.startOfStream(stream.task).json
        end = self.planner.advanceStream(stream.task, start, StreamLimits(), 0).json
        plan: Any = self.planner.planMicroBatch(stream.task, start, end)
        return [plan.task, *(split.payload for split in plan.splits)]

    def call(self, procedure: str, **arguments: str) -> list[bytes]:
        """Begin a procedure with a job, and abort it."""
        call = ProcedureCall(
            catalog=self.catalog, procedure=procedure, currentNamespace="db", argumentsJson=json.dumps(arguments)
        )
        answer: Any = self.planner.callProcedure(call)
        self.planner.abortProcedure(call, answer.job.token)
        return [answer.job.shared, *answer.job.tasks]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[DriverPlanner]:
    """A planner with the tables `t` with a key and `log` without one."""
    with interbed.load_catalog("lake", warehouse=str(tmp_path)) as catalog:
        catalog.create_database("db")
        columns: list[pa.Field[Any]] = [pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]
        keyed = pa.schema(columns)
        for name, schema, keys in (("t", keyed, ["id"]), ("log", ROWS.schema, [])):
            options = {"bucket": "1" if keys else "-1", "file-index.bloom-filter.columns": "v"}
            table = catalog.create_table(f"db.{name}", schema, primary_keys=keys, options=options)
            for _ in range(2):
                table.append(ROWS.cast(schema))
    made = DriverPlanner(tmp_path)
    yield made
    made.planner.close()


WAYS: dict[str, Callable[[DriverPlanner], list[bytes]]] = {
    "read": lambda driver: driver.scan("t"),
    "read of a log": lambda driver: driver.scan("log"),
    "read of a system table": lambda driver: driver.scan("t$files"),
    "read of changes": lambda driver: driver.scan("t$audit_log"),
    "read of compacted files": lambda driver: driver.scan("t$ro"),
    "append": lambda driver: driver.write("log"),
    "upsert": lambda driver: driver.write("t"),
    "overwrite": lambda driver: driver.write("log", WriteMode.OVERWRITE),
    "stream into a table": lambda driver: driver.write("t", stream=True),
    "stream of a table": lambda driver: driver.micro_batch("log"),
    "compaction": lambda driver: driver.call("compact", table="t"),
    "sorted compaction": lambda driver: driver.call("compact", table="log", order_strategy="order", order_by="id"),
    "compaction of databases": lambda driver: driver.call("compact_database"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_executors_get_has_no_secret(driver: DriverPlanner, way: str) -> None:
    sent = b"\n".join(whole(content) for content in WAYS[way](driver))
    assert b"/db.db/" in sent
    assert b"hush" not in sent
    assert b"hush" in driver.loaded("t").handle


def test_the_catalogs_own_tables_are_read_on_the_driver(driver: DriverPlanner) -> None:
    info: Any = driver.planner.loadTable(
        TableRef(catalog=driver.catalog, database="sys", table="catalog_options"), TimeTravel()
    )
    request = ScanRequest(columns=["key", "value"], filters=[], options={}, schemaJson=info.schemaJson)
    plan: Any = driver.planner.planScan(info.handle, request)
    rows = b"".join(split.payload for split in plan.splits)
    assert b"hush" not in whole(plan.task)
    # The rows that were asked for have the path of the keytab, and the secrets are masked in them.
    assert [value for value in SECRETS.values() if value.encode() in rows] == [
        SECRETS["security.kerberos.login.principal"],
        SECRETS["security.kerberos.login.keytab"],
    ]
