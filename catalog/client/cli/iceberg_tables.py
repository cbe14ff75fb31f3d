"""Tables of Iceberg's on the command line: opening them by location, describing them, refusing what they can't."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeGuard

import click

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.iceberg.table import IcebergTable

_TAKES = (
    "`interbed table describe`, `explain`, `head`, `scan`, `snapshots`, `compact`, `expire-snapshots`, "
    "`remove-orphan-files` and `compact-manifests`, and `interbed sql`"
)


def is_of_iceberg(table: object) -> "TypeGuard[IcebergTable]":
    """Whether an opened table is Iceberg's; loads nothing for it."""
    module = sys.modules.get("interbed.iceberg.table")
    return module is not None and isinstance(table, module.IcebergTable)


def check_not_of_iceberg(name: str, table: object) -> None:
    """Raise NotSupportedError for a table of Iceberg's, which the command can't do anything with."""
    if is_of_iceberg(table):
        raise NotSupportedError(f"'{name}' is a table of Iceberg's; it takes {_TAKES}.")


def refuse_options(what: str, given: Mapping[str, object]) -> None:
    """Raise NotSupportedError for options that were given, and that are not for it."""
    for name, value in given.items():
        if value is not None:
            raise NotSupportedError(f"{name} is not for {what}.")


def table_at(location: str, options: Mapping[str, str]) -> "IcebergTable":
    """The Iceberg table in a directory or of a metadata file; `options` are a catalog's, of the store."""
    from interbed.iceberg.opening import load_iceberg_table, store_properties

    return load_iceberg_table(location, store_properties(options), name=location)


def show_snapshots(table: "IcebergTable", as_json: bool) -> None:
    """Print the snapshots, as JSON in the form of Iceberg's metadata."""
    found = table.snapshots()
    if as_json:
        click.echo(json.dumps([json.loads(snapshot.model_dump_json()) for snapshot in found], indent=2))
        return
    for snapshot in found:
        operation = "" if snapshot.summary is None else snapshot.summary.operation.value
        rows = _figure(snapshot, "total-records")
        print_line(
            f"{snapshot.snapshot_id:>19}  {operation:<9}  {_time(snapshot.timestamp_ms)}  "
            f"{'?' if rows is None else rows} records{_before_deletes(_figure(snapshot, 'total-delete-files'))}"
        )


def describe(table: "IcebergTable") -> dict[str, Any]:
    """What `interbed table describe` tells of a table, in the form of interbed's own; types are Iceberg's."""
    from interbed.storage.base.shown_text import all_masked

    metadata = table.metadata.metadata
    schema, spec, latest = metadata.schema(), metadata.spec(), metadata.current_snapshot()
    keys = set(schema.identifier_field_ids)
    sources = {field.source_id for field in spec.fields}
    partition = [
        f"{field.transform}({schema.find_column_name(field.source_id)})"
        if str(field.transform) != "identity"
        else field.name
        for field in spec.fields
    ]
    return {
        "table": table.name,
        "format": f"Iceberg, version {table.format_version}",
        "comment": table.properties.get("comment"),
        "location": table.location,
        "schema": schema.schema_id,
        "columns": [
            {
                "name": field.name,
                "type": str(field.field_type),
                "key": ", ".join(
                    word for word, ids in (("identifier", keys), ("partition source", sources)) if field.field_id in ids
                ),
                "default": None if field.initial_default is None else str(field.initial_default),
                "comment": field.doc,
            }
            for field in schema.fields
        ],
        "primary_keys": [field.name for field in schema.fields if field.field_id in keys],
        "partition_keys": partition,
        "options": all_masked(dict(sorted(table.properties.items()))),
        "own": [],
        "snapshot": None
        if latest is None
        else {
            "id": latest.snapshot_id,
            "time": _time(latest.timestamp_ms),
            "records": _figure(latest, "total-records"),
            "delete_files": _figure(latest, "total-delete-files"),
        },
    }


def state(snapshot: Mapping[str, Any]) -> str:
    """The snapshot of a description as text."""
    rows = "?" if snapshot["records"] is None else snapshot["records"]
    return f"{snapshot['id']}, {snapshot['time']}, {rows} records{_before_deletes(snapshot['delete_files'])}"


def _before_deletes(files: int | None) -> str:
    return f" before the deletes in {files} files" if files else ""


def _figure(snapshot: Any, name: str) -> int | None:
    text = None if snapshot.summary is None else snapshot.summary.additional_properties.get(name)
    return None if text is None else int(text)


def _time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="seconds")
