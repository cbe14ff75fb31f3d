"""The commands that say what tables there are and what they are: `interbed table list | describe | schema`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli import iceberg_tables
from interbed.catalog.client.cli.common import json_flag, show_json, table_name
from interbed.catalog.client.cli.group import CatalogChoice
from interbed.storage.base.terminal import print_columns, print_line, print_lines

if TYPE_CHECKING:
    from interbed.storage.base.types.data_type import DataField
    from interbed.storage.meta.schema.outline import SchemaOutline
    from interbed.storage.table.table import Table


@click.command("list")
@click.argument("database", required=False, metavar="[DATABASE]")
@click.option("--all", "all_kinds", is_flag=True, help="Iceberg's tables as well, and of each its kind.")
@json_flag
@click.pass_obj
def list_tables(chosen: CatalogChoice, database: str | None, all_kinds: bool, as_json: bool) -> None:
    """The names of a database's tables, or of all."""
    with chosen.catalog(database) as catalog:
        databases = catalog.list_databases() if database is None else [database]
        found = [f"{name}.{table}" for name in databases for table in catalog.list_tables(name)]
        kinds = dict.fromkeys(found, "interbed")
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
    """The columns, keys and options of a table, where it is, and how many rows it has. Secrets are hidden.

    Of a table that this version can't read it shows what is known, and why it can't be read.
    """
    from interbed.catalog.client.errors import UNREADABLE, NotAnInterbedTableError

    try:
        with chosen.any_table(name) as opened:
            found = iceberg_tables.describe(opened) if iceberg_tables.is_of_iceberg(opened) else _description(opened)
    except UNREADABLE as error:
        if "$" in name or "/" in name:
            raise
        with chosen.catalog(name) as catalog:
            try:
                found = _outline(name, catalog.table_outline(name), error)
            except NotAnInterbedTableError:
                # One of Iceberg's, of which nothing is known but this.
                raise error from None
    if as_json:
        show_json(found)
        return
    print_line(f"table     {found['table']}")
    for key in ("format", "comment", "location", "problem"):
        if found.get(key):
            print_line(f"{key:<8}  {found[key]}")
    print_line(f"schema    {found['schema']}")
    print_line(f"snapshot  {_state(found)}")
    print_line("columns")
    print_columns([[c["name"], c["type"], c["key"], c["comment"] or ""] for c in found["columns"]], indent="  ")
    own = set(found["own"])
    for heading, keys in (("options", set(found["options"]) - own), ("your own properties", own)):
        if keys:
            print_line(heading)
            print_columns([[key, found["options"][key]] for key in sorted(keys)], indent="  ")


@click.command()
@table_name
@json_flag
@click.pass_obj
def schema(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """The columns of a table, as `create --column` takes them; with --json the file that `create --schema` takes."""
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
        return iceberg_tables.state(snapshot)
    return "none yet" if snapshot is None else f"{snapshot['id']}, {snapshot['time']}, {snapshot['records']} records"


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
        "snapshot": None
        if latest is None
        else {
            "id": latest.id,
            "time": datetime.fromtimestamp(latest.time_millis / 1000, UTC).isoformat(timespec="seconds"),
            "records": latest.total_record_count,
        },
    }


def _outline(name: str, outline: "SchemaOutline", problem: Exception) -> dict[str, Any]:
    """What is known of a table that can't be read, in the form of _description."""
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
    """Those of the keys that no engine has an option for: properties of the user's own."""
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
"""What `interbed table` has to look at tables with, without their rows."""
