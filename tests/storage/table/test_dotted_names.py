"""Columns with dots in their names, next to columns with a nested field of the same path."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from tests.support.tally import Tally

STRUCT = pa.struct([("z", pa.int32()), ("y.z", pa.int32())])
TYPES: Mapping[str, pa.DataType] = {"x": pa.int32(), "z.z": pa.int32(), "z": STRUCT, "z.y.z": pa.string()}
ROWS = [{"x": i, "z.z": 100 + i, "z": {"z": -i, "y.z": 10 * i}, "z.y.z": f"t{i}"} for i in range(1, 5)]
FILTERS: Mapping[str, Sequence[int]] = {
    "`z.z` = 102": (2,),
    "`z.z` > 102": (3, 4),
    "`z.z` <= 101": (1,),
    "`z.y.z` = 't3'": (3,),
    "`z.y.z` >= 't2' AND `z.z` < 104": (2, 3),
    "`z.z` = 2": (),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_columns_with_dots_are_read_filtered_compacted_and_deleted(
    tmp_path: Path, file_format: str, keyed: bool, tally: Tally
) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    for number, names in enumerate(itertools.islice(itertools.permutations(TYPES), 0, None, 3)):
        schema = pa.schema([pa.field(name, TYPES[name], nullable=name != "x") for name in names])
        options = {"file.format": file_format, **({"bucket": "1"} if keyed else {})}
        table = catalog.create_table(f"d.t{number}", schema, primary_keys=["x"] if keyed else None, options=options)
        for rows in (ROWS[:2], ROWS[2:]):
            table.upsert(rows) if keyed else table.append(rows)
        for stage in ("written", "compacted"):
            for text, wanted in FILTERS.items():
                for columns in (None, ["x"], ["z.z", "x"], ["z", "x"], ["x", "z.y.z", "z"]):
                    found: Any = table.scan(filter=text, columns=columns).to_arrow().to_pylist()
                    kept = [{n: row[n] for n in columns or names} for row in ROWS if row["x"] in wanted]
                    assert sorted(found, key=lambda row: row["x"]) == kept, (stage, names, text, columns)
                    tally("scans of columns with dots in their names", 1)
            table.compact(full=True)
        table.delete("`z.z` = 103")
        left: Any = table.scan(columns=["x"]).to_arrow()["x"].to_pylist()
        assert sorted(left) == [1, 2, 4]
