"""Whatever changes the versions of a table may be killed before any of its file-system calls: the next process sees
the table of before or of after, can repeat the call, write, expire and clean up.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.filesystem import FileSystemCatalog
from interbed.storage.table.table import Table
from tests.storage.version.crash_points import LATER, NAME, SCHEMA, Act, new_table, put, run_campaign, unsynced
from tests.support.shares import LONG
from tests.support.tally import Tally

OTHER = "d.other"


def history(catalog: FileSystemCatalog) -> Table:
    """Five snapshots with a tag on the second one."""
    table = catalog.get_table(NAME)
    put(table, 1, 2)
    table.create_tag("early", 2)
    put(table, 3, 4, 5)
    return table


def with_branch(catalog: FileSystemCatalog) -> None:
    """A branch from the tag that has gone on by one snapshot, while the table went on by three."""
    table = history(catalog)
    table.create_branch("work", "early")
    put(table.branch("work"), 33)


def with_longer_branch(catalog: FileSystemCatalog) -> None:
    table = history(catalog)
    table.create_branch("work", "early")
    put(table.branch("work"), 33, 44, 55, 66, 67)


def expired(catalog: FileSystemCatalog) -> None:
    table = history(catalog)
    table.expire_snapshots(retain_max=2, retain_min=1, clock=lambda: LATER)


def of(change: Callable[[Table], object]) -> Act:
    return lambda catalog: change(catalog.get_table(NAME))


ROWS = pa.table({"id": [1, 2], "v": [7, 8]}, schema=SCHEMA)
ONE = {"bucket": "1"}

OPERATIONS: dict[str, tuple[Callable[[FileSystemCatalog], object], Act]] = {
    "create_tag": (history, of(lambda t: t.create_tag("new", 3))),
    "replace_tag": (history, of(lambda t: t.replace_tag("early", 4))),
    "replace_tag of an expired snapshot": (expired, of(lambda t: t.replace_tag("early", 5))),
    "rename_tag": (history, of(lambda t: t.rename_tag("early", "old"))),
    "delete_tag": (history, of(lambda t: t.delete_tag("early"))),
    "delete_tag of an expired snapshot": (expired, of(lambda t: t.delete_tag("early"))),
    "expire_snapshots": (
        history,
        of(lambda t: t.expire_snapshots(retain_max=2, retain_min=1, clock=lambda: LATER)),
    ),
    "rollback_to": (history, of(lambda t: t.rollback_to(3))),
    "rollback_to the newest": (history, of(lambda t: t.rollback_to(5))),
    "rollback_to a tag whose snapshot expired": (expired, of(lambda t: t.rollback_to("early"))),
    "create_branch": (history, of(lambda t: t.create_branch("new", "early"))),
    "create_branch without a tag": (history, of(lambda t: t.create_branch("new"))),
    "create_branch of an expired snapshot": (expired, of(lambda t: t.create_branch("new", "early"))),
    "delete_branch": (with_branch, of(lambda t: t.delete_branch("work"))),
    "rename_branch": (with_branch, of(lambda t: t.rename_branch("work", "done"))),
    "drop_table": (with_branch, lambda catalog: catalog.drop_table(NAME)),
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
    "fast_forward": (with_branch, of(lambda t: t.fast_forward("work"))),
    "fast_forward to a longer branch": (with_longer_branch, of(lambda t: t.fast_forward("work"))),
}
REPEATED_IS_MORE = ("upsert", "upsert in a branch")
FILE_BY_FILE = ("drop_table", "drop_database", "create_table_as")
"""What no store does in one step; see tests/catalog for what is true in between."""
STEP = 1 if LONG else 15


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced(monkeypatch)


@pytest.mark.longer
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_change_of_versions_is_none_or_whole(operation: str, tmp_path: Path, tally: Tally) -> None:
    check(operation, tmp_path, tally)


@pytest.mark.long
@pytest.mark.usefixtures("like_a_store")
@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o not in FILE_BY_FILE])
def test_a_killed_change_in_a_store_is_none_or_whole(operation: str, tmp_path: Path, tally: Tally) -> None:
    check(operation, tmp_path, tally)


def check(operation: str, tmp_path: Path, tally: Tally) -> None:
    prepare, act = OPERATIONS[operation]
    template = tmp_path / "template"
    catalog = interbed.load_catalog("lake", warehouse=str(template))
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("d")
    new_table(catalog)
    prepare(catalog)
    campaign = run_campaign(
        template, operation, act, tmp_path, step=STEP, names=(NAME, OTHER), again=operation not in REPEATED_IS_MORE
    )
    tally("crash points of changes of versions", campaign.points)
    assert not campaign.failures, "\n".join(campaign.failures[:5])
