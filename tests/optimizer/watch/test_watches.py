"""Detection of changed tables in a catalog of directories and in a metastore, by the same tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import interbed.testing
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.factory import open_catalog
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.optimizer.flow.tables import TableWatch
from interbed.optimizer.watch import LIST_MILLIS, METASTORE_LIST_MILLIS, ROUNDS, FilesWatch, HiveWatch, SnapshotSweep
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.table import load_table

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = pa.table({"id": [1]}, schema=SCHEMA)
LISTED = max(LIST_MILLIS, METASTORE_LIST_MILLIS)


class WatchedCatalog:
    """A catalog with its watch, on a clock that the test sets."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.now = 1_000_000
        self.sweep = SnapshotSweep(lambda: self.now)
        self.watch: TableWatch = self.made()
        catalog.create_database("shop")

    def made(self) -> TableWatch:
        if isinstance(self.catalog, HiveCatalog):
            return HiveWatch(self.catalog.client, self.sweep, lambda: self.now)
        return FilesWatch(self.catalog, self.sweep, lambda: self.now)

    def create(self, name: str) -> None:
        self.catalog.create_table(name, Schema.from_pyarrow_schema(SCHEMA), False)

    def seen(self) -> tuple[set[str], set[str]]:
        """Return the answer of the watch; opens the changed tables, as the engine does."""
        found = self.watch.changes()
        for name in found.changed:
            if self.catalog.table_exists(name):
                self.sweep.remember(name, self.catalog.get_table(name).store)
        return set(found.changed), set(found.removed)

    def settled(self) -> None:
        """Assert that the watch has no more changes."""
        while any(self.seen()):
            pass


@pytest.fixture(params=["files", "metastore"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WatchedCatalog]:
    if request.param == "files":
        with open_catalog("lake", {"warehouse": str(tmp_path)}) as catalog:
            yield WatchedCatalog(catalog)
        return
    with (
        interbed.testing.metastore(warehouse=f"file:{tmp_path}") as uri,
        open_catalog("lake", {"metastore": "hive", "uri": uri}) as catalog,
    ):
        yield WatchedCatalog(catalog)


def test_the_first_answer_has_all_tables(watched: WatchedCatalog) -> None:
    watched.create("shop.orders")
    watched.create("shop.clients")
    changed, removed = watched.seen()
    assert {"shop.orders", "shop.clients"} <= changed
    assert not removed


def test_the_next_answer_has_the_table_of_a_commit(watched: WatchedCatalog) -> None:
    for name in ("shop.orders", "shop.clients"):
        watched.create(name)
        watched.catalog.get_table(name).append(ROWS)
    watched.settled()
    watched.catalog.get_table("shop.orders").append(ROWS)
    assert watched.seen()[0] == {"shop.orders"}
    watched.settled()
    assert watched.seen() == (set(), set())


def test_commits_unknown_to_the_catalog_are_detected_after_a_while(watched: WatchedCatalog) -> None:
    watched.create("shop.orders")
    watched.catalog.get_table("shop.orders").append(ROWS)
    watched.settled()
    # An idle table is checked in turn with the others.
    watched.now += 10 * 3_600_000
    watched.settled()
    load_table(watched.catalog.get_table("shop.orders").location).append(ROWS)
    assert any("shop.orders" in watched.seen()[0] for _ in range(ROUNDS + 1))


def test_created_and_dropped_tables_are_detected(watched: WatchedCatalog) -> None:
    watched.create("shop.orders")
    watched.settled()
    watched.create("shop.clients")
    watched.catalog.drop_table("shop.orders")
    watched.now += LISTED
    assert watched.seen() == ({"shop.clients"}, {"shop.orders"})


def test_a_renamed_table_is_reported_as_removed_and_as_new(watched: WatchedCatalog) -> None:
    watched.create("shop.orders")
    watched.settled()
    watched.catalog.rename_table("shop.orders", "shop.bills")
    watched.now += LISTED
    changed, removed = watched.seen()
    assert "shop.bills" in changed
    assert "shop.orders" in removed


def test_changes_missing_after_a_failure_are_in_the_next_answer(
    watched: WatchedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.create("shop.orders")
    watched.catalog.get_table("shop.orders").append(ROWS)
    watched.settled()
    watched.catalog.get_table("shop.orders").append(ROWS)
    broken: Callable[[], set[str]] = watched.sweep.round

    def fails() -> set[str]:
        raise OSError("the store is away")

    monkeypatch.setattr(watched.sweep, "round", fails)
    with pytest.raises(OSError, match="the store is away"):
        watched.watch.changes()
    monkeypatch.setattr(watched.sweep, "round", broken)
    assert "shop.orders" in watched.seen()[0]


def test_a_truncated_event_log_leads_to_a_check_of_all_tables(tmp_path: Path) -> None:
    with (
        interbed.testing.metastore(warehouse=f"file:{tmp_path}") as uri,
        open_catalog("lake", {"metastore": "hive", "uri": uri}) as catalog,
    ):
        watched = WatchedCatalog(catalog)
        watched.create("shop.orders")
        watched.settled()
        assert isinstance(watched.watch, HiveWatch)
        watched.create("shop.clients")
        watched.create("shop.visits")
        client = watched.watch._client
        whole = client.next_notifications

        class TruncatedLogClient:
            """Client of the metastore that misses its oldest events."""

            def __getattr__(self, name: str) -> object:
                return getattr(client, name)

            def next_notifications(self, after: int, limit: int) -> list[object]:
                events = whole(after, limit)
                return events[1:] if after == first else events

        first = watched.watch._last_event
        watched.watch._client = TruncatedLogClient()  # type: ignore[assignment]
        assert watched.seen()[0] >= {"shop.orders", "shop.clients", "shop.visits"}
