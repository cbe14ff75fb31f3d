"""A string that is not valid UTF-8 is refused with its column and row before anything is written."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import SchemaMismatchError

BAD: Any = pa.array([b"good", b"\xdfe!"]).view(pa.string())
OFFSETS: Any = pa.array([0, 1, 2], pa.int32())
BAD_AT_1: dict[str, Any] = {
    "STRING": BAD,
    "large": pa.array([b"good", b"\xdfe!"], pa.large_binary()).view(pa.large_string()),
    "in a list": pa.ListArray.from_arrays(OFFSETS, BAD),
    "in a row": pa.StructArray.from_arrays([BAD], names=["x"]),
    "a value of a map": pa.MapArray.from_arrays(OFFSETS, pa.array(["k", "k"]), BAD),
    "a key of a map": pa.MapArray.from_arrays(OFFSETS, BAD, pa.array(["v", "v"])),
}


@pytest.mark.parametrize("kind", BAD_AT_1)
@pytest.mark.parametrize("statistics", ["truncate(16)", "none"])
def test_a_string_that_is_not_valid_utf8_is_refused(tmp_path: Path, kind: str, statistics: str) -> None:
    column = BAD_AT_1[kind]
    lake = interbed.load_catalog(warehouse=tmp_path)
    lake.create_database("d")
    plain = pa.string() if kind == "large" else column.type
    schema = pa.schema((pa.field("id", pa.int64()), pa.field("v", plain)))
    table = lake.create_table("d.t", schema, options={"metadata.stats-mode": statistics})
    for take in (table.append, table.overwrite):
        with pytest.raises(SchemaMismatchError, match=r"column 'v' .*row 1 \(counted from 0\)"):
            take(pa.table({"id": [1, 2], "v": column}))
    assert table.latest_snapshot() is None
    table.append(pa.table({"id": [1], "v": column.slice(0, 1)}))
    assert table.scan().count() == 1
