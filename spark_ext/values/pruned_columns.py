"""Columns without the nested fields that a query does not need: Spark leaves them out of the schema that it reads."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.storage.base.types.data_type import ArrayType, DataField, DataType, MapType, RowType
from interbed.storage.meta.schema.evolution import conform


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedFields:
    """The columns as the table has them, and as they are read."""

    whole: tuple[DataField, ...]
    fields: tuple[DataField, ...]

    @staticmethod
    def of(fields: Sequence[DataField], schema_json: str | None) -> "NarrowedFields":
        """The columns as Spark's StructType in JSON wants them; None: as they are."""
        whole = tuple(fields)
        if schema_json is None:
            return NarrowedFields(whole=whole, fields=whole)
        wanted = {value["name"]: value["type"] for value in json.loads(schema_json)["fields"]}
        narrow = tuple(replace(f, type=_narrowed(f.type, wanted.get(f.name))) for f in whole)
        return NarrowedFields(whole=whole, fields=narrow)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the table's columns with the fields that are read; columns are matched by position."""
        if self.fields == self.whole:
            return batch
        columns = [
            column if old.type == new.type else conform(column, old.type, new.type, column=new.name)
            for column, old, new in zip(batch.columns, self.whole, self.fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[f.name for f in self.fields])


def _narrowed(data_type: DataType, wanted: Any) -> DataType:
    # An atomic type is a string in Spark's JSON; MULTISET, which is a map there, has no fields that matter.
    if not isinstance(wanted, Mapping):
        return data_type
    match data_type:
        case RowType(fields=fields):
            by_name = {f.name: f for f in fields}
            kept = (by_name[value["name"]] for value in wanted["fields"])
            types = (value["type"] for value in wanted["fields"])
            return replace(
                data_type,
                fields=tuple(replace(f, type=_narrowed(f.type, t)) for f, t in zip(kept, types, strict=True)),
            )
        case ArrayType(element=element):
            return replace(data_type, element=_narrowed(element, wanted["elementType"]))
        case MapType(key=key, value=value):
            return replace(
                data_type, key=_narrowed(key, wanted["keyType"]), value=_narrowed(value, wanted["valueType"])
            )
        case _:
            return data_type
