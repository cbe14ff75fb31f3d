"""`lock.enabled` = auto: commits to a local file system take no metastore lock, and still exclude changes."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogError, LockError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.client.hive.commit_lock import CommitLock, LockSettings
from interbed.catalog.client.hive.lock import HiveCatalogLock
from interbed.catalog.client.hive.registration import CURRENT_SNAPSHOT
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import CatalogOptions, LockMode
from interbed.storage.base.errors import CommitError, InvalidOptionError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.io.api import HDFS_CAPABILITIES, OBJECT_STORE_CAPABILITIES, FileSystemCapabilities, WrappedFileIO
from interbed.storage.io.file_lock import DirectoryLock
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.schema.change import AddColumn, SetOption
from interbed.thrift_idl.hive_metastore.ttypes import LockType
from tests.catalog.writer_process import SHARED_KEYS
from tests.support.servers.metastore import lock_component, lock_request
from tests.support.waits import at_most
from tests.support.writers import check_every_snapshot, create_orders, finished, keys_of, own_keys, writers

SCHEMA = pa.schema((("id", pa.int64()), ("dt", pa.string())))
ROWS = pa.table({"id": [1], "dt": ["x"]}, schema=SCHEMA)
TABLE = Identifier("shop", "t")


@pytest.fixture
def auto(options: dict[str, str], catalog: HiveCatalog) -> Iterator[HiveCatalog]:
    """Open a catalog with `lock.enabled` = auto on the database `shop` of `catalog`."""
    options = options | {"lock.enabled": "auto", "lock-acquire-timeout": "100 ms"}
    with interbed.CatalogFactory.create(options) as opened:
        assert isinstance(opened, HiveCatalog)
        assert opened.list_tables("shop") == catalog.list_tables("shop")
        yield opened


def create(catalog: HiveCatalog) -> interbed.Table:
    return catalog.create_table(
        "shop.t",
        SCHEMA,
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "1", "metastore.partitioned-table": "true"},
    )


def last_lock_id(catalog: HiveCatalog) -> int:
    """Return the id of a new lock; ids are consecutive."""
    response = catalog.client.lock(lock_request(lock_component(LockType.EXCLUSIVE, "probe", "probe")))
    catalog.client.unlock(response.lockid)
    return int(response.lockid)


def changes(catalog: HiveCatalog) -> list[Callable[[], object]]:
    """Return one call of each kind that changes a table, and that fails only if it gets no lock."""
    return [
        lambda: catalog.drop_table("shop.t"),
        lambda: catalog.rename_table("shop.t", "shop.u"),
        lambda: catalog.alter_table("shop.t", SetOption("write-only", "true")),
        lambda: catalog.repair_table("shop.t"),
        lambda: catalog.drop_partitions("shop.t", [{"dt": "unknown"}]),
    ]


# -- the option --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mode"), [("true", LockMode.TRUE), ("FALSE", LockMode.FALSE), ("Auto", LockMode.AUTO)]
)
def test_the_option_takes_three_values(text: str, mode: LockMode) -> None:
    assert CatalogOptions({"lock.enabled": text}).lock_mode is mode


def test_the_option_takes_no_other_value() -> None:
    assert CatalogOptions({}).lock_mode is None
    with pytest.raises(InvalidOptionError, match=r"lock\.enabled.*true, false, auto.*maybe"):
        _ = CatalogOptions({"lock.enabled": "maybe"}).lock_mode


def test_a_file_system_catalog_accepts_auto(tmp_path: Path) -> None:
    with interbed.load_catalog(warehouse=f"file:{tmp_path}", **{"lock.enabled": "auto"}) as catalog:
        catalog.create_database("shop")
        table = catalog.create_table("shop.t", SCHEMA)
        table.append(ROWS)
        assert [s.id for s in table.snapshots()] == [1]


# -- commits -----------------------------------------------------------------------------------------------------------


def test_a_commit_to_a_local_directory_takes_no_metastore_lock(auto: HiveCatalog) -> None:
    table = create(auto)
    before = last_lock_id(auto)
    with HiveCatalogLock(auto.client, "shop", "t"):
        assert table.upsert(ROWS) == 1
        assert table.upsert(ROWS) == 2
    assert last_lock_id(auto) == before + 2
    assert auto.client.get_table("shop", "t").parameters[CURRENT_SNAPSHOT] == "2"
    assert [p.spec for p in auto.list_partitions("shop.t")] == [{"dt": "x"}]


def test_without_the_option_a_commit_takes_the_metastore_lock(catalog: HiveCatalog) -> None:
    table = create(catalog)
    before = last_lock_id(catalog)
    table.upsert(ROWS)
    assert last_lock_id(catalog) == before + 2


class LocklessFileIO(WrappedFileIO):
    """File system that creates files exclusively, and whose directories cannot be locked by the operating system."""

    def __init__(self, capabilities: FileSystemCapabilities) -> None:
        super().__init__(LocalFileIO())
        self.capabilities = capabilities


@pytest.mark.parametrize("elsewhere", [OBJECT_STORE_CAPABILITIES, HDFS_CAPABILITIES], ids=["object store", "hdfs"])
def test_a_commit_outside_of_local_file_systems_takes_the_metastore_lock(
    auto: HiveCatalog, elsewhere: FileSystemCapabilities, tmp_path: Path
) -> None:
    settings = LockSettings(mode=LockMode.AUTO, acquire_timeout_seconds=0.1, check_max_sleep_seconds=0.05)
    lock = settings.of_commit(auto.client, TABLE, LocklessFileIO(elsewhere), str(tmp_path))
    assert lock is not None
    lock.acquire()
    assert [element.tablename for element in auto.client.show_locks("shop", "t")] == ["t"]
    lock.release()
    assert auto.client.show_locks("shop", "t") == []


def test_a_commit_takes_the_metastore_lock_where_directories_can_not_be_locked(
    auto: HiveCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(lock: DirectoryLock, timeout_seconds: float) -> bool:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(DirectoryLock, "take", refuse)
    table = create(auto)
    with HiveCatalogLock(auto.client, "shop", "t"), pytest.raises(LockError, match=r"shop\.t within 0\.1 s"):
        table.upsert(ROWS)
    assert table.upsert(ROWS) == 1
    auto.alter_table("shop.t", SetOption("write-only", "true"))
    assert auto.client.show_locks() == []


def test_a_commit_waits_for_the_metastore_lock_while_a_change_holds_both_locks(auto: HiveCatalog) -> None:
    location = create(auto).location
    with DirectoryLock(location) as directory, HiveCatalogLock(auto.client, "shop", "t"):
        assert directory.take(0.0)
        lock = CommitLock(
            HiveCatalogLock(auto.client, "shop", "t", acquire_timeout_seconds=0.1),
            DirectoryLock(location),
            directory_wait_seconds=0.01,
        )
        with pytest.raises(LockError, match=r"shop\.t within 0\.1 s"):
            lock.acquire()
        with pytest.raises(LockError, match="not held"):
            lock.ensure_held()
    lock.acquire()
    assert lock.is_held
    lock.ensure_held()
    assert auto.client.show_locks() == []
    lock.release()
    assert not lock.is_held


# -- changes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "true"])
def test_changes_wait_for_a_commit_that_holds_the_directory_lock(
    mode: str, options: dict[str, str], catalog: HiveCatalog
) -> None:
    table = create(catalog)
    table.upsert(ROWS)
    with (
        interbed.CatalogFactory.create(options | {"lock.enabled": mode, "lock-acquire-timeout": "50 ms"}) as hasty,
        DirectoryLock(table.location) as directory,
    ):
        assert isinstance(hasty, HiveCatalog)
        assert directory.take(0.0)
        for change in changes(hasty):
            with pytest.raises(LockError, match=r"directory .*/shop\.db/t within 0\.05 s"):
                change()
        assert catalog.client.show_locks() == []
        directory.release()
        assert catalog.list_tables("shop") == ["t"]
        assert catalog.get_table("shop.t").schema.id == 0
        hasty.rename_table("shop.t", "shop.u")
        hasty.drop_table("shop.u")
    assert catalog.list_tables("shop") == []


@pytest.mark.parametrize("mode", ["auto", "true"])
def test_concurrent_alterations_and_commits_of_both_modes_lose_nothing(
    mode: str, options: dict[str, str], catalog: HiveCatalog
) -> None:
    create(catalog)

    def write() -> None:
        with interbed.CatalogFactory.create(options | {"lock.enabled": "auto"}) as own:
            for number in range(8):
                own.get_table("shop.t").upsert(pa.table({"id": [100 + number], "dt": ["x"]}))

    def alter() -> None:
        with interbed.CatalogFactory.create(options | {"lock.enabled": mode}) as own:
            for number in range(8):
                own.alter_table("shop.t", AddColumn(f"c{number}", AtomicType(TypeRoot.INT)))

    _at_once(write, alter)
    entry = catalog.client.get_table("shop", "t")
    assert [c.name for c in entry.sd.cols] == ["id", *(f"c{n}" for n in range(8))]
    snapshots = catalog.get_table("shop.t").snapshots()
    assert entry.parameters[CURRENT_SNAPSHOT] == str(snapshots[-1].id)
    assert _ids(catalog.get_table("shop.t")) == [100 + n for n in range(8)]


@pytest.mark.long
def test_concurrent_renames_and_commits_lose_nothing(options: dict[str, str], catalog: HiveCatalog) -> None:
    create(catalog)
    options = options | {"lock.enabled": "auto"}
    committed: list[int] = []
    tries = threading.Semaphore(0)
    ended = threading.Event()

    def write() -> None:
        try:
            with interbed.CatalogFactory.create(options) as own:
                for number in range(40):
                    try:
                        names = own.list_tables("shop") or ["t"]
                        table = own.get_table(f"shop.{names[0]}")
                        table.upsert(pa.table({"id": [number], "dt": ["x"]}))
                    except (CommitError, CatalogError):
                        continue
                    else:
                        committed.append(number)
                    finally:
                        tries.release()
        finally:
            ended.set()
            tries.release(3)

    def rename() -> None:
        with interbed.CatalogFactory.create(options) as own:
            number = 0
            while not ended.is_set():
                for _ in range(3):
                    tries.acquire(timeout=at_most(60))
                for _ in range(number % 6):
                    # The pause lets renames meet all steps of a commit.
                    own.list_databases()
                # Each rename has a new name, because a writer may write data files to the old directory.
                before, after = f"shop.t{number or ''}", f"shop.t{number + 1}"
                own.rename_table(before, after)
                number += 1

    _at_once(write, rename)
    assert committed
    (name,) = catalog.list_tables("shop")
    assert name != "t"
    assert _ids(catalog.get_table(f"shop.{name}")) == committed


def test_concurrent_drops_and_commits_leave_no_files(options: dict[str, str], catalog: HiveCatalog) -> None:
    options = options | {"lock.enabled": "auto"}
    locations = {create(catalog).location}
    ended = threading.Event()

    def write() -> None:
        with interbed.CatalogFactory.create(options) as own:
            while not ended.is_set():
                try:
                    own.get_table("shop.t").upsert(ROWS)
                except (CommitError, CatalogError):
                    continue

    def drop() -> None:
        with interbed.CatalogFactory.create(options) as own:
            for _ in range(10):
                own.drop_table("shop.t")
                locations.add(
                    own.create_table("shop.t", SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"]).location
                )
            own.drop_table("shop.t")
        ended.set()

    _at_once(write, drop)
    assert [file for place in locations for file in Path(place).rglob("*") if file.is_file()] == []


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_concurrent_commits_of_processes_lose_nothing_and_take_no_metastore_lock(
    options: dict[str, str], catalog: HiveCatalog
) -> None:
    options = options | {"lock.enabled": "auto"}
    catalog.drop_database("shop")
    table = create_orders(catalog)
    before = last_lock_id(catalog)
    with writers(options, range(3), 6) as running:
        results = [finished(w) for w in running]
    assert [(code, errors) for code, errors, _ in results] == [(0, "")] * 3
    assert last_lock_id(catalog) == before + 1
    reported = [commits for _, _, commits in results]
    assert [[number for number, _ in commits] for commits in reported] == [list(range(6))] * 3
    check_every_snapshot(table)
    assert own_keys(table) == sorted(set().union(*(keys_of(commits, i) for i, commits in enumerate(reported))))
    assert [s.total_record_count for s in table.snapshots()] == [(1 + len(SHARED_KEYS)) * i for i in range(1, 19)]
    entry = catalog.client.get_table("shop", "orders")
    assert entry.parameters[CURRENT_SNAPSHOT] == "18"


def _ids(table: interbed.Table) -> list[int]:
    rows: Any = table.scan(columns=["id"]).to_arrow()
    return sorted(rows["id"].to_pylist())


def _at_once(*works: Callable[[], None]) -> None:
    """Run each function in a thread of its own, and raise the first error."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test.
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(60))
    assert errors == []
