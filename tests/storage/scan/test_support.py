"""Tables of other implementations with unsupported features are refused by their option instead of misread."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import NotSupportedError

ROWS = pa.table({"id": pa.array([1], pa.int32())})


@pytest.mark.parametrize(
    ("option", "value"),
    [("scan.bucket", "1"), ("type", "materialized-table")],
)
def test_a_table_with_an_unsupported_feature_is_refused_by_its_option(tmp_path: Path, option: str, value: str) -> None:
    with interbed.load_catalog("lake", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("db")
        catalog.create_table("db.t", ROWS.schema).append(ROWS)
        schema = tmp_path / "db.db" / "t" / "schema" / "schema-0"
        content = json.loads(schema.read_text())
        schema.write_text(json.dumps({**content, "options": {**content["options"], option: value}}))
        table = catalog.get_table("db.t")
        for action in (lambda: table.scan().to_arrow(), lambda: table.append(ROWS)):
            with pytest.raises(NotSupportedError, match=f"'{option}' = '{value}'"):
                action()


def test_an_object_table_with_columns_of_its_own_is_refused(tmp_path: Path) -> None:
    with interbed.load_catalog("lake", warehouse=f"file:{tmp_path}") as catalog:
        catalog.create_database("db")
        catalog.create_table("db.t", ROWS.schema).append(ROWS)
        schema = tmp_path / "db.db" / "t" / "schema" / "schema-0"
        content = json.loads(schema.read_text())
        schema.write_text(json.dumps({**content, "options": {"type": "object-table"}}))
        with pytest.raises(NotSupportedError, match=r"'db\.t'.*'type' = 'object-table'"):
            catalog.get_table("db.t")
