"""Which tables have changed: of a catalog of directories, and of a metastore. One suite for both."""

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


class Watched:
    """A catalog with its watch; the clock is the test's."""

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
        """What the watch says; the tables that have changed are opened, as the engine does."""
        found = self.watch.changes()
        for name in found.changed:
            if self.catalog.table_exists(name):
                self.sweep.remember(name, self.catalog.get_table(name).store)
        return set(found.changed), set(found.removed)

    def settled(self) -> None:
        """Nothing more is to be seen."""
        while any(self.seen()):
            pass


@pytest.fixture(params=["files", "metastore"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    if request.param == "files":
        with open_catalog("lake", {"warehouse": str(tmp_path)}) as catalog:
            yield Watched(catalog)
        return
    with (
        interbed.testing.metastore(warehouse=f"file:{tmp_path}") as uri,
        open_catalog("lake", {"metastore": "hive", "uri": uri}) as catalog,
    ):
        yield Watched(catalog)


def test_the_first_answer_has_all_tables(watched: Watched) -> None:
    watched.create("shop.orders")
    watched.create("shop.clients")
    changed, removed = watched.seen()
    assert {"shop.orders", "shop.clients"} <= changed
    assert not removed


def test_a_commit_is_seen_with_the_next_answer(watched: Watched) -> None:
    for name in ("shop.orders", "shop.clients"):
        watched.create(name)
        watched.catalog.get_table(name).append(ROWS)
    watched.settled()
    watched.catalog.get_table("shop.orders").append(ROWS)
    assert watched.seen()[0] == {"shop.orders"}
    watched.settled()
    assert watched.seen() == (set(), set())


def test_writers_who_do_not_speak_to_the_catalog_are_seen_in_time(watched: Watched) -> None:
    watched.create("shop.orders")
    watched.catalog.get_table("shop.orders").append(ROWS)
    watched.settled()
    # After a rest it is looked at in turns.
    watched.now += 10 * 3_600_000
    watched.settled()
    load_table(watched.catalog.get_table("shop.orders").location).append(ROWS)
    assert any("shop.orders" in watched.seen()[0] for _ in range(ROUNDS + 1))


def test_tables_that_come_and_go_are_seen(watched: Watched) -> None:
    watched.create("shop.orders")
    watched.settled()
    watched.create("shop.clients")
    watched.catalog.drop_table("shop.orders")
    watched.now += LISTED
    assert watched.seen() == ({"shop.clients"}, {"shop.orders"})


def test_a_table_that_is_renamed_goes_and_comes(watched: Watched) -> None:
    watched.create("shop.orders")
    watched.settled()
    watched.catalog.rename_table("shop.orders", "shop.bills")
    watched.now += LISTED
    changed, removed = watched.seen()
    assert "shop.bills" in changed
    assert "shop.orders" in removed


def test_what_an_answer_lacked_the_next_one_has(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_log_that_was_cut_is_made_up_for(tmp_path: Path) -> None:
    with (
        interbed.testing.metastore(warehouse=f"file:{tmp_path}") as uri,
        open_catalog("lake", {"metastore": "hive", "uri": uri}) as catalog,
    ):
        watched = Watched(catalog)
        watched.create("shop.orders")
        watched.settled()
        assert isinstance(watched.watch, HiveWatch)
        watched.create("shop.clients")
        watched.create("shop.visits")
        client = watched.watch._client
        whole = client.next_notifications

        class Cut:
            """The metastore without its oldest events."""

            def __getattr__(self, name: str) -> object:
                return getattr(client, name)

            def next_notifications(self, after: int, limit: int) -> list[object]:
                events = whole(after, limit)
                return events[1:] if after == first else events

        first = watched.watch._last_event
        watched.watch._client = Cut()  # type: ignore[assignment]
        assert watched.seen()[0] >= {"shop.orders", "shop.clients", "shop.visits"}
