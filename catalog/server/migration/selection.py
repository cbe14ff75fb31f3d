"""Selection of databases and tables to copy, compare or export, and the walk over the selected objects.

Patterns are `database`, `database.table` or `catalog.database.table`; each part is a name pattern of Hive's, where `*`
matches any characters and `|` separates alternatives, without regard to case. A foreign key to a table that is not
selected is not selected either.

`objects` yields the objects of an export. `NameSet` holds names of partitions in a temporary database, so that memory
does not grow with their number.

The progress of a walk is shown on a terminal, and not while standard error is a file or a pipe.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from interbed.catalog.server.migration.record import (
    FOREIGN_KEYS,
    Key,
    RecordKind,
    RefusedError,
    constraint_fields,
    fields_of,
)
from interbed.catalog.server.migration.source import TABLES_AT_ONCE, Source, partitions_at_once
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import pattern_matcher
from interbed.storage.base.errors import InvalidOptionError

_CACHE_KIB = 8192

_ANY = pattern_matcher("*").pattern

T = TypeVar("T")


class NameSet:
    """A set of names that is read in order. It is in an unnamed temporary file, which SQLite creates when its cache is
    full and which is deleted with the process.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(f"PRAGMA cache_size=-{_CACHE_KIB}").close()
        self._database.execute("PRAGMA journal_mode=OFF").close()
        self._database.execute("CREATE TABLE names (name TEXT PRIMARY KEY) WITHOUT ROWID").close()
        self.add(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._database.close()

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM names").fetchone()[0]
        return count

    def add(self, names: Iterable[str]) -> None:
        """Add names; existing ones count once."""
        self._database.execute("BEGIN").close()
        self._database.executemany("INSERT OR IGNORE INTO names VALUES (?)", ((name,) for name in names)).close()
        self._database.execute("COMMIT").close()

    def batches(self, size: int) -> Iterator[list[str]]:
        """Yield all names in the order of their code points, `size` at a time."""
        last = ""
        while True:
            rows = self._database.execute(
                "SELECT name FROM names WHERE name > ? ORDER BY name LIMIT ?", (last, size)
            ).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield [row[0] for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    catalog: re.Pattern[str]
    database: re.Pattern[str]
    table: re.Pattern[str] | None
    """None for a pattern that names no table: it selects the whole database, its functions too."""

    def has_database(self, catalog: str, database: str) -> bool:
        return bool(self.catalog.fullmatch(catalog) and self.database.fullmatch(database))

    def has_table(self, catalog: str, database: str, table: str) -> bool:
        return self.has_database(catalog, database) and (self.table is None or bool(self.table.fullmatch(table)))


class ObjectSelection:
    """The objects that `include` selects (all if it is empty) but `exclude` does not. InvalidOptionError for a pattern
    of more than three parts.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = [_parsed(text) for text in include]
        self._whole = not include
        self._exclude = [_parsed(text) for text in exclude]

    @property
    def is_everything(self) -> bool:
        """Whether there is no pattern: all objects are selected."""
        return self._whole and not self._exclude

    def catalog(self, catalog: str) -> bool:
        """Return whether an object in the catalog may be selected."""
        return self._whole or any(pattern.catalog.fullmatch(catalog) for pattern in self._include)

    def database(self, catalog: str, database: str) -> bool:
        """Return whether the database is selected, even for one table."""
        if not self._whole and not any(pattern.has_database(catalog, database) for pattern in self._include):
            return False
        return not any(pattern.table is None and pattern.has_database(catalog, database) for pattern in self._exclude)

    def functions(self, catalog: str, database: str) -> bool:
        """Return whether the functions of a selected database are selected: only with the whole database."""
        return self._whole or any(
            pattern.has_database(catalog, database) and (pattern.table is None or pattern.table.pattern == _ANY)
            for pattern in self._include
        )

    def table(self, catalog: str, database: str, table: str) -> bool:
        """Return whether the table is selected."""
        name = table.lower()
        if not self._whole and not any(pattern.has_table(catalog, database, name) for pattern in self._include):
            return False
        return not any(pattern.has_table(catalog, database, name) for pattern in self._exclude)

    def constraints(self, catalog: str, constraints: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """Return the selected constraints of a selected table: a foreign key needs the table that it refers to."""
        return {
            name: columns
            for name, columns in constraints.items()
            if not name.startswith(FOREIGN_KEYS) or self.table(catalog, columns[0].pktable_db, columns[0].pktable_name)
        }


def _parsed(text: str) -> _Pattern:
    parts = text.strip().split(".")
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise InvalidOptionError(
            f"{text!r} is no pattern for tables: database, database.table or catalog.database.table"
        )
    catalog = parts[0] if len(parts) == 3 else DEFAULT_CATALOG
    database, table = (parts[-2], parts[-1]) if len(parts) > 1 else (parts[0], None)
    return _Pattern(
        catalog=pattern_matcher(catalog),
        database=pattern_matcher(database),
        table=None if table is None else pattern_matcher(table),
    )


def objects(source: Source, selection: ObjectSelection) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Yield every selected object with its fields, containers before their content. RefusedError for one that the
    source refuses to return.
    """
    for catalog in source.catalogs():
        if not selection.catalog(catalog):
            continue
        struct = source.catalog(catalog)
        if struct is not None:
            yield Key(kind=RecordKind.CATALOG, catalog=catalog), fields_of(RecordKind.CATALOG, struct)
        for database in source.databases(catalog):
            if selection.database(catalog, database):
                yield from _of_database(source, selection, catalog, database)


def selected_tables(source: Source, selection: ObjectSelection, catalog: str, database: str) -> list[str]:
    """Return the selected tables of a database, in order."""
    return [name for name in source.tables(catalog, database) if selection.table(catalog, database, name)]


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in chunks of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _of_database(
    source: Source, selection: ObjectSelection, catalog: str, database: str
) -> Iterator[tuple[Key, dict[str, Any]]]:
    struct = source.database(catalog, database)
    if struct is None:
        return
    yield Key(kind=RecordKind.DATABASE, catalog=catalog, database=database), fields_of(RecordKind.DATABASE, struct)
    if selection.functions(catalog, database):
        for name, function in sorted(source.functions(catalog, database).items()):
            key = Key(kind=RecordKind.FUNCTION, catalog=catalog, database=database, name=name)
            yield key, fields_of(RecordKind.FUNCTION, function)
    for names in chunks(selected_tables(source, selection, catalog, database), TABLES_AT_ONCE):
        tables, refused = source.table_objects(catalog, database, names)
        if refused:
            name, error = next(iter(refused.items()))
            raise RefusedError(f"table {database}.{name}: {error}")
        for name, table in sorted(tables.items()):
            yield from _of_table(source, selection, catalog, database, name, table)


def _of_table(
    source: Source, selection: ObjectSelection, catalog: str, database: str, name: str, table: Any
) -> Iterator[tuple[Key, dict[str, Any]]]:
    yield Key(kind=RecordKind.TABLE, catalog=catalog, database=database, name=name), fields_of(RecordKind.TABLE, table)
    constraints = selection.constraints(catalog, source.constraints(catalog, database, name))
    for constraint, structs in sorted(constraints.items()):
        key = Key(kind=RecordKind.CONSTRAINT, catalog=catalog, database=database, name=name, constraint=constraint)
        yield key, constraint_fields(structs)
    for column, statistics in sorted(source.table_statistics(catalog, database, table).items()):
        key = Key(kind=RecordKind.TABLE_STATISTICS, catalog=catalog, database=database, name=name, column=column)
        yield key, fields_of(RecordKind.TABLE_STATISTICS, statistics)
    if not table.partitionKeys:
        return
    with NameSet(source.partition_names(catalog, database, name)) as all_names:
        for names in all_names.batches(partitions_at_once(table)):
            for partition, struct in sorted(source.partitions(catalog, database, table, names).items()):
                key = Key(kind=RecordKind.PARTITION, catalog=catalog, database=database, name=name, partition=partition)
                yield key, fields_of(RecordKind.PARTITION, struct)
            by_partition = source.partition_statistics(catalog, database, table, names)
            for partition, by_column in sorted(by_partition.items()):
                for column, statistics in sorted(by_column.items()):
                    key = Key(
                        kind=RecordKind.PARTITION_STATISTICS,
                        catalog=catalog,
                        database=database,
                        name=name,
                        partition=partition,
                        column=column,
                    )
                    yield key, fields_of(RecordKind.PARTITION_STATISTICS, statistics)


class ProgressDisplay:
    """A line for each kind of object with the number of processed ones, and the current table or database."""

    def __init__(self, title: str) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[where]}"),
            console=Console(stderr=True),
            transient=True,
            disable=not Console(stderr=True).is_terminal,
        )
        self._title = title
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, kind: str, count: int, where: str = "") -> None:
        """Count processed objects of a kind, and show them."""
        if kind not in self._tasks:
            # The total is known only at the end: the bar moves, but does not fill.
            self._tasks[kind] = self._progress.add_task(f"{self._title} {kind}", total=None, where="")
        self._progress.update(self._tasks[kind], advance=count, where=where)
