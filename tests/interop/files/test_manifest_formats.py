"""Manifests in Parquet and ORC (`manifest.format`), written and read by Java Paimon and by interbed in turns."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import interbed
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.schema.change import SetOption
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.shares import each_run

FORMATS = ["parquet", "orc"]
CODECS = {"parquet": ["zstd", "snappy", "none", "gzip"], "orc": ["zstd", "snappy", "none", "lz4"]}
FORMS = [(file_format, codec) for file_format in FORMATS for codec in CODECS[file_format]]
# Each codec is used once.
OF_EACH_RUN = [("parquet", "zstd"), ("parquet", "gzip"), ("orc", "snappy"), ("orc", "none"), ("orc", "lz4")]
COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "STRING")]
LATER = 4_000_000_000
"""A time after all snapshots."""
MAGIC = {"parquet": b"PAR1", "orc": b"ORC", "avro": b"Obj"}


def manifests(lake: Path, *, prefix: str = "") -> list[Path]:
    return sorted((lake / "db.db" / "t" / "manifest").glob(f"{prefix}*"))


def java_rows(table: JavaTable) -> list[list[Any]]:
    return sorted(table.read_table().rows)


def our_rows(lake: Path) -> list[list[Any]]:
    with interbed.load_catalog(warehouse=str(lake)) as catalog:
        found = catalog.get_table("db.t").scan().to_arrow().to_pylist()
    return sorted([r["id"], r["p"], r["v"]] for r in found)


@pytest.mark.parametrize(("file_format", "codec"), each_run(FORMS, lambda form: form in OF_EACH_RUN))
def test_a_keyed_table_with_deletion_vectors_is_written_in_turns(
    java_paimon: JavaPaimon, tmp_path: Path, file_format: str, codec: str
) -> None:
    options = {
        "bucket": "1",
        "manifest.format": file_format,
        "manifest.compression": codec,
        "manifest.merge-min-count": "3",
        "deletion-vectors.enabled": "true",
    }
    theirs = java_paimon.table(tmp_path, "db.t")
    theirs.create(COLUMNS, primary_keys=["p", "id"], partition_keys=["p"], options=options)
    # Enough rows that a compaction of a few changes marks their older versions as deleted and keeps this file.
    first: list[list[Any]] = [[i, "a", "x"] for i in range(1000)]
    theirs.write(first)
    theirs.compact()
    theirs.write([[1, "a", "z"], [3, "b", None]])
    expected: list[list[Any]] = [[0, "a", "x"], [1, "a", "z"], *first[2:], [3, "b", None]]
    assert our_rows(tmp_path) == java_rows(theirs) == sorted(expected)
    with interbed.load_catalog(warehouse=str(tmp_path)) as catalog:
        ours = catalog.get_table("db.t")
        for number in range(4):
            ours.upsert([{"id": 2, "p": "a", "v": f"{number}"}, {"id": 3, "p": "b", "v": f"{number}"}])
        expected = [[0, "a", "x"], [1, "a", "z"], [2, "a", "3"], *first[3:], [3, "b", "3"]]
        assert our_rows(tmp_path) == java_rows(theirs) == sorted(expected)
        assert manifests(tmp_path, prefix="index-manifest-")
        theirs.write([[4, "c", "w"], [5, "a", "w"]])
        expected = [[4, "c", "w"], [5, "a", "w"], *(r for r in expected if r != [5, "a", "x"])]
        assert our_rows(tmp_path) == java_rows(theirs) == sorted(expected)
        ours.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
        theirs.write([[6, "c", None]])
        expected.append([6, "c", None])
        assert our_rows(tmp_path) == java_rows(theirs) == sorted(expected)
        ours.compact()
        assert our_rows(tmp_path) == java_rows(theirs) == sorted(expected)
    assert {f.read_bytes()[:3] for f in manifests(tmp_path)} == {MAGIC[file_format][:3]}


@pytest.mark.parametrize("file_format", FORMATS)
def test_manifests_have_the_schema_of_javas(java_paimon: JavaPaimon, tmp_path: Path, file_format: str) -> None:
    options = {"bucket": "1", "manifest.format": file_format, "deletion-vectors.enabled": "true"}
    schemas: list[dict[str, str]] = []
    for writer in ("java", "interbed"):
        lake = tmp_path / writer
        theirs = java_paimon.table(lake, "db.t")
        theirs.create(COLUMNS, primary_keys=["id"], options=options)
        with interbed.load_catalog(warehouse=str(lake)) as catalog:
            for value in ("a", "b"):
                if writer == "java":
                    theirs.write([[1, "p", value], [2, "p", value]])
                    theirs.write([[1, "p", value]])
                    theirs.compact()
                else:
                    catalog.get_table("db.t").upsert([{"id": i, "p": "p", "v": value} for i in (1, 2)])
                    catalog.get_table("db.t").upsert([{"id": 1, "p": "p", "v": value}])
                    catalog.get_table("db.t").compact(full=False)
        schemas.append(
            {
                prefix: _schema(manifests(lake, prefix=prefix)[0], file_format)
                for prefix in ("manifest-[0-9a-f]", "manifest-list-", "index-manifest-")
                if manifests(lake, prefix=prefix)
            }
        )
    java, ours = schemas
    assert java.keys() <= ours.keys() | {"index-manifest-"}
    # interbed's index manifests include a field that was added after 1.4.2.
    assert {k: v for k, v in ours.items() if k in java and k != "index-manifest-"} == {
        k: v for k, v in java.items() if k != "index-manifest-"
    }


def _schema(path: Path, file_format: str) -> str:
    if file_format == "orc":
        return orc.ORCFile(path).schema.to_string(show_field_metadata=True, truncate_metadata=False)
    return "\n".join(str(pq.ParquetFile(path).schema).splitlines()[2:])


@pytest.mark.parametrize("file_format", FORMATS)
def test_append_tables_are_overwritten_and_compacted_by_both(
    java_paimon: JavaPaimon, tmp_path: Path, file_format: str
) -> None:
    theirs = java_paimon.table(tmp_path, "db.t")
    theirs.create(COLUMNS, partition_keys=["p"], options={"bucket": "-1", "manifest.format": file_format})
    with interbed.load_catalog(warehouse=str(tmp_path)) as catalog:
        ours = catalog.get_table("db.t")
        ours.append([{"id": i, "p": "ab"[i % 2], "v": None} for i in range(4)])
        theirs.write([[9, "a", "x"]], overwrite={"p": "a"})
        ours.append([{"id": 5, "p": "b", "v": "y"}])
        ours.compact()
        ours.delete("id = 1")
        expected = [[3, "b", None], [5, "b", "y"], [9, "a", "x"]]
        assert our_rows(tmp_path) == java_rows(theirs) == expected


def test_the_format_cannot_change_and_each_manifest_is_read_in_its_own_format(
    java_paimon: JavaPaimon, tmp_path: Path
) -> None:
    theirs = java_paimon.table(tmp_path, "db.t")
    theirs.create(COLUMNS, options={"bucket": "-1"})
    with interbed.load_catalog(warehouse=str(tmp_path)) as catalog:
        ours = catalog.get_table("db.t")
        # Without manifests there is nothing that another format would make unreadable for Java.
        catalog.alter_table("db.t", [SetOption("manifest.format", "orc")])
        ours = catalog.get_table("db.t")
        ours.append([{"id": 1, "p": "a", "v": None}])
        with pytest.raises(InvalidOptionError, match=r"'manifest\.format' can't be changed"):
            catalog.alter_table("db.t", [SetOption("manifest.format", "parquet")])
        with pytest.raises(InvalidOptionError, match=r"'manifest\.format'"):
            ours.copy({"manifest.format": "parquet"})
        # Java accepts the change, and cannot read its own table afterwards.
        theirs.alter({"op": "set_option", "key": "manifest.format", "value": "parquet"})
        ours = catalog.get_table("db.t")
        ours.append([{"id": 2, "p": "a", "v": None}])
        assert our_rows(tmp_path) == [[1, "a", None], [2, "a", None]]
        assert {f.read_bytes()[:3] for f in manifests(tmp_path)} == {b"ORC", b"PAR"}
