"""Eight processes that upsert into one table concurrently."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.registration import CURRENT_SNAPSHOT
from interbed.storage.meta.snapshot.snapshot import CommitKind
from tests.catalog.writer_process import SHARED_KEYS
from tests.support.servers.metastore import metastore
from tests.support.shares import LONG, each_run
from tests.support.writers import create_orders, finished, keys_of, own_keys, writers

WRITERS = 8
COMMITS = 20 if LONG else 10


# tests/storage/commit/test_processes.py does the same without a catalog.
@pytest.fixture(params=each_run(["filesystem", "hive"], lambda kind: kind == "hive"))
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Options of each kind of catalog."""
    warehouse = f"file:{tmp_path}/lake"
    if request.param == "filesystem":
        yield {"warehouse": warehouse}
        return
    with metastore() as uri:
        yield {"warehouse": warehouse, "metastore": "hive", "uri": uri, "lock-check-max-sleep": "200 ms"}


@pytest.mark.long
def test_eight_processes_lose_no_write(options: dict[str, str]) -> None:
    with interbed.CatalogFactory.create(options) as catalog:
        table = create_orders(catalog)
        with writers(options, range(WRITERS), COMMITS) as running:
            results = [finished(w) for w in running]
        assert "".join(errors for _, errors, _ in results) == ""
        assert [code for code, _, _ in results] == [0] * WRITERS
        acknowledged = [commits for _, _, commits in results]

        # Each commit is one snapshot, and there are no others.
        assert [[number for number, _ in commits] for commits in acknowledged] == [list(range(COMMITS))] * WRITERS
        ids = sorted(snapshot_id for commits in acknowledged for _, snapshot_id in commits)
        assert ids == list(range(1, WRITERS * COMMITS + 1))
        snapshots = table.snapshots()
        assert [s.id for s in snapshots] == ids
        assert len({s.commit_user for s in snapshots}) == WRITERS * COMMITS
        rows_each = 1 + len(SHARED_KEYS)
        assert [s.total_record_count for s in snapshots] == [rows_each * i for i in ids]

        # No write is missing, in the last snapshot and in snapshots before.
        for snapshot_id in (1, 37, 80, WRITERS * COMMITS):
            until = [[c for c in commits if c[1] <= snapshot_id] for commits in acknowledged]
            expected = set().union(*(keys_of(commits, i) for i, commits in enumerate(until)))
            assert own_keys(table, snapshot_id) == sorted(expected)

        # A writer sees its own commits, so that only the last commit of a writer can have won a shared key.
        shared = table.scan(filter="id < 0").to_arrow().to_pylist()
        assert [row["number"] for row in shared] == [COMMITS - 1] * len(SHARED_KEYS)

        if isinstance(catalog, HiveCatalog):
            entry = catalog.client.get_table("shop", "orders")
            assert entry.parameters[CURRENT_SNAPSHOT] == str(WRITERS * COMMITS)
            assert catalog.client.show_locks() == []


@pytest.mark.long
def test_concurrent_compactions_lose_no_write(options: dict[str, str]) -> None:
    with interbed.CatalogFactory.create(options) as catalog:
        table = create_orders(catalog, compacted=True)
        with writers(options, range(4), 10) as running:
            results = [finished(w) for w in running]
        assert [(code, errors) for code, errors, _ in results] == [(0, "")] * 4
        acknowledged = [commits for _, _, commits in results]
        snapshots = table.snapshots()
        assert [s.id for s in snapshots] == list(range(1, len(snapshots) + 1))
        kinds = [s.commit_kind for s in snapshots]
        assert kinds.count(CommitKind.APPEND) == 40
        assert kinds.count(CommitKind.COMPACT) == len(snapshots) - 40 > 0
        assert own_keys(table) == sorted(set().union(*(keys_of(commits, i) for i, commits in enumerate(acknowledged))))
        before: list[int] = []
        for snapshot in snapshots:
            now = own_keys(table, snapshot.id)
            new = set(now) - set(before)
            assert set(before) <= set(now)
            assert len(new) == (snapshot.commit_kind is CommitKind.APPEND)
            before = now
