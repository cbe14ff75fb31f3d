"""Dropped tables and databases of a file-system catalog, which are kept and put back."""

import json
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client import filesystem
from interbed.catalog.client.errors import (
    CatalogError,
    DatabaseExistsError,
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
)
from interbed.catalog.client.files import dropped_directories
from interbed.catalog.client.files.dropped_directories import ABANDONED_SECONDS, EXPIRED_AT_ONCE
from interbed.catalog.client.files.table_files import delete_tree
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.hive.extended_calls import KeptDrops
from interbed.catalog.client.recovery import DroppedEntry
from interbed.catalog.client.rest.catalog import RestCatalog
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import (
    InterbedError,
    InvalidInputError,
    InvalidOptionError,
    NotSupportedError,
    StorageAccessError,
)
from interbed.storage.io.api import FileIO, WrappedFileIO
from interbed.storage.io.local import LocalFileIO

KEY: "pa.Field[Any]" = pa.field("id", pa.int64(), nullable=False)
COLUMNS = pa.schema([KEY, pa.field("v", pa.string())])
ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
WEEK = 7 * 24 * 3600


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def catalog(lake: Path) -> interbed.Catalog:
    """Open a catalog with the empty database d."""
    opened = interbed.load_catalog(warehouse=str(lake), undrop_seconds=WEEK)
    opened.create_database("d", properties={"team": "sales"})
    return opened


def _filled(catalog: interbed.Catalog, name: str = "d.t", rows: Any = ROWS, **further: Any) -> interbed.Table:
    table = catalog.create_table(name, COLUMNS, primary_keys=["id"], **further)
    table.upsert(rows)
    return table


def _rows(catalog: interbed.Catalog, name: str = "d.t") -> list[dict[str, Any]]:
    return catalog.get_table(name).to_arrow().sort_by("id").to_pylist()


def _files(lake: Path) -> list[str]:
    return sorted(str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file())


def _later(catalog: interbed.Catalog, seconds: int) -> interbed.Catalog:
    """Return a catalog of the same warehouse whose clock is fast."""
    return FileSystemCatalog("late", catalog.options, clock=lambda: now_millis() + seconds * 1000)


def test_a_dropped_table_is_put_back_with_tags_and_branches(catalog: interbed.Catalog, lake: Path) -> None:
    table = _filled(catalog)
    table.versions.create_tag("first")
    table.versions.create_branch("b", tag="first")
    table.upsert([{"id": 2, "v": "c"}])
    before = {path.partition("/")[2] for path in _files(lake)}
    catalog.drop_table("d.t")
    assert (catalog.list_tables("d"), Path(table.location).exists()) == ([], False)
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("d.t")
    [entry] = catalog.list_dropped()
    assert (entry.kind, entry.qualified, entry.with_database) == ("table", "d.t", None)
    assert entry.expires_at == entry.dropped_at + WEEK
    assert catalog.list_dropped("e") == []
    catalog.undrop_table("d.t")
    assert {path.partition("/")[2] for path in _files(lake)} == before
    assert catalog.list_dropped() == []
    assert _rows(catalog) == [ROWS[0], {"id": 2, "v": "c"}]
    assert catalog.get_table("d.t").copy({"scan.tag-name": "first"}).to_arrow().num_rows == 2
    assert catalog.get_table("d.t$branch_b").to_arrow().num_rows == 2
    catalog.get_table("d.t").upsert([{"id": 3, "v": "d"}])
    assert len(_rows(catalog)) == 3


def test_the_name_is_free_at_once_and_the_latest_drop_comes_back_first(catalog: interbed.Catalog) -> None:
    for number in range(3):
        _filled(catalog, rows=[{"id": number, "v": "x"}])
        _later(catalog, number).drop_table("d.t")
    ids = [entry.id for entry in catalog.list_dropped("d")]
    assert ids == sorted(ids, reverse=True)
    catalog.undrop_table("d.t")
    assert _rows(catalog)[0]["id"] == 2
    with pytest.raises(TableExistsError, match="another name"):
        catalog.undrop_table("d.t")
    catalog.undrop_table("d.t", new_name="oldest", drop_id=ids[2])
    assert _rows(catalog, "d.oldest")[0]["id"] == 0
    assert [entry.id for entry in catalog.list_dropped()] == [ids[1]]
    with pytest.raises(TableNotFoundError, match=ids[0]):
        catalog.undrop_table("d.t", new_name="u", drop_id=ids[0])


def test_a_purged_table_and_one_without_the_option_are_deleted_at_once(catalog: interbed.Catalog, lake: Path) -> None:
    for dropping, purge in ((catalog, True), (interbed.load_catalog(warehouse=str(lake)), False)):
        _filled(catalog)
        dropping.drop_table("d.t", purge=purge)
        assert catalog.list_dropped() == []
        assert not (lake / ".undrop").exists()
    with pytest.raises(TableNotFoundError, match="interbed catalog dropped"):
        catalog.undrop_table("d.t")


def test_what_was_kept_is_put_back_without_the_option(catalog: interbed.Catalog, lake: Path) -> None:
    _filled(catalog)
    catalog.drop_table("d.t")
    plain = interbed.load_catalog(warehouse=str(lake))
    plain.undrop_table("d.t")
    assert _rows(plain) == ROWS


def test_a_database_comes_back_with_its_tables_and_properties(catalog: interbed.Catalog, lake: Path) -> None:
    _filled(catalog)
    _filled(catalog, "d.u", rows=ROWS[:1])
    catalog.drop_database("d", cascade=True)
    assert catalog.list_databases() == []
    assert [(entry.qualified, entry.kind) for entry in catalog.list_dropped()] == [
        ("d", "database"),
        ("d.t", "table"),
        ("d.u", "table"),
    ]
    with pytest.raises(DatabaseNotFoundError):
        catalog.undrop_table("d.t")
    with pytest.raises(CatalogError, match="dropped with its database"):
        catalog.purge_dropped("d.t")
    catalog.undrop_database("d")
    assert (_rows(catalog), _rows(catalog, "d.u")) == (ROWS, ROWS[:1])
    assert catalog.get_database("d").properties == {"team": "sales"}
    assert catalog.list_dropped() == []


def test_tables_of_a_dropped_database_come_back_one_by_one_when_it_exists_again(catalog: interbed.Catalog) -> None:
    _filled(catalog)
    _filled(catalog, "d.u")
    catalog.drop_database("d", cascade=True)
    catalog.create_database("d")
    with pytest.raises(DatabaseExistsError, match="one by one"):
        catalog.undrop_database("d")
    catalog.undrop_table("d.u")
    assert (catalog.list_tables("d"), _rows(catalog, "d.u")) == (["u"], ROWS)
    catalog.drop_database("d", cascade=True)
    with pytest.raises(TableNotFoundError):
        catalog.undrop_table("e.t")
    catalog.undrop_database("d")
    assert catalog.list_tables("d") == ["u"]
    catalog.undrop_table("d.t")
    assert catalog.list_tables("d") == ["t", "u"]


def test_an_undrop_into_a_missing_database_moves_nothing(catalog: interbed.Catalog) -> None:
    _filled(catalog)
    catalog.drop_table("d.t")
    catalog.drop_database("d")
    with pytest.raises(DatabaseNotFoundError):
        catalog.undrop_table("d.t")
    catalog.create_database("d")
    catalog.undrop_table("d.t")
    assert _rows(catalog) == ROWS


def test_tables_with_files_elsewhere_or_foreign_files_are_deleted(
    catalog: interbed.Catalog, lake: Path, tmp_path: Path
) -> None:
    options = {"data-file.external-paths": f"file:{tmp_path}/far", "data-file.external-paths.strategy": "round-robin"}
    _filled(catalog, options=options)
    catalog.drop_table("d.t")
    assert not list(tmp_path.rglob("*.parquet"))
    foreign = Path(_filled(catalog, "d.u").location) / "notes.txt"
    foreign.write_text("mine")
    _filled(catalog, "d.v")
    catalog.drop_table("d.u")
    assert foreign.read_text() == "mine"
    assert catalog.list_dropped() == []
    # The foreign file keeps its place, and the other table is kept by itself.
    catalog.drop_database("d", cascade=True)
    assert foreign.read_text() == "mine"
    assert [entry.qualified for entry in catalog.list_dropped()] == ["d.v"]
    catalog.undrop_table("d.v")
    assert _rows(catalog, "d.v") == ROWS


def test_a_writer_of_a_dropped_table_commits_nothing_and_its_directories_are_not_in_the_way(
    catalog: interbed.Catalog,
) -> None:
    table = _filled(catalog)
    catalog.drop_table("d.t")
    with pytest.raises(InterbedError):
        table.upsert([{"id": 5, "v": "late"}])
    assert catalog.list_tables("d") == []
    (Path(table.location) / "bucket-0").mkdir(parents=True, exist_ok=True)
    catalog.undrop_table("d.t")
    assert _rows(catalog) == ROWS


def test_what_has_expired_is_purged_by_later_drops_a_few_at_a_time(catalog: interbed.Catalog, lake: Path) -> None:
    for number in range(EXPIRED_AT_ONCE + 2):
        catalog.create_table(f"d.t{number}", COLUMNS, primary_keys=["id"])
        catalog.drop_table(f"d.t{number}")
    assert len(catalog.list_dropped()) == EXPIRED_AT_ONCE + 2
    late = _later(catalog, WEEK + 1)
    late.create_table("d.last", COLUMNS, primary_keys=["id"])
    late.drop_table("d.last")
    assert len(catalog.list_dropped()) == 3
    assert late.purge_dropped(only_expired=True) == 2
    assert [entry.qualified for entry in catalog.list_dropped()] == ["d.last"]
    assert catalog.purge_dropped() == 1
    assert list((lake / ".undrop").iterdir()) == []


def test_a_directory_that_cannot_be_purged_does_not_stop_the_others(
    catalog: interbed.Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("d.t", "d.u"):
        _filled(catalog, name)
        catalog.drop_table(name)
    first = Path(catalog.list_dropped()[-1].present_location).with_name("purged")

    def delete(file_io: FileIO, directory: str) -> bool:
        if directory == str(first):
            raise StorageAccessError(f"Can't delete {directory}: it is busy.")
        return delete_tree(file_io, directory)

    late = _later(catalog, WEEK + 1)
    with monkeypatch.context() as context:
        context.setattr(dropped_directories, "delete_tree", delete)
        assert late.purge_dropped(only_expired=True) == 1
    assert "it is busy" in caplog.text
    assert (catalog.list_dropped(), first.exists()) == ([], True)
    assert late.purge_dropped(only_expired=True) == 1
    assert not first.exists()


def test_a_purge_leaves_foreign_files_and_follows_no_link(catalog: interbed.Catalog, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    _filled(catalog)
    catalog.drop_table("d.t")
    [entry] = catalog.list_dropped()
    (Path(entry.present_location) / "link").symlink_to(outside)
    assert catalog.purge_dropped("d.t") == 0
    assert (outside / "precious").read_text() == "x"
    assert catalog.list_dropped() == []


def test_hostile_notes_and_directories_lead_nowhere(catalog: interbed.Catalog, lake: Path, tmp_path: Path) -> None:
    _filled(catalog)
    catalog.drop_table("d.t")
    [entry] = catalog.list_dropped()
    place = Path(entry.present_location).parent
    notes: tuple[object, ...] = (
        {"database": "..", "table": "t", "expires_at": 0},
        {"database": "d", "table": "../../x", "expires_at": 0},
        {"database": "d", "table": "t", "expires_at": "0"},
        {"database": ["d"], "table": "t", "expires_at": 0},
        [],
    )
    for note in notes:
        (place / "note").write_text(json.dumps(note))
        [found] = catalog.list_dropped()
        assert (found.kind, found.expires_at) == ("unknown", None)
        assert catalog.purge_dropped(only_expired=True) == 0
        with pytest.raises(TableNotFoundError):
            catalog.undrop_table("d.t")
    (place / "note").write_text("{")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "schema").mkdir(parents=True)
    (elsewhere / "schema" / "schema-0").write_text("{}")
    (lake / ".undrop" / "1000000000000-00000000").symlink_to(elsewhere)
    (lake / ".undrop" / "1000000000000-00000001").mkdir()
    (lake / ".undrop" / "1000000000000-00000001" / "files").symlink_to(elsewhere)
    (lake / ".undrop" / "mine").mkdir()
    assert [found.id for found in catalog.list_dropped()] == [entry.id]
    catalog.purge_dropped(only_expired=True)
    assert (elsewhere / "schema" / "schema-0").exists()
    with pytest.raises(InvalidInputError, match="not the directory of a database"):
        catalog.undrop_database("d2", drop_id=entry.id)
    # The id and a name suffice.
    catalog.undrop_table("d.back", drop_id=entry.id)
    assert _rows(catalog, "d.back") == ROWS
    assert (lake / ".undrop" / "mine").exists()


def test_a_link_is_not_used_as_the_place_of_dropped_tables(
    catalog: interbed.Catalog, lake: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (lake / ".undrop").symlink_to(tmp_path / "other")
    _filled(catalog)
    with pytest.raises(StorageAccessError, match="symbolic link"):
        catalog.drop_table("d.t")
    assert _rows(catalog) == ROWS
    assert catalog.list_dropped() == []
    catalog.drop_table("d.t", purge=True)
    assert list((tmp_path / "other").iterdir()) == []


def test_nothing_is_put_back_through_a_link(catalog: interbed.Catalog, lake: Path, tmp_path: Path) -> None:
    _filled(catalog)
    catalog.drop_table("d.t")
    catalog.drop_database("d")
    (tmp_path / "other").mkdir()
    (lake / "d.db").symlink_to(tmp_path / "other")
    with pytest.raises(InvalidInputError, match="symbolic link"):
        catalog.undrop_table("d.t")
    assert list((tmp_path / "other").iterdir()) == []


def test_a_directory_that_cannot_be_moved_is_not_deleted(
    catalog: interbed.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    _filled(catalog)

    def refuse(self: LocalFileIO, source: str, target: str) -> bool:
        raise StorageAccessError(f"Can't rename {source}: Invalid cross-device link.")

    with monkeypatch.context() as context:
        context.setattr(LocalFileIO, "rename", refuse)
        with pytest.raises(StorageAccessError, match="PURGE"):
            catalog.drop_table("d.t")
        with pytest.raises(StorageAccessError, match="PURGE"):
            catalog.drop_database("d", cascade=True)
    assert (_rows(catalog), catalog.list_dropped()) == (ROWS, [])


def test_the_remains_of_killed_drops_and_purges_are_removed(catalog: interbed.Catalog, lake: Path) -> None:
    _filled(catalog)
    catalog.drop_table("d.t")
    [entry] = catalog.list_dropped()
    place = Path(entry.present_location).parent
    # A drop that was killed before its rename, an undrop after it.
    copied = place.parent / entry.id.replace(entry.id[-8:], "00000000")
    copied.mkdir()
    shutil.copy(place / "note", copied / "note")
    assert [found.id for found in catalog.list_dropped()] == [entry.id]
    catalog.purge_dropped(only_expired=True)
    assert copied.exists()
    _later(catalog, ABANDONED_SECONDS + 2).purge_dropped(only_expired=True)
    assert not copied.exists()
    # A purge that was killed half-way.
    (place / "files").rename(place / "purged")
    next((place / "purged").rglob("*.parquet")).unlink()
    assert catalog.list_dropped() == []
    assert catalog.purge_dropped(only_expired=True) == 1
    assert list((lake / ".undrop").iterdir()) == []


def _outcomes(calls: Sequence[Callable[[], object]]) -> list[object]:
    """Run the calls at once; return their results, None for an error of the catalog."""
    together = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        together.wait()
        try:
            return call() or "done"
        except CatalogError:
            return None

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_of_concurrent_drops_undrops_and_purges_one_wins(catalog: interbed.Catalog) -> None:
    for number in range(5):
        catalog.create_table("d.t", COLUMNS, primary_keys=["id"])
        dropped = _outcomes([lambda: catalog.drop_table("d.t")] * 3)
        assert (dropped.count("done"), len(catalog.list_dropped())) == (1, 1)
        put_back = _outcomes([lambda: catalog.undrop_table("d.t")] * 3)
        assert (put_back.count("done"), catalog.list_tables("d")) == (1, ["t"])
        catalog.drop_table("d.t")
        back, _ = _outcomes([lambda: catalog.undrop_table("d.t"), lambda: catalog.purge_dropped("d.t")])
        assert catalog.list_tables("d") == (["t"] if back else []), number
        assert catalog.list_dropped() == []
        if back:
            catalog.get_table("d.t").upsert(ROWS)
            catalog.drop_table("d.t", purge=True)


def test_the_option_is_checked_and_for_file_systems_alone(lake: Path) -> None:
    for value in ("-1", "a week"):
        with pytest.raises(InvalidOptionError, match="undrop-seconds"):
            interbed.load_catalog(warehouse=str(lake), undrop_seconds=value)
    for metastore in ("hive", "rest"):
        with pytest.raises(InvalidOptionError, match="undrop-seconds"):
            interbed.load_catalog(warehouse=str(lake), metastore=metastore, uri="thrift://h:1", undrop_seconds=1)


def test_a_file_system_without_atomic_renames_deletes_at_once(
    catalog: interbed.Catalog, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _filled(catalog)

    def like_a_store(path: str, options: object = None) -> tuple[FileIO, str]:
        wrapped = WrappedFileIO(LocalFileIO())
        wrapped.capabilities = replace(wrapped.capabilities, atomic_rename=False)
        return wrapped, path

    monkeypatch.setattr(filesystem, "file_io_for", like_a_store)
    store = interbed.load_catalog(warehouse=str(lake), undrop_seconds=WEEK)
    store.drop_table("d.t")
    assert store.list_dropped() == []
    assert not (lake / "d.db" / "t").exists()


class _PlainMetastore:
    """Calls to a metastore that has no configuration value of interbed's, and must get no other call."""

    def get_config_value(self, _name: str, default: str) -> str:
        return default

    def change(self, call: Callable[[Any], Any]) -> Any:
        return call(self)

    read = change

    def close(self) -> None: ...


def test_nothing_is_sent_to_a_metastore_that_keeps_no_drops() -> None:
    calls = KeptDrops(_PlainMetastore(), "thrift://other")
    entry = DroppedEntry(id="7", database="d", name="t", dropped_at=0, expires_at=1, present_location="")
    for call in (lambda: calls.dropped("d"), lambda: calls.undrop(entry, None), lambda: calls.purge(entry)):
        with pytest.raises(NotSupportedError, match="thrift://other lists no dropped objects"):
            call()


def test_a_catalog_on_another_server_names_the_command_of_interbeds() -> None:
    rest = RestCatalog.__new__(RestCatalog)
    rest.name, rest._drops = "lake", None
    for call in (rest.list_dropped, rest.purge_dropped, lambda: rest.undrop_table("d.t")):
        with pytest.raises(NotSupportedError, match="interbed metastore"):
            call()
