"""How many requests a store gets, and how many of them one after the other; counted on the wire."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.fileio.resolve import file_io_for
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import Seen, StoreProxy

SCHEMA = pa.schema((("id", pa.int64()), ("v", pa.string())))
COMMITS = 500
LATENCY_SECONDS = 0.03
"""Long enough for requests that are made at once to overlap."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[StoreProxy]:
    with running_s3("lake") as options, StoreProxy.before(options, latency_seconds=LATENCY_SECONDS) as running:
        yield running


@pytest.fixture
def lake(proxy: StoreProxy, request: pytest.FixtureRequest) -> interbed.Catalog:
    catalog = interbed.load_catalog("lake", warehouse=f"s3://lake/{request.node.name}", **proxy.options)
    catalog.create_database("shop")
    return catalog


def orders(lake: interbed.Catalog, **options: str) -> interbed.Table:
    return lake.create_table("shop.orders", SCHEMA, primary_keys=["id"], options={"bucket": "1", **options})


def seen(proxy: StoreProxy, action: Callable[[], object]) -> Seen:
    with proxy.watched() as found:
        action()
    return found


def is_listing(name: str) -> bool:
    return "list-type" in name


def test_the_newest_snapshot_of_a_known_table_takes_two_requests_at_once(
    lake: interbed.Catalog, proxy: StoreProxy
) -> None:
    table = orders(lake)
    table.upsert([{"id": 1, "v": "a"}])
    found = seen(proxy, table.latest_snapshot)
    assert (len(found.requests), found.rounds, [n for n in found.names if is_listing(n)]) == (2, 1, [])
    lake.get_table("shop.orders").upsert([{"id": 2, "v": "b"}])
    # Somebody else was there: the hint leads to the newest.
    found = seen(proxy, table.latest_snapshot)
    assert (len(found.requests), [n for n in found.names if is_listing(n)]) == (5, [])
    assert table.latest_snapshot() is not None


def test_a_commit_takes_eight_requests_in_five_rounds(lake: interbed.Catalog, proxy: StoreProxy) -> None:
    table = orders(lake)
    for n in range(2):
        table.upsert([{"id": n, "v": "a"}])
    with table.new_write("u") as write:
        write.write_arrow(pa.table({"id": [7], "v": ["seven"]}, SCHEMA))
        messages = write.prepare_commit()
        found = seen(proxy, lambda: table.new_commit("u").commit(messages))
    # What the user has committed before is looked up by the newest snapshot.
    assert (len(found.requests), found.rounds) == (8 + 2, 6)
    found = seen(proxy, lambda: table.upsert([{"id": 8, "v": "eight"}]))
    # The newest snapshot, a data file, and then the commit.
    assert (len(found.requests), found.rounds) == (2 + 1 + 8, 2 + 5)
    assert table.count() == 4


def test_a_table_is_made_by_few_requests_one_after_the_other(lake: interbed.Catalog, proxy: StoreProxy) -> None:
    orders(lake)
    found = seen(proxy, lambda: lake.create_table("shop.more", SCHEMA, options={"bucket": "-1"}))
    assert (len(found.requests), found.rounds) == (12, 8)


@pytest.fixture(scope="module")
def many_commits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local table of that many commits."""
    warehouse = tmp_path_factory.mktemp("lake")
    catalog = interbed.load_catalog("local", warehouse=f"file:{warehouse}")
    catalog.create_database("shop")
    table = orders(catalog, **{"write-only": "true"})
    rows = pa.table({"id": [1], "v": ["a"]}, SCHEMA)
    with table.new_write("u") as write:
        commit = table.new_commit("u")
        for identifier in range(1, COMMITS + 1):
            write.write_arrow(rows)
            commit.commit(write.prepare_commit(), identifier=identifier)
    return warehouse / "shop.db" / "orders"


def test_a_plan_of_many_commits_takes_few_rounds(many_commits: Path, proxy: StoreProxy, tmp_path: Path) -> None:
    copy = tmp_path / "orders"
    shutil.copytree(many_commits, copy)
    local = Table("orders", open_store(str(copy)))
    newest = local.latest_snapshot()
    assert newest is not None
    assert newest.id == COMMITS
    io, root = file_io_for("s3://lake/planned/orders", proxy.options)
    manifests = ManifestReader(local.store.file_io, local.store.paths).data(newest)
    names = {m.file_name for m in manifests} | {newest.base_manifest_list, newest.delta_manifest_list}
    files = [f"manifest/{name}" for name in sorted(names)]
    for name in (*files, f"snapshot/snapshot-{COMMITS}", "snapshot/LATEST", "schema/schema-0"):
        io.overwrite(f"{root}/{name}", (copy / name).read_bytes())

    planned: list[Any] = []

    table = Table("orders", open_store(root, io))
    found = seen(proxy, lambda: planned.extend(table.new_scan().plan().splits))
    assert sum(len(split.files) for split in planned) == COMMITS
    assert len(found.requests) == len(names) + 3
    # The hint; the newest snapshot; its lists; its manifests.
    assert found.rounds <= 1 + 1 + 1 + 2
    table = Table("orders", open_store(root, io))
    # By now the process knows the manifests.
    assert seen(proxy, lambda: table.new_scan().plan()).rounds <= 2
