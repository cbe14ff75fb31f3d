"""Tables with data files outside of their directory (`data-file.external-paths`), by Java Paimon and interbed."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError, StorageAccessError
from interbed.storage.meta.paths import entropy_directories
from interbed.storage.table.table import Table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon

COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "STRING")]
SCHEMA = pa.schema((pa.field("id", pa.int32(), False), pa.field("p", pa.string(), False), pa.field("v", pa.string())))
LATER = 4_000_000_000
"""A time after all snapshots."""
KEY = "data-file.external-paths"
STRATEGIES = {
    "round-robin": {},
    "specific-fs": {f"{KEY}.specific-fs": "file"},
    "entropy-inject": {},
    "weight-robin": {f"{KEY}.weights": "1,3"},
}
VECTORS = {
    "bucket": "1",
    "deletion-vectors.enabled": "true",
    "index-file-in-data-file-dir": "true",
    "changelog-producer": "lookup",
    "file-index.bloom-filter.columns": "v",
    "file-index.in-manifest-threshold": "1 b",
}


def external(tmp_path: Path, strategy: str = "round-robin") -> dict[str, str]:
    paths = f"file://{tmp_path}/out-1,file:{tmp_path}/out-2/"
    return {KEY: paths, f"{KEY}.strategy": strategy, **STRATEGIES[strategy]}


def outside(tmp_path: Path) -> list[Path]:
    return sorted(path for n in (1, 2) for path in (tmp_path / f"out-{n}").rglob("*") if path.is_file())


def inside(lake: Path) -> list[Path]:
    return [path for path in (lake / "db.db" / "t").rglob("*") if "bucket-" in str(path) and path.is_file()]


def rows_of(table: Table) -> list[list[Any]]:
    return sorted([r["id"], r["p"], r["v"]] for r in table.scan().to_arrow().to_pylist())


def test_external_files_are_read_and_never_reported_as_missing(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    place = tmp_path / "outside"
    options = {"bucket": "1", "write-only": "true", KEY: f"file://{place}", f"{KEY}.strategy": "round-robin"}
    theirs = java_paimon.table(tmp_path / "lake", "db.t")
    theirs.create(COLUMNS, primary_keys=["id"], options=options)
    theirs.write([[1, "p", "a"], [2, "p", "b"]])
    theirs.write([[2, "p", "c"]])
    assert len(list(place.rglob("*.parquet"))) == 2
    assert not inside(tmp_path / "lake")
    rows = [[1, "p", "a"], [2, "p", "c"]]
    with interbed.load_catalog(warehouse=str(tmp_path / "lake")) as catalog:
        table = catalog.get_table("db.t")
        assert rows_of(table) == rows
        assert table.maintenance.remove_unexisting_files() == []

        place.rename(tmp_path / "unmounted")
        with pytest.raises(StorageAccessError, match="no such directory now"):
            table.maintenance.remove_unexisting_files()
        (tmp_path / "unmounted").rename(place)
        assert rows_of(table) == rows


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("options", [VECTORS, {"bucket": "-1"}], ids=["fixed", "dynamic"])
def test_java_and_interbed_write_external_files_in_turns(
    java_paimon: JavaPaimon, tmp_path: Path, options: dict[str, str], strategy: str
) -> None:
    lake = tmp_path / "lake"
    theirs = java_paimon.table(lake, "db.t")
    theirs.create(
        COLUMNS, primary_keys=["p", "id"], partition_keys=["p"], options={**options, **external(tmp_path, strategy)}
    )
    first = [[i, "a", "x"] for i in range(500)]
    theirs.write(first[:1])
    if strategy == "entropy-inject":
        for path in (path for path in outside(tmp_path) if path.suffix == ".parquet"):
            assert str(path.parent).endswith(f"bucket-0/{entropy_directories(path.name)}")
    with interbed.load_catalog(warehouse=str(lake)) as catalog:
        ours = catalog.get_table("db.t")
        ours.upsert([{"id": i, "p": p, "v": v} for i, p, v in first])
        ours.compact()
        assert sorted(theirs.read_table().rows) == rows_of(ours) == first
        theirs.write([[0, "a", "java"]])
        for number in range(3):
            ours.upsert([{"id": 1, "p": "a", "v": f"{number}"}, {"id": 1, "p": "b", "v": f"{number}"}])
        expected = sorted([[0, "a", "java"], [1, "a", "2"], [1, "b", "2"], *first[2:]])
        assert sorted(theirs.read_table().rows) == rows_of(ours) == expected
        written = {path.name.split("-")[0] for path in outside(tmp_path)}
        assert written >= ({"data", "changelog", "index"} if options is VECTORS else {"data"})
        assert not inside(lake)
        ours.compact()
        ours.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
        assert sorted(theirs.read_table().rows) == rows_of(ours) == expected
        live = set(catalog.get_table("db.t$files").scan().to_arrow().column("file_path").to_pylist())
        assert {str(path) for path in outside(tmp_path) if path.match("data-*.parquet")} == live
        catalog.drop_table("db.t")
    assert outside(tmp_path) == []
    if strategy != "entropy-inject":
        # With entropy-inject, empty directories of expired files are kept.
        assert list(tmp_path.glob("out-*/*")) == []


def test_pypaimon_reads_external_files_of_interbed(pypaimon: PyPaimon, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with interbed.load_catalog(warehouse=str(lake)) as catalog:
        catalog.create_database("db")
        table = catalog.create_table("db.t", SCHEMA, options={"bucket": "-1", **external(tmp_path)})
        for number in range(3):
            table.append([{"id": number, "p": "a", "v": None}])
        found = pypaimon.table(lake, "db.t").read()
        assert sorted(found.rows) == rows_of(table) == [[n, "a", None] for n in range(3)]
    assert {path.parts[-3] for path in outside(tmp_path)} <= {"out-1", "out-2"}
    assert len(outside(tmp_path)) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.overwrite([{"id": 7, "p": "a", "v": "o"}]),
        lambda table: table.rescale(2),
        lambda table: table.compact(),
        lambda table: table.delete("id = 1"),
    ],
    ids=["overwrite", "rescale", "compact", "delete"],
)
def test_rewrites_of_rows_write_external_files(
    java_paimon: JavaPaimon, tmp_path: Path, change: Callable[[Table], object]
) -> None:
    lake = tmp_path / "lake"
    with interbed.load_catalog(warehouse=str(lake)) as catalog:
        catalog.create_database("db")
        options = {"bucket": "1", "bucket-key": "id", **external(tmp_path)}
        table = catalog.create_table("db.t", SCHEMA, partition_keys=["p"], options=options)
        for number in range(6):
            table.append([{"id": number, "p": "a", "v": None}])
        change(table)
        table = catalog.get_table("db.t")
        assert sorted(java_paimon.table(lake, "db.t").read_table().rows) == rows_of(table)
        assert table.maintenance.remove_unexisting_files() == []
        assert not inside(lake)


def test_foreign_files_below_an_external_path_are_kept(tmp_path: Path) -> None:
    with interbed.load_catalog(warehouse=str(tmp_path / "lake")) as catalog:
        catalog.create_database("db")
        tables = [catalog.create_table(f"db.{n}", SCHEMA, options={"bucket": "-1", **external(tmp_path)}) for n in "ab"]
        for table in tables:
            for number in range(2):
                table.append([{"id": number, "p": "a", "v": table.name}])
        tables[0].versions.create_branch("side")
        old = time.time() - 90_000
        for path in (path for path in outside(tmp_path) if path.suffix == ".parquet"):
            os.utime(path, (old, old))
        # Below an external path an orphan cannot be distinguished from a file of another table.
        assert tables[0].maintenance.remove_orphan_files().files == ()
        tables[0].versions.delete_branch("side")
        catalog.drop_table("db.a")
        assert rows_of(tables[1]) == [[n, "a", "db.b"] for n in range(2)]
        assert len(outside(tmp_path)) == 2
        catalog.drop_database("db", cascade=True)
    assert outside(tmp_path) == []


def test_a_dropped_table_leaves_no_empty_directory_below_any_path(tmp_path: Path) -> None:
    with interbed.load_catalog(warehouse=str(tmp_path / "lake")) as catalog:
        catalog.create_database("db")
        table = catalog.create_table("db.t", SCHEMA, options={"bucket": "-1", **external(tmp_path)})
        number = 0
        # Each write starts with a randomly chosen path.
        while number < 6 or len(list(tmp_path.glob("out-*/bucket-0"))) < 2:
            table.append([{"id": number, "p": "a", "v": None}])
            number += 1
        table.compact()
        table.maintenance.compact_manifests()
        table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
        assert len(outside(tmp_path)) == 1
        assert len(list(tmp_path.glob("out-*/bucket-0"))) == 2
        catalog.drop_table("db.t")
    assert list(tmp_path.glob("out-*/*")) == []


def test_a_dropped_unreadable_table_keeps_its_external_files(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with interbed.load_catalog(warehouse=str(lake)) as catalog:
        catalog.create_database("db")
        table = catalog.create_table("db.t", SCHEMA, options={"bucket": "-1", **external(tmp_path)})
        table.append([{"id": 1, "p": "a", "v": None}])
        (lake / "db.db" / "t" / "schema" / "schema-0").write_text("{")
        catalog.drop_table("db.t")
        assert not catalog.table_exists("db.t")
    assert len(outside(tmp_path)) == 1


def test_contradicting_options_are_refused(tmp_path: Path) -> None:
    path = f"file:{tmp_path}/out"
    with interbed.load_catalog(warehouse=str(tmp_path / "lake")) as catalog:
        catalog.create_database("db")
        for options, said in (
            ({KEY: "/out"}, "takes URIs"),
            ({KEY: path, f"{KEY}.strategy": "specific-fs"}, "needs .*specific-fs"),
            ({KEY: path, f"{KEY}.strategy": "specific-fs", f"{KEY}.specific-fs": "s3"}, "scheme of no path"),
            ({KEY: path, f"{KEY}.strategy": "weight-robin", f"{KEY}.weights": "1,2"}, "a positive number for each"),
            ({KEY: path, f"{KEY}.strategy": "weight-robin", f"{KEY}.weights": "0"}, "a positive number for each"),
            ({KEY: path, f"{KEY}.strategy": "nope"}, "takes one of none, specific-fs, round-robin"),
        ):
            with pytest.raises(InvalidOptionError, match=said):
                catalog.create_table("db.t", SCHEMA, options=options)
        other = {KEY: "memory://out/t", f"{KEY}.strategy": "round-robin"}
        table = catalog.create_table("db.t", SCHEMA, options=other)
        with pytest.raises(NotSupportedError, match="another store than the table"):
            table.append([{"id": 1, "p": "a", "v": None}])
