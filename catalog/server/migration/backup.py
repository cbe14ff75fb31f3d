"""Backups of a server's database: a directory with the rows of each table, and a manifest that is written last.

    BACKUP/tables.jsonl.gz      the rows of the table `tables`: a line for each, a JSON list of its columns
    BACKUP/backup.json          the manifest: revision of the schema; columns, number and digest of the rows

The directory is on any file system that interbed knows. All rows are those of one transaction, so that a backup of a
running server is one state of it. A directory without a manifest is no backup: its writer was ended. Values do not
depend on the kind of database: a backup from SQLite can be restored on PostgreSQL, and the other way round.

A restoration is one transaction on an empty database. It compares all rows with the backup before it commits. After a
kill the database is still empty.
"""

import base64
import gzip
import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import msgspec
from sqlalchemy import Column, Connection, Engine, LargeBinary, MetaData, Table, func, insert, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

import interbed
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.models import Base
from interbed.catalog.server.service.errors import MetastoreError
from interbed.storage.io.api import FileIO
from interbed.storage.io.resolve import file_io_for, local_path

MANIFEST = "backup.json"
VERSION = 1
_SUFFIX = ".jsonl.gz"
_ROWS_AT_ONCE = 1000
_STREAMED = {"stream_results": True, "yield_per": _ROWS_AT_ONCE}
_DIGEST_VALUES = 1 << 256

Progress = Callable[[str, int], None]
"""Gets the name of a table and the number of its rows that were just written or read."""


class BackupError(MetastoreError):
    """Error of a backup that cannot be made, is not whole, or does not fit the database."""


class BackedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a backup; `digest` is that of the set of its rows, in hexadecimal digits."""

    name: str
    columns: list[str]
    rows: int
    digest: str
    last_id: int | None = None
    """The last number that the database gave a row by itself; None where it gives none."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a backup; `revision` is that of the schema, `created_at` in milliseconds since the epoch."""

    version: int
    interbed: str
    revision: str
    created_at: int
    tables: list[BackedTable]

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(each.rows for each in self.tables)


@dataclass(slots=True)
class RowsDigest:
    """Number and digest of rows in any order: the sum of the digests of their lines."""

    rows: int = 0
    _sum: int = field(default=0)

    def add(self, line: bytes) -> None:
        """Add the line of a row."""
        self.rows += 1
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(line).digest(), "big")) % _DIGEST_VALUES

    @property
    def digest(self) -> str:
        """The digest in hexadecimal digits."""
        return f"{self._sum:064x}"


def back_up(
    engine: Engine, location: str, *, progress: Progress | None = None, clock: Callable[[], float] = time.time
) -> BackupManifest:
    """Write all rows of a database into an empty or new directory, and verify what was written.

    Raises BackupError for a directory that has files, DatabaseError for a database of another version of interbed.
    """
    file_io, directory = file_io_for(location)
    if file_io.exists(directory) and file_io.list(directory):
        raise BackupError(f"{directory} has files already; name a directory of its own for each backup")
    if local_path(directory) is not None:
        # The database has secrets, as its own file has, which others may not read either.
        os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                # All statements see the state of the first one, as SQLite's do.
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                revision = schema.latest_revision()
                schema.check_revision(schema.revision_of(connection))
                tables = [
                    _write(connection, file_io, directory, each, progress) for each in Base.metadata.sorted_tables
                ]
    except SQLAlchemyError as error:
        raise BackupError(f"the database cannot be read: {error}") from error
    made = BackupManifest(
        version=VERSION,
        interbed=interbed.__version__,
        revision=revision,
        created_at=int(clock() * 1000),
        tables=tables,
    )
    for each in tables:
        _check_file(file_io, directory, each)
    file_io.sync([_path(directory, each.name) for each in tables])
    if not file_io.create_exclusive(
        f"{directory}/{MANIFEST}", msgspec.json.format(msgspec.json.encode(made), indent=2)
    ):
        raise BackupError(f"another process has written a backup into {directory}; nothing says which rows are whose")
    return made


def read_backup(location: str) -> BackupManifest:
    """Return the manifest of a backup, after all rows were read and compared with it. Raises BackupError."""
    file_io, directory = file_io_for(location)
    manifest = _manifest(file_io, directory)
    for each in manifest.tables:
        _check_file(file_io, directory, each)
    return manifest


def restore(engine: Engine, location: str, *, progress: Progress | None = None) -> BackupManifest:
    """Put the rows of a backup into an empty database, and bring it to the schema of this version of interbed.

    Raises BackupError for a database that has tables of interbed, and for a backup that is damaged or of a newer
    version; the database is as it was then.
    """
    file_io, directory = file_io_for(location)
    manifest = read_backup(location)
    try:
        with engine.execution_options(interbed_write=True).connect() as connection, connection.begin():
            if schema.revision_of(connection) is not None:
                raise BackupError("the database has tables of interbed already; restore into an empty one")
            schema.create_within(connection, manifest.revision)
            _fill(connection, file_io, directory, manifest, progress)
    except SQLAlchemyError as error:
        raise BackupError(f"the database cannot be filled, and is as it was: {error}") from error
    schema.upgrade(engine)
    return manifest


def _path(directory: str, table: str) -> str:
    return f"{directory}/{table}{_SUFFIX}"


def _lines(connection: Connection, columns: Sequence[Column[Any]]) -> Iterator[bytes]:
    """Yield the rows of a table as lines."""
    for row in connection.execute(select(*columns), execution_options=_STREAMED):
        yield msgspec.json.encode(list(row)) + b"\n"


def _write(
    connection: Connection, file_io: FileIO, directory: str, table: Table, progress: Progress | None
) -> BackedTable:
    digest = RowsDigest()
    # Without the time, the bytes depend on the rows alone.
    with (
        file_io.open_output(_path(directory, table.name)) as output,
        gzip.GzipFile(fileobj=output, mode="wb", compresslevel=6, mtime=0) as packed,
    ):
        for line in _lines(connection, list(table.columns)):
            packed.write(line)
            digest.add(line)
            if progress is not None:
                progress(table.name, 1)
    return BackedTable(
        name=str(table.name),
        columns=[str(column.name) for column in table.columns],
        rows=digest.rows,
        digest=digest.digest,
        last_id=_last_id(connection, table),
    )


def _last_id(connection: Connection, table: Table) -> int | None:
    if connection.dialect.name == "postgresql":
        sequence = _sequence(connection, table)
        if sequence is None:
            return None
        value, is_called = connection.execute(text(f"SELECT last_value, is_called FROM {sequence}")).one()
        return int(value) if is_called else None
    if not inspect(connection).has_table("sqlite_sequence"):
        return None
    found = connection.execute(text("SELECT seq FROM sqlite_sequence WHERE name = :name"), {"name": table.name})
    return cast("int | None", found.scalar_one_or_none())


def _sequence(connection: Connection, table: Table) -> str | None:
    """Return the name of the sequence that gives the rows of a table their ids, None if there is none."""
    (key, *more) = table.primary_key.columns
    if more:
        return None
    names = {"name": table.name, "key": key.name}
    found = connection.execute(text("SELECT pg_get_serial_sequence(:name, :key)"), names).scalar_one()
    return cast("str | None", found)


def _manifest(file_io: FileIO, directory: str) -> BackupManifest:
    path = f"{directory}/{MANIFEST}"
    try:
        manifest = msgspec.json.decode(file_io.read_bytes(path), type=BackupManifest)
    except FileNotFoundError as error:
        raise BackupError(f"{directory} has no {MANIFEST}: it is no backup, or one that was not finished") from error
    except msgspec.MsgspecError as error:
        raise BackupError(f"{path} is damaged: {error}") from error
    if manifest.version != VERSION:
        raise BackupError(f"{path} has version {manifest.version}, and this interbed reads {VERSION}; use a newer one")
    if manifest.revision > schema.latest_revision():
        raise BackupError(
            f"{path} is of interbed {manifest.interbed}, revision {manifest.revision} of the database; this version "
            f"knows {schema.latest_revision()}: use that version, or a newer one"
        )
    names = [each.name for each in manifest.tables]
    if len(set(names)) != len(names) or not all(name.isidentifier() and name.isascii() for name in names):
        raise BackupError(f"{path} is damaged: names of tables are missing or repeated")
    return manifest


def _stored_lines(file_io: FileIO, directory: str, table: BackedTable) -> Iterator[bytes]:
    """Yield the lines of the file of a table. BackupError for one that is missing or damaged."""
    path = _path(directory, table.name)
    try:
        with file_io.open_input(path) as packed, gzip.GzipFile(fileobj=cast("BinaryIO", packed)) as lines:
            yield from lines
    except FileNotFoundError as error:
        raise BackupError(f"{path} is missing; the backup is not whole") from error
    except (OSError, EOFError, zlib.error) as error:
        raise BackupError(f"{path} is damaged: {error}") from error


def _check_file(file_io: FileIO, directory: str, table: BackedTable) -> None:
    _check_digest(table, _stored_lines(file_io, directory, table), _path(directory, table.name))


def _check_digest(table: BackedTable, lines: Iterable[bytes], where: str) -> None:
    found = RowsDigest()
    for line in lines:
        found.add(line)
    if (found.rows, found.digest) != (table.rows, table.digest):
        raise BackupError(
            f"{where} has {found.rows} rows, digest {found.digest[:12]}; the manifest has {table.rows}, "
            f"{table.digest[:12]}. The backup is damaged: use another one"
        )


def _fill(
    connection: Connection, file_io: FileIO, directory: str, manifest: BackupManifest, progress: Progress | None
) -> None:
    """Replace the rows of a new schema by those of the backup, and compare them."""
    metadata = MetaData()
    metadata.reflect(connection)
    tables = [(each, _reflected(metadata, each)) for each in manifest.tables]
    for _, table in reversed(tables):
        connection.execute(table.delete())
    for backed, table in tables:
        columns = [table.columns[name] for name in backed.columns]
        for rows in _batches(_stored_lines(file_io, directory, backed)):
            connection.execute(insert(table), [_values(columns, row) for row in rows])
            if progress is not None:
                progress(backed.name, len(rows))
        _check_digest(backed, _lines(connection, columns), f"the table {backed.name}")
        _restore_last_id(connection, table, backed)


def _reflected(metadata: MetaData, backed: BackedTable) -> Table:
    table = metadata.tables.get(backed.name)
    if table is None or {column.name for column in table.columns} != set(backed.columns):
        raise BackupError(f"the backup's table {backed.name} is not one of its revision; the manifest is damaged")
    return table


def _batches(lines: Iterable[bytes]) -> Iterator[list[Sequence[Any]]]:
    rows: list[Sequence[Any]] = []
    for line in lines:
        rows.append(msgspec.json.decode(line, type=list[Any]))
        if len(rows) == _ROWS_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows


def _values(columns: Sequence[Column[Any]], row: Sequence[Any]) -> dict[str, Any]:
    return {
        column.name: base64.b64decode(value) if value is not None and isinstance(column.type, LargeBinary) else value
        for column, value in zip(columns, row, strict=True)
    }


def _restore_last_id(connection: Connection, table: Table, backed: BackedTable) -> None:
    """Let the database give rows no ids that it has given before the backup."""
    if connection.dialect.name != "postgresql":
        if backed.last_id is not None and inspect(connection).has_table("sqlite_sequence"):
            names = {"name": table.name, "value": backed.last_id}
            connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), names)
            connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :value)"), names)
        return
    sequence = _sequence(connection, table)
    if sequence is None:
        return
    (key,) = table.primary_key.columns
    highest = connection.execute(select(func.max(key))).scalar_one()
    last = max((each for each in (backed.last_id, highest) if each is not None), default=None)
    if last is not None:
        connection.execute(
            text("SELECT setval(CAST(:sequence AS regclass), :value)"), {"sequence": sequence, "value": last}
        )
