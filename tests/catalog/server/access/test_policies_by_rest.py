"""Row filters and column masks by REST: given to readers, and not to be passed by files, plans and statistics."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from interbed.catalog.server.credentials.issued import StorageOperation, permitted_operation
from interbed.catalog.server.service.access.objects import Privilege, table_object
from interbed.catalog.server.service.column_statistics import ColumnStatistics, StatisticsData, StatisticsKind
from interbed.catalog.server.service.errors import AccessDeniedError
from interbed.catalog.server.service.events import EventType
from interbed.catalog.server.service.notifications import HIDDEN_EVENT
from interbed.catalog.server.service.statistics import StatisticsUpdate
from tests.catalog.server.access.guarded import OWNER, READER, served
from tests.catalog.server.access.policed import LAKE, TRUSTED, PolicedMetastore, policed_metastore

TABLE = "v1/hive/databases/sales/tables/lake"
ICE = "v1/hive/namespaces/sales/tables/ice"


@pytest.fixture
def policed(tmp_path: Path) -> Iterator[PolicedMetastore]:
    """Return a metastore with policies."""
    with policed_metastore(tmp_path) as made:
        yield made


def test_readers_get_the_policies_that_bind_them_and_others_none(policed: PolicedMetastore) -> None:
    policed.set_filter("id > 5 AND city = 'Bonn'")
    policed.set_filter("city IS NOT NULL", name="second")
    policed.set_mask("phone", "'hidden'")
    status, answer = policed.send(READER, "POST", f"{TABLE}/auth", {"select": ["id"]})
    assert status == 200
    assert [json.loads(each)["kind"] for each in answer["filter"]] == ["COMPOUND", "LEAF"]
    assert {name: json.loads(mask) for name, mask in answer["columnMasking"].items()} == {
        "phone": {"name": "CONCAT", "inputs": ["hidden"]}
    }
    nothing: dict[str, object] = {"filter": [], "columnMasking": {}}
    assert policed.send(OWNER, "POST", f"{TABLE}/auth", {}) == (200, nothing)


def test_tables_with_policies_ask_bound_readers_to_apply_them(policed: PolicedMetastore) -> None:
    def asks(name: str) -> list[str | None]:
        alone = policed.send(name, "GET", TABLE)[1]
        details = policed.send(name, "GET", "v1/hive/databases/sales/table-details")[1]["tableDetails"]
        by_id = policed.send(name, "GET", f"v1/hive/tables/id/{alone['id']}")[1]
        (listed,) = [each for each in details if each["name"] == "lake"]
        return [each["schema"]["options"].get("query-auth.enabled") for each in (alone, listed, by_id)]

    assert asks(READER) == [None] * 3
    policed.set_filter("id > 5")
    assert asks(READER) == ["true"] * 3
    assert asks(TRUSTED) == [None] * 3


def test_policies_hold_for_branches(policed: PolicedMetastore) -> None:
    assert policed.send(OWNER, "POST", f"{TABLE}/branches", {"branch": "b"})[0] == 200
    policed.set_filter("id > 5")
    status, answer = policed.send(READER, "GET", f"{TABLE}$branch_b")
    assert (status, answer["schema"]["options"]["query-auth.enabled"]) == (200, "true")
    assert len(policed.send(READER, "POST", f"{TABLE}$branch_b/auth", {})[1]["filter"]) == 1


def test_a_policy_of_a_column_that_was_dropped_refuses_reads_by_name(policed: PolicedMetastore) -> None:
    policed.set_mask("phone", "UPPER(city)")
    change = {"changes": [{"action": "dropColumn", "fieldNames": ["city"]}]}
    assert policed.send(OWNER, "POST", TABLE, change)[0] == 200
    status, answer = policed.send(READER, "POST", f"{TABLE}/auth", {})
    assert status == 403
    assert "mask hide-phone of the column phone does not fit its columns any more" in answer["message"]
    assert policed.send(OWNER, "POST", f"{TABLE}/auth", {})[0] == 200


def test_bound_readers_get_no_credentials_unless_they_are_trusted(policed: PolicedMetastore) -> None:
    metastore = policed.guarded.metastore
    operation = partial(permitted_operation, metastore.access, metastore.policies)
    policed.set_mask("phone", "NULL", "role:public")
    with served(READER), pytest.raises(AccessDeniedError, match=r"no storage credentials .*mask .*access_trusted"):
        operation(LAKE)
    with served(TRUSTED):
        assert operation(LAKE) is StorageOperation.READ


def test_bound_readers_get_no_scan_plans_unless_they_are_trusted(policed: PolicedMetastore) -> None:
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
    }
    send = partial(policed.send, interface="iceberg")
    assert send(OWNER, "POST", "v1/hive/namespaces/sales/tables", {"name": "ice", "schema": schema})[0] == 200
    for name in (READER, TRUSTED):
        policed.guarded.grant(name, table_object("hive", "sales", "ice"), Privilege.SELECT)
    policed.set_filter("id > 5", "role:public", table="ice")
    for method, path, body in (
        ("POST", "plan", {}),
        ("GET", "plan/1", None),
        ("DELETE", "plan/1", None),
        ("POST", "tasks", {"plan-task": "x"}),
    ):
        status, answer = send(READER, method, f"{ICE}/{path}", body)
        assert (status, answer["error"]["type"]) == (403, "ForbiddenException"), path
        assert "reader gets no scan plans of the table hive.sales.ice" in answer["error"]["message"]
    assert send(TRUSTED, "POST", f"{ICE}/plan", {})[0] == 200
    assert send(READER, "GET", ICE)[0] == 200


def test_statistics_of_masked_columns_and_of_filtered_tables_are_left_out(policed: PolicedMetastore) -> None:
    statistics = policed.guarded.metastore.statistics
    key = ("hive", "sales", "lake")
    data = StatisticsData(kind=StatisticsKind.STRING, nulls=1)
    columns = tuple(ColumnStatistics(column=name, type="string", data=data) for name in ("city", "phone"))
    with served(OWNER):
        statistics.update(key, [StatisticsUpdate(columns=columns)])

    def seen() -> list[str]:
        with served(READER):
            return sorted(each.column for each in statistics.of_table(key, ["city", "phone"])[1])

    assert seen() == ["city", "phone"]
    policed.set_mask("phone", "NULL")
    assert seen() == ["city"]
    policed.set_filter("id > 5")
    assert seen() == []


def test_events_with_statistics_are_hidden_from_bound_readers(policed: PolicedMetastore) -> None:
    metastore = policed.guarded.metastore
    data = StatisticsData(kind=StatisticsKind.LONG, low=1, high=99)
    with served(OWNER):
        update = StatisticsUpdate(columns=(ColumnStatistics(column="id", type="bigint", data=data),))
        metastore.statistics.update(("hive", "sales", "lake"), [update])

    def types() -> list[str]:
        with served(READER):
            return [each.type for each in metastore.notifications.after(0)]

    before = types()
    assert before[-1] == EventType.UPDATE_TABLE_COLUMN_STAT
    policed.set_mask("phone", "NULL")
    assert types() == [*before[:-1], HIDDEN_EVENT]
