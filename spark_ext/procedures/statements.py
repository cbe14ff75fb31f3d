"""Procedures of statements that Spark does not support: CREATE TABLE … LIKE, and DROP PARTITION of many partitions.

They are called like procedures, and are not listed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from interbed.catalog.client.partition import partitions_of, partitions_of_files
from interbed.spark_ext.handle.ddl import FILE_FORMAT, PROVIDER, PROVIDERS
from interbed.spark_ext.procedures.procedure import TABLE, Answer, Procedure, ProcedureCall, required
from interbed.spark_ext.values.partition_values import agrees
from interbed.spark_ext.values.predicates import partition_forms
from interbed.storage.base.arrow_values import cast_exactly
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.options.core import PATH
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.storage.table.table import Table


def _create_table_like(call: ProcedureCall) -> Answer:
    name = call.table_name()
    source = call.table("source")
    properties: dict[str, str] = json.loads(call.needed("properties"))
    provider = properties.pop(PROVIDER, PROVIDERS[0])
    if provider.lower() not in PROVIDERS:
        raise NotSupportedError(
            f"A table like '{source.name}' is of the same format, not of '{provider}'; '{FILE_FORMAT}' among the "
            "TBLPROPERTIES says how its files are written."
        )
    own = {key: value for key, value in source.schema.options.items() if key != PATH}
    schema = Schema(
        fields=source.schema.fields,
        partition_keys=source.schema.partition_keys,
        primary_keys=source.schema.primary_keys,
        options={**own, **properties},
        comment=source.schema.comment,
    )
    call.catalog.create_table(name.of_table, schema, ignore_if_exists=call.given("if_not_exists") == "true")
    return ()


def _drop_partitions(call: ProcedureCall) -> Answer:
    table: Table | FormatTable = call.table()
    wanted: list[Mapping[str, str | None]] = json.loads(call.needed("specs"))
    for spec in wanted:
        unknown = [column for column in spec if column not in table.partition_keys]
        if unknown:
            raise InvalidInputError(
                f"The table '{table.name}' has no partition column '{unknown[0]}'; it has "
                f"({', '.join(table.partition_keys)})."
            )
    fields = table.schema.partition_fields
    specs = [partition_forms(_typed(table.name, spec, fields), fields) for spec in wanted]
    present = [decode_row(row, table.schema.partition_types) for row in _present_partitions(table)]
    for forms, text in zip(specs, wanted, strict=True):
        is_present = any(agrees(form, values, fields) for values in present for form in forms)
        if call.given("if_exists") != "true" and not is_present:
            named = ", ".join(f"{column}={value}" for column, value in text.items())
            raise InvalidInputError(
                f"The table '{table.name}' has no partition ({named}); write DROP IF EXISTS PARTITION to ignore that."
            )
    call.catalog.drop_partitions(call.table_name().of_table, [form for forms in specs for form in forms])
    return ()


def _present_partitions(table: Table | FormatTable) -> list[bytes]:
    if isinstance(table, FormatTable):
        return [table.directories.row_of(partition.spec) for partition in partitions_of_files(table)]
    return [table.access.partition_of(partition.spec) for partition in partitions_of(table)]


def _typed(table: str, spec: Mapping[str, str | None], fields: Sequence[DataField]) -> dict[str, Any]:
    """Return the typed values of a statement's texts."""
    typed: dict[str, Any] = {}
    for field in fields:
        if field.name in spec:
            value: Any = pa.array([spec[field.name]], pa.string())
            try:
                typed[field.name] = cast_exactly(value, type_to_arrow(field.type))[0].as_py()
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidInputError(
                    f"'{spec[field.name]}' is no value of the partition column '{field.name}' of '{table}': {error}"
                ) from error
    return typed


STATEMENTS = (
    Procedure(
        name="create_table_like_statement",
        description="CREATE TABLE … LIKE",
        parameters=(TABLE, required("source"), required("properties"), required("if_not_exists")),
        columns=(),
        call=_create_table_like,
        is_statement=True,
    ),
    Procedure(
        name="drop_partitions_statement",
        description="ALTER TABLE … DROP PARTITION",
        parameters=(TABLE, required("specs"), required("if_exists")),
        columns=(),
        call=_drop_partitions,
        is_statement=True,
    ),
)
"""Procedures of the statements, by their SQL."""
