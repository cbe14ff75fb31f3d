"""The command of a publication reports the number of rows that readers of Iceberg see."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main

ROWS = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
}


def published(warehouse: Path, *more: str) -> str:
    command = ["table", "publish-iceberg", "-o", f"warehouse={warehouse}", "d.t", *more]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("keys", "options", "compacts", "expected"),
    [
        (
            ["id"],
            {},
            False,
            "see 0 of 3 rows, in 0 of 1 files: a compaction (interbed table compact)",
        ),
        (["id"], {}, True, "readers of Iceberg see all 3 rows"),
        (["id"], VECTORS, False, "readers of Iceberg see all 3 rows"),
        ([], {}, False, "readers of Iceberg see all 3 rows"),
    ],
)
def test_the_command_reports_the_number_of_visible_rows(
    tmp_path: Path, keys: list[str], options: dict[str, str], compacts: bool, expected: str
) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    bucket = "1" if keys else "-1"
    given = {"bucket": bucket, "metadata.iceberg.storage": "table-location", **options}
    table = catalog.create_table("d.t", ROWS.schema, primary_keys=keys, options=given)
    assert "no snapshot to publish" in published(tmp_path)
    _ = table.upsert(ROWS) if keys else table.append(ROWS)
    if compacts:
        table.compact(full=True)
    assert expected in published(tmp_path)
    found = json.loads(published(tmp_path, "--json"))
    seen = interbed.load_iceberg_table(f"{tmp_path}/d.db/t").scan().to_arrow().num_rows
    assert (found["rows"], found["rows_shown"]) == (3, seen)


@pytest.mark.parametrize(
    ("keys", "options", "thin"),
    [
        (["id"], {"metadata.iceberg.storage": "table-location"}, "true"),
        (["id"], {"metadata.iceberg.storage": "table-location", "data-file.thin-mode": "false"}, "false"),
        (["id"], {"metadata.iceberg.storage": "disabled"}, None),
        ([], {"metadata.iceberg.storage": "table-location", "bucket": "-1"}, None),
    ],
)
def test_files_of_published_tables_have_no_columns_that_iceberg_lacks(
    tmp_path: Path, keys: list[str], options: dict[str, str], thin: str | None
) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table("d.t", ROWS.schema, primary_keys=keys, options={"bucket": "1", **options})
    assert table.schema.options.get("data-file.thin-mode") == thin
    if keys:
        table.upsert(ROWS)
        [file] = tmp_path.glob("d.db/t/bucket-0/*.parquet")
        assert ("_KEY_id" in pq.read_schema(file).names) == (thin != "true")
