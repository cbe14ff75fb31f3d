"""Tables whose data files Java Paimon writes outside of their directory (`data-file.external-paths`)."""

from pathlib import Path

import pytest

import interbed
from interbed.storage.base.errors import NotSupportedError, StorageAccessError
from tests.support.peers.java import JavaPaimon

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]
DAY_SECONDS = 86_400


def test_files_outside_of_the_table_are_read_and_never_taken_for_missing(
    java_paimon: JavaPaimon, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    options = {
        "bucket": "1",
        "write-only": "true",
        "data-file.external-paths": f"file://{outside}",
        "data-file.external-paths.strategy": "round-robin",
    }
    theirs = java_paimon.table(tmp_path / "lake", "db.t")
    theirs.create(COLUMNS, primary_keys=["id"], options=options)
    theirs.write([[1, "a"], [2, "b"]])
    theirs.write([[2, "c"]])
    assert len(list(outside.rglob("*.parquet"))) == 2
    assert not list((tmp_path / "lake" / "db.db" / "t" / "bucket-0").glob("*"))
    rows = [{"id": 1, "v": "a"}, {"id": 2, "v": "c"}]
    with interbed.load_catalog(warehouse=str(tmp_path / "lake")) as catalog:
        table = catalog.get_table("db.t")

        assert table.scan().to_arrow().sort_by("id").to_pylist() == rows
        assert table.remove_unexisting_files() == []
        with pytest.raises(NotSupportedError, match=r"data-file\.external-paths"):
            table.upsert([{"id": 3, "v": "d"}])

        outside.rename(tmp_path / "unmounted")
        with pytest.raises(StorageAccessError, match="no such directory now"):
            table.remove_unexisting_files()
        (tmp_path / "unmounted").rename(outside)
        assert table.scan().to_arrow().sort_by("id").to_pylist() == rows
