"""Procedures and calls of the planner on a table with row filters and column masks: none goes past them."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.procedures.procedure import Procedure
from interbed.spark_ext.procedures.registry import PROCEDURES
from interbed.spark_ext.process.planner import PlannerHandler
from interbed.spark_ext.read.reader import read_split
from interbed.storage.base.errors import InterbedError, NotSupportedError
from interbed.thrift_idl.planner.ttypes import (
    Aggregate,
    AggregateFunction,
    CatalogRef,
    ProcedureCall,
    ScanRequest,
    ScanTop,
    StreamLimits,
    TableRef,
    TimeTravel,
    WriteMode,
    WriteRequest,
)
from tests.spark_ext.policed import BOTH, FILTERED, FIRST, MASKED, READERS, PolicedServer, policed_server, shown

REFUSED = "has row filters or column masks for you"
NAMES = ["id", "city", "phone", "amount", "dt"]
TYPES = [pa.int32(), pa.string(), pa.string(), pa.int32(), pa.string()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicedServer]:
    """Run a server with the table `sales.lake`, whose policies bind its readers."""
    with policed_server(tmp_path_factory.mktemp("policed")) as made:
        with interbed.load_catalog("lake", **made.options("root")) as catalog:
            catalog.create_database("sales")
            table = catalog.create_table(
                "sales.lake",
                pa.schema(tuple(pa.field(name, kind) for name, kind in zip(NAMES, TYPES, strict=True))),
                primary_keys=["dt", "id"],
                partition_keys=["dt"],
                options={"bucket": "1"},
            )
            columns = [pa.array(values, kind) for values, kind in zip(zip(*FIRST, strict=True), TYPES, strict=True)]
            table.upsert(pa.Table.from_arrays(columns, names=NAMES))
            made.set_policies("sales.lake")
            for reader in READERS:
                catalog.grant("ALL", on="database sales", to=f"user {reader}")
        yield made


@pytest.fixture
def planner() -> Iterator[PlannerHandler]:
    """Return the planner of a driver."""
    made = PlannerHandler()
    yield made
    made.close()


def _catalog(server: PolicedServer, reader: str) -> Any:
    return CatalogRef(name="lake", options={"type": "interbed", **server.options(reader)})


def _info(server: PolicedServer, planner: PlannerHandler, reader: str) -> Any:
    return planner.loadTable(TableRef(catalog=_catalog(server, reader), database="sales", table="lake"), TimeTravel())


def _rows(plan: Any) -> list[tuple[Any, ...]]:
    found = [batch for split in plan.splits for batch in read_split(plan.task, split.payload)]
    return sorted((tuple(row.values()) for batch in found for row in batch.to_pylist()), key=repr)


def _request(columns: list[str], *filters: Any, **more: Any) -> Any:
    return ScanRequest(columns=columns, filters=[json.dumps(each) for each in filters], options={}, **more)


def _equal(column: str, kind: str, value: Any) -> Any:
    return {"op": "=", "args": [{"column": [column]}, {"type": kind, "value": value}]}


@pytest.mark.parametrize("reader", READERS)
def test_a_planner_ignores_what_would_show_more(server: PolicedServer, planner: PlannerHandler, reader: str) -> None:
    handle = _info(server, planner, reader).handle
    seen = sorted(shown(reader, FIRST), key=repr)
    top = ScanTop(column="amount", count=1, descending=True, nullsFirst=False)
    plan: Any = planner.planScan(handle, _request(NAMES, limit=1, top=top, partitioned=True, columnEstimates=True))
    assert _rows(plan) == seen
    assert plan.estimate is None
    assert plan.partitioning is None
    assert plan.metrics is None
    assert not any(split.nativeFiles or split.key for split in plan.splits)
    for kind in (AggregateFunction.COUNT_ROWS, AggregateFunction.MAX):
        column = None if kind is AggregateFunction.COUNT_ROWS else "amount"
        assert planner.aggregate(handle, _request([]), [Aggregate(kind=kind, column=column)]).rows is None


def test_conditions_that_were_not_offered_are_evaluated_on_masks(
    server: PolicedServer, planner: PlannerHandler
) -> None:
    handle = _info(server, planner, BOTH).handle
    raw, mask = _equal("phone", "string", "22"), _equal("phone", "string", "*Ulm")
    assert list(planner.pushFilters(handle, [json.dumps(each) for each in (raw, mask)])) == [0, 0]
    assert _rows(planner.planScan(handle, _request(["id"], raw))) == []
    assert _rows(planner.planScan(handle, _request(["id"], mask))) == [(2,), (4,)]
    hidden, visible = _equal("id", "integer", 1), _equal("id", "integer", 2)
    plans: list[Any] = [planner.planScan(handle, _request(["id"], each)) for each in (hidden, visible)]
    assert [len(plan.splits) for plan in plans] == [2, 2]
    assert [_rows(plan) for plan in plans] == [[], [(2,)]]
    only = planner.planScan(handle, _request(["id"], _equal("dt", "string", "a")))
    assert len(only.splits) == 1


def test_a_policy_that_is_set_meanwhile_is_in_force_for_a_loaded_table(
    server: PolicedServer, planner: PlannerHandler
) -> None:
    handle = _info(server, planner, FILTERED).handle
    with interbed.load_catalog("lake", **server.options("root")) as catalog:
        catalog.set_row_filter("sales.lake", "id = 4", to=[f"user {FILTERED}"], name="later")
        assert _rows(planner.planScan(handle, _request(["id"]))) == [(4,)]
        catalog.drop_policy("sales.lake", "later")
    assert _rows(planner.planScan(handle, _request(["id"]))) == [(2,), (4,)]


@pytest.mark.parametrize("column", ["__interbed_row", "__paimon_file_path", "__paimon_row_index"])
def test_hidden_columns_are_refused(server: PolicedServer, planner: PlannerHandler, column: str) -> None:
    handle = _info(server, planner, MASKED).handle
    with pytest.raises(NotSupportedError, match=f"{REFUSED}, and the hidden column '{column}'"):
        planner.planScan(handle, _request(["id", column]))


def test_writes_and_changes_of_rows_are_refused(server: PolicedServer, planner: PlannerHandler) -> None:
    info = _info(server, planner, MASKED)
    assert sorted(info.rowChanges.refusals) == ["DELETE", "MERGE", "UPDATE"]
    assert info.hiddenColumns == []
    write = WriteRequest(mode=WriteMode.APPEND, filters=[], schemaJson=info.schemaJson, queryId="q", options={})
    for refused in (
        lambda: planner.planWrite(info.handle, write),
        lambda: planner.planEpoch(info.handle, write),
        lambda: planner.targetOfRows(info.handle, info.schemaJson, {}, False),
        lambda: planner.deleteWhere(info.handle, []),
        lambda: planner.listPartitions(info.handle, "{}"),
        lambda: planner.truncatePartitions(info.handle, ['{"dt": "a"}']),
        lambda: planner.dropPartitions(info.handle, ['{"dt": "a"}']),
        lambda: planner.analyzeTable(
            TableRef(catalog=_catalog(server, MASKED), database="sales", table="lake"), [], True
        ),
    ):
        with pytest.raises(NotSupportedError, match=REFUSED):
            refused()


def test_a_stream_reads_shown_rows(server: PolicedServer, planner: PlannerHandler) -> None:
    for reader in READERS:
        request = ScanRequest(
            columns=NAMES, filters=[], options={"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
        )
        stream: Any = planner.openStream(_info(server, planner, reader).handle, request)
        assert stream.hadoopSettings is None
        start = planner.startOfStream(stream.task).json
        end = planner.advanceStream(stream.task, start, StreamLimits(), 0).json
        plan: Any = planner.planMicroBatch(stream.task, start, end)
        assert _rows(plan) == sorted(shown(reader, FIRST), key=repr)
        assert not any(split.nativeFiles for split in plan.splits)


def test_a_handle_keeps_the_rules_and_a_handle_without_them_is_none(
    server: PolicedServer, planner: PlannerHandler
) -> None:
    handle = TableHandle.from_bytes(_info(server, planner, BOTH).handle)
    assert handle.rules is not None
    assert TableHandle.from_bytes(handle.to_bytes()) == handle
    value = json.loads(handle.to_bytes())
    del value["rules"]
    with pytest.raises(InterbedError, match="Not a table handle"):
        TableHandle.from_bytes(json.dumps(value).encode())


WITHOUT_THE_TABLE = {
    "undrop": "names a dropped table",
    "migrate_table": "is refused for every table",
    "optimizing_status": "lists the processes of the optimizer",
    "ingest_kafka": "asks Kafka first, and writes",
}
"""Procedures that read no row of the table that they name, or none at all."""
OF_TABLES = ("table", "target_table", "source_table")
MORE = {"rollback": {"version": "1"}, "expire_partitions": {"expiration_time": "1 d"}}
ARGUMENTS = {"STRING": "1", "BOOLEAN": True, "INT": 1, "BIGINT": 1, "DOUBLE": 1.0, "MAP<STRING, STRING>": {}}


@pytest.mark.parametrize(
    "procedure",
    [
        pytest.param(each, id=name)
        for name, each in PROCEDURES.items()
        if name not in WITHOUT_THE_TABLE and any(p.name in OF_TABLES for p in each.parameters)
    ],
)
def test_no_procedure_goes_past_the_policies(
    server: PolicedServer, planner: PlannerHandler, procedure: Procedure
) -> None:
    arguments = {each.name: ARGUMENTS[each.type.sql] for each in procedure.parameters if each.required}
    arguments |= {each.name: "sales.lake" for each in procedure.parameters if each.name in OF_TABLES}
    arguments |= MORE.get(procedure.name, {})
    with pytest.raises(InterbedError) as refused:
        planner.callProcedure(
            ProcedureCall(
                catalog=_catalog(server, BOTH),
                procedure=procedure.name,
                currentNamespace="sales",
                argumentsJson=json.dumps(arguments),
            )
        )
    assert REFUSED in str(refused.value), procedure.name
