"""The name of the partition of nulls is refused as a value of a partition column, because the two would be
indistinguishable.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import SchemaMismatchError

NAME = "__DEFAULT_PARTITION__"


def make(tmp_path: Path, *, keyed: bool, **options: str) -> interbed.Table:
    lake = interbed.load_catalog(warehouse=tmp_path)
    lake.create_database("d")
    schema = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("dt", pa.string())))
    keys = ["id", "dt"] if keyed else None
    return lake.create_table("d.t", schema, partition_keys=["dt"], primary_keys=keys, options=options)


def rows(table: interbed.Table) -> list[Any]:
    return sorted(table.scan().to_arrow().to_pylist(), key=str)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_new_row_with_the_default_partition_name_is_refused(tmp_path: Path, keyed: bool) -> None:
    options = {"bucket": "1"} if keyed else {}
    table = make(tmp_path, keyed=keyed, **options)
    with pytest.raises(SchemaMismatchError, match=r"'dt' of .* in row 1 .* the name of the partition of nulls"):
        table.append([{"id": 1, "dt": "a"}, {"id": 2, "dt": NAME}])
    assert table.latest_snapshot() is None
    table.append([{"id": 1, "dt": "a"}, {"id": 2, "dt": f" {NAME}"}])
    assert len(rows(table)) == 2


def test_the_value_is_accepted_under_another_default_partition_name(tmp_path: Path) -> None:
    table = make(tmp_path, keyed=False, **{"partition.default-name": "none"})
    table.append([{"id": 1, "dt": NAME}, {"id": 2, "dt": None}])
    assert len(rows(table)) == 2
    with pytest.raises(SchemaMismatchError, match="'none'"):
        table.append([{"id": 1, "dt": "none"}])


@pytest.mark.parametrize("keyed", [False, True])
def test_existing_rows_with_that_value_can_be_deleted_and_rewritten(
    tmp_path: Path, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, keyed=keyed, **({"bucket": "1"} if keyed else {}))
    with monkeypatch.context() as java:
        # Java Paimon accepts such rows.
        java.setattr("interbed.storage.write.row_converter.RowConverter.check_partitions", lambda *_: None)
        table.append([{"id": 1, "dt": NAME}, {"id": 2, "dt": NAME}, {"id": 3, "dt": "a"}])
    table.delete("id = 1")
    table.compact()
    assert rows(table) == [{"id": 2, "dt": NAME}, {"id": 3, "dt": "a"}]
    if keyed:
        table.maintenance.rescale(2)
        kinds = pa.table({"id": [2], "dt": [NAME], "_row_kind": ["-D"]})
        table.write_changes(kinds)
        assert rows(table) == [{"id": 3, "dt": "a"}]
