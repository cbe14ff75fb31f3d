"""`interbed table describe` of tables whose defaults replace existing values."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main


@pytest.mark.parametrize("engine", ["partial-update", "deduplicate"])
def test_a_default_that_overwrites_in_a_partial_update_is_described(tmp_path: Path, engine: str) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("s")
    key: pa.Field[Any] = pa.field("id", pa.int64(), nullable=False)
    schema = pa.schema([key, pa.field("state", pa.string()), pa.field("name", pa.string())])
    table = catalog.create_table("s.t", schema, primary_keys=["id"], options={"merge-engine": engine, "bucket": "1"})
    with table.update_schema() as update:
        update.update_column_default_value("state", "new")
    table = catalog.get_table("s.t")
    table.upsert([{"id": 1, "state": "paid", "name": "a"}])
    table.upsert([{"id": 1, "state": None, "name": None}])
    # Paimon's writer replaces the null by the default as well, before rows are merged.
    kept = "a" if engine == "partial-update" else None
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "state": "new", "name": kept}]

    given = ["table", "-o", f"warehouse={tmp_path}", "describe", "s.t"]
    notes = json.loads(CliRunner().invoke(main, [*given, "--json"]).output)["notes"]
    text = CliRunner().invoke(main, given).output
    if engine == "deduplicate":
        assert notes == []
        assert "notes" not in text
    else:
        [note] = notes
        assert note.startswith("The default of 'state' replaces the value of an existing row where an update has null")
        assert note in text
