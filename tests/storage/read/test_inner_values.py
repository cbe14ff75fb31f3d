"""Filters on nested values: all formats give the same rows, and pages that cannot match are not decoded."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed import col
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.table.table import Table

ROWS, PAGE = 20_000, 500
LABELS = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    (
        pa.field("id", pa.int64(), nullable=False),
        pa.field("place", pa.struct((pa.field("city", pa.string()), pa.field("zip", pa.int32())))),
        pa.field("labels", LABELS),
        pa.field("note", pa.string()),
    )
)
OPTIONS = {"bucket": "1", "bucket-key": "id", "parquet.page.row.count.limit": str(PAGE)}


def row(i: int) -> dict[str, Any]:
    """A row whose nested values ascend with its number; some are null, or lack the entry."""
    labels = [("env", f"e{i // 100:04d}"), *([("team", f"t{i % 7}")] if i % 3 else [])]
    return {
        "id": i,
        "place": None if i % 11 == 5 else {"city": f"c{i:06d}", "zip": None if i % 13 == 6 else i},
        "labels": None if i % 17 == 3 else labels,
        "note": f"note {i}",
    }


def filled(warehouse: Path, options: dict[str, str], *parts: range, **made: Any) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{warehouse}")
    catalog.create_database("d")
    table = catalog.create_table("d.t", SCHEMA, options={**OPTIONS, **options}, **made)
    for part in parts:
        table.append(pa.Table.from_pylist([row(i) for i in part], SCHEMA))
    return table


def ids(table: Table, condition: str | Predicate) -> list[int]:
    found: Any = table.scan(columns=["id"], filter=condition).to_arrow().column("id")
    return sorted(found.to_pylist())


CONDITIONS: dict[str, Any] = {
    "place.city = 'c000123'": lambda r: (r["place"] or {}).get("city") == "c000123",
    "place.zip between 40 and 60": lambda r: 40 <= ((r["place"] or {}).get("zip") or 0) <= 60,
    "place.zip is null": lambda r: (r["place"] or {}).get("zip") is None,
    "labels['env'] = 'e0001'": lambda r: dict(r["labels"] or ()).get("env") == "e0001",
    "labels['team'] in ('t1', 't2') and id < 50": lambda r: (
        r["id"] < 50 and dict(r["labels"] or ()).get("team") in ("t1", "t2")
    ),
    "labels['team'] is null": lambda r: dict(r["labels"] or ()).get("team") is None,
    "labels['none'] is not null": lambda r: False,
    "not labels['team'] = 't1'": lambda r: dict(r["labels"] or ()).get("team") not in (None, "t1"),
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_filters_find_the_same_rows_as_python(tmp_path: Path, file_format: str, keyed: bool) -> None:
    options = {"file.format": file_format, "bucket-key": "id", "write-only": "true"}
    made: dict[str, Any] = {"primary_keys": ["id"]} if keyed else {}
    table = filled(tmp_path, options, **made)
    write = table.upsert if keyed else table.append
    for part in (range(150), range(150, 400)):
        write(pa.Table.from_pylist([row(i) for i in part], SCHEMA))
    for condition, is_true in CONDITIONS.items():
        assert ids(table, condition) == [i for i in range(400) if is_true(row(i))], condition
    assert table.delete("labels['env'] = 'e0002'") is not None
    left = [i for i in range(400) if dict(row(i)["labels"] or ()).get("env") != "e0002"]
    assert ids(table, "id >= 0") == left


def decoded(table: Table, condition: str | Predicate) -> dict[str, int]:
    """Return the number of decoded rows by reason."""
    found = table.explain(condition, analyze=True).reading
    assert found is not None
    return {part.reason: part.rows for part in found.decoded}


def test_pages_that_cannot_match_are_not_decoded(tmp_path: Path) -> None:
    table = filled(tmp_path, {}, range(ROWS))
    for condition in ("place.city = 'c012345'", col("place")["zip"] == 12_345, col("place")["zip"].between(7, 9)):
        found = decoded(table, condition)
        assert DecodeTally.WHOLE not in found
        assert max(found.values()) <= 2 * PAGE
    # The bounds cover the values of all keys, and those of `team` are greater: later pages are excluded.
    assert max(decoded(table, "labels['env'] = 'e0002'").values()) <= 2 * PAGE
    assert ids(table, "labels['env'] = 'e0002'") == [i for i in range(200, 300) if i % 17 != 3]
    # No page has a key greater than `team`.
    assert sum(decoded(table, "labels['zone'] is not null").values()) == 0
    assert sum(decoded(table, "labels['zone'] is null").values()) >= ROWS


@pytest.mark.parametrize("threshold", ["1 mb", "0 b"])
def test_the_index_of_a_map_key_excludes_files(tmp_path: Path, threshold: str) -> None:
    options = {"file-index.bloom-filter.columns": "labels[team]", "file-index.in-manifest-threshold": threshold}
    table = filled(tmp_path, options)
    for team in ("a", "z"):
        rows = [{"id": 1, "place": None, "labels": [("env", "a"), ("other", "z"), ("team", team)], "note": team}]
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    split = table.new_scan().plan().splits[0]
    Path(split.path_of(split.files[0])).write_bytes(b"not a data file")
    assert ids(table, "labels['team'] = 'z'") == [1]
    assert ids(table, "labels['team'] in ('q', 'r')") == []
    with pytest.raises(CorruptFileError):
        ids(table, "labels['env'] = 'a'")
