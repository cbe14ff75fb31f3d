"""Table.delete and `interbed table delete` refuse deletions that would leave the rows visible."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main
from interbed.storage.base.errors import FilterError, InvalidInputError, NotSupportedError

OPTIONS = {
    "ignore-delete": {"ignore-delete": "true"},
    "rowkind.field": {"rowkind.field": "op"},
    "merge-engine": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
}
SCHEMA = pa.schema((pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64()), pa.field("op", pa.string())))


@pytest.mark.parametrize("option", OPTIONS)
def test_a_delete_without_effect_is_refused(tmp_path: Path, option: str) -> None:
    lake = interbed.load_catalog(warehouse=tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", SCHEMA, primary_keys=["k"], options={"bucket": "1", **OPTIONS[option]})
    table.upsert([{"k": 1, "v": 1, "op": "+I"}])
    newest = table.latest_snapshot()
    with pytest.raises(NotSupportedError, match=f"DELETE from 'd.t' is not possible: .*{option}"):
        table.delete("k = 1")
    for command in (["table", "delete", "d.t", "--where", "k = 1"], ["sql", "DELETE FROM d.t WHERE k = 1"]):
        refused = CliRunner().invoke(main, ["-o", f"warehouse={tmp_path}", *command])
        assert refused.exit_code != 0, refused.output
    assert (table.latest_snapshot(), table.scan().count()) == (newest, 1)


NO_FILTERS = (None, True, 5, {"k": 1}, ["k = 1"], ("k", "=", 1), b"k = 1", interbed.col("k"), pc.field("k") == 1)


@pytest.mark.parametrize("kind", ["key", "append"])
@pytest.mark.parametrize("given", NO_FILTERS, ids=repr)
def test_what_is_no_filter_deletes_and_selects_nothing(tmp_path: Path, given: Any, kind: str) -> None:
    lake = interbed.load_catalog(warehouse=tmp_path)
    lake.create_database("d")
    keys, options = (["k"], {"bucket": "1"}) if kind == "key" else (None, {})
    table = lake.create_table("d.t", SCHEMA, primary_keys=keys, options=options)
    table.append([{"k": 1, "v": 1, "op": "+I"}])
    advice = "truncate\\(\\) deletes all rows" if given is None else "A filter is a text such as .*, not "
    with pytest.raises(FilterError, match=advice):
        table.delete(given)
    if given is not None:
        with pytest.raises(FilterError, match=advice):
            table.scan(filter=given).to_arrow()
        with pytest.raises(FilterError, match=advice):
            table.explain(given)
    assert table.count() == 1


def test_no_partitions_are_not_all_partitions_in_a_deletion(tmp_path: Path) -> None:
    lake = interbed.load_catalog(warehouse=tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", SCHEMA, partition_keys=["op"])
    table.append([{"k": 1, "v": 1, "op": "a"}])
    nothing: Any = None
    with pytest.raises(InvalidInputError, match=r"Name the partitions of 'd.t' to delete; truncate\(\) deletes all"):
        table.delete_partitions(nothing)
    assert table.count() == 1
