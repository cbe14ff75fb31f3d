"""Commits of other writers during a rewrite are neither lost nor undone."""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from interbed.iceberg.optimize.expire import named_files
from interbed.iceberg.table import IcebergTable
from interbed.storage.base.errors import CommitConflictError, CommitFailedError, CommitStateUnknownError
from tests.iceberg.java_tables import assert_alike
from tests.iceberg.optimize.tables import InterruptedHome, interrupted, opened
from tests.support.peers.iceberg import IcebergPeer
from tests.support.shares import LONG, each_run

Event = Callable[[IcebergPeer, str], Any]


def rows_of(start: int) -> list[list[Any]]:
    """Return a hundred rows with consecutive ids."""
    return [[start + number, "x"] for number in range(100)]


def made(peer: IcebergPeer, version: int) -> str:
    """Create a table of two data files with equality deletes and position deletes."""
    table = peer.new_table("id INT, v STRING", version)
    first = peer.append(table, rows_of(0))
    peer.append(table, rows_of(100))
    peer.equality_delete(table, ["id"], [[1], [101]])
    (peer.deletion_vector if version == 3 else peer.position_delete)(table, [(first, 7)])
    return table


def delete_a_row(peer: IcebergPeer, table: str) -> None:
    """Delete a row by position, as Spark does."""
    peer.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    peer.run(f"DELETE FROM {table} WHERE id = 50")


EVENTS: dict[str, Event] = {
    "rows": lambda peer, table: peer.append(table, rows_of(200)),
    "keys": lambda peer, table: peer.equality_delete(table, ["id"], [[2], [102]]),
    "positions": delete_a_row,
    "rewrite": lambda peer, table: peer.run(
        f"CALL ice.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    ),
    "update": lambda peer, table: peer.run(f"UPDATE {table} SET v = 'new' WHERE id = 60"),
    "column": lambda peer, table: peer.run(f"ALTER TABLE {table} ADD COLUMN w INT"),
}
OF_EACH_RUN = ("keys", "rewrite")
"""Deletes that have to apply to the rows of the new files, and a rewrite of the same files."""


@pytest.mark.longer
@pytest.mark.parametrize(
    ("version", "mode"), each_run(list(product([2, 3], ["minor", "full"])), lambda case: case == (3, "full"))
)
def test_concurrent_commits_are_kept(peer: IcebergPeer, version: int, mode: str) -> None:
    for name in EVENTS if LONG else OF_EACH_RUN:
        event = EVENTS[name]
        expected = made(peer, version)
        event(peer, expected)
        table = made(peer, version)
        result = interrupted(peer, table, partial(event, peer, table)).compact(mode=mode)
        assert result.snapshot_id is not None, name
        assert assert_alike(peer, table) == assert_alike(peer, expected), name
        assert opened(peer, table).compact(mode=mode) is not None
        assert assert_alike(peer, table) == assert_alike(peer, expected), name


@pytest.mark.long
def test_a_rollback_to_before_the_read_snapshot_is_a_conflict(peer: IcebergPeer) -> None:
    table = made(peer, 2)
    older = opened(peer, table).snapshots()[1].snapshot_id

    def back() -> None:
        peer.run(f"CALL ice.system.rollback_to_snapshot('{table}', {older})")

    found = interrupted(peer, table, back)
    assert found.compact().snapshot_id is not None
    # All 200 rows are visible again: the rollback also removed the deletes that came after that snapshot.
    assert len(assert_alike(peer, table)) == 200


def files_of(table: IcebergTable) -> set[str]:
    """Return all files in the table's directory."""
    root = Path(table.location.removeprefix("file:"))
    return {str(path) for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")}


def unnamed(table: IcebergTable) -> set[str]:
    """Return the files that the table's metadata do not reference."""
    assert table.home is not None
    named = {path.removeprefix("file:") for path in named_files(table.home.load())}
    return {path for path in files_of(table) if path not in named and "/metadata/v" not in path}


def test_an_abandoned_rewrite_leaves_no_files(peer: IcebergPeer) -> None:
    table = made(peer, 3)
    before = assert_alike(peer, table)
    found = opened(peer, table)
    files, others = files_of(found), unnamed(found)

    def lost() -> None:
        raise CommitFailedException("another one was faster")

    assert found.home is not None
    found.home = InterruptedHome(found.home, *[lost] * 100)
    peer.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('commit.retry.num-retries'='2', 'commit.retry.min-wait-ms'='1')")
    files = files_of(opened(peer, table))
    for mode in ("minor", "full"):
        with pytest.raises(CommitFailedError, match="came first 3 times"):
            found.compact(mode=mode)
    assert files_of(found) == files
    assert unnamed(found) == others
    assert assert_alike(peer, table) == before


@pytest.mark.long
def test_a_rewrite_with_repeated_conflicts_is_abandoned(peer: IcebergPeer) -> None:
    table = made(peer, 2)
    others = unnamed(opened(peer, table))
    keys = iter(range(20, 90))

    def delete() -> None:
        data = [file.path for file in peer.files(table) if file.content == "data"]
        peer.position_delete(table, [(path, next(keys)) for path in data])

    found = interrupted(peer, table, *[delete] * 10)
    with pytest.raises(CommitConflictError, match="deleted rows of"):
        found.compact()
    assert unnamed(found) == others
    assert len(assert_alike(peer, table)) == 197 - 3 * 2


def test_a_commit_whose_response_was_lost_is_looked_up_and_an_unknown_state_keeps_all_files(peer: IcebergPeer) -> None:
    table = made(peer, 3)
    before = assert_alike(peer, table)
    found = opened(peer, table)
    home = found.home
    assert home is not None

    class LossyHome(InterruptedHome):
        """Table home whose responses are lost, after the commit or before it."""

        carries_out = True

        def commit(self, base: Any, requirements: Any, updates: Any) -> None:
            if self.carries_out:
                super().commit(base, requirements, updates)
            raise ConnectionError("the connection broke")

    found.home = lossy = LossyHome(home)
    assert found.compact(mode="minor").snapshot_id is not None
    assert assert_alike(peer, table) == before
    lossy.carries_out = False
    with pytest.raises(CommitStateUnknownError, match="nothing was cleaned up"):
        found.compact(mode="full")
    left = unnamed(opened(peer, table))
    assert any(path.endswith("-0.parquet") for path in left)
    assert any("/snap-" in path for path in left)
    assert assert_alike(peer, table) == before
