"""Soft drops: what comes back after an undrop, what is deleted by a purge, and what holds after a kill at each step."""

import dataclasses
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.ops.reaper import Reaper
from interbed.catalog.server.service.column_statistics import ColumnStatistics, StatisticsData, StatisticsKind
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    DroppedKind,
    DroppedState,
    Function,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    QualifiedTableName,
    SerDe,
    StorageDescriptor,
)
from interbed.catalog.server.service.service import Metastore
from tests.support.databases import open_migrated
from tests.support.waits import at_most

COLUMNS = (MetastoreColumn(name="id", type="int"),)
STORAGE = StorageDescriptor(columns=COLUMNS, serde=SerDe())
KEYS = (MetastoreColumn(name="dt", type="string"),)
START = 1_700_000_000.0
KEPT = 3600.0


class FixedClock:
    """Clock whose time is set by the test."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FixedClock:
    """Return a clock that does not advance."""
    return FixedClock()


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository with the current schema."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the directory of the warehouse."""
    return tmp_path / "warehouse"


@pytest.fixture
def metastore(store: SqlRepository, root: Path, clock: FixedClock) -> Metastore:
    """Return a metastore with soft drops and the partitioned table `db.t`, which has a file."""
    started = Metastore(store, f"file:{root}", undrop_seconds=KEPT, clock=clock, user=lambda: "ann")
    started.databases.bootstrap()
    started.databases.create(MetastoreDatabase(name="db"))
    create(started, "t", keys=KEYS)
    started.partitions.add(("hive", "db", "t"), [MetastorePartition(values=("1",), storage=STORAGE)])
    fill(root, "t")
    return started


def create(metastore: Metastore, name: str, *, keys: tuple[MetastoreColumn, ...] = (), **fields: object) -> None:
    """Create the table `db.NAME`."""
    table = MetastoreTable(database="db", name=name, storage=STORAGE, partition_keys=keys)
    metastore.tables.create(dataclasses.replace(table, **fields))  # type: ignore[arg-type]


def fill(root: Path, name: str, text: str = "data") -> None:
    """Write a file of the table `db.NAME`."""
    (root / "db.db" / name / "part-0").write_text(text)


def drop(metastore: Metastore, name: str, *, purge: bool = False) -> None:
    """Drop the table `db.NAME` with its data."""
    metastore.tables.drop("hive", "db", name, delete_data=True, purge=purge)


def undrop(metastore: Metastore, name: str | None, new_name: str | None = None) -> None:
    """Put the latest `db.NAME` back."""
    metastore.dropped.undrop(metastore.dropped.find("hive", "db", name), new_name=new_name)


def kept_directories(root: Path) -> list[Path]:
    """Return the directories of dropped objects."""
    place = root / ".dropped"
    return sorted(place.iterdir()) if place.exists() else []


def test_a_dropped_table_comes_back_with_files_and_partitions(metastore: Metastore, root: Path) -> None:
    before = metastore.tables.get("hive", "db", "t")
    drop(metastore, "t")
    assert metastore.tables.names("hive", "db") == []
    assert not (root / "db.db" / "t").exists()
    (entry,) = metastore.dropped.select()
    assert (entry.kind, entry.state, entry.qualified) == (DroppedKind.TABLE, DroppedState.DROPPED, "db.t")
    assert (entry.dropped_at, entry.expires_at, entry.dropped_by) == (START, START + KEPT, "ann")
    undrop(metastore, "t")
    after = metastore.tables.get("hive", "db", "t")
    assert after == before
    assert after.number == before.number
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"
    _, partitions = metastore.partitions.select(("hive", "db", "t"))
    assert [each.storage.location for each in partitions if each.storage] == [f"file:{root}/db.db/t/dt=1"]
    assert metastore.dropped.select() == []
    assert kept_directories(root) == []


def test_the_name_is_free_at_once_and_several_tables_of_it_are_kept(metastore: Metastore, root: Path) -> None:
    drop(metastore, "t")
    create(metastore, "t")
    fill(root, "t", "second")
    drop(metastore, "t")
    create(metastore, "t")
    fill(root, "t", "third")
    newest, oldest = metastore.dropped.select("hive", "db")
    metastore.dropped.undrop(newest, new_name="second")
    metastore.dropped.undrop(metastore.dropped.find("hive", "db", "t", oldest.id), new_name="first")
    assert metastore.tables.names("hive", "db") == ["first", "second", "t"]
    texts = {name: (root / "db.db" / name / "part-0").read_text() for name in ("first", "second", "t")}
    assert texts == {"first": "data", "second": "second", "t": "third"}
    assert metastore.tables.get("hive", "db", "first").location == f"file:{root}/db.db/first"
    _, partitions = metastore.partitions.select(("hive", "db", "first"))
    assert [each.storage.location for each in partitions if each.storage] == [f"file:{root}/db.db/first/dt=1"]


def test_a_taken_name_is_refused_with_the_way_out(metastore: Metastore, root: Path) -> None:
    drop(metastore, "t")
    create(metastore, "t")
    with pytest.raises(AlreadyExistsError, match="--as"):
        undrop(metastore, "t")
    drop(metastore, "t", purge=True)
    (root / "db.db" / "t").mkdir()
    with pytest.raises(InvalidOperationError, match="--as"):
        undrop(metastore, "t")
    undrop(metastore, "t", "u")
    assert (root / "db.db" / "u" / "part-0").read_text() == "data"


def test_statistics_and_constraints_come_back(metastore: Metastore, store: SqlRepository) -> None:
    create(metastore, "parent")
    create(metastore, "gone")
    key = Constraint(database="db", table="t", name="pk", kind=ConstraintKind.PRIMARY_KEY, columns=("id",))
    foreign = [
        dataclasses.replace(
            key,
            name=f"to_{name}",
            kind=ConstraintKind.FOREIGN_KEY,
            parent=QualifiedTableName(database="db", table=name),
            parent_columns=("id",),
        )
        for name in ("parent", "gone", "t")
    ]
    metastore.constraints.add([key])
    for parent in ("parent", "gone"):
        metastore.constraints.add([dataclasses.replace(key, table=parent)])
    metastore.constraints.add(foreign)
    known = ColumnStatistics(
        column="id", type="int", analyzed_at=5, data=StatisticsData(kind=StatisticsKind.LONG, nulls=1, distinct=2)
    )

    def table_id() -> int:
        stored = store.read(lambda transaction: transaction.tables.find("hive", "db", "t"))
        assert stored is not None
        return stored.id

    earlier = table_id()
    store.write(lambda transaction: transaction.statistics.put_of_table(earlier, "hive", [known]))
    drop(metastore, "t")
    drop(metastore, "gone")
    create(metastore, "gone")
    undrop(metastore, "t")
    now = table_id()
    found = store.read(lambda transaction: [each.value for each in transaction.constraints.of_table(now)])
    assert sorted(each.name for each in found) == ["pk", "to_parent", "to_t"], "that of another table is left out"
    assert store.read(lambda transaction: transaction.statistics.of_table(now, None, "hive")) == [known]


def test_views_and_external_tables_come_back_and_their_files_stay(metastore: Metastore, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    create(
        metastore,
        "e",
        table_type="EXTERNAL_TABLE",
        parameters={"EXTERNAL": "TRUE"},
        storage=dataclasses.replace(STORAGE, location=f"file:{outside}"),
    )
    create(metastore, "v", table_type="VIRTUAL_VIEW", storage=None, view_expanded_text="SELECT 1")
    drop(metastore, "e")
    drop(metastore, "v")
    assert outside.exists()
    assert [each.kind for each in metastore.dropped.select()] == [DroppedKind.VIEW, DroppedKind.TABLE]
    assert kept_directories(root) == []
    undrop(metastore, "e", "e2")
    undrop(metastore, "v")
    assert metastore.tables.get("hive", "db", "e2").location == f"file:{outside}"
    assert metastore.tables.get("hive", "db", "v").view_expanded_text == "SELECT 1"
    drop(metastore, "e2")
    assert metastore.dropped.purge(metastore.dropped.find("hive", "db", "e2"))
    assert outside.exists(), "the metastore never owned it"


@pytest.mark.parametrize("parameter", [None, "auto.purge", "skip.trash"])
def test_purge_deletes_at_once(metastore: Metastore, root: Path, parameter: str | None) -> None:
    create(metastore, "p", parameters={parameter: "true"} if parameter else {})
    fill(root, "p")
    drop(metastore, "p", purge=parameter is None)
    assert not (root / "db.db" / "p").exists()
    assert metastore.dropped.select() == []
    assert kept_directories(root) == []


def test_without_soft_drops_nothing_is_kept(metastore: Metastore, store: SqlRepository, root: Path) -> None:
    plain = Metastore(store, f"file:{root}")
    drop(plain, "t")
    assert not (root / "db.db" / "t").exists()
    plain.databases.drop("hive", "db", delete_data=True, cascade=True)
    assert plain.dropped.select() == []
    assert kept_directories(root) == []


def test_a_table_outside_of_the_warehouse_is_deleted(metastore: Metastore, root: Path, tmp_path: Path) -> None:
    metastore.databases.create(MetastoreDatabase(name="far", location=f"file:{tmp_path}/far"))
    metastore.tables.create(MetastoreTable(database="far", name="t", storage=STORAGE))
    metastore.tables.drop("hive", "far", "t", delete_data=True)
    assert not (tmp_path / "far" / "t").exists()
    assert metastore.dropped.select() == []


def test_a_directory_that_cannot_be_renamed_is_deleted_with_a_warning(
    metastore: Metastore, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from interbed.catalog.server.service import warehouse

    def refused(old: str, new: str) -> bool:
        raise InvalidOperationError("another device")

    monkeypatch.setattr(warehouse, "rename_directory", refused)
    drop(metastore, "t")
    assert not (root / "db.db" / "t").exists()
    assert metastore.dropped.select() == []
    assert "another device" in caplog.text


def test_a_database_comes_back_with_its_tables_and_functions(metastore: Metastore, root: Path) -> None:
    create(metastore, "u")
    create(metastore, "p", parameters={"auto.purge": "true"})
    (root / "elsewhere").mkdir()
    create(metastore, "far", storage=dataclasses.replace(STORAGE, location=f"file:{root}/elsewhere/far"))
    (root / "elsewhere" / "far" / "part-0").write_text("far")
    create(metastore, "v", table_type="VIRTUAL_VIEW", storage=None, view_expanded_text="SELECT 1")
    metastore.functions.create(Function(database="db", name="f", class_name="org.example.F"))
    before = metastore.databases.get("hive", "db")
    metastore.databases.drop("hive", "db", delete_data=True, cascade=True)
    assert metastore.databases.names("hive") == ["default"]
    assert not (root / "db.db").exists()
    assert not (root / "elsewhere" / "far").exists()
    parent = metastore.dropped.find("hive", "db", None)
    children = [each for each in metastore.dropped.select() if each.parent_id == parent.id]
    assert sorted(each.name or "" for each in children) == ["far", "t", "u", "v"]
    with pytest.raises(NoSuchObjectError, match="interbed metastore undrop db"):
        undrop(metastore, "t")
    undrop(metastore, None)
    assert metastore.databases.get("hive", "db") == before
    assert metastore.tables.names("hive", "db") == ["far", "t", "u", "v"]
    assert [each.name for each in metastore.functions.select("hive", "db")] == ["f"]
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"
    assert (root / "elsewhere" / "far" / "part-0").read_text() == "far"
    assert not (root / "db.db" / "p").exists()
    assert metastore.dropped.select() == []
    assert kept_directories(root) == []


def test_tables_that_share_a_directory_prevent_no_drop_of_their_database(metastore: Metastore, root: Path) -> None:
    for name, place in (("a", "shared"), ("b", "shared/inner"), ("c", "shared")):
        create(metastore, name, storage=dataclasses.replace(STORAGE, location=f"file:{root}/{place}"))
    metastore.databases.drop("hive", "db", delete_data=True, cascade=True)
    assert not (root / "shared").exists()
    undrop(metastore, None)
    assert metastore.tables.names("hive", "db") == ["a", "t"]
    assert (root / "shared" / "inner").exists()


def test_tables_of_a_dropped_database_come_back_one_by_one(metastore: Metastore, root: Path) -> None:
    create(metastore, "u")
    metastore.databases.drop("hive", "db", delete_data=True, cascade=True)
    metastore.databases.create(MetastoreDatabase(name="db"))
    undrop(metastore, "t")
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"
    with pytest.raises(InvalidOperationError, match="one by one"):
        undrop(metastore, None)
    metastore.dropped.purge(metastore.dropped.find("hive", "db", None))
    assert metastore.dropped.select() == [], "the tables that were dropped with it are purged"
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"
    assert kept_directories(root) == []


def test_a_database_without_its_files_is_dropped_as_before(metastore: Metastore, root: Path) -> None:
    metastore.databases.drop("hive", "db", delete_data=False, cascade=True)
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"
    undrop(metastore, None)
    assert metastore.tables.names("hive", "db") == ["t"]


def test_an_iceberg_table_gets_its_old_directory_or_none(metastore: Metastore, root: Path) -> None:
    create(metastore, "i", parameters={"table_type": "ICEBERG", "metadata_location": f"file:{root}/db.db/i/m"})
    drop(metastore, "i")
    with pytest.raises(InvalidOperationError, match="absolute paths"):
        undrop(metastore, "i", "j")
    undrop(metastore, "i")
    assert metastore.tables.names("hive", "db") == ["i", "t"]


def test_partitions_of_a_kept_table_are_not_purged(
    metastore: Metastore, store: SqlRepository, clock: FixedClock
) -> None:
    many = [MetastorePartition(values=(str(number),), storage=STORAGE) for number in range(2, 300)]
    metastore.partitions.add(("hive", "db", "t"), many)
    drop(metastore, "t")
    while store.write(lambda transaction: transaction.partitions.purge(100)):
        pass
    undrop(metastore, "t")
    assert len(metastore.partitions.names(("hive", "db", "t"))) == 299
    drop(metastore, "t")
    assert metastore.dropped.purge(metastore.dropped.find("hive", "db", "t"))
    removed = 0
    while part := store.write(lambda transaction: transaction.partitions.purge(100)):
        removed += part
    assert removed >= 299


def test_the_reaper_purges_what_has_expired(
    metastore: Metastore, store: SqlRepository, root: Path, clock: FixedClock
) -> None:
    drop(metastore, "t")
    clock.now += KEPT - 1
    create(metastore, "later")
    drop(metastore, "later")
    reaper = Reaper(
        store, metastore.locks, every_seconds=60, events_ttl_seconds=10**9, clock=clock, dropped=metastore.dropped
    )
    reaper.look()
    assert len(metastore.dropped.select()) == 2
    clock.now += 1
    reaper.look()
    assert [each.name for each in metastore.dropped.select()] == ["later"]
    assert len(kept_directories(root)) == 1


def test_a_purge_of_a_directory_that_is_in_use_keeps_it(metastore: Metastore, root: Path) -> None:
    drop(metastore, "t")
    (place,) = kept_directories(root)
    create(
        metastore,
        "inside",
        table_type="EXTERNAL_TABLE",
        parameters={"EXTERNAL": "TRUE"},
        storage=dataclasses.replace(STORAGE, location=f"file:{place}/inside"),
    )
    assert not metastore.dropped.purge(metastore.dropped.find("hive", "db", "t"))
    assert place.exists()
    metastore.tables.drop("hive", "db", "inside", delete_data=False, purge=True)
    assert metastore.dropped.expire() == 1
    assert not place.exists()


def test_an_undrop_appends_a_create_event(metastore: Metastore, store: SqlRepository) -> None:
    drop(metastore, "t")
    last = store.read(lambda transaction: transaction.events.current())
    undrop(metastore, "t")
    found = store.read(lambda transaction: transaction.events.after(last))
    assert [(str(each.type), each.table) for each in found] == [("CREATE_TABLE", "t")]


KILLS = ["before", "after", "committed"]


def kill(database_url: str, root: Path, work: str, when: str) -> None:
    """Run a process that is killed at a step of the work."""
    arguments = [sys.executable, "-m", "tests.catalog.server.service.undrop_process"]
    ended = subprocess.run(
        [*arguments, database_url, f"file:{root}", work, when], capture_output=True, timeout=at_most(120), check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


@pytest.mark.parametrize("when", KILLS)
@pytest.mark.parametrize("work", ["drop_table", "drop_database"])
def test_a_kill_during_a_drop_leaves_the_old_state_or_the_new_one(
    metastore: Metastore, database_url: str, root: Path, work: str, when: str
) -> None:
    kill(database_url, root, work, when)
    metastore.databases.bootstrap()
    if when == "committed":
        assert not (root / "db.db" / "t").exists()
        undrop(metastore, "t" if work == "drop_table" else None)
    assert metastore.dropped.select() == []
    assert metastore.tables.get("hive", "db", "t").location == f"file:{root}/db.db/t"
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"
    assert len(metastore.partitions.names(("hive", "db", "t"))) == 1
    assert kept_directories(root) == []


@pytest.mark.parametrize("when", KILLS)
def test_a_kill_during_an_undrop_leaves_the_old_state_or_the_new_one(
    metastore: Metastore, database_url: str, root: Path, when: str
) -> None:
    drop(metastore, "t")
    kill(database_url, root, "undrop", when)
    assert metastore.dropped.settle() == (0 if when == "committed" else 1)
    if when != "committed":
        assert metastore.tables.names("hive", "db") == []
        assert [each.state for each in metastore.dropped.select()] == [DroppedState.DROPPED]
        undrop(metastore, "t")
    assert metastore.dropped.select() == []
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"
    assert len(metastore.partitions.names(("hive", "db", "t"))) == 1


@pytest.mark.parametrize("when", KILLS)
def test_a_kill_during_an_undrop_of_a_database_leaves_the_old_state_or_the_new_one(
    metastore: Metastore, database_url: str, root: Path, when: str
) -> None:
    metastore.databases.drop("hive", "db", delete_data=True, cascade=True)
    kill(database_url, root, "undrop_database", when)
    metastore.databases.bootstrap()
    if when != "committed":
        assert metastore.databases.names("hive") == ["default"]
        assert not (root / "db.db").exists()
        undrop(metastore, None)
    assert metastore.dropped.select() == []
    assert metastore.tables.names("hive", "db") == ["t"]
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"


@pytest.mark.parametrize("when", KILLS)
def test_a_killed_purge_is_completed_by_the_reaper(
    metastore: Metastore, database_url: str, root: Path, when: str
) -> None:
    drop(metastore, "t")
    kill(database_url, root, "purge", when)
    if when != "committed":
        with pytest.raises(InvalidOperationError):
            undrop(metastore, "t")
        assert metastore.dropped.expire() == 1
    assert metastore.dropped.select() == []
    assert kept_directories(root) == []


def test_a_drop_whose_commit_is_refused_leaves_the_table(
    metastore: Metastore, store: SqlRepository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interbed.catalog.server.service import events

    def refused(_table: MetastoreTable) -> None:
        raise MetastoreError("no event")

    monkeypatch.setattr(events, "drop_table", refused)
    with pytest.raises(MetastoreError, match="no event"):
        drop(metastore, "t")
    assert (root / "db.db" / "t" / "part-0").read_text() == "data"
    assert metastore.tables.names("hive", "db") == ["t"]
    assert store.read(lambda transaction: transaction.dropped.select()) == []
