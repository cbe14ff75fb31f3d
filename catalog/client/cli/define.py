"""The commands that make and change databases and tables.

interbed catalog list | create-database | drop-database | config | repair, and those of functions.py
interbed catalog dropped | undrop | purge
interbed table create | alter | drop | rename, and add-column of add_column.py

Dropped objects are those of a file-system catalog, or those that its server keeps. The commands have the words of
`interbed metastore dropped | undrop | purge`, which do the same on the server's database.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.add_column import add_column
from interbed.catalog.client.cli.functions import functions
from interbed.catalog.client.cli.group import (
    CatalogChoice,
    CatalogGroup,
    done,
    json_flag,
    names,
    pairs,
    show,
    show_json,
    table_name,
)
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.terminal import print_columns, print_line, print_lines
from interbed.storage.meta.options.format import is_object_table

if TYPE_CHECKING:
    from interbed.storage.base.types.data_type import DataField
    from interbed.storage.meta.schema.change import SchemaChange
    from interbed.storage.meta.schema.table_schema import Schema

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@table_name
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="'NAME TYPE'",
    help="Such as 'id BIGINT NOT NULL'; beside --from it corrects a column of the file.",
)
@click.option("--from", "sample", type=_file, metavar="FILE", help="Take the columns of a file that `import` reads.")
@click.option("--schema", "schema_file", type=_file, metavar="FILE", help="Take what `schema --json` prints.")
@click.option("--primary-key", multiple=True, metavar="NAMES", help="Columns of the primary key, with commas.")
@click.option("--partition-key", multiple=True, metavar="NAMES", help="Columns of the partition key, with commas.")
@click.option(
    "--option", "--table-option", "table_options", multiple=True, metavar="KEY=VALUE", help="An option of the table."
)
@click.option("--comment", metavar="TEXT", help="What the table is for.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when there is one of that name.")
@json_flag
@click.pass_obj
def create(
    chosen: CatalogChoice,
    name: str,
    columns: Sequence[str],
    sample: Path | None,
    schema_file: Path | None,
    primary_key: Sequence[str],
    partition_key: Sequence[str],
    table_options: Sequence[str],
    comment: str | None,
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create a table from columns, from the columns of a data file, or like another table.

    Types of CSV and JSON are guesses: with --from, --column sets the type of a column.

    interbed table create shop.orders --column 'id BIGINT NOT NULL' --column 'amount DOUBLE' --primary-key id
    """
    options = pairs(table_options, hint="--option")
    given = sum((bool(columns), sample is not None, schema_file is not None))
    # An object table has no columns of its own.
    is_complete = given == 1 or bool(columns and sample) or (given == 0 and is_object_table(options))
    if not is_complete:
        raise click.UsageError("Give one of --column, --from and --schema; beside --from, --column corrects columns.")
    _check_of_table(options)
    with chosen.catalog(name) as catalog:
        made = not (if_not_exists and catalog.table_exists(name))
        if made:
            schema = _schema(columns, sample, schema_file)
            catalog.create_table(
                name, _with(schema, names(primary_key), names(partition_key), options, comment), if_not_exists
            )
    text = f"created the table {name}" if made else f"there is a table {name} already"
    done(text, {"table": name, "created": made}, as_json)


@click.command()
@table_name
@click.option("--add-column", multiple=True, metavar="'NAME TYPE'", help="Such as \"note STRING COMMENT 'free text'\".")
@click.option("--drop-column", multiple=True, metavar="NAME", help="A column that goes, with its values.")
@click.option("--rename-column", multiple=True, metavar="OLD=NEW", help="Another name for a column.")
@click.option("--change-type", multiple=True, metavar="'NAME TYPE'", help="A wider type: 'amount DECIMAL(20, 2)'.")
@click.option("--set-option", multiple=True, metavar="KEY=VALUE", help="An option of the table.")
@click.option("--remove-option", multiple=True, metavar="KEY", help="An option that gets its default again.")
@click.option("--comment", metavar="TEXT", help="What the table is for; an empty text removes it.")
@json_flag
@click.pass_obj
def alter(
    chosen: CatalogChoice,
    name: str,
    add_column: Sequence[str],
    drop_column: Sequence[str],
    rename_column: Sequence[str],
    change_type: Sequence[str],
    set_option: Sequence[str],
    remove_option: Sequence[str],
    comment: str | None,
    as_json: bool,
) -> None:
    """Change the columns, the options or the comment of a table: all given changes, or none.

    Columns are renamed first, then dropped, changed and added. Files are not rewritten.
    """
    from interbed.catalog.client.cli.forms.column_text import parse_column
    from interbed.catalog.client.cli.group import check_columns
    from interbed.storage.meta.schema import change

    renamed = pairs(rename_column, form="OLD=NEW", hint="--rename-column")
    options = pairs(set_option, hint="--set-option")
    _check_of_table(options)
    typed = [parse_column(text) for text in change_type]
    changes: list[SchemaChange] = [change.RenameColumn(old, new) for old, new in renamed.items()]
    changes += [change.DropColumn(column) for column in drop_column]
    changes += [change.UpdateColumnType(column.name, column.type) for column in typed]
    for column in map(parse_column, add_column):
        changes.append(change.AddColumn(column.name, column.type, column.description))
    changes += [change.SetOption(key, value) for key, value in options.items()]
    changes += [change.RemoveOption(key) for key in remove_option]
    if comment is not None:
        changes.append(change.UpdateComment(comment or None))
    if not changes:
        raise click.UsageError("Give at least one change, such as --add-column 'note STRING'.")
    with chosen.catalog(name) as catalog:
        before = list(catalog.get_table(name).arrow_schema.names)
        check_columns(name, before, renamed)
        after = [renamed.get(column, column) for column in before]
        check_columns(name, after, [*drop_column, *(column.name for column in typed)])
        catalog.alter_table(name, changes)
        schema_id = catalog.get_table(name).schema.id
    done(f"{name} has schema {schema_id}", {"table": name, "schema": schema_id}, as_json)


@click.command()
@table_name
@click.option("--if-exists", is_flag=True, help="Do nothing when there is none of that name.")
@click.option("--purge", is_flag=True, help="Delete the files at once, also where they would be kept.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_flag
@click.pass_obj
def drop(chosen: CatalogChoice, name: str, if_exists: bool, purge: bool, yes: bool, as_json: bool) -> None:
    """Drop a table with its files; the files of an external table of a Hive catalog stay."""
    with chosen.catalog(name) as catalog:
        dropped = not if_exists or catalog.table_exists(name)
        if dropped:
            if not yes:
                # A missing table is reported without a question.
                catalog.get_table(name)
                click.confirm(f"This deletes {name} with all rows and versions. Go on?", abort=True, err=True)
            catalog.drop_table(name, if_exists, purge=purge)
    done(
        f"dropped the table {name}" if dropped else f"there is no table {name}",
        {"table": name, "dropped": dropped},
        as_json,
    )


@click.command()
@table_name
@click.argument("new_name", metavar="DATABASE.NEW_NAME")
@json_flag
@click.pass_obj
def rename(chosen: CatalogChoice, name: str, new_name: str, as_json: bool) -> None:
    """Rename a table, also into another database."""
    with chosen.catalog(name) as catalog:
        catalog.rename_table(name, new_name)
    done(f"{name} is {new_name} now", {"table": name, "renamed_to": new_name}, as_json)


def _schema(columns: Sequence[str], sample: Path | None, schema_file: Path | None) -> "Schema":
    from interbed.storage.meta.schema.table_schema import Schema

    if sample is not None:
        from interbed.catalog.client.cli.forms.column_text import parse_column
        from interbed.catalog.client.cli.forms.file_rows import FileRows

        given = {parse_column(text).name for text in columns}
        found = Schema.from_pyarrow_schema(FileRows.of(sample).inferred_schema(given))
        return _corrected(found, columns, sample) if columns else found
    if schema_file is not None:
        return _schema_of_json(schema_file)
    from interbed.catalog.client.cli.forms.column_text import numbered_columns, parse_column

    return Schema(fields=numbered_columns(map(parse_column, columns)))


def _corrected(found: "Schema", columns: Sequence[str], sample: Path) -> "Schema":
    """Return the schema of a file with some columns replaced by given ones."""
    from dataclasses import replace

    from interbed.catalog.client.cli.forms.column_text import numbered_columns, parse_column
    from interbed.storage.base.shown_text import did_you_mean

    given = {column.name: column for column in map(parse_column, columns)}
    known = [field.name for field in found.fields]
    for name in given:
        if name not in known:
            raise InvalidInputError(
                f"--column corrects columns of {sample}, which has no '{name}'; it has {', '.join(known)}."
                f"{did_you_mean(name, known)}"
            )
    return replace(found, fields=numbered_columns(given.get(field.name, field) for field in found.fields))


def _schema_of_json(file: Path) -> "Schema":
    import json

    from interbed.storage.base.errors import CorruptFileError
    from interbed.storage.meta.schema.table_schema import CURRENT_VERSION, Schema, TableSchema

    try:
        value = json.loads(file.read_text(encoding="utf-8"))
        # Files written by hand lack the numbers that only schema files need.
        value.setdefault("version", CURRENT_VERSION)
        value.setdefault("id", 0)
        for number, field in enumerate(value["fields"]):
            field.setdefault("id", number)
        given = TableSchema.from_json(json.dumps(value), source=str(file))
    except (ValueError, KeyError, TypeError, AttributeError, CorruptFileError) as error:
        raise InvalidInputError(
            f"{file} holds no schema: {error}. It is an object with 'fields', each with 'name' and 'type', as "
            "`interbed table schema --json` prints it."
        ) from error
    fields: tuple[DataField, ...] = given.fields
    return Schema(
        fields=fields,
        partition_keys=given.partition_keys,
        primary_keys=given.primary_keys,
        options=given.options,
        comment=given.comment,
    )


def _with(
    schema: "Schema",
    primary_key: Sequence[str],
    partition_key: Sequence[str],
    options: dict[str, str],
    comment: str | None,
) -> "Schema":
    """Return the schema with the keys, options and comment of the command's options."""
    from dataclasses import replace

    return replace(
        schema,
        primary_keys=tuple(primary_key) or schema.primary_keys,
        partition_keys=tuple(partition_key) or schema.partition_keys,
        options={**schema.options, **options},
        comment=schema.comment if comment is None else comment,
    )


def _check_of_table(options: dict[str, str]) -> None:
    for key in ("warehouse", "metastore", "uri", "hive-conf-dir"):
        if key in options:
            raise click.UsageError(f"'{key}' is an option of the catalog; give it by -o {key}=….")


DEFINITION_COMMANDS: tuple[click.Command, ...] = (create, alter, add_column, drop, rename)
"""The commands of `interbed table` that make and change tables."""


@click.group(cls=CatalogGroup)
def catalog() -> None:
    """Work on the databases of a catalog.

    interbed catalog -o warehouse=file:/tmp/lake create-database shop
    """


@catalog.command(name="list")
@json_flag
@click.pass_obj
def list_databases(chosen: CatalogChoice, as_json: bool) -> None:
    """List the names of all databases."""
    with chosen.catalog() as opened:
        found = opened.list_databases()
    if as_json:
        show_json(found)
    else:
        print_lines(found, empty="no databases")


@catalog.command("create-database")
@click.argument("name", metavar="DATABASE")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when there is one of that name.")
@click.option("--comment", metavar="TEXT", help="What it is for.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property; repeatable.")
@json_flag
@click.pass_obj
def create_database(
    chosen: CatalogChoice,
    name: str,
    if_not_exists: bool,
    comment: str | None,
    properties: Sequence[str],
    as_json: bool,
) -> None:
    """Create a database, and the warehouse when it is the first."""
    given = pairs(properties, hint="--property") | ({} if comment is None else {"comment": comment})
    with chosen.catalog(makes_warehouse=True) as opened:
        made = not (if_not_exists and opened.database_exists(name))
        opened.create_database(name, if_not_exists, given)
    text = f"created the database {name}" if made else f"there is a database {name} already"
    done(text, {"database": name, "created": made}, as_json)


@catalog.command("drop-database")
@click.argument("name", metavar="DATABASE")
@click.option("--if-exists", is_flag=True, help="Do nothing when there is none of that name.")
@click.option("--cascade", is_flag=True, help="Drop its tables, too, with their files.")
@json_flag
@click.pass_obj
def drop_database(chosen: CatalogChoice, name: str, if_exists: bool, cascade: bool, as_json: bool) -> None:
    """Drop a database; one that holds tables only with --cascade."""
    with chosen.catalog(name) as opened:
        dropped = not if_exists or opened.database_exists(name)
        opened.drop_database(name, if_exists, cascade)
    text = f"dropped the database {name}" if dropped else f"there is no database {name}"
    done(text, {"database": name, "dropped": dropped}, as_json)


@catalog.command("config")
@json_flag
@click.pass_obj
def show_configuration(chosen: CatalogChoice, as_json: bool) -> None:
    """Show the name and options of the catalog that commands work on, and their sources. Secrets are masked."""
    from interbed.catalog.client.configuration import load_configuration
    from interbed.storage.base.shown_text import masked

    configuration = load_configuration()
    name, options = configuration.resolved(chosen.name, chosen.options)
    settings = configuration.catalogs.get(name, {})
    shown = {
        key: {
            "value": masked(key, value),
            "source": "-o" if key in chosen.options else settings[key].source,
        }
        for key, value in sorted(options.items())
    }
    if as_json:
        show_json({"catalog": name, "options": shown})
        return
    print_line(f"catalog {name}")
    for key, setting in shown.items():
        print_line(f"  {key} = {setting['value']}  ({setting['source']})")


@catalog.command()
@click.argument("name", metavar="[DATABASE[.TABLE]]", required=False)
@click.option("--dry-run", is_flag=True, help="Only report what would be done.")
@json_flag
@click.pass_context
def repair(context: click.Context, name: str | None, dry_run: bool, as_json: bool) -> None:
    """Register the tables in the warehouse of a Hive catalog that are not registered, and update those that are.

    All databases of the warehouse, one database, or one table. Only remains of killed drops are removed. Exits with 1
    when something could not be repaired.
    """
    with context.ensure_object(CatalogChoice).catalog(name) as opened:
        if name is None:
            report = opened.repair_catalog(dry_run=dry_run)
        elif "." in name:
            report = opened.repair_table(name, dry_run=dry_run)
        else:
            report = opened.repair_database(name, dry_run=dry_run)
    show(report, as_json)
    if report.failures:
        context.exit(1)


_id = click.option("--id", "drop_id", metavar="ID", help="The drop of this id; by default the latest one.")


@click.command(name="dropped")
@click.option("--database", metavar="NAME", help="Only objects of this database.")
@json_flag
@click.pass_obj
def list_dropped(chosen: CatalogChoice, database: str | None, as_json: bool) -> None:
    """List dropped tables, views and databases that can be put back, the latest first."""
    with chosen.catalog() as opened:
        entries = opened.list_dropped(database)
    if as_json:
        show_json([entry.to_json() for entry in entries])
        return
    if not entries:
        print_line("No dropped objects.")
        return
    rows = [
        [
            entry.id,
            entry.qualified,
            entry.kind,
            _time(entry.dropped_at),
            "until purged" if entry.expires_at is None else _time(entry.expires_at),
            entry.with_database or "",
            entry.present_location or "in place",
        ]
        for entry in entries
    ]
    print_columns([["ID", "NAME", "KIND", "DROPPED", "KEPT UNTIL", "WITH", "FILES"], *rows])


@click.command()
@click.argument("name", metavar="DATABASE[.TABLE]")
@_id
@click.option("--as", "new_name", metavar="NAME", help="Another name for a table, without its database.")
@json_flag
@click.pass_obj
def undrop(chosen: CatalogChoice, name: str, drop_id: str | None, new_name: str | None, as_json: bool) -> None:
    """Put a dropped table, view or database back, with its files.

    A database comes with the tables that were dropped with it. Refused if the name or the directory is taken.
    """
    is_table = "." in name
    if new_name is not None and not is_table:
        raise click.UsageError("a database gets no other name: leave --as out")
    with chosen.catalog(name) as opened:
        if is_table:
            opened.undrop_table(name, new_name=new_name, drop_id=drop_id)
        else:
            opened.undrop_database(name, drop_id=drop_id)
    own = name if new_name is None else f"{name.partition('.')[0]}.{new_name}"
    done(f"{'table' if is_table else 'database'} {own} is back", {"name": own}, as_json)


@click.command()
@click.argument("name", metavar="[DATABASE[.TABLE]]", required=False)
@_id
@click.option("--all", "everything", is_flag=True, help="All dropped objects of the catalog.")
@click.option("--expired", is_flag=True, help="All that has expired.")
@json_flag
@click.pass_context
def purge(
    context: click.Context, name: str | None, drop_id: str | None, everything: bool, expired: bool, as_json: bool
) -> None:
    """Delete a dropped object for good, with the files that were moved aside for it.

    A database is purged with the tables that were dropped with it. Exit code 1 if a directory could not be deleted.
    """
    if [name is not None, everything, expired].count(True) != 1 or (name is None and drop_id is not None):
        raise click.UsageError("give a name, perhaps with --id, or --all, or --expired")
    with context.ensure_object(CatalogChoice).catalog(name) as opened:
        wanted = 1
        if everything:
            wanted = sum(entry.with_database is None for entry in opened.list_dropped())
        purged = opened.purge_dropped(name, drop_id=drop_id, only_expired=expired)
    done(f"purged {purged} dropped objects", {"purged": purged}, as_json)
    if not expired and purged < wanted:
        print_line("Some directories were not deleted: see the log.", err=True)
        context.exit(1)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


for command in (list_dropped, undrop, purge, functions):
    catalog.add_command(command)
