"""Tags of a published table, which readers of Iceberg see as references."""

import json
from pathlib import Path

import pytest

import interbed
from tests.iceberg.publish.tables import (
    assert_true,
    by_pyiceberg,
    metadata_directory,
    place_of,
    published,
    rows,
)


def test_tags_become_references_and_retain_their_snapshots(tmp_path: Path) -> None:
    table = published(tmp_path)
    for number in range(3):
        table.append(rows(number))
    table.versions.create_tag("two", 2)
    assert by_pyiceberg(table).metadata.refs["two"].snapshot_id == 2
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert_true(table)
    assert [one.snapshot_id for one in by_pyiceberg(table).metadata.snapshots] == [2, 3]
    then = interbed.load_iceberg_table(place_of(table)).scan(tag="two").to_arrow()
    assert set(then["id"].to_pylist()) == {0, 1}
    table.versions.rename_tag("two", "deux")
    assert set(by_pyiceberg(table).metadata.refs) == {"deux", "main"}
    table.versions.replace_tag("deux", 3)
    assert by_pyiceberg(table).metadata.refs["deux"].snapshot_id == 3
    table.versions.delete_tag("deux")
    assert set(by_pyiceberg(table).metadata.refs) == {"main"}
    assert_true(table)
    raw = json.loads((metadata_directory(table) / "v3.metadata.json").read_text())
    assert raw["refs"] == {}
    assert raw["properties"] == {"gc.enabled": "false"}


def test_a_tag_of_the_name_of_icebergs_branch_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = published(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    assert "not published" not in caplog.text
    table.versions.create_tag("main", 1)
    assert f"The tag 'main' of {table.location} is not published" in caplog.text
    assert "Rename the tag." in caplog.text
    files = sorted(metadata_directory(table).glob("*.json"))
    before = files[-1].stat().st_mtime_ns
    table.maintenance.publish_iceberg()
    assert (sorted(metadata_directory(table).glob("*.json")), files[-1].stat().st_mtime_ns) == (files, before)
    assert by_pyiceberg(table).metadata.refs["main"].snapshot_id == 2
    table.versions.rename_tag("main", "first")
    assert by_pyiceberg(table).metadata.refs["first"].snapshot_id == 1
    assert_true(table)
