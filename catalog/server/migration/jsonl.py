"""Export files: an object a line, as JSON, and such files as a source of metadata.

    {"type": "export", "format": 1}
    {"type": "table", "catalog": "hive", "database": "shop", "name": "orders", "fields": {"sd": {…}, …}}
    {"type": "partition", "catalog": "hive", "database": "shop", "name": "orders", "partition": "dt=1", "fields": {…}}
    {"type": "end", "objects": 2}

The types are those of record.RecordKind, the fields those of Hive's structures (record.py). The last line shows that
the file is whole and was not cut off. The order of the lines in between does not matter.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from interbed.catalog.server.migration.record import (
    Key,
    MigrationError,
    RecordKind,
    RefusedError,
    constraint_structs,
    struct_of,
)

FORMAT = 1
"""Increased when a reader of the older format would misunderstand a file."""

_encode = json.JSONEncoder(separators=(", ", ": "), allow_nan=False).encode

_KEY_FIELDS = ("catalog", "database", "name", "partition", "column", "constraint")
_NEEDED = {
    RecordKind.CATALOG: 1,
    RecordKind.DATABASE: 2,
    RecordKind.FUNCTION: 3,
    RecordKind.TABLE: 3,
    RecordKind.TABLE_STATISTICS: 3,
    RecordKind.PARTITION: 4,
    RecordKind.PARTITION_STATISTICS: 4,
    RecordKind.CONSTRAINT: 3,
}
_CACHE_KIB = 16384
_NAMES_IN_STATEMENT_MAX = 500


def write_lines(objects: Iterable[tuple[Key, dict[str, Any]]], output: IO[str]) -> int:
    """Write a whole file and return the number of its objects."""
    output.write(_encode({"type": "export", "format": FORMAT}) + "\n")
    count = 0
    for key, fields in objects:
        names = {name: getattr(key, name) for name in _KEY_FIELDS}
        line = {"type": key.kind.value, **{name: value for name, value in names.items() if value is not None}}
        output.write(_encode({**line, "fields": fields}) + "\n")
        count += 1
    output.write(_encode({"type": "end", "objects": count}) + "\n")
    return count


class JsonlSource:
    """An export file as a source: its lines go into a temporary database first, so that neither their order nor their
    number matters. MigrationError names a line that is invalid.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.notes: list[str] = []
        self._database = sqlite3.connect("", isolation_level=None)
        for statement in (
            f"PRAGMA cache_size=-{_CACHE_KIB}",
            "PRAGMA journal_mode=OFF",
            'CREATE TABLE objects (kind TEXT, catalog TEXT, "database" TEXT, name TEXT, "partition" TEXT, '
            '"column" TEXT, "constraint" TEXT, fields TEXT, '
            'PRIMARY KEY (kind, catalog, "database", name, "partition", "column", "constraint")) WITHOUT ROWID',
        ):
            self._database.execute(statement).close()
        try:
            with path.open(encoding="utf-8") as lines:
                self._database.execute("BEGIN").close()
                self._load(lines)
                self._database.execute("COMMIT").close()
        except (OSError, UnicodeDecodeError) as error:
            self.close()
            raise MigrationError(f"cannot read {path}: {error}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the temporary database."""
        self._database.close()

    def role_names(self) -> list[str]:
        """Raise RefusedError: an export has no roles."""
        raise RefusedError(f"{self.name} is an export, which has no roles and grants: import them from the metastore")

    def role_members(self, role: str) -> list[Any]:
        """Return no members: an export has no roles."""
        return []

    def privileges(self) -> list[Any]:
        """Return no grants: an export has none."""
        return []

    def catalogs(self) -> list[str]:
        """Return the catalogs that the file names."""
        return self._texts("SELECT DISTINCT catalog FROM objects ORDER BY 1")

    def catalog(self, name: str) -> Any | None:
        """Return a Catalog, or None."""
        return self._struct(Key(kind=RecordKind.CATALOG, catalog=name))

    def databases(self, catalog: str) -> list[str]:
        """Return the databases that the file describes."""
        return self._texts(
            'SELECT "database" FROM objects WHERE kind = ? AND catalog = ? ORDER BY 1', RecordKind.DATABASE, catalog
        )

    def database(self, catalog: str, name: str) -> Any | None:
        """Return a Database, or None."""
        return self._struct(Key(kind=RecordKind.DATABASE, catalog=catalog, database=name))

    def functions(self, catalog: str, database: str) -> dict[str, Any]:
        """Return the functions of a database."""
        return {
            str(key.name): self._made(key, fields)
            for key, fields in self._objects(RecordKind.FUNCTION, catalog=catalog, database=database)
        }

    def tables(self, catalog: str, database: str) -> list[str]:
        """Return the names of the tables of a database."""
        return self._texts(
            'SELECT name FROM objects WHERE kind = ? AND catalog = ? AND "database" = ? ORDER BY 1',
            *(RecordKind.TABLE, catalog, database),
        )

    def table_objects(
        self, catalog: str, database: str, names: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, RefusedError]]:
        """Return the tables of these names."""
        keys = [Key(kind=RecordKind.TABLE, catalog=catalog, database=database, name=name) for name in names]
        found = {str(key.name): self._struct(key) for key in keys}
        return {name: struct for name, struct in found.items() if struct is not None}, {}

    def constraints(self, catalog: str, database: str, table: str) -> dict[str, list[Any]]:
        """Return the constraints of a table."""
        found = {}
        for key, fields in self._objects(RecordKind.CONSTRAINT, catalog=catalog, database=database, name=table):
            try:
                found[str(key.constraint)] = constraint_structs(key, fields)
            except ValueError as error:
                raise MigrationError(f"{self.name}: constraint {key}: {error}") from error
        return found

    def table_statistics(self, catalog: str, database: str, table: Any) -> dict[str, Any]:
        """Return the statistics of a table's columns."""
        selected = self._objects(RecordKind.TABLE_STATISTICS, catalog=catalog, database=database, name=table.tableName)
        return {str(key.column): self._made(key, fields) for key, fields in selected}

    def partition_names(self, catalog: str, database: str, table: str) -> Iterator[str]:
        """Yield the names of a table's partitions."""
        statement = (
            'SELECT "partition" FROM objects WHERE kind = ? AND catalog = ? AND "database" = ? AND name = ? ORDER BY 1'
        )
        for row in self._database.execute(statement, (RecordKind.PARTITION, catalog, database, table)):
            yield row[0]

    def partitions(self, catalog: str, database: str, table: Any, names: Sequence[str]) -> dict[str, Any]:
        """Return the partitions of these names."""
        return {
            str(key.partition): self._made(key, fields)
            for key, fields in self._of_partitions(RecordKind.PARTITION, catalog, database, table.tableName, names)
        }

    def partition_statistics(
        self, catalog: str, database: str, table: Any, names: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """Return the statistics of these partitions."""
        found: dict[str, dict[str, Any]] = {}
        selected = self._of_partitions(RecordKind.PARTITION_STATISTICS, catalog, database, table.tableName, names)
        for key, fields in selected:
            found.setdefault(str(key.partition), {})[str(key.column)] = self._made(key, fields)
        return found

    def _load(self, lines: Iterable[str]) -> None:
        count = 0
        ended = False
        for number, line in enumerate(lines, start=1):
            try:
                value = json.loads(line)
                kind = value.get("type") if isinstance(value, dict) else None
                if ended:
                    raise ValueError("something comes after the end")
                if (number == 1) != (kind == "export"):
                    raise ValueError('an export begins with one line of the type "export"')
                if kind == "export":
                    if value.get("format") != FORMAT:
                        raise ValueError(f"format {value.get('format')} is not known here, only {FORMAT} is")
                elif kind == "end":
                    ended = True
                    if value.get("objects") != count:
                        raise ValueError(f"{value.get('objects')} objects are announced, {count} are there")
                else:
                    self._store(value)
                    count += 1
            except (ValueError, sqlite3.IntegrityError) as error:
                raise MigrationError(f"{self.name}, line {number}: {error}") from error
        if not ended:
            raise MigrationError(f"{self.name} has no end: the export that wrote it was interrupted; export again")

    def _store(self, value: Mapping[str, Any]) -> None:
        try:
            kind = RecordKind(value.get("type", ""))
        except ValueError:
            raise ValueError(f"unknown type {value.get('type')!r}") from None
        if kind not in _NEEDED:
            raise ValueError(f"an export has no objects of the type {kind!r}")
        names = [value.get(name) for name in _KEY_FIELDS]
        if not all(isinstance(name, str) and name for name in names[: _NEEDED[kind]]):
            raise ValueError(f"a {kind} has to have {', '.join(_KEY_FIELDS[: _NEEDED[kind]])}")
        if not isinstance(value.get("fields"), dict):
            raise ValueError("fields has to be an object")
        self._database.execute(
            "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (kind, *(name or "" for name in names), json.dumps(value["fields"])),
        ).close()

    def _objects(self, kind: RecordKind, **names: str) -> list[tuple[Key, dict[str, Any]]]:
        conditions = " AND ".join(f'"{name}" = ?' for name in names)
        return self._selected(kind, conditions, list(names.values()))

    def _of_partitions(
        self, kind: RecordKind, catalog: str, database: str, table: str, names: Sequence[str]
    ) -> Iterator[tuple[Key, dict[str, Any]]]:
        for start in range(0, len(names), _NAMES_IN_STATEMENT_MAX):
            chunk = names[start : start + _NAMES_IN_STATEMENT_MAX]
            condition = (
                f'catalog = ? AND "database" = ? AND name = ? AND "partition" IN ({", ".join("?" * len(chunk))})'
            )
            yield from self._selected(kind, condition, [catalog, database, table, *chunk])

    def _selected(self, kind: RecordKind, condition: str, values: Sequence[str]) -> list[tuple[Key, dict[str, Any]]]:
        statement = (
            'SELECT catalog, "database", name, "partition", "column", "constraint", fields FROM objects '
            f"WHERE kind = ? AND {condition}"
        )
        rows = self._database.execute(statement, (kind, *values)).fetchall()
        return [
            (
                Key(
                    kind=kind, catalog=row[0], **dict(zip(_KEY_FIELDS[1:], (v or None for v in row[1:6]), strict=True))
                ),
                json.loads(row[6]),
            )
            for row in rows
        ]

    def _struct(self, key: Key) -> Any | None:
        names = {name: getattr(key, name) for name in _KEY_FIELDS if getattr(key, name) is not None}
        found = self._objects(key.kind, **names)
        return None if not found else self._made(*found[0])

    def _made(self, key: Key, fields: Mapping[str, Any]) -> Any:
        try:
            return struct_of(key, fields)
        except (ValueError, TypeError) as error:
            raise MigrationError(f"{self.name}: {key.kind} {key}: {error}") from error

    def _texts(self, statement: str, *values: str) -> list[str]:
        return [row[0] for row in self._database.execute(statement, values)]
