"""Rows that a server reads for its clients, over HTTP."""

from typing import Any

import pyarrow as pa
import pytest

from tests.catalog.server.rest.rows.served_rows import ROWS, SHOWN, RowsServer
from tests.support.waits import wait_until


def _nested(depth: int) -> dict[str, Any]:
    """Return a filter of conditions in each other, in interbed's JSON."""
    found: dict[str, Any] = {"op": "eq", "column": "id", "value": 1}
    for _ in range(depth):
        found = {"op": "not", "child": found}
    return found


def test_a_bound_reader_gets_shown_rows_and_values(server: RowsServer) -> None:
    answer = server.rows("ann")
    assert answer.rows == SHOWN
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert answer.table.schema == ROWS.schema


def test_a_reader_without_policies_gets_all(server: RowsServer) -> None:
    for user in ("bea", "root"):
        assert server.rows(user).rows == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ({}, SHOWN),
        ({"columns": ["phone", "id"]}, [{"phone": each["phone"], "id": each["id"]} for each in SHOWN]),
        ({"filter": "phone = '33'"}, []),
        ({"filter": "phone LIKE '*U%' AND id < 9"}, [SHOWN[1]]),
        ({"filter": {"op": "eq", "column": "phone", "value": "*Ulm"}}, [SHOWN[1]]),
        ({"filter": "id = 1 OR phone = '11'"}, []),
        ({"filter": "id < 6", "columns": ["id"], "limit": 1, "snapshot-id": 1}, [{"id": 3}]),
        ({"snapshot-id": 1}, SHOWN[:1]),
        ({"timestamp-millis": 4102444800000}, SHOWN),
        ({"limit": 0}, []),
    ],
)
def test_columns_filters_limits_and_versions(server: RowsServer, body: Any, rows: list[Any]) -> None:
    assert server.rows("ann", body).rows == rows


def test_rows_without_columns_are_counted(server: RowsServer) -> None:
    assert server.rows("ann", {"columns": []}).table.num_rows == len(SHOWN)
    assert server.rows("ann", {"columns": [], "filter": "phone = '*Bonn'"}).table.num_rows == 2


def test_tags_and_branches_have_the_policies_of_their_table(server: RowsServer) -> None:
    with server.catalog("root") as catalog:
        versions = catalog.get_table("sales.lake").versions
        versions.create_tag("first", 1)
        versions.create_branch("side", "first")
    assert server.rows("ann", {"tag": "first"}).rows == SHOWN[:1]
    assert server.rows("ann", {"branch": "side"}).rows == SHOWN[:1]
    assert server.rows("ann", table="lake%24branch_side").rows == SHOWN[:1]


@pytest.mark.parametrize(
    ("user", "body", "table", "status", "kind"),
    [
        ("eve", None, "lake", 404, "Database"),
        ("bea", None, "none", 404, "Table"),
        ("bea", {"columns": ["none"]}, "lake", 400, "BadRequest"),
        ("bea", {"columns": ["id", "id"]}, "lake", 400, "BadRequest"),
        ("bea", {"filter": "id >"}, "lake", 400, "BadRequest"),
        ("bea", {"filter": "id = 1; DROP TABLE lake"}, "lake", 400, "BadRequest"),
        ("bea", {"filter": "id = 1 UNION SELECT 1"}, "lake", 400, "BadRequest"),
        ("bea", {"filter": {"op": "nothing"}}, "lake", 400, "BadRequest"),
        ("bea", {"filter": {"op": "eq", "column": "__import__('os')", "value": 1}}, "lake", 400, "BadRequest"),
        ("bea", {"filter": "id = 'x'"}, "lake", 400, "BadRequest"),
        ("bea", {"filter": " OR ".join(["id = 1"] * 10_000)}, "lake", 400, "BadRequest"),
        ("bea", {"filter": "(" * 40_000 + "id = 1" + ")" * 40_000}, "lake", 400, "BadRequest"),
        ("bea", {"filter": "NOT " * 5000 + "id = 1"}, "lake", 400, "BadRequest"),
        ("bea", {"filter": _nested(900)}, "lake", 400, "BadRequest"),
        ("bea", {"limit": -1}, "lake", 400, "BadRequestException"),
        ("bea", {"colums": ["id"]}, "lake", 400, "BadRequestException"),
        ("bea", {"tag": "first", "snapshot-id": 1}, "lake", 400, "BadRequest"),
        ("bea", {"snapshot-id": 77}, "lake", 404, "Snapshot"),
        ("bea", {"tag": "none"}, "lake", 404, "Tag"),
        ("bea", {"branch": "none"}, "lake", 404, "Branch"),
        ("bea", {"branch": "none"}, "lake%24branch_none", 400, "BadRequest"),
        ("bea", None, "lake%24files", 404, "Table"),
        ("bea", {"incremental-between": "1,2"}, "lake", 400, "BadRequest"),
        ("bea", {"incremental-between": "1"}, "lake%24audit_log", 400, "BadRequest"),
        ("bea", {"incremental-between": "1,2", "tag": "first"}, "lake%24audit_log", 400, "BadRequest"),
        ("clerk", None, "lake", 403, "Forbidden"),
        ("clerk", {"columns": ["id"], "filter": "phone = '11'"}, "lake", 403, "Forbidden"),
    ],
)
def test_other_requests_are_refused_by_name(
    server: RowsServer, user: str, body: Any, table: str, status: int, kind: str
) -> None:
    answer = server.rows(user, body, table)
    assert (answer.status, answer.error["type"], answer.error["code"]) == (status, kind, status), answer.body


def test_a_reader_of_some_columns_gets_these(server: RowsServer) -> None:
    answer = server.rows("clerk", {"columns": ["id", "city"], "filter": "city = 'Ulm'"})
    assert answer.rows == [{"id": 5, "city": "Ulm"}]
    refused = server.rows("clerk", {"columns": ["id", "phone"]})
    assert "the column phone of the table hive.sales.lake" in refused.error["message"]


def test_each_stream_is_a_line_of_the_audit_log(server: RowsServer) -> None:
    answer = server.rows("ann", {"columns": ["id"]})
    wait_until(lambda: any(line["request_id"] == answer.headers["x-request-id"] for line in server.audit))
    (line,) = [each for each in server.audit if each["request_id"] == answer.headers["x-request-id"]]
    assert {name: line.get(name) for name in ("user", "catalog", "database", "table", "outcome", "rows", "bytes")} == {
        "user": "ann",
        "catalog": "hive",
        "database": "sales",
        "table": "lake",
        "outcome": "ok",
        "rows": 3,
        "bytes": len(answer.body),
    }
    refused = server.rows("clerk")
    wait_until(lambda: server.audit[-1]["request_id"] == refused.headers["x-request-id"])
    assert server.audit[-1]["outcome"] == "refused"
    assert "the column phone" in server.audit[-1]["error"]


def test_changes_are_shown_as_the_filter_shows_them(server: RowsServer) -> None:
    schema = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.int64())))
    with server.catalog("root") as catalog:
        options = {"bucket": "1", "changelog-producer": "lookup"}
        table = catalog.create_table("sales.changed", schema, primary_keys=["id"], options=options)
        table.upsert([{"id": 1, "amount": 9}, {"id": 2, "amount": 1}, {"id": 3, "amount": 8}])
        first = table.latest_snapshot()
        table.upsert([{"id": 1, "amount": 2}, {"id": 2, "amount": 7}, {"id": 3, "amount": 6}])
        last = table.latest_snapshot()
        catalog.grant("SELECT", on="table sales.changed", to="user ann")
        catalog.set_row_filter("sales.changed", "amount > 4", to=["user ann"])
    assert first is not None
    assert last is not None
    between = {"incremental-between": f"{first.id},{last.id}"}
    wait_until(lambda: server.rows("ann", {"limit": 0}, "changed").status == 200)
    found = server.rows("ann", between, "changed%24audit_log").table.to_pylist()
    assert [tuple(row.values()) for row in found] == [("-D", 1, 9), ("+I", 2, 7), ("-U", 3, 8), ("+U", 3, 6)]
    packed = server.rows("ann", {**between, "filter": "rowkind = '+U'"}, "changed%24binlog").table.to_pylist()
    assert packed == [{"rowkind": "+U", "id": [3, 3], "amount": [8, 6]}]
    refused = server.rows("ann", None, "changed%24audit_log")
    assert (refused.status, refused.error["type"]) == (501, "NotSupported")
    assert "deleted keys without the rows before" in refused.error["message"]
