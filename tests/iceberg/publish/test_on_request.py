"""Iceberg metadata of tables that do not publish them, made when a client requests them."""

import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

import interbed
from interbed.iceberg.publish.on_request import (
    VISIBLE_ROWS,
    MetadataBusyError,
    MetadataNotMadeError,
    MetadataOnRequest,
    ServedMetadata,
)
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.schema.change import AddColumn, RenameColumn
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table, load_table
from interbed.storage.version.orphans import remove_orphan_files
from tests.iceberg.publish.tables import KEYED, ROWS, lake, ordered, rows, shown
from tests.support.dying_disk import DyingDisk, SimulatedKill
from tests.support.examples import examples
from tests.support.waits import at_most

UUID = "11111111-2222-8333-8444-555555555555"
KEYS = {"bucket": "1"}
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true"}
STEPS = ("append", "delete", "compact", "overwrite", "tag", "rollback", "expire")
KINDS: Mapping[str, dict[str, Any]] = {
    "append": {},
    "partitioned": {"partition_keys": ["p"]},
    "keyed": {"schema": KEYED, "primary_keys": ["id"], "options": KEYS},
    "vectors of 32 bits": {"schema": KEYED, "primary_keys": ["id", "p"], "partition_keys": ["p"], "options": VECTORS},
    "append with vectors": {"options": {"deletion-vectors.enabled": "true", "deletion-vectors.modifiable": "true"}},
}


def made(warehouse: Path, name: str = "t", **kind: Any) -> Table:
    """Create a table that publishes nothing."""
    return lake(warehouse).create_table(f"db.{name}", **{"schema": ROWS, **kind})


def requested(table: Table, made_by: MetadataOnRequest | None = None) -> ServedMetadata:
    """Return the metadata of the table as it is now, by another process unless its maker is given."""
    return (made_by or MetadataOnRequest()).of(load_table(table.location).store, UUID)


def document(found: ServedMetadata) -> Any:
    """Return the decoded metadata."""
    return json.loads(found.content)


def read(found: ServedMetadata, directory: Path) -> Sequence[Mapping[str, Any]]:
    """Return the rows that both pyiceberg and interbed's reader find by the served metadata."""
    file = directory / "served.metadata.json"
    file.write_bytes(found.content)
    by_pyiceberg = ordered(StaticTable.from_metadata(str(file)).scan().to_arrow().to_pylist())
    assert by_pyiceberg == ordered(interbed.load_iceberg_table(str(file)).scan().to_arrow().to_pylist())
    return by_pyiceberg


@pytest.mark.parametrize("kind", KINDS)
def test_readers_see_the_rows_after_each_change(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path, **KINDS[kind])
    assert document(requested(table))["snapshots"] == []
    table.append(rows(1, 2, 3))
    table.append(rows(4, p=2))
    assert read(requested(table), tmp_path) == shown(table)
    table.delete("id = 2")
    assert read(requested(table), tmp_path) == shown(table)
    table.store.alter([AddColumn("n", AtomicType(TypeRoot.INT)), RenameColumn("v", "w")])
    table = load_table(table.location)
    table.append([{"id": 9, "w": "z", "p": 3, "n": 5}])
    table.compact(full=True)
    found = requested(table)
    assert read(found, tmp_path) == shown(table)
    assert len(shown(table)) == 4
    assert document(found)["format-version"] == (3 if "vectors" in kind else 2)
    assert document(found)["properties"][VISIBLE_ROWS] == ("compacted" if kind == "keyed" else "all")
    assert document(found)["table-uuid"] == UUID


def test_metadata_are_made_once_for_a_snapshot(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(rows(1))
    maker = MetadataOnRequest()
    found: list[ServedMetadata] = []
    threads = [threading.Thread(target=lambda: found.append(requested(table, maker))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(at_most(30))
    assert len(found) == 6
    assert {each.content for each in found} == {found[0].content}
    files = sorted(Path(table.location, ".iceberg").iterdir())
    assert len([each for each in files if each.name.startswith("snap-")]) == 1
    assert requested(table, maker).content == requested(table).content == found[0].content
    assert sorted(Path(table.location, ".iceberg").iterdir()) == files


def test_earlier_snapshots_and_tags_are_read(tmp_path: Path) -> None:
    table = made(tmp_path)
    maker = MetadataOnRequest()
    for number in (1, 2, 3):
        table.append(rows(number))
        requested(table, maker)
    table.versions.create_tag("first", 1)
    found = document(requested(table, maker))
    assert [each["snapshot-id"] for each in found["snapshots"]] == [1, 2, 3]
    assert found["refs"]["first"]["snapshot-id"] == 1
    table.versions.rollback_to(2)
    assert read(requested(table, maker), tmp_path) == rows(1, 2)
    table.append(rows(7))
    assert read(requested(table, maker), tmp_path) == rows(1, 2, 7)


def test_metadata_follow_a_table_that_is_renamed(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(rows(1))
    requested(table)
    catalog = lake(tmp_path)
    catalog.rename_table("db.t", "db.u")
    table = catalog.get_table("db.u")
    assert read(requested(table), tmp_path) == rows(1)
    table.append(rows(2))
    assert read(requested(table), tmp_path) == rows(1, 2)


def test_a_renamed_table_is_published_again(tmp_path: Path) -> None:
    table = made(tmp_path, options={"metadata.iceberg.storage": "table-location"})
    table.append(rows(1))
    catalog = lake(tmp_path)
    catalog.rename_table("db.t", "db.u")
    table = catalog.get_table("db.u")
    table.append(rows(2))
    assert read(requested(table), tmp_path) == rows(1, 2)


def test_published_metadata_are_served_as_they_are(tmp_path: Path) -> None:
    table = made(tmp_path, options={"metadata.iceberg.storage": "hadoop-catalog"})
    assert document(requested(table))["snapshots"] == []
    table.append(rows(1))
    found = requested(table)
    assert found.location == f"{tmp_path}/iceberg/db/t/metadata/v1.metadata.json"
    assert read(found, tmp_path) == rows(1)
    assert not Path(table.location, ".iceberg").exists()


def test_metadata_below_a_root_leave_the_table_alone(tmp_path: Path) -> None:
    table = made(tmp_path / "lake")
    table.append(rows(1))
    before = sorted(Path(table.location).rglob("*"))
    found = requested(table, MetadataOnRequest(f"{tmp_path}/made"))
    assert read(found, tmp_path) == rows(1)
    assert found.location == f"{tmp_path}/made/{UUID}/v1.metadata.json"
    assert sorted(Path(table.location).rglob("*")) == before


def test_a_directory_without_write_access_is_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(rows(1))
    Path(table.location, ".iceberg").write_text("no directory")
    with pytest.raises(MetadataNotMadeError, match=r"t/\.iceberg.*iceberg_metadata_root"):
        requested(table)


def test_requests_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(rows(1))
    with pytest.raises(MetadataBusyError, match="repeat the request"):
        requested(table, MetadataOnRequest(runs_max=0))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ({"options": {"file.format": "orc"}}, InvalidOptionError),
        ({"schema": pa.schema([pa.field("at", pa.timestamp("s"))])}, NotSupportedError),
        ({"schema": pa.schema([pa.field("at", pa.timestamp("ns"))])}, NotSupportedError),
    ],
)
def test_tables_that_iceberg_lacks_are_refused_by_name(
    tmp_path: Path, kind: Mapping[str, Any], error: type[Exception]
) -> None:
    table = made(tmp_path, **kind)
    with pytest.raises(error):
        requested(table)


def test_the_files_are_those_of_the_table(tmp_path: Path) -> None:
    table = made(tmp_path, **KINDS["append with vectors"])
    table.append(rows(1, 2))
    table.delete("id = 1")
    requested(table)
    assert table.maintenance.fsck().is_sound
    files = sorted(Path(table.location).rglob("*"))
    later = time.time() + 3600
    remove_orphan_files(table.store, older_than_millis=int(later * 1000) - 1, clock=lambda: later)
    assert sorted(Path(table.location).rglob("*")) == files
    lake(tmp_path).drop_table("db.t")
    assert not Path(table.location).exists()


def test_a_kill_at_any_step_leaves_metadata_that_the_next_request_completes(tmp_path: Path) -> None:
    step: int | None = 1
    kills = 0
    while step is not None:
        table = made(tmp_path / str(step), **KINDS["append with vectors"])
        table.append(rows(1, 2))
        requested(table)
        table.append(rows(3))
        table.delete("id = 1")
        disk = DyingDisk(step)
        done = False
        with contextlib.suppress(SimulatedKill):
            MetadataOnRequest().of(open_store(table.location, LocalFileIO(disk)), UUID)
            done = True
        assert read(requested(table), tmp_path) == rows(2, 3)
        kills += not done
        step = None if done else step + 1
    assert kills > 3


@settings(max_examples=examples(25), deadline=None)
@given(kind=st.sampled_from(sorted(KINDS)), steps=st.lists(st.sampled_from(STEPS), max_size=8))
def test_any_changes_between_requests_are_seen(
    tmp_path_factory: pytest.TempPathFactory, kind: str, steps: Sequence[str]
) -> None:
    directory = tmp_path_factory.mktemp("lake")
    table, maker = made(directory, **KINDS[kind]), MetadataOnRequest()
    table.append(rows(0, 1))
    for number, step in enumerate(steps):
        _change(table, step, number)
        if number % 3 != 2:
            table = load_table(table.location)
            assert read(requested(table, maker), directory) == shown(table)
    assert read(requested(table, maker), directory) == read(requested(table), directory) == shown(table)


def _change(table: Table, step: str, number: int) -> None:
    match step:
        case "append":
            table.append(rows(number % 3, number + 2, v=f"v{number}"))
        case "delete":
            table.delete(f"id = {number % 3}")
        case "compact":
            table.compact(full=True)
        case "overwrite":
            table.overwrite(rows(number))
        case "tag":
            table.versions.create_tag(f"t{number}")
        case "rollback":
            table.versions.rollback_to(table.store.snapshots.ids()[0])
        case _:
            table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
