"""Definitions of format tables as JSON, where they say more than a schema: those of Hive's own tables and partitions.

The syntax of such files is that of a SerDe, which no option of a table expresses.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from interbed.storage.files.text.options import (
    CsvOptions,
    JsonOptions,
    LineOptions,
    MalformedMode,
    TextFileOptions,
)
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatPartition

_FORMAT = "file.format"


def definition_to_text(definition: FormatDefinition) -> str:
    """Return a definition without its columns as JSON; an empty text if the schema says all of it."""
    if definition == FormatDefinition.of(definition.schema):
        return ""
    return _to_text(definition)


def definition_from_text(text: str, schema: TableSchema) -> FormatDefinition:
    """Return the definition of definition_to_text, or of the definition of a partition, with columns of a schema."""
    if not text:
        return FormatDefinition.of(schema)
    value = json.loads(text)
    file_format = value["format"]
    if schema.options.get(_FORMAT) != file_format:
        schema = replace(schema, options={**schema.options, _FORMAT: file_format})
    return FormatDefinition(
        schema=schema,
        file_format=file_format,
        syntax=_syntax(file_format, value["syntax"]),
        any_case=value["anyCase"],
        read_only=value["readOnly"],
    )


def partition_to_json(partition: FormatPartition) -> list[Any]:
    """Return row, values, directory and own definition of a partition."""
    own = "" if partition.definition is None else _to_text(partition.definition)
    return [partition.row.hex(), dict(partition.spec), partition.location, own]


def partition_from_json(value: list[Any], schema: TableSchema) -> FormatPartition:
    """Return the partition of partition_to_json, of a table with a schema."""
    row, spec, location, own = value
    definition = definition_from_text(own, schema) if own else None
    return FormatPartition(row=bytes.fromhex(row), spec=spec, location=location, definition=definition)


def _to_text(definition: FormatDefinition) -> str:
    return json.dumps(
        {
            "format": definition.file_format,
            "syntax": None if definition.syntax is None else asdict(definition.syntax),
            "anyCase": definition.any_case,
            "readOnly": definition.read_only,
        }
    )


def _syntax(file_format: str, fields: Mapping[str, Any] | None) -> TextFileOptions | None:
    if fields is None:
        return None
    match file_format:
        case "csv":
            return CsvOptions(**{**fields, "mode": MalformedMode(fields["mode"])})
        case "json":
            return JsonOptions(**fields)
    return LineOptions(**fields)
