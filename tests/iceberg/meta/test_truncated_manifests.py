"""A truncated manifest is reported as damaged and never read as a shorter one."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from interbed.iceberg.table import load_iceberg_table
from interbed.storage.base.errors import CorruptFileError


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"])
def test_a_manifest_truncated_at_any_length_is_reported_as_damaged(tmp_path: Path, kind: str) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("d")
    rows = pa.table({"id": range(3)})
    table = catalog.create_table("d.t", rows.schema)
    table.append(rows)
    (path,) = tmp_path.rglob(kind)
    whole = path.read_bytes()
    for length in range(len(whole) // 2, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFileError, match=path.name):
            load_iceberg_table(table.metadata_location).scan().to_arrow()
    path.write_bytes(whole)
    assert load_iceberg_table(table.metadata_location).scan().to_arrow().num_rows == 3
