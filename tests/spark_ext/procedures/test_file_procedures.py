"""The procedures about files over all tables of a database, without Spark."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.spark_ext.procedures.procedure import ProcedureCall
from interbed.spark_ext.procedures.registry import PROCEDURES
from interbed.storage.base.errors import InterbedError, InvalidInputError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
PAST = "2020-01-01 00:00:00"


def call(warehouse: Path, **arguments: object) -> ProcedureCall:
    return ProcedureCall(
        procedure=PROCEDURES["remove_orphan_files"],
        catalog=interbed.load_catalog("lake", warehouse=str(warehouse)),
        catalog_name="lake",
        catalog_options={"warehouse": str(warehouse)},
        namespace="default",
        arguments=arguments,
    )


@pytest.fixture
def orphans(tmp_path: Path) -> list[Path]:
    """An orphan file in each of three tables, older than a day."""
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("db")
    found = []
    for name in ("a", "b", "c"):
        catalog.create_table(f"db.{name}", SCHEMA, primary_keys=["id"], options={"bucket": "1"}).upsert([{"id": 1}])
        orphan = tmp_path / "db.db" / name / "bucket-0" / "data-orphan-0.parquet"
        orphan.write_bytes(b"12345")
        os.utime(orphan, (0, 0))
        found.append(orphan)
    return found


def test_orphan_files_of_all_tables_are_deleted(tmp_path: Path, orphans: list[Path]) -> None:
    procedure = PROCEDURES["remove_orphan_files"]
    assert procedure.call(call(tmp_path, table="lake.db.*", dry_run=True)) == ((3, 15),)
    assert procedure.call(call(tmp_path, table="db.*")) == ((3, 15),)
    assert [path.exists() for path in orphans] == [False] * 3


def test_an_unreadable_table_is_named_and_blocks_no_other(tmp_path: Path, orphans: list[Path]) -> None:
    schema = tmp_path / "db.db" / "b" / "schema" / "schema-0"
    schema.write_text(json.dumps({**json.loads(schema.read_text()), "version": 99}))
    with pytest.raises(
        InterbedError, match=r"of 1 of 3 tables .*: db\.b: .*version 99.*other tables are done: 2 files"
    ) as refused:
        PROCEDURES["remove_orphan_files"].call(call(tmp_path, table="db.*", older_than=PAST))
    assert "db.a" not in str(refused.value)
    assert [path.exists() for path in orphans] == [False, True, False]


def test_an_invalid_argument_is_reported_once(tmp_path: Path, orphans: list[Path]) -> None:
    with pytest.raises(InvalidInputError, match="must be in the past"):
        PROCEDURES["remove_orphan_files"].call(call(tmp_path, table="db.*", older_than="2999-01-01 00:00:00"))
    assert all(path.exists() for path in orphans)
