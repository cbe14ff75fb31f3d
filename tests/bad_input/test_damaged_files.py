"""A damaged file is named by reads and writes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.errors import (
    TableNotFoundError,
)
from interbed.storage.base.errors import (
    CorruptFileError,
    SnapshotNotFoundError,
    StorageAccessError,
    UnsupportedVersionError,
)
from tests.bad_input.tables import GOOD, unchanged


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def garbled(path: Path) -> None:
    path.write_bytes(b"\x00\xff garbage " * 50)


def deleted(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [emptied, truncated, garbled, deleted])
@pytest.mark.parametrize("kind", ["snapshot", "manifest list", "manifest", "data file", "schema"])
def test_a_damaged_file_is_named(
    catalog: interbed.Catalog, orders: interbed.Table, kind: str, damage: Callable[[Path], None]
) -> None:
    root = Path(orders.location)
    latest = orders.latest_snapshot()
    assert latest is not None
    victim = {
        "snapshot": root / "snapshot" / "snapshot-1",
        "manifest list": root / "manifest" / latest.base_manifest_list,
        "manifest": min(p for p in (root / "manifest").iterdir() if not p.name.startswith("manifest-list")),
        "data file": min(root.glob("bucket-*/*.parquet")),
        "schema": root / "schema" / "schema-0",
    }[kind]
    damage(victim)
    expected: type[Exception] | tuple[type[Exception], ...] = CorruptFileError
    if kind == "snapshot":
        expected = (CorruptFileError, SnapshotNotFoundError)
    name = "snapshot 1" if (kind, damage) == ("snapshot", deleted) else victim.name

    def read() -> None:
        table = catalog.get_table("shop.orders")
        table.scan(snapshot_id=1 if kind == "snapshot" else None).to_arrow()

    if (kind, damage) == ("data file", deleted):
        expected = StorageAccessError
    if (kind, damage) == ("schema", deleted):
        # A table without its only schema does not exist.
        expected, name = TableNotFoundError, "shop.orders"
    with pytest.raises(expected, match=name):
        read()
    if kind != "snapshot":
        # An unreadable table cannot be rewritten either, and no write is left incomplete.
        with unchanged(orders), pytest.raises(expected, match=name):
            catalog.get_table("shop.orders").compact(full=True)


def test_a_damaged_newest_snapshot_also_stops_writers(catalog: interbed.Catalog, orders: interbed.Table) -> None:
    truncated(Path(orders.location) / "snapshot" / "snapshot-2")
    table = catalog.get_table("shop.orders")
    calls: list[Callable[[], object]] = [
        lambda: table.scan().to_arrow(),
        lambda: table.upsert(GOOD),
        lambda: table.overwrite(GOOD),
        lambda: table.delete("id = 1"),
        lambda: table.compact(full=True),
    ]
    for call in calls:
        with unchanged(orders), pytest.raises(CorruptFileError, match="snapshot-2"):
            call()
    # Earlier snapshots are readable as before.
    assert table.scan(snapshot_id=1).count() == 3


@pytest.mark.parametrize(
    ("member", "value", "error", "message"),
    [
        ("version", 99, UnsupportedVersionError, "snapshot-2.*99"),
        ("id", 7, CorruptFileError, "snapshot-2.*7"),
        ("baseManifestList", None, CorruptFileError, "snapshot-2"),
        ("commitKind", "MAGIC", CorruptFileError, "snapshot-2.*MAGIC"),
    ],
)
def test_an_invalid_snapshot_is_named(
    orders: interbed.Table, member: str, value: object, error: type[Exception], message: str
) -> None:
    path = Path(orders.location) / "snapshot" / "snapshot-2"
    path.write_text(json.dumps(json.loads(path.read_text()) | {member: value}))
    with pytest.raises(error, match=message):
        interbed.load_table(orders.location).scan().to_arrow()


@pytest.mark.parametrize(
    ("member", "value", "error", "message"),
    [
        ("version", 99, UnsupportedVersionError, "schema-0.*99"),
        ("fields", [{"id": 0, "name": "id", "type": "MAGIC"}], CorruptFileError, "schema-0.*MAGIC"),
        ("fields", 5, CorruptFileError, "schema-0"),
        ("id", 3, CorruptFileError, "schema-0"),
    ],
)
def test_an_invalid_schema_is_named(
    orders: interbed.Table, member: str, value: object, error: type[Exception], message: str
) -> None:
    path = Path(orders.location) / "schema" / "schema-0"
    path.write_text(json.dumps(json.loads(path.read_text()) | {member: value}))
    with pytest.raises(error, match=message):
        interbed.load_table(orders.location)
