"""Any change of a table's versions may be killed before any of its file-system calls.

The next process sees the table of before or of after, and can repeat the call, write, expire and clean up.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import TableExistsError
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.table.table import Table
from tests.storage.version.crash_points import (
    LATER,
    NAME,
    SCHEMA,
    Act,
    begin,
    catalog_of,
    new_table,
    opened,
    put,
    run_campaign,
    seen,
    unsynced,
)
from tests.support.dying_disk import SimulatedKill
from tests.support.shares import LONG, each_run
from tests.support.tally import Tally

OTHER = "d.other"


def history(catalog: FileSystemCatalog) -> Table:
    """Commit five snapshots, and tag the second one."""
    table = catalog.get_table(NAME)
    put(table, 1, 2)
    table.versions.create_tag("early", 2)
    put(table, 3, 4, 5)
    return table


def with_branch(catalog: FileSystemCatalog) -> None:
    """Create a branch from the tag with one more snapshot; the table has three more by then."""
    table = history(catalog)
    table.versions.create_branch("work", "early")
    put(table.branch("work"), 33)


def with_changed_schema(catalog: FileSystemCatalog) -> None:
    history(catalog)
    catalog.alter_table(NAME, interbed.SchemaChange.set_option("snapshot.num-retained.max", "90"))


def with_unused_schemas(catalog: FileSystemCatalog) -> None:
    """Change the schema twice after the last snapshot."""
    with_changed_schema(catalog)
    catalog.alter_table(NAME, interbed.SchemaChange.set_option("snapshot.num-retained.max", "91"))


def with_longer_branch(catalog: FileSystemCatalog) -> None:
    table = history(catalog)
    table.versions.create_branch("work", "early")
    put(table.branch("work"), 33, 44, 55, 66, 67)


def with_expired_branch(catalog: FileSystemCatalog) -> None:
    """Create a branch with the next snapshots after those of the table, all but the newest of which expire."""
    with_longer_branch(catalog)
    branch = catalog.get_table(NAME).branch("work")
    branch.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)


def expired(catalog: FileSystemCatalog) -> None:
    table = history(catalog)
    table.maintenance.expire_snapshots(retain_max=2, retain_min=1, clock=lambda: LATER)


def of(change: Callable[[Table], object]) -> Act:
    return lambda catalog: change(catalog.get_table(NAME))


ROWS = pa.table({"id": [1, 2], "v": [7, 8]}, schema=SCHEMA)
ONE = {"bucket": "1"}

OPERATIONS: dict[str, tuple[Callable[[FileSystemCatalog], object], Act]] = {
    "create_tag": (history, of(lambda t: t.versions.create_tag("new", 3))),
    "replace_tag": (history, of(lambda t: t.versions.replace_tag("early", 4))),
    "replace_tag of an expired snapshot": (expired, of(lambda t: t.versions.replace_tag("early", 5))),
    "rename_tag": (history, of(lambda t: t.versions.rename_tag("early", "old"))),
    "delete_tag": (history, of(lambda t: t.versions.delete_tag("early"))),
    "delete_tag of an expired snapshot": (expired, of(lambda t: t.versions.delete_tag("early"))),
    "expire_snapshots": (
        history,
        of(lambda t: t.maintenance.expire_snapshots(retain_max=2, retain_min=1, clock=lambda: LATER)),
    ),
    "rollback_to": (history, of(lambda t: t.versions.rollback_to(3))),
    "rollback_to the newest": (history, of(lambda t: t.versions.rollback_to(5))),
    "rollback_to a tag whose snapshot expired": (expired, of(lambda t: t.versions.rollback_to("early"))),
    "rollback_schema": (with_unused_schemas, of(lambda t: t.versions.rollback_schema(0))),
    "create_branch": (history, of(lambda t: t.versions.create_branch("new", "early"))),
    "create_branch without a tag": (history, of(lambda t: t.versions.create_branch("new"))),
    "create_branch of an expired snapshot": (expired, of(lambda t: t.versions.create_branch("new", "early"))),
    "delete_branch": (with_branch, of(lambda t: t.versions.delete_branch("work"))),
    "rename_branch": (with_branch, of(lambda t: t.versions.rename_branch("work", "done"))),
    "drop_table": (with_branch, lambda catalog: catalog.drop_table(NAME)),
    "drop_table that was altered": (with_changed_schema, lambda catalog: catalog.drop_table(NAME)),
    "rename_table": (with_branch, lambda catalog: catalog.rename_table(NAME, OTHER)),
    "create_table": (history, lambda catalog: new_table(catalog, OTHER)),
    "create_table_as": (
        history,
        lambda catalog: catalog.create_table_as(OTHER, ROWS, primary_keys=["id"], options=ONE),
    ),
    "drop_database": (with_branch, lambda catalog: catalog.drop_database("d", cascade=True)),
    "upsert": (history, of(lambda t: put(t, 6))),
    "upsert in a branch": (with_branch, of(lambda t: put(t.branch("work"), 6))),
    "compact": (history, of(lambda t: t.compact())),
    "fast_forward": (with_branch, of(lambda t: t.versions.fast_forward("work"))),
    "fast_forward to a longer branch": (with_longer_branch, of(lambda t: t.versions.fast_forward("work"))),
    "fast_forward to an expired branch": (with_expired_branch, of(lambda t: t.versions.fast_forward("work"))),
}
REPEATED_IS_MORE = ("upsert", "upsert in a branch")
NOT_IN_STORES = ("rename_branch", "rename_table", "create_table_as")
"""Operations that are refused in an object store, or whose table is visible there before it has its rows."""
IN_STORES_OF_EACH_RUN = (
    "create_tag",
    "expire_snapshots",
    "rollback_to",
    "create_branch",
    "drop_table",
    "drop_database",
    "upsert",
    "compact",
    "fast_forward",
)
"""One operation of each kind. The others are similar, and each of them dies on a disk in every run."""
STEP = 1 if LONG else 15
STORE_STEP = 2 if LONG else 25


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced(monkeypatch)


@pytest.mark.sample(8)
@pytest.mark.longer
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_change_of_versions_is_atomic(operation: str, tmp_path: Path, tally: Tally) -> None:
    prepare, act = OPERATIONS[operation]
    template = tmp_path / "template"
    begin(catalog_of(template), prepare)
    campaign = run_campaign(
        template, operation, act, tmp_path, step=STEP, names=(NAME, OTHER), again=operation not in REPEATED_IS_MORE
    )
    tally("crash points of changes of versions", campaign.points)
    assert not campaign.failures, "\n".join(campaign.failures[:5])


@pytest.mark.sample(3)
@pytest.mark.longer
@pytest.mark.parametrize(
    "operation", each_run([o for o in OPERATIONS if o not in NOT_IN_STORES], lambda o: o in IN_STORES_OF_EACH_RUN)
)
def test_a_killed_change_of_versions_in_an_object_store_is_atomic(operation: str, tmp_path: Path, tally: Tally) -> None:
    prepare, act = OPERATIONS[operation]
    template = tmp_path / "template"
    catalog, _ = opened(template, in_store=True)
    begin(catalog, prepare)
    again = operation not in REPEATED_IS_MORE
    campaign = run_campaign(
        template, operation, act, tmp_path, step=STORE_STEP, names=(NAME, OTHER), again=again, in_store=True
    )
    tally("crash points of changes of versions in an object store", campaign.points)
    assert not campaign.failures, "\n".join(campaign.failures[:5])


@pytest.mark.parametrize("operation", ["rename_branch", "rename_table"])
def test_directories_are_not_renamed_in_an_object_store(operation: str, tmp_path: Path) -> None:
    prepare, act = OPERATIONS[operation]
    catalog, _ = opened(tmp_path, in_store=True)
    before = begin(catalog, prepare)
    with pytest.raises(NotSupportedError, match="can't rename one in one step"):
        act(catalog)
    assert (seen(catalog), seen(catalog, OTHER)) == (before, None)


def test_a_killed_creation_with_rows_in_an_object_store_leaves_none_all_or_an_empty_table(tmp_path: Path) -> None:
    _, act = OPERATIONS["create_table_as"]
    catalog, counting = opened(tmp_path / "whole", in_store=True)
    catalog.create_database("d")
    act(catalog)
    whole = seen(catalog, OTHER)
    for point in range(0, len(counting.calls), 1 if LONG else 5):
        warehouse = tmp_path / str(point)
        catalog, _ = opened(warehouse, in_store=True)
        catalog.create_database("d")
        dying, _ = opened(warehouse, point, in_store=True)
        with contextlib.suppress(SimulatedKill):
            act(dying)
        found = seen(catalog, OTHER)
        assert found is None or found == whole or not found.rows
        # The same call is refused because of the empty table, and says so, until the table is dropped.
        if found is not None:
            with pytest.raises(TableExistsError):
                act(catalog)
            catalog.drop_table(OTHER)
        act(catalog)
        assert seen(catalog, OTHER) == whole
