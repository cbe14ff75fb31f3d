"""Table.delete and `interbed table delete` refuse deletions that would leave the rows visible."""

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main
from interbed.storage.base.errors import NotSupportedError

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
