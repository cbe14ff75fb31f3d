"""`interbed metastore import | verify | export`: copy from another metastore, comparison, and export to a file; and
`interbed metastore backup create | verify | restore`, the backups of a server's database (backup.py). The other
commands about dropped objects, the history, issued tokens, roles, grants and policies are in cli/.
"""

import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.server.cli.access import policy, token
from interbed.catalog.server.cli.grants import COMMANDS as GRANT_COMMANDS
from interbed.catalog.server.cli.grants import roles
from interbed.catalog.server.cli.history import COMMANDS as HISTORY_COMMANDS
from interbed.catalog.server.cli.history import DROPPED_COMMANDS, db_option
from interbed.catalog.server.service.errors import MetastoreError
from interbed.storage.base.terminal import SuggestingGroup, print_line, print_text

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from interbed.catalog.server.migration.backup import BackupManifest
    from interbed.catalog.server.migration.compare import MetadataDifference
    from interbed.catalog.server.migration.record import RecordKind
    from interbed.catalog.server.migration.source import Source
    from interbed.catalog.server.migration.target import Target

_include = click.option(
    "--include",
    multiple=True,
    metavar="DATABASE[.TABLE]",
    help="Only these databases or tables; patterns with * and |; repeatable. Everything by default.",
)
_exclude = click.option(
    "--exclude", multiple=True, metavar="DATABASE[.TABLE]", help="Not these databases or tables; repeatable."
)
_grants = click.option("--grants", is_flag=True, help="Roles, their members and grants, too.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_SOURCE_HELP = (
    "thrift://host:9083, a database url of interbed's (sqlite:///file.db, postgresql://…), or an export file."
)


@click.group(cls=SuggestingGroup)
def metastore() -> None:
    """Move metadata between metastores, show its history, put dropped objects back, and administer access.

    Import, verify and export touch no directories or files of tables.
    """
    # thrift logs every address that does not answer; the raised error names it once.
    logging.getLogger("thrift").setLevel(logging.CRITICAL)


for _command in (*DROPPED_COMMANDS, *HISTORY_COMMANDS, *GRANT_COMMANDS, policy, roles, token):
    metastore.add_command(_command)


@metastore.command(name="import")
@click.option("--from", "origin", required=True, metavar="SOURCE", help=f"What to copy: {_SOURCE_HELP}")
@click.option(
    "--db",
    "--to",
    "db",
    metavar="URL",
    help="The database of the catalog server to copy into; that of `interbed server` by default. Servers may be "
    "running on it.",
)
@_include
@_exclude
@click.option("--dry-run", is_flag=True, help="Print what would be copied; change nothing.")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with an import that ended half-way, or bring an older one up to date. Without it a database that has "
    "tables already is refused.",
)
@click.option(
    "--changed",
    type=click.Choice(["update", "report"]),
    default="update",
    show_default=True,
    help="What to do with objects that are there but differ from the source's.",
)
@_grants
@_json
def import_(
    *,
    origin: str,
    db: str | None,
    include: Sequence[str],
    exclude: Sequence[str],
    dry_run: bool,
    resume: bool,
    changed: str,
    grants: bool,
    as_json: bool,
) -> None:
    """Copy catalogs, databases, tables, views, partitions, statistics, functions and constraints, exactly as they are.
    With --grants roles and grants are copied, too.

    It may be run again at any time, also after it was killed: objects that exist already are left alone. Exit code 1 if
    an object could not be copied.
    """
    # Needs Thrift and SQL, which are slow to import for the help of a command; and so below.
    from interbed.catalog.server.migration.access import AccessCopy
    from interbed.catalog.server.migration.copy import MetadataCopy
    from interbed.catalog.server.migration.record import MigrationError
    from interbed.catalog.server.migration.selection import ObjectSelection, ProgressDisplay

    selection = ObjectSelection(include, exclude)
    with _failing_clearly():
        url = db if db is not None else _server_database()
        if url.startswith("thrift:"):
            raise click.UsageError(
                f"{url} is a server, which would make directories and set times of its own. An import writes into the "
                "server's database, while the server runs if you like: --db sqlite:///file.db or postgresql://…"
            )
        with _opened(origin) as source, _target(url, dry_run) as target:
            if target is not None and not resume and not dry_run and target.has_tables():
                raise MigrationError(
                    f"{target.name} has tables already. With --resume the import goes on where it ended, and updates "
                    "what has changed since (--changed report only prints it)"
                )
            with ProgressDisplay("importing") as progress:
                summary = MetadataCopy(
                    source,
                    target,
                    selection,
                    update_changed=changed == "update",
                    dry_run=dry_run,
                    progress=progress.advance,
                ).run()
                if grants:
                    AccessCopy(source, target, selection, summary, dry_run=dry_run).run()
    if as_json:
        click.echo(json.dumps(summary.to_json(), indent=2))
    else:
        print_text(str(summary))
    if not summary.succeeded:
        sys.exit(1)


@metastore.command()
@click.option("--from", "left", required=True, metavar="SOURCE", help=f"One side: {_SOURCE_HELP}")
@click.option(
    "--to", "--db", "right", metavar="SOURCE", help="The other side, likewise; by default the server's database."
)
@_include
@_exclude
@_grants
@_json
def verify(
    *, left: str, right: str | None, include: Sequence[str], exclude: Sequence[str], grants: bool, as_json: bool
) -> None:
    """Compare two metastores and print every difference. Exit code 1 if there is one."""
    from interbed.catalog.server.migration.compare import SourceComparison
    from interbed.catalog.server.migration.selection import ObjectSelection, ProgressDisplay

    selection = ObjectSelection(include, exclude)
    with (
        _failing_clearly(),
        _opened(left) as left_source,
        _opened(right if right is not None else _server_database()) as right_source,
        ProgressDisplay("comparing") as progress,
    ):
        looked_at: Counter[RecordKind] = Counter()

        def compared(kind: "RecordKind", count: int) -> None:
            looked_at[kind] += count
            progress.advance(kind, count)

        started = time.monotonic()
        differences = SourceComparison(left_source, right_source, selection, compared, with_access=grants).differences()
        found = (_print_json if as_json else _print_lines)(differences, looked_at, left_source, right_source)
        if not as_json:
            total = sum(looked_at.values())
            print_line(
                f"{found or 'no'} difference{'' if found == 1 else 's'} in {total:,} objects, "
                f"{time.monotonic() - started:.1f} s"
            )
    if found:
        sys.exit(1)


@metastore.command()
@click.option("--from", "--db", "origin", metavar="SOURCE", help=f"What to export: {_SOURCE_HELP}")
@_include
@_exclude
def export(*, origin: str | None, include: Sequence[str], exclude: Sequence[str]) -> None:
    """Write all objects to standard output as JSON, one a line. `import --from FILE` reads it back."""
    from interbed.catalog.server.migration.jsonl import write_lines
    from interbed.catalog.server.migration.selection import ObjectSelection, ProgressDisplay, objects

    selection = ObjectSelection(include, exclude)
    with (
        _failing_clearly(),
        _opened(origin if origin is not None else _server_database()) as source,
        ProgressDisplay("exporting") as progress,
    ):

        def records() -> Iterator[Any]:
            for key, fields in objects(source, selection):
                yield key, fields
                progress.advance(key.kind, 1)

        write_lines(records(), sys.stdout)
        for note in source.notes:
            print_line(f"note: {note}", err=True)


@metastore.group(cls=SuggestingGroup)
def backup() -> None:
    """Back up a server's database into a directory, on any file system, and restore it."""


@backup.command(name="create")
@click.argument("location")
@db_option
@_json
def create_backup(*, location: str, db: str | None, as_json: bool) -> None:
    """Write the rows of all tables of a database into the new directory LOCATION, and read them again.

    The server may be running: a backup is one state of its database. It has secrets, such as those in parameters of
    tables and the keys of delegation tokens. Files of tables are not in it.
    """
    from interbed.catalog.server.migration.backup import back_up
    from interbed.catalog.server.migration.selection import ProgressDisplay

    with _failing_clearly(), _engine(db) as engine, ProgressDisplay("backing up") as progress:
        made = back_up(engine, location, progress=progress.advance)
    _print_backup(made, f"backed up into {location}", as_json=as_json)


@backup.command(name="verify")
@click.argument("location")
@_json
def verify_backup(*, location: str, as_json: bool) -> None:
    """Read all rows of a backup and compare them with its manifest. Exit code 1 for one that is not whole."""
    from interbed.catalog.server.migration.backup import read_backup

    with _failing_clearly():
        _print_backup(read_backup(location), f"{location} is whole", as_json=as_json)


@backup.command(name="restore")
@click.argument("location")
@db_option
@_json
def restore_backup(*, location: str, db: str | None, as_json: bool) -> None:
    """Put a backup into an empty database, of either kind, in one transaction. Servers start on it afterwards."""
    from interbed.catalog.server.migration.backup import restore
    from interbed.catalog.server.migration.selection import ProgressDisplay

    with (
        _failing_clearly(),
        _engine(db, makes_file=True) as engine,
        ProgressDisplay("restoring") as progress,
    ):
        made = restore(engine, location, progress=progress.advance)
    _print_backup(made, f"restored from {location}", as_json=as_json)


@contextmanager
def _engine(db: str | None, *, makes_file: bool = False) -> "Iterator[Engine]":
    """Yield the engine of a database; with `makes_file` that of one on SQLite may be new."""
    from interbed.catalog.server.database.engine import check_exists, open_engine

    url = db if db is not None else _server_database()
    if not makes_file:
        check_exists(url)
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def _print_backup(made: "BackupManifest", done: str, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(made)).decode())
        return
    at = datetime.fromtimestamp(made.created_at / 1000, UTC)
    print_line(
        f"{done}: {made.rows:,} rows of {len(made.tables)} tables, revision {made.revision}, {at:%Y-%m-%d %H:%M:%S} UTC"
    )


def _print_lines(
    differences: "Iterator[MetadataDifference]", _looked_at: "Counter[RecordKind]", left: "Source", right: "Source"
) -> int:
    from interbed.catalog.server.migration.compare import PRESENT

    found = 0
    for each in differences:
        found += 1
        if each.field is None:
            if each.left == PRESENT and each.right is None:
                problem = f"is missing from {right.name}"
            elif each.right == PRESENT and each.left is None:
                problem = f"is missing from {left.name}"
            else:
                problem = f"cannot be compared: {each.left} | {each.right}"
        else:
            problem = f"{each.field}: {_text(each.left)} | {_text(each.right)}"
        print_line(f"{each.key.kind} {each.key} {problem}")
    for source in (left, right):
        for note in source.notes:
            print_line(f"note: {note}")
    return found


def _print_json(
    differences: "Iterator[MetadataDifference]", looked_at: "Counter[RecordKind]", left: "Source", right: "Source"
) -> int:
    from interbed.catalog.server.migration.record import RecordKind

    # Written as they are found: there may be more differences than fit into memory.
    click.echo(f'{{"left": {json.dumps(left.name)}, "right": {json.dumps(right.name)}, "differences": [', nl=False)
    found = 0
    for found, each in enumerate(differences, start=1):
        click.echo(("" if found == 1 else ",") + "\n  " + json.dumps(each.to_json()), nl=False)
    counts = {kind.value: looked_at[kind] for kind in RecordKind if looked_at[kind]}
    notes = [*left.notes, *right.notes]
    click.echo(f'\n], "compared": {json.dumps(counts)}, "notes": {json.dumps(notes)}}}')
    return found


def _text(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


@contextmanager
def _opened(text: str) -> "Iterator[Source]":
    from interbed.catalog.server.migration.connection import RemoteConnection
    from interbed.catalog.server.migration.jsonl import JsonlSource
    from interbed.catalog.server.migration.source import MetastoreSource
    from interbed.catalog.server.migration.target import open_database

    source: Source
    if text.startswith("thrift:"):
        source = MetastoreSource(RemoteConnection(text))
    elif "://" in text:
        source = open_database(text)
    elif Path(text).is_file():
        source = JsonlSource(Path(text))
    else:
        raise click.UsageError(f"{text} is neither a file nor an address: {_SOURCE_HELP}")
    try:
        yield source
    finally:
        source.close()


@contextmanager
def _target(url: str, dry_run: bool) -> "Iterator[Target | None]":
    """Yield the database to copy into; None for a dry run into one that does not exist, which must not create it."""
    from interbed.catalog.server.migration.target import Target, exists

    if dry_run and not exists(url):
        yield None
        return
    target = Target(url)
    try:
        yield target
    finally:
        target.close()


def _server_database() -> str:
    """Return the database of an `interbed server` started here."""
    from interbed.catalog.server.settings import load

    config = os.environ.get("INTERBED_SERVER_CONFIG")
    return load(Path(config) if config else None, os.environ, {})[0].db


@contextmanager
def _failing_clearly() -> Iterator[None]:
    """Report errors of the target's database as messages; the command line itself reports InterbedError."""
    try:
        yield
    except MetastoreError as error:
        raise click.ClickException(str(error)) from error
