"""The result of a scan depends on its arguments, not on earlier calls."""

from dataclasses import replace
from pathlib import Path

import pytest

from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.file_store import FileStore
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Plan
from tests.storage.commit.tables import data_file, message, primary_key_table

IN_1970, IN_2000 = 86_400_000, 950_000_000_000
SINCE = 600_000_000_000
"""A time between the two files, in milliseconds since the epoch."""


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A table with a file of 1970 and one of 2000."""
    store = primary_key_table(tmp_path)
    for name, millis in (("old", IN_1970), ("new", IN_2000)):
        FileStoreCommit(store, "u").commit([message(replace(data_file(name=name), creation_time_millis=millis))])
    return store


def planned(plan: Plan) -> set[str]:
    return {f.file_name for split in plan.splits for f in split.files}


def test_files_since_a_time_are_planned_without_naming_a_snapshot(store: FileStore) -> None:
    assert planned(TableScan(store, files_since=SINCE).plan()) == {"new"}
    assert planned(TableScan(store, files_since=SINCE, snapshot_id=2).plan()) == {"new"}


def test_a_time_given_by_the_caller_takes_precedence_over_the_options(store: FileStore) -> None:
    later = store.with_options({"scan.file-creation-time-millis": str(IN_2000 * 2)})
    assert planned(TableScan(later).plan()) == set()
    assert planned(TableScan(later, files_since=SINCE).plan()) == {"new"}


@pytest.mark.parametrize("since", [None, SINCE])
def test_entries_and_plans_are_the_same_in_any_order_of_calls(store: FileStore, since: int | None) -> None:
    asked = store.with_options({"scan.file-creation-time-millis": str(SINCE)})
    entries = TableScan(asked, files_since=since).entries()
    assert {e.file.file_name for e in entries} == ({"old", "new"} if since is None else {"new"})
    scan = TableScan(asked, files_since=since)
    plan = scan.plan()
    assert planned(plan) == {"new"}
    assert scan.entries() == entries
    assert scan.plan() == plan
