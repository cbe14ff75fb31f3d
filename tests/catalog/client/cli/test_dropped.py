"""`interbed catalog dropped | undrop | purge` on a file-system catalog."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    catalog = interbed.load_catalog(warehouse=str(tmp_path / "lake"), undrop_seconds=3600)
    catalog.create_database("shop")
    catalog.create_table_as("shop.orders", pa.table({"id": [1, 2]}))
    return catalog


def _run(lake: interbed.Catalog, *words: str) -> Result:
    group, command, *rest = words
    options = ["-o", f"warehouse={lake.warehouse}", "-o", "undrop-seconds=3600"]
    return CliRunner().invoke(main, [group, *options, command, *rest])


def _json(lake: interbed.Catalog, *words: str) -> Any:
    done = _run(lake, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_dropped_table_is_listed_put_back_and_purged(lake: interbed.Catalog) -> None:
    assert "dropped the table" in _run(lake, "table", "drop", "shop.orders", "--yes").output
    [entry] = _json(lake, "catalog", "dropped", "--database", "shop")
    assert (entry["database"], entry["name"], entry["kind"]) == ("shop", "orders", "table")
    assert entry["expires_at"] - entry["dropped_at"] == 3600
    listed = _run(lake, "catalog", "dropped").output
    assert "shop.orders" in listed
    assert "KEPT UNTIL" in listed
    assert _json(lake, "catalog", "dropped", "--database", "other") == []
    assert "table shop.may is back" in _run(lake, "catalog", "undrop", "shop.orders", "--as", "may").output
    assert lake.get_table("shop.may").count() == 2
    assert "No dropped objects." in _run(lake, "catalog", "dropped").output
    _run(lake, "table", "drop", "shop.may", "--yes")
    [entry] = _json(lake, "catalog", "dropped")
    assert _json(lake, "catalog", "purge", "shop.may", "--id", entry["id"]) == {"purged": 1}
    assert not Path(entry["present_location"]).exists()
    missing = _run(lake, "catalog", "undrop", "shop.may")
    assert missing.exit_code == 1
    assert "interbed catalog dropped" in missing.output


def test_purge_flags_choose_what_is_deleted(lake: interbed.Catalog) -> None:
    _run(lake, "table", "drop", "shop.orders", "--yes", "--purge")
    assert _json(lake, "catalog", "dropped") == []
    lake.create_table_as("shop.orders", pa.table({"id": [1]}))
    _run(lake, "catalog", "drop-database", "shop", "--cascade")
    assert [entry["kind"] for entry in _json(lake, "catalog", "dropped")] == ["database", "table"]
    assert _json(lake, "catalog", "purge", "--expired") == {"purged": 0}
    assert "database shop is back" in _run(lake, "catalog", "undrop", "shop").output
    _run(lake, "catalog", "drop-database", "shop", "--cascade")
    assert _json(lake, "catalog", "purge", "--all") == {"purged": 1}
    for words in ([], ["shop", "--all"], ["--all", "--expired"], ["--all", "--id", "x"]):
        assert _run(lake, "catalog", "purge", *words).exit_code == 2
    assert _run(lake, "catalog", "undrop", "shop", "--as", "other").exit_code == 2


def test_what_is_not_deleted_is_reported(lake: interbed.Catalog) -> None:
    lake.drop_table("shop.orders")
    [entry] = lake.list_dropped()
    foreign = Path(entry.present_location) / "notes.txt"
    foreign.write_text("mine")
    done = _run(lake, "catalog", "purge", "--all")
    assert done.exit_code == 1
    assert "see the log" in done.output
