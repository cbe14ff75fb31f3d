"""Definitions of format tables in handles: what a worker knows is what the driver knows."""

from pathlib import Path

import pytest

from interbed.catalog.client.hive.format_entries import definition_of
from interbed.catalog.client.identifier import Identifier
from interbed.spark_ext.handle.format_tables import (
    ListedPartitions,
    definition_from_text,
    definition_to_text,
    open_format,
    partition_from_json,
    partition_to_json,
    with_registered,
)
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatPartition
from interbed.storage.table.format_table.format_table import FormatTable
from tests.catalog.client.hive.test_foreign_partitions import AVRO, JSON, ORC, PARQUET
from tests.catalog.client.hive.test_format_tables import LAZY, of_hive
from tests.support.format_tables import FORMATS, arrow_schema, format_table

QUOTED = "org.apache.hadoop.hive.serde2.OpenCSVSerde"


def _of(serde: str, **parameters: str) -> FormatDefinition:
    entry = of_hive(Path("/h"), {"a": "int"}, serde=serde, keys={"p": "int"}, serde_parameters=parameters)
    return definition_of(Identifier("shop", "h"), entry)


def _handle(table: FormatTable, **options: str) -> TableHandle:
    handle = TableHandle(
        catalog="c",
        catalog_options={},
        database="shop",
        table="h",
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None,
        dynamic_options=options,
        is_format=True,
        format_definition=definition_to_text(table.definition),
    )
    return TableHandle.from_bytes(with_registered(handle, table).to_bytes())


@pytest.mark.parametrize("serde", [LAZY, QUOTED, JSON, PARQUET, ORC, AVRO])
def test_the_definition_of_a_table_of_hive_is_that_of_its_worker(serde: str, tmp_path: Path) -> None:
    definition = _of(serde)
    table = FormatTable("shop.h", str(tmp_path), LocalFileIO(), definition, ListedPartitions([]), discovers=False)
    assert open_format(_handle(table)).definition == definition
    changed = open_format(_handle(table, **{"target-file-size": "1 mb"})).definition
    assert (changed.syntax, changed.any_case, changed.read_only) == (
        definition.syntax,
        definition.any_case,
        definition.read_only,
    )
    assert definition_from_text(definition_to_text(definition), definition.schema) == definition


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_schema_of_a_created_table_says_all_of_its_definition(file_format: str, tmp_path: Path) -> None:
    table = format_table(tmp_path, arrow_schema([("v", "string")]), file_format)
    assert _handle(table).format_definition == ""
    assert open_format(_handle(table)).definition == table.definition


def test_a_worker_gets_the_partitions_that_are_not_as_new_ones(tmp_path: Path) -> None:
    definition, own = _of(LAZY), _of(LAZY, **{"field.delim": "|"})
    row = FormatTable("shop.h", str(tmp_path), LocalFileIO(), definition).directories.row_of
    listed = [
        FormatPartition(row=row({"p": value}), spec={"p": value}, location=f"{tmp_path}/{place}", definition=of)
        for value, place, of in (
            ("01", "p=01", None),
            ("1", "p=1", None),
            ("2", "p=2", None),
            ("3", "elsewhere", None),
            ("4", "p=4", own),
            ("5", "both", None),
            ("6", "both", None),
        )
    ]
    table = FormatTable("shop.h", str(tmp_path), LocalFileIO(), definition, ListedPartitions(listed), discovers=False)
    worker = open_format(_handle(table))
    assert worker.directories.partitions() == [each for each in listed if each.spec["p"] != "2"]
    for each in listed:
        assert partition_from_json(partition_to_json(each), definition.schema) == each
