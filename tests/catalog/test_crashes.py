"""Writers that are killed by SIGKILL: by themselves at a chosen or random file operation, and from outside."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.registration import CURRENT_SNAPSHOT
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.writer_process import own_key
from tests.support.servers.metastore import lock_component, lock_request, metastore_under_test
from tests.support.shares import each_run
from tests.support.waits import at_most
from tests.support.writers import check_every_snapshot, create_orders, finished, keys_of, own_keys, writers

LEASE_SECONDS = 2.0
DEADLINE_SECONDS = at_most(60)
CATALOGS = ("filesystem", "hive")


@pytest.fixture
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Options of each kind of catalog; the leases of the server are short."""
    warehouse = f"file:{tmp_path}/lake"
    if request.param == "filesystem":
        yield {"warehouse": warehouse}
        return
    db = f"sqlite:///{tmp_path}/metastore.db"
    with metastore_under_test(db, tmp_path, "--lock-lease-seconds", str(LEASE_SECONDS)) as server:
        yield {"warehouse": warehouse, "metastore": "hive", "uri": server.uri, "lock-check-max-sleep": "200 ms"}


def check_writable(catalog: interbed.Catalog, options: dict[str, str], writer: int) -> None:
    """Check that another process can write normally, and that locks of killed writers expire with their lease."""
    before = own_keys(catalog.get_table("shop.orders"))
    with writers(options, [writer], 2) as running:
        code, errors, commits = finished(running[0])
    assert (code, errors, [number for number, _ in commits]) == (0, "", [0, 1])
    table = catalog.get_table("shop.orders")
    assert own_keys(table) == sorted([*before, own_key(writer, 0), own_key(writer, 1)])
    check_every_snapshot(table)
    if isinstance(catalog, HiveCatalog):
        latest = table.latest_snapshot()
        assert latest is not None
        assert catalog.client.get_table("shop", "orders").parameters[CURRENT_SNAPSHOT] == str(latest.id)
        assert catalog.client.show_locks() == []


@pytest.mark.long
@pytest.mark.parametrize("options", CATALOGS, indirect=True)
def test_writers_killed_at_random_file_operations_leave_a_usable_table(options: dict[str, str]) -> None:
    choice = random.Random(20261121)
    with interbed.CatalogFactory.create(options) as catalog:
        table = create_orders(catalog)
        numbers = range(6)
        faults = [f"*:*:kill-{choice.choice(['before', 'after'])}:{choice.randrange(10, 150)}" for _ in numbers]
        with writers(options, numbers, 100, faults) as running:
            results = [finished(w) for w in running]
        assert [(code, errors) for code, errors, _ in results] == [(-signal.SIGKILL, "")] * len(numbers)
        acknowledged = set().union(*(keys_of(commits, i) for i, (_, _, commits) in enumerate(results)))
        # Every reported commit is there; in addition at most the commit that a writer made just before it was killed.
        beyond = set(own_keys(table)) - acknowledged
        assert acknowledged <= set(own_keys(table))
        assert beyond <= {own_key(i, len(commits)) for i, (_, _, commits) in enumerate(results)}
        check_every_snapshot(table)
        check_writable(catalog, options, 99)


@pytest.mark.long
@pytest.mark.parametrize("options", each_run(CATALOGS, lambda kind: kind == "filesystem"), indirect=True)
def test_writers_killed_from_outside_leave_a_usable_table(options: dict[str, str]) -> None:
    choice = random.Random(20261122)
    with interbed.CatalogFactory.create(options) as catalog:
        table = create_orders(catalog)
        numbers = range(4)
        with writers(options, numbers, 1000) as running:
            # Writers print a line for each commit: each is killed a few commits after its first, while the others
            # continue.
            for writer in running:
                assert writer.stdout is not None
                for _ in range(choice.randrange(1, 4)):
                    assert writer.stdout.readline()
                writer.send_signal(signal.SIGKILL)
            assert [writer.wait(timeout=DEADLINE_SECONDS) for writer in running] == [-signal.SIGKILL] * len(numbers)
        found = own_keys(table)
        # The commits of each writer are there up to some last one.
        for number in numbers:
            made = [key for key in found if key // 1_000_000 == number]
            assert made
            assert made == [own_key(number, n) for n in range(len(made))]
        check_every_snapshot(table)
        check_writable(catalog, options, 99)


@pytest.mark.parametrize(
    ("fault", "made"),
    each_run(
        [
            ("open_output:*/bucket-*:kill-after:3", 1),
            ("create_exclusive:*/snapshot/snapshot-*:kill-before:1", 1),
            ("create_exclusive:*/snapshot/snapshot-*:kill-after:1", 2),
        ],
        lambda case: case[1] == 2,
    ),
)
def test_a_killed_writer_blocks_others_no_longer_than_its_lease(tmp_path: Path, fault: str, made: int) -> None:
    db = f"sqlite:///{tmp_path}/metastore.db"
    with metastore_under_test(db, tmp_path, "--lock-lease-seconds", str(LEASE_SECONDS)) as server:
        options = {"warehouse": f"file:{tmp_path}/lake", "metastore": "hive", "uri": server.uri}
        options["lock-check-max-sleep"] = "200 ms"
        with interbed.CatalogFactory.create(options) as catalog:
            assert isinstance(catalog, HiveCatalog)
            table = create_orders(catalog)
            with writers(options, [1], 5, [fault]) as running:
                code, errors, _ = finished(running[0])
            assert (code, errors) == (-signal.SIGKILL, "")
            assert own_keys(table) == [own_key(1, n) for n in range(made)]
            # The lock of the killed writer is listed no longer than its lease, because this writer waits.
            dead = {lock.lockid for lock in catalog.client.show_locks("shop", "orders")}
            assert len(dead) == ("snapshot" in fault)
            started = time.monotonic()
            request = lock_request(lock_component(ttypes.LockType.EXCLUSIVE, "shop", "orders"))
            response = catalog.client.lock(request)
            while response.state == ttypes.LockState.WAITING and time.monotonic() < started + DEADLINE_SECONDS:
                response = catalog.client.check_lock(response.lockid)
            assert response.state == ttypes.LockState.ACQUIRED
            assert not dead & {lock.lockid for lock in catalog.client.show_locks("shop", "orders")}
            catalog.client.unlock(response.lockid)
            check_writable(catalog, options, 99)
