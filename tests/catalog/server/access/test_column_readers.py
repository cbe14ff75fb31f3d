"""Callers that may read some columns of a table: they see its schema, and nothing shows them other columns."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from interbed.catalog.server.credentials.issued import StorageOperation, permitted_operation
from interbed.catalog.server.service.access.objects import (
    Access,
    Caller,
    Privilege,
    SecuredKind,
    column_object,
    table_object,
)
from interbed.catalog.server.service.column_statistics import ColumnStatistics, StatisticsData, StatisticsKind
from interbed.catalog.server.service.errors import AccessDeniedError
from interbed.catalog.server.service.events import EventType
from interbed.catalog.server.service.lock_model import LockComponent, LockLevel, LockRequest, LockType
from interbed.catalog.server.service.notifications import HIDDEN_EVENT
from interbed.catalog.server.service.statistics import StatisticsUpdate
from tests.catalog.server.access.guarded import CLERK, NOBODY, OWNER, served
from tests.catalog.server.access.policed import LAKE, TRUSTED, PolicedMetastore, policed_metastore

TABLE = "v1/hive/databases/sales/tables/lake"
KEY = ("hive", "sales", "lake")


@pytest.fixture
def policed(tmp_path: Path) -> Iterator[PolicedMetastore]:
    """Return a metastore in which `clerk` may read two columns of the table."""
    with policed_metastore(tmp_path) as made:
        made.guarded.grants.revoke(TRUSTED)
        for name in (CLERK, TRUSTED):
            for column in ("id", "city"):
                made.guarded.grant(name, column_object(LAKE, column), Privilege.SELECT)
        yield made


def test_the_whole_schema_is_visible(policed: PolicedMetastore) -> None:
    status, answer = policed.send(CLERK, "GET", TABLE)
    assert status == 200
    assert [each["name"] for each in answer["schema"]["fields"]] == ["id", "city", "phone"]
    assert answer["schema"]["options"]["query-auth.enabled"] == "true"
    with served(CLERK):
        table = policed.guarded.metastore.tables.get(*KEY)
        assert table.storage is not None
        assert [each.name for each in table.storage.columns] == ["id", "city", "phone"]
        assert policed.guarded.metastore.tables.names("hive", "sales") == ["lake", "orders"]
    assert policed.send(NOBODY, "GET", TABLE)[0] == 404


def test_readers_are_authorized_for_their_columns_and_refused_by_name(policed: PolicedMetastore) -> None:
    send = partial(policed.send, CLERK, "POST", f"{TABLE}/auth")
    nothing: dict[str, object] = {"filter": [], "columnMasking": {}}
    for columns in (["id"], ["City", "id"], []):
        assert send({"select": columns}) == (200, nothing)
    for body in ({"select": ["id", "phone"]}, {}, {"select": None}, None):
        status, answer = send(body)
        assert status == 403, body
        assert "clerk lacks the privilege SELECT on the column phone of the table hive.sales.lake" in answer["message"]
    status, answer = send({"select": ["phone", "id", "_ROW_ID"]})
    assert (status, "on the columns phone, _ROW_ID of the table" in answer["message"]) == (403, True)
    assert policed.send(OWNER, "POST", f"{TABLE}/auth", {"select": ["phone"]}) == (200, nothing)
    assert send({"select": "phone"})[0] == 400


def test_row_filters_and_masks_bind_readers_of_columns_as_well(policed: PolicedMetastore) -> None:
    policed.set_filter("phone IS NOT NULL", f"user:{CLERK}")
    policed.set_mask("city", "UPPER(city)", f"user:{CLERK}")
    status, answer = policed.send(CLERK, "POST", f"{TABLE}/auth", {"select": ["city"]})
    assert (status, len(answer["filter"]), list(answer["columnMasking"])) == (200, 1, ["city"])
    assert policed.send(CLERK, "POST", f"{TABLE}/auth", {"select": ["phone"]})[0] == 403


def test_what_readers_of_columns_need_beside_is_answered(policed: PolicedMetastore) -> None:
    for path in ("snapshots", "tags", "branches"):
        assert policed.send(CLERK, "GET", f"{TABLE}/{path}")[0] == 200
    assert policed.send(OWNER, "POST", f"{TABLE}/branches", {"branch": "b"})[0] == 200
    assert policed.send(CLERK, "GET", f"{TABLE}$branch_b")[0] == 200
    assert policed.send(CLERK, "POST", f"{TABLE}$branch_b/auth", {"select": ["id"]})[0] == 200
    status, answer = policed.send(CLERK, "POST", f"{TABLE}$branch_b/auth", {})
    assert (status, "column phone" in answer["message"]) == (403, True)


def test_the_rest_needs_the_whole_table(policed: PolicedMetastore) -> None:
    for method, path, body in (
        ("GET", "partitions", None),
        ("POST", "commit", {"tableId": "x", "snapshot": {}, "statistics": []}),
        ("DELETE", "", None),
    ):
        status, answer = policed.send(CLERK, method, f"{TABLE}/{path}".rstrip("/"), body)
        assert (status, "lacks the privilege" in answer["message"]) == (403, True), path
    with served(CLERK), pytest.raises(AccessDeniedError, match="lacks the privilege SELECT on the table"):
        policed.guarded.metastore.partitions.names(KEY)


def test_credentials_are_for_the_whole_table_or_a_trusted_engine(policed: PolicedMetastore) -> None:
    metastore = policed.guarded.metastore
    operation = partial(permitted_operation, metastore.access, metastore.policies)
    with served(CLERK), pytest.raises(AccessDeniedError, match=r"no storage credentials .*whole table.*access_trusted"):
        operation(LAKE)
    with served(NOBODY), pytest.raises(AccessDeniedError, match="and on each of its columns"):
        operation(LAKE)
    with served(TRUSTED):
        assert operation(LAKE) is StorageOperation.READ
    with served(OWNER):
        assert operation(LAKE) is StorageOperation.WRITE


def test_scan_plans_are_for_the_whole_table_or_a_trusted_engine(policed: PolicedMetastore) -> None:
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
    }
    send = partial(policed.send, interface="iceberg")
    assert send(OWNER, "POST", "v1/hive/namespaces/sales/tables", {"name": "ice", "schema": schema})[0] == 200
    path = "v1/hive/namespaces/sales/tables/ice"
    for name in (CLERK, TRUSTED):
        policed.guarded.grant(name, column_object(table_object("hive", "sales", "ice"), "id"), Privilege.SELECT)
    assert send(CLERK, "GET", path)[0] == 200
    status, answer = send(CLERK, "POST", f"{path}/plan", {})
    assert status == 403
    assert "clerk gets no scan plans of the table hive.sales.ice" in answer["error"]["message"]
    assert send(TRUSTED, "POST", f"{path}/plan", {})[0] == 200


def test_iceberg_renames_are_followed_by_field_ids(policed: PolicedMetastore) -> None:
    def fields(*named: tuple[int, str]) -> list[dict[str, object]]:
        return [{"id": number, "name": name, "required": False, "type": "long"} for number, name in named]

    schema = {"type": "struct", "schema-id": 0, "fields": fields((1, "a"), (2, "b"), (3, "c"))}
    send = partial(policed.send, interface="iceberg")
    assert send(OWNER, "POST", "v1/hive/namespaces/sales/tables", {"name": "ice", "schema": schema})[0] == 200
    path = "v1/hive/namespaces/sales/tables/ice"
    followed: list[tuple[int, dict[str, str]]] = []
    tables = type(policed.guarded.store.read(lambda transaction: transaction.tables))
    plain = tables.follow_columns

    def record(self: object, table_id: int, names: dict[str, str]) -> None:
        followed.append((table_id, dict(names)))
        plain(self, table_id, names)  # type: ignore[arg-type]

    new = {"type": "struct", "schema-id": 1, "fields": fields((1, "b"), (2, "a"), (4, "c"))}
    updates = [{"action": "add-schema", "schema": new}, {"action": "set-current-schema", "schema-id": -1}]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables, "follow_columns", record)
        assert send(OWNER, "POST", path, {"requirements": [], "updates": updates})[0] == 200
        assert [names for _, names in followed] == [{"a": "b", "b": "a"}]
        properties = [{"action": "set-properties", "updates": {"x": "y"}}]
        assert send(OWNER, "POST", path, {"requirements": [], "updates": properties})[0] == 200
        assert len(followed) == 1


def test_statistics_of_other_columns_are_left_out(policed: PolicedMetastore) -> None:
    statistics = policed.guarded.metastore.statistics
    data = StatisticsData(kind=StatisticsKind.STRING, nulls=1)
    columns = tuple(ColumnStatistics(column=name, type="string", data=data) for name in ("city", "phone"))
    with served(OWNER):
        statistics.update(KEY, [StatisticsUpdate(columns=columns)])

    def seen(name: str) -> list[str]:
        with served(name):
            return sorted(each.column for each in statistics.of_table(KEY, None)[1])

    assert seen(CLERK) == ["city"]
    assert seen(OWNER) == ["city", "phone"]
    policed.set_mask("city", "NULL", f"user:{CLERK}")
    assert seen(CLERK) == []
    with served(CLERK):
        events = policed.guarded.metastore.notifications.after(0)
    shown = {each.type for each in events if each.table == "lake"}
    assert EventType.UPDATE_TABLE_COLUMN_STAT not in shown
    assert HIDDEN_EVENT in {each.type for each in events}


def test_readers_of_columns_lock_the_table_for_reading_alone(policed: PolicedMetastore) -> None:
    def request(kind: LockType) -> LockRequest:
        component = LockComponent(type=kind, level=LockLevel.TABLE, database="sales", table="lake", catalog="hive")
        return LockRequest(components=(component,), user="x", host="h")

    locks = policed.guarded.metastore.locks
    with served(CLERK):
        held = locks.lock(request(LockType.SHARED_READ))
        locks.unlock(held.id)
        with pytest.raises(AccessDeniedError, match="lacks the privilege INSERT or UPDATE"):
            locks.lock(request(LockType.SHARED_WRITE))
    with served(NOBODY), pytest.raises(AccessDeniedError, match="lacks the privilege SELECT or INSERT"):
        locks.lock(request(LockType.SHARED_READ))


def test_authorizers_that_do_not_know_columns_decide_as_before(policed: PolicedMetastore) -> None:
    class TablesOnly:
        def decide(self, caller: Caller, questions: list[Access]) -> list[bool]:
            assert caller.name == CLERK
            return [
                each.on.kind is not SecuredKind.COLUMN and each.privilege in (None, Privilege.SELECT)
                for each in questions
            ]

    policed.guarded.metastore.access.authorizer = TablesOnly()  # type: ignore[assignment]
    assert policed.send(CLERK, "GET", TABLE)[0] == 200
    assert policed.send(CLERK, "POST", f"{TABLE}/auth", {})[0] == 200
    with served(CLERK):
        assert policed.guarded.metastore.statistics.of_table(KEY, None)[1] == []
        assert (
            permitted_operation(policed.guarded.metastore.access, policed.guarded.metastore.policies, LAKE)
            is StorageOperation.READ
        )
