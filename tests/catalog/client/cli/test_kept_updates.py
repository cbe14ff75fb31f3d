"""UPDATE and MERGE by `interbed sql` on tables whose merge engine keeps old values: refused, or executed as written."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main
from tests.support.tally import Tally

_ID: "pa.Field[Any]" = pa.field("id", pa.int32(), nullable=False)
SCHEMA = pa.schema(
    [
        _ID,
        pa.field("v", pa.int32()),
        pa.field("w", pa.string()),
        pa.field("g", pa.int32()),
        pa.field("a", pa.string()),
    ]
)
ROW = {"id": 1, "v": 5, "w": "w", "g": 7, "a": "a"}
TABLES: dict[str, dict[str, str]] = {
    "plain": {},
    "sequence": {"sequence.field": "v"},
    "descending": {"sequence.field": "v", "sequence.field.sort-order": "descending"},
    "two fields": {"sequence.field": "w,v"},
    "partial": {"merge-engine": "partial-update"},
    "group": {"merge-engine": "partial-update", "fields.g.sequence-group": "a"},
    "partial sequence": {"merge-engine": "partial-update", "sequence.field": "v"},
}
CHANGES: dict[str, dict[str, Any]] = {
    "lower": {"v": 4},
    "higher": {"v": 6},
    "equal": {"v": 5, "a": "b"},
    "no sequence": {"v": None},
    "another column": {"a": "c"},
    "null": {"a": None},
    "lower text": {"w": "a", "v": 9},
    "lower group": {"g": 6, "a": "d"},
    "higher group": {"g": 8, "a": "e"},
    "group without sequence": {"g": None, "a": "f"},
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("statement", ["UPDATE", "MERGE"])
@pytest.mark.parametrize("kind", list(TABLES))
def test_an_update_that_is_not_refused_is_read_back_as_written(
    tmp_path: Path, kind: str, statement: str, tally: Tally
) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    refused = 0
    for number, (what, change) in enumerate(CHANGES.items()):
        options = {"bucket": "1", **TABLES[kind]}
        table = catalog.create_table(f"d.t{number}", SCHEMA, primary_keys=["id"], options=options)
        table.upsert([ROW])
        values = ", ".join(f"{name} = {'NULL' if v is None else repr(v)}" for name, v in change.items())
        text = f"UPDATE d.t{number} SET {values} WHERE id = 1"
        if statement == "MERGE":
            source = "(SELECT 1 AS id) AS s ON t.id = s.id"
            text = f"MERGE INTO d.t{number} AS t USING {source} WHEN MATCHED THEN UPDATE SET {values}"
        done = CliRunner().invoke(main, ["sql", "-o", f"warehouse={tmp_path}", text])
        [found] = table.scan().to_arrow().to_pylist()
        if done.exit_code:
            assert "would be dropped by the table in the row id = 1" in done.output, (what, done.output)
            assert found == ROW, what
            refused += 1
        else:
            # A null in a MERGE keeps the old value of a partial update, unless the column belongs to a group whose
            # sequence is set.
            keeps = statement == "MERGE" and "merge-engine" in options
            set_by = {n for n, v in change.items() if v is not None or not keeps or (n, kind) == ("a", "group")}
            wanted = {**ROW, **{n: v for n, v in change.items() if n in set_by}}
            if not (keeps and what == "group without sequence" and kind == "group"):
                assert found == wanted, what
        tally("updates of rows that a table may keep", 1)
    assert bool(refused) == (kind != "plain" and (kind, statement) != ("partial", "MERGE"))
