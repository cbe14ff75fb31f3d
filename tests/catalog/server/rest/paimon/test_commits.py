"""Commits by REST: the decision, repeated requests, rollbacks, and races with writers of Hive catalogs."""

import json
import threading
import uuid
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.server.rest.paimon.snapshots import CommitCheck, check_commit, commit
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.table.table import Table
from tests.catalog.server.rest.paimon.conftest import RestAnswer, RestClient
from tests.support.waits import at_most


def _snapshot(number: int, **changes: Any) -> Snapshot:
    made = Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list="base",
        delta_manifest_list="delta",
        commit_user="user",
        commit_identifier=number,
        commit_kind=CommitKind.APPEND,
        time_millis=0,
        total_record_count=0,
        delta_record_count=0,
        uuid=f"uuid-{number}",
    )
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("new", "latest", "stored", "base_uuid", "has_base", "result"),
    [
        (_snapshot(1), None, None, None, False, CommitCheck.CREATE),
        (_snapshot(1), None, None, None, True, CommitCheck.CREATE),
        (_snapshot(2), _snapshot(1), None, "uuid-1", True, CommitCheck.CREATE),
        # A rollback and another commit have replaced the base.
        (_snapshot(2), _snapshot(1), None, "uuid-x", True, CommitCheck.REFUSE),
        (_snapshot(2), _snapshot(1), None, None, True, CommitCheck.REFUSE),
        (_snapshot(3), _snapshot(1), None, None, False, CommitCheck.REFUSE),
        (_snapshot(1), _snapshot(4), None, None, False, CommitCheck.REFUSE),
        # The client had no answer, and sends its request again.
        (_snapshot(2), _snapshot(4), _snapshot(2), "uuid-1", True, CommitCheck.REPEATED),
        (_snapshot(2), _snapshot(2), _snapshot(2, uuid="another"), "uuid-1", True, CommitCheck.REFUSE),
        (_snapshot(2), _snapshot(2), _snapshot(2, commit_identifier=9), "uuid-1", True, CommitCheck.REFUSE),
        (_snapshot(2), _snapshot(2), _snapshot(2, commit_kind=CommitKind.COMPACT), None, False, CommitCheck.REFUSE),
    ],
)
def test_a_commit_is_created_repeated_or_refused(
    new: Snapshot,
    latest: Snapshot | None,
    stored: Snapshot | None,
    base_uuid: str | None,
    has_base: bool,
    result: CommitCheck,
) -> None:
    assert check_commit(new, latest, stored, base_uuid=base_uuid, has_base=has_base) is result


def _filled(rest: RestClient, hive: HiveCatalog, database: str) -> Table:
    rest.create_table(database, "t")
    table = hive.get_table(f"{database}.t")
    table.append(pa.table({"dt": ["a"], "id": [1]}))
    return table


def _next(table: Table, **changes: Any) -> Snapshot:
    """Return a snapshot with the rows of the newest one, as the next one of another user."""
    latest = table.latest_snapshot()
    assert latest is not None
    made = replace(
        latest,
        id=latest.id + 1,
        commit_user="rest",
        commit_identifier=7,
        commit_kind=CommitKind.ANALYZE,
        uuid=str(uuid.uuid4()),
    )
    return replace(made, **changes)


def _commit(rest: RestClient, database: str, new: Snapshot, **members: Any) -> RestAnswer:
    path = ("databases", database, "tables", "t")
    body = {"tableId": rest.get(*path)["id"], "snapshot": json.loads(new.to_json()), "statistics": [], **members}
    return rest.call("POST", "hive", *path, "commit", body=body)


def test_a_commit_makes_a_snapshot_and_moves_hint_and_pointer(
    rest: RestClient, hive: HiveCatalog, database: str
) -> None:
    table = _filled(rest, hive, database)
    base = table.latest_snapshot()
    assert base is not None
    new = _next(table)
    assert _commit(rest, database, new, baseSnapshotUuid=base.uuid).body == {"success": True}
    assert table.latest_snapshot() == new
    assert table.store.snapshots.noted_latest() == 2
    assert hive.client.get_table(database, "t").parameters["interbed.current-snapshot-id"] == "2"
    assert table.to_arrow().to_pylist() == [{"dt": "a", "id": 1}]


def test_a_repeated_commit_succeeds_and_makes_no_second_snapshot(
    rest: RestClient, hive: HiveCatalog, database: str
) -> None:
    table = _filled(rest, hive, database)
    new = _next(table)
    for _ in range(3):
        assert _commit(rest, database, new).body == {"success": True}
    table.append(pa.table({"dt": ["b"], "id": [2]}))
    assert _commit(rest, database, new).body == {"success": True}
    assert [each.id for each in table.snapshots()] == [1, 2, 3]


def test_a_commit_on_an_older_snapshot_is_refused(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    table = _filled(rest, hive, database)
    new = _next(table)
    table.append(pa.table({"dt": ["b"], "id": [2]}))
    assert _commit(rest, database, new).body == {"success": False}
    assert table.count() == 2
    # An id beyond the next one would leave a gap.
    assert _commit(rest, database, replace(new, id=9)).body == {"success": False}
    assert _commit(rest, database, replace(_next(table)), baseSnapshotUuid=None).body == {"success": False}


def test_a_commit_to_a_recreated_table_is_refused(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    table = _filled(rest, hive, database)
    new = _next(table)
    answer = _commit(rest, database, new, tableId=str(uuid.uuid4()))
    assert (answer.status, answer.body["resourceType"]) == (404, "TABLE")
    assert [each.id for each in table.snapshots()] == [1]


@pytest.mark.parametrize(
    "changes",
    [
        {"base_manifest_list": "../../other/manifest"},
        {"base_manifest_list": "manifest-list-of-nothing"},
        {"delta_manifest_list": "a/b"},
        {"index_manifest": ".."},
        {"statistics": "../x"},
    ],
)
def test_a_snapshot_of_files_that_are_not_the_tables_is_refused(
    rest: RestClient, hive: HiveCatalog, database: str, changes: dict[str, str]
) -> None:
    table = _filled(rest, hive, database)
    assert _commit(rest, database, _next(table, **changes)).status == 400
    assert [each.id for each in table.snapshots()] == [1]


def test_a_snapshot_of_another_form_is_refused(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    table = _filled(rest, hive, database)
    new = json.loads(_next(table).to_json())
    assert _commit(rest, database, _next(table), snapshot={**new, "id": "2"}).status == 400
    assert _commit(rest, database, _next(table), snapshot={**new, "version": 99}).status == 400
    assert _commit(rest, database, _next(table), snapshot=[]).status == 400


def test_a_rollback_during_a_commit_withdraws_it(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    table = _filled(rest, hive, database)
    table.append(pa.table({"dt": ["b"], "id": [2]}))
    new = _next(table)
    publisher = table.store.publisher

    class RolledBack:
        """Publisher in whose place another process rolls the table back before the snapshot is created."""

        def publish(self, snapshot: Snapshot) -> bool:
            hive.get_table(f"{database}.t").versions.rollback_to(1)
            return publisher.publish(snapshot)

    store = replace(table.store, publisher=RolledBack())
    assert commit(store, new, base_uuid=None, has_base=False) is False
    found = hive.get_table(f"{database}.t")
    assert [each.id for each in found.snapshots()] == [1]
    assert found.to_arrow().to_pylist() == [{"dt": "a", "id": 1}]


def test_racing_commits_of_rest_and_hive_make_one_history(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    """Both kinds of writers build on the newest snapshot; every accepted commit is one snapshot, and none is lost."""
    table = _filled(rest, hive, database)
    appends = 8
    accepted: list[Snapshot] = []

    def append() -> None:
        mine = hive.get_table(f"{database}.t")
        for number in range(appends):
            mine.append(pa.table({"dt": ["h"], "id": [number]}))

    def analyze() -> None:
        while len(accepted) < appends:
            base = table.latest_snapshot()
            assert base is not None
            new = replace(
                base,
                id=base.id + 1,
                commit_user="rest",
                commit_identifier=len(accepted),
                commit_kind=CommitKind.ANALYZE,
                uuid=str(uuid.uuid4()),
            )
            answer = _commit(rest, database, new, baseSnapshotUuid=base.uuid)
            if answer.status == 200 and answer.body["success"]:
                accepted.append(new)

    writers = [threading.Thread(target=work) for work in (append, analyze)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(timeout=at_most(120))
        assert not each.is_alive()
    found = {each.id: each for each in table.snapshots()}
    assert sorted(found) == list(range(1, 2 + 2 * appends))
    assert all(found[each.id].uuid == each.uuid for each in accepted)
    assert table.count() == 1 + appends


def test_snapshots_are_found_by_id_tag_and_position(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    rest.create_table(database, "t")
    path = ("databases", database, "tables", "t")
    answer = rest.call("GET", "hive", *path, "snapshot")
    assert (answer.status, answer.body["resourceType"]) == (404, "SNAPSHOT")
    table = hive.get_table(f"{database}.t")
    for number in range(3):
        table.append(pa.table({"dt": ["a"], "id": [number]}))
    table.versions.create_tag("v1", 2)
    for version, number in (("EARLIEST", 1), ("LATEST", 3), ("2", 2), ("v1", 2)):
        assert rest.get(*path, "snapshots", version)["snapshot"]["id"] == number
    for version in ("9", "none"):
        answer = rest.call("GET", "hive", *path, "snapshots", version)
        assert (answer.status, answer.body["resourceType"]) == (404, "SNAPSHOT")
    first = rest.get(*path, "snapshots", maxResults="2")
    assert ([each["id"] for each in first["snapshots"]], first["nextPageToken"]) == ([1, 2], "2")
    second = rest.get(*path, "snapshots", maxResults="2", pageToken="2")
    assert ([each["id"] for each in second["snapshots"]], second["nextPageToken"]) == ([3], None)


def test_a_rollback_checks_the_newest_snapshot_and_names_what_is_missing(
    rest: RestClient, hive: HiveCatalog, database: str
) -> None:
    table = _filled(rest, hive, database)
    table.append(pa.table({"dt": ["b"], "id": [2]}))
    path = ("hive", "databases", database, "tables", "t", "rollback")

    def roll_back(instant: dict[str, Any], newest: int | None = None) -> RestAnswer:
        return rest.call("POST", *path, body={"instant": instant, "fromSnapshot": newest})

    answer = roll_back({"type": "snapshot", "snapshotId": 1}, 9)
    assert (answer.status, answer.body["message"]) == (500, "Latest snapshot 2 is not 9")
    answer = roll_back({"type": "snapshot", "snapshotId": 7})
    assert (answer.status, answer.body["resourceType"], answer.body["resourceName"]) == (404, "SNAPSHOT", "7")
    answer = roll_back({"type": "tag", "tagName": "none"})
    assert (answer.status, answer.body["resourceType"]) == (404, "TAG")
    assert roll_back({"type": "snapshot"}).status == 400
    assert roll_back({"type": "snapshot", "snapshotId": 1}, 2).status == 200
    assert hive.get_table(f"{database}.t").count() == 1
