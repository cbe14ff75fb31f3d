"""What a read decodes for the rows that it returns: pages around the keys asked for, whole groups where most match."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.scan.explain import Explanation
from interbed.storage.table.table import Table

ROWS, PAGE = 40_000, 500


def made(warehouse: Path, file_format: str = "parquet") -> Table:
    """A base and three runs above it that are not merged, each with keys from all over the range."""
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
    """Rows by reason."""
    assert found.reading is not None
    return {part.reason: part.rows for part in found.reading.decoded}


def test_a_range_of_keys_decodes_the_pages_of_each_run_that_have_it(tmp_path: Path) -> None:
    table = made(tmp_path)
    found = table.explain("id between 20000 and 20399", analyze=True)
    assert found.reading is not None
    assert found.reading.rows == 400
    # In each of the four runs what is asked for is one stretch, in a page or on the border of two.
    assert set(decoded(found)) == {DecodeTally.FILTER, DecodeTally.REST}
    assert max(decoded(found).values()) <= 4 * 2 * PAGE
    one = decoded(table.explain("id = 20000", analyze=True))
    assert max(one.values()) <= 4 * PAGE
    # A value is only known after the merge: all rows are read.
    assert decoded(table.explain("a = 20000", analyze=True))[DecodeTally.WHOLE] >= ROWS


def test_whole_groups_are_read_where_most_of_them_is_asked_for(tmp_path: Path) -> None:
    found = made(tmp_path).explain(analyze=True)
    assert found.reading is not None
    assert found.reading.rows == ROWS
    everything = sum(len(range(0, ROWS, step)) for step in (1, 7, 11, 13))
    assert decoded(found) == {DecodeTally.WHOLE: everything}
    assert "  returned       40,000 rows; decoded for them" in str(found)
    assert found.to_json()["reading"]["decoded"][0]["reason"] == DecodeTally.WHOLE


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_formats_are_read_whole(tmp_path: Path, file_format: str) -> None:
    found = decoded(made(tmp_path, file_format).explain("id = 20000", analyze=True))
    assert set(found) == {DecodeTally.WHOLE}


def test_without_analyze_nothing_is_read(tmp_path: Path) -> None:
    found = made(tmp_path).explain("id = 20000")
    assert found.reading is None
    assert "reading" not in found.to_json()
