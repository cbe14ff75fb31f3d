"""The rows that a read decodes: pages around the requested keys, or whole row groups where most rows match."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.scan.explain import Explanation
from interbed.storage.table.table import Table

ROWS, PAGE = 40_000, 500


def made(warehouse: Path, file_format: str = "parquet") -> Table:
    """A base and three runs above it that are not merged, each with keys of the whole range."""
    catalog = interbed.load_catalog("lake", warehouse=f"file:{warehouse}")
    catalog.create_database("d")
    schema = pa.schema((pa.field("id", pa.int64()), pa.field("a", pa.int64()), pa.field("b", pa.string())))
    options = {
        "bucket": "1",
        "write-only": "true",
        "file.format": file_format,
        "parquet.page.row.count.limit": str(PAGE),
    }
    table = catalog.create_table("d.t", schema, primary_keys=["id"], options=options)
    for step in (1, 7, 11, 13):
        ids = list(range(0, ROWS, step))
        table.upsert(pa.table({"id": ids, "a": ids, "b": [f"{step}:{i}" for i in ids]}))
    return table


def decoded(found: Explanation) -> dict[str, int]:
    """Return the number of decoded rows by reason."""
    assert found.reading is not None
    return {part.reason: part.rows for part in found.reading.decoded}


def test_a_range_of_keys_decodes_only_the_pages_of_each_run_that_contain_it(tmp_path: Path) -> None:
    table = made(tmp_path)
    found = table.explain("id between 20000 and 20399", analyze=True)
    assert found.reading is not None
    assert found.reading.rows == 400
    # In each of the four runs, the requested keys are one range, in one page or across the border of two.
    assert set(decoded(found)) == {DecodeTally.FILTER, DecodeTally.REST}
    assert max(decoded(found).values()) <= 4 * 2 * PAGE
    one = decoded(table.explain("id = 20000", analyze=True))
    assert max(one.values()) <= 4 * PAGE
    # Values are only known after the merge, so all rows are read.
    assert decoded(table.explain("a = 20000", analyze=True))[DecodeTally.WHOLE] >= ROWS


def test_whole_row_groups_are_read_where_most_of_their_rows_are_requested(tmp_path: Path) -> None:
    found = made(tmp_path).explain(analyze=True)
    assert found.reading is not None
    assert found.reading.rows == ROWS
    everything = sum(len(range(0, ROWS, step)) for step in (1, 7, 11, 13))
    assert decoded(found) == {DecodeTally.WHOLE: everything}
    assert "  returned       40,000 rows; decoded for them" in str(found)
    assert found.to_json()["reading"]["decoded"][0]["reason"] == DecodeTally.WHOLE


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_files_of_other_formats_are_decoded_completely(tmp_path: Path, file_format: str) -> None:
    found = decoded(made(tmp_path, file_format).explain("id = 20000", analyze=True))
    assert set(found) == {DecodeTally.WHOLE}


def test_explain_without_analyze_reads_nothing(tmp_path: Path) -> None:
    found = made(tmp_path).explain("id = 20000")
    assert found.reading is None
    assert "reading" not in found.to_json()
