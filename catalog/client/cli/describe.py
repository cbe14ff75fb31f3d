"""The commands that describe tables: `interbed table list | describe | schema | health`.

Colours are used on terminals only.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.group import (
    CatalogChoice,
    check_no_system_table,
    is_of_iceberg,
    json_flag,
    show_json,
    table_name,
)
from interbed.catalog.client.table_parts import as_format_table, as_object_table
from interbed.storage.base.shown_text import escaped
from interbed.storage.base.terminal import print_columns, print_line, print_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from interbed.iceberg.table import IcebergTable
    from interbed.storage.base.types.data_type import DataField
    from interbed.storage.meta.schema.manager import SchemaOutline
    from interbed.storage.meta.schema.table_schema import TableSchema
    from interbed.storage.table.format_table.format_table import FormatTable
    from interbed.storage.table.object_table import ObjectTable
    from interbed.storage.table.table import Table
    from interbed.storage.upkeep.bucket_health import BucketHealth
    from interbed.storage.upkeep.health import TableHealth

BUCKETS_SHOWN = 5
"""The number of buckets shown that need a compaction, those with the most to read first."""


@click.command("list")
@click.argument("database", required=False, metavar="[DATABASE]")
@click.option(
    "--all",
    "all_kinds",
    is_flag=True,
    help="Iceberg's tables as well, and of each its kind: interbed, files or iceberg.",
)
@json_flag
@click.pass_obj
def list_tables(chosen: CatalogChoice, database: str | None, all_kinds: bool, as_json: bool) -> None:
    """List the names of the tables of a database, or of all databases."""
    with chosen.catalog(database) as catalog:
        databases = catalog.list_databases() if database is None else [database]
        found = [f"{name}.{table}" for name in databases for table in catalog.list_tables(name)]
        kinds = dict.fromkeys(found, "interbed")
        if all_kinds:
            kinds |= {f"{name}.{table}": "files" for name in databases for table in catalog.list_format_tables(name)}
        if all_kinds:
            kinds |= {f"{name}.{table}": "iceberg" for name in databases for table in catalog.list_iceberg_tables(name)}
    if as_json:
        show_json([{"table": name, "kind": kinds[name]} for name in sorted(kinds)] if all_kinds else found)
    elif all_kinds and kinds:
        print_columns([[name, kinds[name]] for name in sorted(kinds)])
    else:
        print_lines(found, empty="no tables")


@click.command()
@table_name
@json_flag
@click.pass_obj
def describe(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Describe the columns, keys and options of a table, its location, and its number of rows. Secrets are masked.

    Of a table that this version can't read it shows what is known, and why it can't be read.
    """
    from interbed.catalog.client.errors import UNREADABLE, NotAnInterbedTableError

    try:
        with chosen.any_table(name, system=True) as opened:
            of_files, of_objects = as_format_table(opened), as_object_table(opened)
            if of_files is not None:
                found = _format_description(of_files)
            elif of_objects is not None:
                found = _object_description(of_objects)
            elif is_of_iceberg(opened):
                found = _iceberg_description(opened)
            else:
                check_no_system_table(name, opened)
                found = _description(opened)
    except UNREADABLE as error:
        if "$" in name or "/" in name:
            raise
        with chosen.catalog(name) as catalog:
            try:
                found = _outline(name, catalog.table_outline(name), error)
            except NotAnInterbedTableError:
                # An Iceberg table, of which nothing else is known.
                raise error from None
    if as_json:
        show_json(found)
        return
    print_line(f"table     {found['table']}")
    for key in ("format", "comment", "location", "problem"):
        if found.get(key):
            print_line(f"{key:<8}  {found[key]}")
    print_line(f"schema    {found['schema']}")
    if "files" in found:
        files, size = found["files"]["count"], found["files"]["bytes"]
        within = f", in {found['files']['partitions']} partitions" if "partitions" in found["files"] else ""
        print_line(f"files     {files}, {size} bytes{within}")
    else:
        print_line(f"snapshot  {_state(found)}")
    print_line("columns")
    print_columns([[c["name"], c["type"], c["key"], c["comment"] or ""] for c in found["columns"]], indent="  ")
    own = set(found["own"])
    if found.get("notes"):
        print_line("notes")
        print_lines([f"  {note}" for note in found["notes"]], empty="")
    for heading, keys in (("options", set(found["options"]) - own), ("your own properties", own)):
        if keys:
            print_line(heading)
            print_columns([[key, found["options"][key]] for key in sorted(keys)], indent="  ")


@click.command()
@table_name
@json_flag
@click.pass_obj
def schema(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Show the columns of a table, as `create --column` takes them; with --json the file that `create
    --schema` takes.
    """
    with chosen.table(name) as opened:
        if as_json:
            click.echo(opened.schema.to_json())
            return
        from interbed.catalog.client.cli.forms.column_text import column_text

        print_lines(map(column_text, opened.schema.fields), empty="")


def _state(found: dict[str, Any]) -> str:
    if "problem" in found:
        return "not known"
    snapshot = found["snapshot"]
    if "format" in found and snapshot is not None:
        return _iceberg_state(snapshot)
    return "none yet" if snapshot is None else f"{snapshot['id']}, {snapshot['time']}, {snapshot['records']} records"


def _format_description(table: "FormatTable") -> dict[str, Any]:
    """Return the description of a format table, in the form of _description; it has files instead of a snapshot."""
    partitions = table.partitions()
    files = {
        "count": sum(each.file_count for each in partitions),
        "bytes": sum(each.size for each in partitions),
        "partitions": len(partitions),
    }
    return _files_description(table, f"files of the format {table.file_format}", files)


def _object_description(table: "ObjectTable") -> dict[str, Any]:
    """Return the description of an object table, in the form of _format_description."""
    sizes: list[Any] = table.scan(columns=["length"]).to_arrow()["length"].to_pylist()
    files = {"count": len(sizes), "bytes": sum(sizes)}
    return _files_description(table, "files of any kind, listed as rows", files)


def _files_description(table: "FormatTable | ObjectTable", file_format: str, files: dict[str, int]) -> dict[str, Any]:
    from interbed.storage.base.shown_text import all_masked

    found = table.schema
    return {
        "table": table.name,
        "format": file_format,
        "comment": found.comment,
        "location": table.location,
        "schema": found.id,
        "columns": [_column(field, (), found.partition_keys) for field in found.fields],
        "primary_keys": [],
        "partition_keys": list(found.partition_keys),
        "options": all_masked(dict(sorted(found.options.items()))),
        "own": _own(found.options),
        "notes": [],
        "snapshot": None,
        "files": files,
    }


def _description(table: "Table") -> dict[str, Any]:
    from interbed.storage.base.shown_text import all_masked

    found = table.schema
    latest = table.latest_snapshot()
    return {
        "table": table.name,
        "comment": found.comment,
        "location": table.location,
        "schema": found.id,
        "columns": [_column(field, found.primary_keys, found.partition_keys) for field in found.fields],
        "primary_keys": list(found.primary_keys),
        "partition_keys": list(found.partition_keys),
        "options": all_masked(dict(sorted(found.options.items()))),
        "own": _own(found.options),
        "notes": _notes(found),
        "snapshot": None
        if latest is None
        else {
            "id": latest.id,
            "time": datetime.fromtimestamp(latest.time_millis / 1000, UTC).isoformat(timespec="seconds"),
            "records": latest.total_record_count,
        },
    }


def _notes(schema: "TableSchema") -> list[str]:
    """Return what users of the table should know of its definition."""
    from interbed.storage.lsm.merge_function.row_rules import overwriting_defaults

    return [
        f"The default of {name!r} replaces the value of an existing row where an update has null for it: "
        "'merge-engine' = 'partial-update' sees the default, not the null."
        for name in overwriting_defaults(schema, schema.core)
    ]


def _outline(name: str, outline: "SchemaOutline", problem: Exception) -> dict[str, Any]:
    """Return the known parts of a table that can't be read, in the form of _description."""
    from interbed.storage.base.shown_text import all_masked

    return {
        "table": name,
        "comment": outline.comment,
        "location": outline.location,
        "problem": str(problem),
        "schema": outline.id,
        "columns": [
            {
                "name": column.name,
                "type": column.type,
                "key": _key(column.name, outline.primary_keys, outline.partition_keys),
                "default": None,
                "comment": column.comment,
            }
            for column in outline.columns
        ],
        "primary_keys": list(outline.primary_keys),
        "partition_keys": list(outline.partition_keys),
        "options": all_masked(dict(sorted(outline.options.items()))),
        "own": _own(outline.options),
        "snapshot": None,
    }


def _own(options: Mapping[str, str]) -> list[str]:
    """Return the keys that are no option of an engine: properties of the user."""
    from interbed.storage.meta.options.known.check import is_own

    return sorted(filter(is_own, options))


def _key(column: str, primary_keys: Sequence[str], partition_keys: Sequence[str]) -> str:
    both = (("primary key", primary_keys), ("partition key", partition_keys))
    return ", ".join(word for word, names in both if column in names)


def _column(field: "DataField", primary_keys: Sequence[str], partition_keys: Sequence[str]) -> dict[str, Any]:
    from interbed.catalog.client.cli.forms.column_text import type_text

    return {
        "name": field.name,
        "type": type_text(field.type),
        "key": _key(field.name, primary_keys, partition_keys),
        "default": field.default_value,
        "comment": field.description,
    }


DESCRIPTION_COMMANDS: tuple[click.Command, ...] = (list_tables, describe, schema)
"""The commands of `interbed table` that describe tables without reading rows."""


def show_iceberg_snapshots(table: "IcebergTable", as_json: bool) -> None:
    """Print the snapshots of an Iceberg table, as JSON in the form of Iceberg's metadata."""
    found = table.snapshots()
    if as_json:
        click.echo(json.dumps([json.loads(snapshot.model_dump_json()) for snapshot in found], indent=2))
        return
    for snapshot in found:
        operation = "" if snapshot.summary is None else snapshot.summary.operation.value
        rows = _iceberg_figure(snapshot, "total-records")
        deletes = _iceberg_deletes(_iceberg_figure(snapshot, "total-delete-files"))
        print_line(
            f"{snapshot.snapshot_id:>19}  {operation:<9}  {_iceberg_time(snapshot.timestamp_ms)}  "
            f"{'?' if rows is None else rows} records{deletes}"
        )


def _iceberg_description(table: "IcebergTable") -> dict[str, Any]:
    """Return the description of an Iceberg table, in the form of _description; types are Iceberg's."""
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
            "time": _iceberg_time(latest.timestamp_ms),
            "records": _iceberg_figure(latest, "total-records"),
            "delete_files": _iceberg_figure(latest, "total-delete-files"),
        },
    }


def _iceberg_state(snapshot: Mapping[str, Any]) -> str:
    """Return the snapshot of a description as text."""
    rows = "?" if snapshot["records"] is None else snapshot["records"]
    return f"{snapshot['id']}, {snapshot['time']}, {rows} records{_iceberg_deletes(snapshot['delete_files'])}"


def _iceberg_deletes(files: int | None) -> str:
    return f" before the deletes in {files} files" if files else ""


def _iceberg_figure(snapshot: Any, name: str) -> int | None:
    text = None if snapshot.summary is None else snapshot.summary.additional_properties.get(name)
    return None if text is None else int(text)


def _iceberg_time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="seconds")


_GOOD, _FAIR = 90, 60


@click.command()
@table_name
@click.option("--all", "all_buckets", is_flag=True, help="Show every bucket that needs a compaction.")
@json_flag
@click.pass_obj
def health(chosen: CatalogChoice, name: str, all_buckets: bool, as_json: bool) -> None:
    """Show how much maintenance a table needs: a score of at most 100, the reasons, and the figures behind it.

    Only metadata are read. The figures are explained in docs/compaction.md.
    """
    with chosen.table(name) as opened:
        found = opened.maintenance.health()
    if as_json:
        show_json({"table": name, **found.to_json()})
        return
    from rich.console import Console

    # A pipe has no width.
    console = Console(width=None if Console().is_terminal else 120, highlight=False)
    for part in _parts(name, found, all_buckets=all_buckets):
        console.print(part)


def _parts(name: str, found: "TableHealth", *, all_buckets: bool) -> "list[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    snapshot = "no snapshot" if found.snapshot_id is None else f"snapshot {found.snapshot_id}"
    colour = "green" if found.score >= _GOOD else "yellow" if found.score >= _FAIR else "red"
    head = Text.assemble(f"{escaped(name)}, {snapshot}: ", (f"{found.score} of 100", f"bold {colour}"))
    reasons = Table.grid(padding=(0, 2, 0, 0))
    for reason in found.reasons:
        reasons.add_row(Text(f"  -{reason.points}", colour), reason.name, Text(escaped(reason.text)))
    figures = Table.grid(padding=(0, 2, 0, 0))
    for what, text in _figures(found):
        figures.add_row(Text(f"  {what}", "dim"), Text(escaped(text)))
    parts: list[RenderableType] = [head, *([reasons] if found.reasons else []), figures]
    due = sorted((b for b in found.by_bucket if b.pending_bytes), key=_worst_first)
    shown = due if all_buckets else due[:BUCKETS_SHOWN]
    if shown:
        parts.append(_buckets(shown))
    if len(due) > len(shown):
        parts.append(Text(f"  {len(due) - len(shown)} more buckets to compact; --all shows them", "dim"))
    return parts


def _worst_first(bucket: "BucketHealth") -> tuple[float, str, int]:
    """Return a sort key that puts buckets first whose compaction saves the most reads."""
    return -bucket.bytes * (bucket.read_amplification - 1), bucket.partition_name, bucket.bucket


def _figures(found: "TableHealth") -> list[tuple[str, str]]:
    from interbed.storage.base.clock import now_millis
    from interbed.storage.base.shown_text import age_text, size_text

    def ago(millis: int | None) -> str:
        return "never" if millis is None else f"{age_text(now_millis() - millis)} ago"

    trees = f", {found.level0_files} of level 0, at most {found.runs_max} sorted runs in a bucket"
    analysed = "never"
    if found.statistics_snapshot_id is not None:
        analysed = f"snapshot {found.statistics_snapshot_id}, {found.rows_since_statistics:,} rows came or went since"
    return [
        ("content", f"{found.rows:,} rows, {size_text(found.bytes)}, last commit {ago(found.newest_millis)}"),
        ("places", f"{found.partitions} partition(s), {found.buckets} bucket(s)"),
        ("files", f"{found.files}, {found.small_files} small{trees if found.has_primary_key else ''}"),
        ("read amplification", f"{found.read_amplification:.2f}"),
        ("deleted", f"{found.delete_rows:,} rows ({found.delete_ratio:.1%}), {found.vector_files} files with vectors"),
        ("to compact", f"{size_text(found.pending_bytes)}, last full compaction {ago(found.last_full_millis)}"),
        ("snapshots", f"{found.snapshots}, {found.snapshots_due} to expire, {found.manifests} manifests"),
        ("analysed", analysed),
    ]


def _buckets(buckets: "list[BucketHealth]") -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    from interbed.storage.base.shown_text import size_text

    shown = Table(title="buckets to compact", title_justify="left")
    for heading in ("partition", "bucket", "runs", "files", "small", "amplification", "deleted", "to compact"):
        shown.add_column(heading, justify="left" if heading == "partition" else "right")
    for b in buckets:
        figures = (b.bucket, b.runs, b.files, b.small_files, f"{b.read_amplification:.2f}", f"{b.delete_ratio:.1%}")
        shown.add_row(Text(escaped(b.partition_name)), *map(str, figures), size_text(b.pending_bytes))
    return shown
