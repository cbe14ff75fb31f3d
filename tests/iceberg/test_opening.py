"""Ways to open an Iceberg table, and errors of tables that can not be opened."""

import gzip
import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import interbed


def made(directory: Path) -> interbed.IcebergTable:
    """Create a table with three rows in a catalog of pyiceberg."""
    with load_catalog("ice", type="sql", uri=f"sqlite:///{directory}/ice.db", warehouse=f"file://{directory}") as ice:
        ice.create_namespace("shop")
        rows = pa.table({"id": [1, 2, 3]})
        table = ice.create_table("shop.orders", rows.schema)
        table.append(rows)
        return interbed.IcebergTable("shop.orders", table)


def test_a_table_is_opened_by_its_metadata_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    opened = interbed.load_iceberg_table(table.metadata.metadata_location, name="mine")
    assert (opened.name, opened.location, opened.format_version) == ("mine", table.location, 2)
    assert opened.count() == 3
    assert opened.field_names == ["id"]
    assert opened.arrow_schema == pa.schema([("id", pa.int64())])
    assert repr(opened) == f"IcebergTable('mine', {table.location!r})"
    assert repr(opened.scan(filter="id > 1", limit=1)).endswith("limit 1)")


def test_a_table_whose_paths_name_this_host_is_read_and_compacted(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.metadata.append(pa.table({"id": [4]}))
    path = Path(table.metadata.metadata_location.removeprefix("file://"))
    path.with_name("v1.metadata.json").write_text(path.read_text().replace("file:///", "file://localhost/"))
    location = f"file://localhost{path.parent.parent}"
    opened = interbed.load_iceberg_table(location)
    assert (opened.location, opened.count()) == (location, 4)
    compacted = opened.compact()
    assert compacted.rewritten == 2
    opened.compact_manifests()
    opened.expire_snapshots(older_than=2**62, retain_last=1)
    opened.remove_orphan_files()
    again = interbed.load_iceberg_table(location)
    assert len(again.snapshots()) == 1
    assert again.scan(filter="id > 2").to_arrow().sort_by("id")["id"].to_pylist() == [3, 4]


def test_metadata_name_neither_code_nor_an_address_for_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    table.metadata.append(pa.table({"id": [4]}))
    (tmp_path / "foreign_files.py").write_text("raise SystemExit('the code that the metadata name was run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = Path(table.metadata.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    document["properties"] |= {
        "py-io-impl": "foreign_files.ForeignFiles",
        "s3.endpoint": "http://192.0.2.1",
        "s3.signer.uri": "http://192.0.2.1",
        "warehouse": "s3://elsewhere",
    }
    path.with_name("v1.metadata.json").write_text(json.dumps(document))
    opened = interbed.load_iceberg_table(str(path.parent.parent))
    assert opened.scan().to_arrow().sort_by("id")["id"].to_pylist() == [1, 2, 3, 4]
    assert "foreign_files" not in sys.modules
    assert not any("192.0.2.1" in str(value) for value in opened.metadata.io.properties.values())
    # They stay properties of the table, and the table can be changed.
    assert opened.compact().rewritten == 2
    again = interbed.load_iceberg_table(str(path.parent.parent))
    assert again.count() == 4
    assert again.metadata.properties["py-io-impl"] == "foreign_files.ForeignFiles"


@pytest.mark.parametrize("name", ["v7.gz.metadata.json", "v7.metadata.json.gz"])
def test_compressed_metadata_are_read_under_either_name(tmp_path: Path, name: str) -> None:
    table = made(tmp_path)
    path = Path(table.metadata.metadata_location.removeprefix("file://"))
    content = gzip.compress(path.read_bytes())
    path.with_name(name).write_bytes(content)
    assert interbed.load_iceberg_table(str(path.with_name(name))).count() == 3
    # The file is also found as the newest version of a directory.
    for other in path.parent.glob("*.metadata.json"):
        if other.name != name:
            other.unlink()
    assert interbed.load_iceberg_table(str(path.parent.parent)).count() == 3
    for damaged in (content[: len(content) // 2], content[:10] + b"x" * 100):
        path.with_name(name).write_bytes(damaged)
        with pytest.raises(interbed.CorruptFileError, match="damaged"):
            interbed.load_iceberg_table(str(path.with_name(name)))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"format-version": 9}, interbed.NotSupportedError, "up to 3 are read"),
        ({"schemas": "none"}, interbed.CorruptFileError, "no table metadata"),
    ],
)
def test_unknown_metadata_are_refused(
    tmp_path: Path, change: dict[str, object], error: type[Exception], said: str
) -> None:
    location = Path(made(tmp_path).metadata.metadata_location.removeprefix("file://"))
    other = location.with_name("other.metadata.json")
    other.write_text(json.dumps({**json.loads(location.read_text()), **change}))
    with pytest.raises(error, match=said):
        interbed.load_iceberg_table(str(other))


def test_a_manifest_that_is_damaged_is_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    (snapshot,) = table.snapshots()
    (manifest,) = snapshot.manifests(table.metadata.io)
    Path(manifest.manifest_path.removeprefix("file://")).write_bytes(b"Obj\1 damaged")
    with pytest.raises(interbed.CorruptFileError, match=Path(manifest.manifest_path).name):
        table.scan().to_arrow()


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    table = made(tmp_path)
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(interbed.FileGoneError, match="parquet"):
        table.scan().to_arrow()
