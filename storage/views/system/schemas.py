"""The system tables of schemas: schemas, options, the aggregates of columns. What is secret in options is masked."""

import json
from collections.abc import Sequence

from interbed.storage.base.shown_text import all_masked
from interbed.storage.base.types.data_type import field_to_json, type_to_json
from interbed.storage.meta.file_store import FileStore
from interbed.storage.views.system.rows_table import Row, SystemTableKind, bigint, moment, text, wall_clock


def _flat(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _schemas(store: FileStore) -> Sequence[Row]:
    return [
        (
            schema.id,
            _flat([field_to_json(field) for field in schema.fields]),
            _flat(list(schema.partition_keys)),
            _flat(list(schema.primary_keys)),
            _flat(all_masked(schema.options)),
            schema.comment,
            wall_clock(schema.time_millis),
        )
        for schema in store.schemas.list_all()
    ]


SCHEMAS = SystemTableKind(
    columns=(
        bigint("schema_id"),
        text("fields"),
        text("partition_keys"),
        text("primary_keys"),
        text("options"),
        text("comment", nullable=True),
        moment("update_time"),
    ),
    rows=_schemas,
)


def _options(store: FileStore) -> Sequence[Row]:
    newest = store.schemas.latest() or store.schema
    return sorted(all_masked(newest.options).items())


OPTIONS = SystemTableKind(columns=(text("key"), text("value")), rows=_options)


def _aggregation_fields(store: FileStore) -> Sequence[Row]:
    options = [(key, key.split("."), value) for key, value in store.schema.options.items()]
    rows: list[Row] = []
    for field in store.schema.fields:
        found = [
            (key, value)
            for key, parts, value in options
            if len(parts) > 2 and parts[0] == "fields" and parts[1] == field.name
        ]
        kind = type_to_json(field.type)
        rows.append(
            (
                field.name,
                kind if isinstance(kind, str) else _flat(kind),
                f"[{', '.join(value for _, value in found)}]",
                f"[{', '.join(key for key, _ in found)}]",
                field.description,
            )
        )
    return rows


AGGREGATION_FIELDS = SystemTableKind(
    columns=(
        text("field_name"),
        text("field_type"),
        text("function", nullable=True),
        text("function_options", nullable=True),
        text("comment", nullable=True),
    ),
    rows=_aggregation_fields,
)
