"""A table that was opened before another process dropped it and created another one of the same name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import CommitFailedError, CommitStateUnknownError, SnapshotNotFoundError
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.snapshot import snapshot
from interbed.storage.table.table import Table
from tests.support.servers.http_servers import running_s3

OLD = pa.schema([("id", pa.int64()), ("a", pa.int64())])
NEW = pa.schema([("id", pa.int64()), ("salary", pa.int64()), ("z", pa.int64())])
BUCKETS = {"bucket": "1"}
Work = Callable[[], object]
ROWS = [{"id": 7, "salary": 70, "z": 700}, {"id": 8, "salary": 80, "z": 800}]


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3("lake") as options:
        yield options


@dataclass(frozen=True)
class SharedWarehouse:
    """Catalogs of two processes over one warehouse."""

    mine: Any
    others: Any

    def opened(self, rows: int = 1) -> Table:
        """Create a table as one process has it open."""
        table: Table = self.mine.create_table("d.t", OLD, primary_keys=["id"], options=BUCKETS)
        for number in range(rows):
            table.append([{"id": number, "a": number}])
        return table

    def recreated(self) -> Table:
        """Drop and recreate the table as another process."""
        self.others.drop_table("d.t")
        table: Table = self.others.create_table("d.t", NEW, primary_keys=["id"], options=BUCKETS)
        return table


@pytest.fixture(params=["disk", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, store: dict[str, str]) -> SharedWarehouse:
    far = request.param == "s3"
    place = {"warehouse": f"s3://lake/{tmp_path.name}", **store} if far else {"warehouse": f"file:{tmp_path}"}
    found = SharedWarehouse(interbed.load_catalog("mine", **place), interbed.load_catalog("others", **place))
    found.mine.create_database("d")
    return found


def _add_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("late", "BIGINT")


def _rename_column(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("a", "b")


def _set_option(table: Table) -> None:
    with table.update_schema() as update:
        update.set_option("snapshot.num-retained.min", "3")


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "change",
    [
        _add_column,
        _rename_column,
        _set_option,
        lambda table: table.rescale(2),
        lambda table: table.append(pa.table({"id": [3], "a": [3], "more": [3]}), merge_schema=True),
        lambda table: table.rollback_to(1),
        lambda table: table.expire_snapshots(retain_max=1),
        lambda table: table.create_tag("t"),
        lambda table: table.create_branch("b"),
        lambda table: table.purge_files(),
        lambda table: table.reset_consumer("c", 1),
        lambda table: table.remove_orphan_files(),
    ],
)
def test_changes_of_the_dropped_table_do_not_change_the_recreated_one(
    lake: SharedWarehouse, change: Callable[[Table], Any]
) -> None:
    old = lake.opened()
    new = lake.recreated()
    for row in ROWS:
        new.append([row])
    with pytest.raises(CommitFailedError, match="was dropped"):
        change(old)
    found = lake.others.get_table("d.t")
    assert found.scan().to_arrow().to_pylist() == ROWS
    assert [each.id for each in found.store.schemas.list_all()] == [0]
    assert found.store.snapshots.ids() == [1, 2]
    assert (found.tags(), found.branches(), found.consumers()) == ([], [], {})


def _delay(monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, before: Work, after: Work | None = None) -> None:
    """Run functions just before a step of a process is executed for the first time, and just after it."""
    take = getattr(owner, step)

    def delayed(*given: Any) -> Any:
        monkeypatch.setattr(owner, step, take)
        before()
        taken = take(*given)
        if after is not None:
            after()
        return taken

    monkeypatch.setattr(owner, step, delayed)


@pytest.mark.sample(4)
@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("is_recreated", [True, False])
def test_a_delayed_writer_does_not_commit_to_the_recreated_table(
    lake: SharedWarehouse, monkeypatch: pytest.MonkeyPatch, is_recreated: bool, rows: int
) -> None:
    old = lake.opened(rows)
    swap = lake.recreated if is_recreated else partial(lake.others.drop_table, "d.t")
    _delay(monkeypatch, snapshot, "create_snapshot", swap)
    with pytest.raises(CommitFailedError, match="was dropped while it was written; nothing was committed"):
        old.append([{"id": 2, "a": 2}])
    new = lake.others.get_table("d.t") if is_recreated else lake.others.create_table("d.t", NEW, primary_keys=["id"])
    assert new.store.snapshots.ids() == []
    assert new.append([ROWS[0]]) == 1
    assert new.scan().to_arrow().to_pylist() == ROWS[:1]
    assert new.fsck().is_sound


def test_a_delayed_schema_change_is_withdrawn(lake: SharedWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    old = lake.opened()
    _delay(monkeypatch, SchemaManager, "commit", lake.recreated)
    with pytest.raises(CommitFailedError, match="was dropped"):
        _add_column(old)
    assert lake.others.get_table("d.t").schema.names == tuple(NEW.names)


def test_a_schema_that_the_recreated_table_has_used_is_not_withdrawn(
    lake: SharedWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = lake.opened()

    def commit_to_recreated() -> None:
        lake.others.get_table("d.t").append([{"id": 7, "a": 70}])

    _delay(monkeypatch, SchemaManager, "commit", lake.recreated, commit_to_recreated)
    with pytest.raises(CommitStateUnknownError, match="the new one has committed under the schema 1 already"):
        _add_column(old)
    assert lake.others.get_table("d.t").scan(columns=["id", "a"]).to_arrow().to_pylist() == [{"id": 7, "a": 70}]


def test_a_table_with_the_schemas_of_its_branch_is_not_a_recreated_one(lake: SharedWarehouse) -> None:
    table = lake.opened()
    table.versions.create_tag("t")
    table.versions.create_branch("b", "t")
    _add_column(table)
    late = lake.mine.get_table("d.t")
    branch = lake.mine.get_table("d.t$branch_b")
    _set_option(branch)
    lake.mine.get_table("d.t").fast_forward("b")
    assert late.create_tag("late").name == "late"
    with pytest.raises(CommitFailedError, match="it has the schemas of a branch now"):
        _set_option(late)


def test_a_stream_of_the_dropped_table_ends(lake: SharedWarehouse) -> None:
    old = lake.opened(2)
    stream = old.copy({"consumer-id": "me"}).stream()
    changes = iter(stream)
    next(changes)
    new = lake.recreated()
    for number in range(4):
        new.append([{"id": number, "salary": 1, "z": 1}])
    with pytest.raises(SnapshotNotFoundError, match="recreated"):
        next(changes)
    assert new.versions.consumers() == {}
