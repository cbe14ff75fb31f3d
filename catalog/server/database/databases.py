"""Catalogs, databases, user-defined functions, places of directories and their moves, and single values, in SQL.

A place says what is registered in a directory, whatever the number of tables. Databases, tables and sets of partitions
have a column with their place, which is indexed: what lies in a directory is a range of it. Of partitions only those
outside of their set's directory have one. Moves are those that have begun and are not finished. A single value of the
metastore is a property, such as its identity.
"""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from interbed.catalog.server.database.documents import (
    database_document,
    database_from,
    function_document,
    function_from,
)
from interbed.catalog.server.database.engine import Statement, insert_or_replace, insert_unless_taken
from interbed.catalog.server.database.grants import follow
from interbed.catalog.server.database.models import (
    CatalogRow,
    DatabaseRow,
    FunctionRow,
    LinkedPlaceRow,
    MoveRow,
    PropertyRow,
)
from interbed.catalog.server.service.access.objects import SecuredKind, owner_key
from interbed.catalog.server.service.directories.locations import KEY_LENGTH_MAX, indexed_place, place_key
from interbed.catalog.server.service.model import Function, MetastoreCatalog, MetastoreDatabase
from interbed.catalog.server.service.repository import DatabasePlaces, DirectoryMove, StoredRow

# Statements are built once: the driver's own work is so short that composing them would be half of a read.
_NAMED = select(DatabaseRow.id, DatabaseRow.document).where(
    DatabaseRow.catalog == bindparam("catalog"), DatabaseRow.name == bindparam("name")
)
_FIND = Statement(_NAMED)
_FIND_FOR_UPDATE = Statement(_NAMED.with_for_update())
_FIND_FOR_CHILD = Statement(_NAMED.with_for_update(read=True, key_share=True))

_IN = "(p.place = :at OR (p.place >= :first AND p.place < :last))"
_AMONG = "p.place = ANY(CAST(:keys AS text[]))"
_AMONG_ON_SQLITE = "p.place IN (SELECT value FROM json_each(:keys))"
# A number that no table has: then no table is ignored.
_NO_TABLE = -1

_DATABASE = "SELECT p.catalog, p.name FROM databases p WHERE {condition} LIMIT 1"
_TABLE = (
    "SELECT d.catalog, d.name, p.name AS table_name FROM tables p JOIN databases d ON d.id = p.database_id "
    "WHERE p.id <> :table_id AND {condition} LIMIT 1"
)
_LINKED = (
    "SELECT d.catalog, d.name, t.name AS table_name FROM linked_places p JOIN tables t ON t.id = p.table_id "
    "JOIN databases d ON d.id = t.database_id WHERE t.id <> :table_id AND {condition} LIMIT 1"
)
# One selection for each table, so that every database uses the index, whatever its estimates of rows.
_OTHERS = "(SELECT s.id FROM partition_sets s WHERE s.table_id IS NULL OR s.table_id = :table_id)"
_SET = f"SELECT p.id AS set_id FROM partition_sets p WHERE {{condition}} AND p.id NOT IN {_OTHERS} LIMIT 1"
_PARTITION = (
    "SELECT p.set_id FROM partitions p WHERE p.place IS NOT NULL AND {condition} "
    f"AND p.set_id NOT IN {_OTHERS} LIMIT 1"
)
_TABLE_OF_SET = Statement(
    text(
        "SELECT d.catalog, d.name, t.name AS table_name FROM partition_sets s JOIN tables t ON t.id = s.table_id "
        "JOIN databases d ON d.id = t.database_id WHERE s.id = :set_id"
    )
)
_CATALOGS = Statement(select(CatalogRow.name, CatalogRow.location))
_DATABASES = Statement(select(DatabaseRow.catalog, DatabaseRow.name, DatabaseRow.document))
_OUTSIDE = Statement(
    text(
        "SELECT catalog, name, document FROM databases WHERE place IS NULL OR NOT (place >= :first AND place < :last) "
        """OR document LIKE '%"managed_location":%'"""
    )
)


class SqlCatalogs:
    """Repository of catalogs by name."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, name: str, *, for_update: bool = False, for_child: bool = False) -> MetastoreCatalog | None:
        """Return the catalog, or None."""
        statement = select(CatalogRow.__table__).where(CatalogRow.name == name)
        if for_update:
            statement = statement.with_for_update()
        elif for_child:
            statement = statement.with_for_update(read=True, key_share=True)
        row = self._connection.execute(statement).one_or_none()
        if row is None:
            return None
        return MetastoreCatalog(
            name=row.name,
            description=row.description,
            location=row.location,
            create_time=row.create_time,
            parameters=json.loads(row.parameters or "{}"),
        )

    def names(self) -> list[str]:
        """Return all names, in order."""
        return sorted(self._connection.scalars(select(CatalogRow.name)))

    def add(self, catalog: MetastoreCatalog) -> bool:
        """Store a new catalog; False if the name is taken."""
        statement = insert_unless_taken(self._connection, CatalogRow, CatalogRow.name).values(
            name=catalog.name,
            description=catalog.description,
            location=catalog.location,
            create_time=catalog.create_time,
            parameters=_parameters(catalog),
        )
        return self._connection.execute(statement).one_or_none() is not None

    def replace(self, catalog: MetastoreCatalog) -> None:
        """Store a new description and location."""
        self._connection.execute(
            update(CatalogRow)
            .where(CatalogRow.name == catalog.name)
            .values(description=catalog.description, location=catalog.location, parameters=_parameters(catalog))
        )

    def remove(self, name: str) -> None:
        """Remove an empty catalog and its grants."""
        follow(self._connection, SecuredKind.CATALOG, name)
        self._connection.execute(delete(CatalogRow).where(CatalogRow.name == name))


def _parameters(catalog: MetastoreCatalog) -> str | None:
    return json.dumps(dict(catalog.parameters)) if catalog.parameters else None


class SqlDatabases:
    """Databases by catalog and name."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(
        self, catalog: str, name: str, *, for_update: bool = False, for_child: bool = False
    ) -> StoredRow[MetastoreDatabase] | None:
        """Return the database with its row id, or None."""
        statement = _FIND_FOR_UPDATE if for_update else _FIND_FOR_CHILD if for_child else _FIND
        row = statement.row(self._connection, {"catalog": catalog, "name": name})
        return None if row is None else StoredRow(id=row[0], value=database_from(catalog, name, row[1]))

    def names(self, catalog: str) -> list[str]:
        """Return all names of the catalog, in order."""
        return sorted(self._connection.scalars(select(DatabaseRow.name).where(DatabaseRow.catalog == catalog)))

    def add(self, database: MetastoreDatabase) -> int | None:
        """Store a new database; None if the name is taken."""
        statement = insert_unless_taken(self._connection, DatabaseRow, DatabaseRow.id).values(
            catalog=database.catalog,
            name=database.name,
            document=database_document(database),
            place=indexed_place(database.location),
            owner=owner_key(database.owner_name, database.owner_type),
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def replace(self, database_id: int, database: MetastoreDatabase) -> None:
        """Replace the database; its name stays."""
        self._connection.execute(
            update(DatabaseRow)
            .where(DatabaseRow.id == database_id)
            .values(
                document=database_document(database),
                place=indexed_place(database.location),
                owner=owner_key(database.owner_name, database.owner_type),
            )
        )

    def remove(self, database_id: int) -> None:
        """Remove an empty database and its grants."""
        follow(self._connection, SecuredKind.DATABASE, database_id)
        self._connection.execute(delete(DatabaseRow).where(DatabaseRow.id == database_id))


class SqlFunctions:
    """Functions by catalog, database and name."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, catalog: str, database: str, name: str, *, for_update: bool = False) -> StoredRow[Function] | None:
        """Return the function with its row id, or None."""
        statement = (
            select(FunctionRow.id, FunctionRow.document)
            .join(DatabaseRow, DatabaseRow.id == FunctionRow.database_id)
            .where(DatabaseRow.catalog == catalog, DatabaseRow.name == database, FunctionRow.name == name)
        )
        if for_update:
            statement = statement.with_for_update(of=FunctionRow)
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else StoredRow(id=row.id, value=function_from(catalog, database, name, row.document))

    def select(self, catalog: str, database: str | None = None) -> list[Function]:
        """Return the functions of a database (of all databases if None), ordered by database and name."""
        statement = (
            select(DatabaseRow.name.label("database"), FunctionRow.name, FunctionRow.document)
            .join(FunctionRow, FunctionRow.database_id == DatabaseRow.id)
            .where(DatabaseRow.catalog == catalog)
        )
        if database is not None:
            statement = statement.where(DatabaseRow.name == database)
        functions = [
            function_from(catalog, row.database, row.name, row.document) for row in self._connection.execute(statement)
        ]
        return sorted(functions, key=lambda function: (function.database, function.name))

    def add(self, database_id: int, function: Function) -> int | None:
        """Store a new function; None if the name is taken."""
        statement = insert_unless_taken(self._connection, FunctionRow, FunctionRow.id).values(
            database_id=database_id,
            name=function.name,
            document=function_document(function),
            owner=owner_key(function.owner_name, function.owner_type),
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def replace(self, function_id: int, database_id: int, function: Function) -> bool:
        """Replace the function, perhaps under another name; False if that is taken, which ends the
        transaction.
        """
        follow(self._connection, SecuredKind.FUNCTION, function_id)
        try:
            self._connection.execute(
                update(FunctionRow)
                .where(FunctionRow.id == function_id)
                .values(
                    database_id=database_id,
                    name=function.name,
                    document=function_document(function),
                    owner=owner_key(function.owner_name, function.owner_type),
                )
            )
        except IntegrityError:
            return False
        return True

    def remove(self, function_id: int) -> None:
        """Remove the function of a row and its grants."""
        follow(self._connection, SecuredKind.FUNCTION, function_id)
        self._connection.execute(delete(FunctionRow).where(FunctionRow.id == function_id))


class SqlProperties:
    """Single values by name."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """Return the value of the name, or None."""
        return self._connection.execute(select(PropertyRow.value).where(PropertyRow.name == name)).scalar_one_or_none()

    def keep(self, name: str, value: str) -> str:
        """Store the value unless there is one, and return what is stored."""
        statement = insert_unless_taken(self._connection, PropertyRow, PropertyRow.value).values(name=name, value=value)
        stored: str | None = self._connection.execute(statement).scalar_one_or_none()
        if stored is None:
            # Another server was first; its value is committed, since the insert has waited for it.
            stored = self.get(name)
        return value if stored is None else stored


def _inside(statement: str) -> Statement:
    """Return the statement for the objects inside a place."""
    return Statement(text(statement.format(condition=_IN)))


def _at(statement: str) -> Statement:
    """Return the statement for the objects at one of several places."""
    on_sqlite = text(statement.format(condition=_AMONG_ON_SQLITE))
    return Statement(text(statement.format(condition=_AMONG)), for_sqlite=on_sqlite)


def _all_of(statement: str) -> str:
    return statement.replace("LIMIT 1", "LIMIT :limit")


_DATABASE_AT = "SELECT p.catalog, p.name FROM databases p WHERE {condition} LIMIT 1"
_DATABASES_HELD = _inside(_all_of(_DATABASE_AT))
_DATABASES_AROUND = _at(_all_of(_DATABASE_AT))
_TABLES_HELD = (_inside(_all_of(_TABLE)), _inside(_all_of(_LINKED)))
_TABLES_AROUND = (_at(_all_of(_TABLE)), _at(_all_of(_LINKED)))
_SETS_HELD = (_inside(_all_of(_SET)), _inside(_all_of(_PARTITION)))
_SETS_AROUND = (_at(_all_of(_PARTITION)),)

_NO_TEXT, _NO_NUMBER = "CAST(NULL AS TEXT)", "CAST(NULL AS BIGINT)"
_INSIDE = Statement(
    text(
        " UNION ALL ".join(
            f"SELECT {number}, {columns} FROM ({query.format(condition=_IN)}) AS found"
            for number, (columns, query) in enumerate(
                (
                    (f"found.catalog, found.name, {_NO_TEXT}, {_NO_NUMBER}", _DATABASE),
                    (f"found.catalog, found.name, found.table_name, {_NO_NUMBER}", _TABLE),
                    (f"found.catalog, found.name, found.table_name, {_NO_NUMBER}", _LINKED),
                    (f"{_NO_TEXT}, {_NO_TEXT}, {_NO_TEXT}, found.set_id", _SET),
                    (f"{_NO_TEXT}, {_NO_TEXT}, {_NO_TEXT}, found.set_id", _PARTITION),
                )
            )
        )
    )
)
"""What is in a place, at most one object of each kind, in one statement: most places are free."""
_TABLES_AT = (_at(_TABLE), _at(_LINKED))
_PARTITIONS_AT = _at(_PARTITION)


class SqlLocationIndex:
    """Locations of databases, tables and partitions."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def conflict(self, texts: Collection[str], above: Collection[str], *, table_id: int | None = None) -> str | None:
        """Describe an object registered at or below one of the places, or one that holds one of them; None if there is
        none.
        """
        own = _NO_TABLE if table_id is None else table_id
        for place in texts:
            found = self._in(place, own)
            if found is not None:
                return found
        return self._around(above, own)

    def holders(self, texts: Collection[str], above: Collection[str], limit: int) -> list[tuple[str, str, str | None]]:
        """Return the databases and tables registered at or below one of the places, and those at one of the places
        `above`: all, or more than `limit` of them.
        """
        bounds = {"table_id": _NO_TABLE, "limit": limit + 1}
        found: dict[tuple[str, str, str | None], None] = {}
        sets: dict[int, None] = {}
        for place in texts:
            at = {"at": place_key(place), **_range(place), **bounds}
            found.update(((*row, None), None) for row in _DATABASES_HELD.rows(self._connection, at))
            for statement in _TABLES_HELD:
                found.update((tuple(row), None) for row in statement.rows(self._connection, at))
            for statement in _SETS_HELD:
                sets.update((row[0], None) for row in statement.rows(self._connection, at))
        if above:
            around = {"keys": self._keys(above), **bounds}
            found.update(((*row, None), None) for row in _DATABASES_AROUND.rows(self._connection, around))
            for statement in _TABLES_AROUND:
                found.update((tuple(row), None) for row in statement.rows(self._connection, around))
            for statement in _SETS_AROUND:
                sets.update((row[0], None) for row in statement.rows(self._connection, around))
        for set_id in sets:
            found.update((tuple(row), None) for row in _TABLE_OF_SET.rows(self._connection, {"set_id": set_id}))
        return list(found)

    def databases(self, outside: str | None = None) -> list[DatabasePlaces]:
        """Return all catalogs, and the databases that do not lie below the place `outside` or have a second
        location.
        """
        catalogs = [
            DatabasePlaces(what=f"the catalog {name}", locations=(location,))
            for name, location in _CATALOGS.rows(self._connection, {})
            if location
        ]
        if outside is None:
            rows = _DATABASES.rows(self._connection, {})
        else:
            rows = _OUTSIDE.rows(self._connection, _range(outside))
        return [*catalogs, *(_described(catalog, name, document) for catalog, name, document in rows)]

    def link(self, table_id: int, partition_name: str, text: str | None) -> None:
        """Store the target of a table's (no name) or partition's location that contains links; None if it has none."""
        if text is None:
            self._connection.execute(
                delete(LinkedPlaceRow).where(
                    LinkedPlaceRow.table_id == table_id, LinkedPlaceRow.partition_name == partition_name
                )
            )
            return
        row = {"table_id": table_id, "partition_name": partition_name, "place": place_key(text)}
        self._connection.execute(insert_or_replace(self._connection, LinkedPlaceRow), [row])

    def _in(self, place: str, own: int) -> str | None:
        at = {"at": place_key(place), **_range(place), "table_id": own}
        found = _INSIDE.rows(self._connection, at)
        if not found:
            return None
        _, catalog, database, table, set_id = min(found, key=lambda row: row[0])
        if set_id is not None:
            return f"it holds partitions of the table {self._table_of(set_id)}"
        if table is not None:
            return f"it holds the table {_named(catalog, database, table)}"
        return f"it holds the database {_named(catalog, database)}"

    def _around(self, above: Collection[str], own: int) -> str | None:
        if not above:
            return None
        values = {"keys": self._keys(above), "table_id": own}
        for statement in _TABLES_AT:
            table = statement.row(self._connection, values)
            if table is not None:
                return f"it lies in the table {_named(*table)}"
        found = _PARTITIONS_AT.row(self._connection, values)
        if found is not None:
            return f"it lies in a partition of the table {self._table_of(found[0])}"
        return None

    def _keys(self, places: Collection[str]) -> Any:
        keys = sorted({place_key(each) or "" for each in places})
        return json.dumps(keys) if self._connection.dialect.name == "sqlite" else keys

    def _table_of(self, set_id: int) -> str:
        row = _TABLE_OF_SET.row(self._connection, {"set_id": set_id})
        assert row is not None
        return _named(*row)


def _described(catalog: str, name: str, document: str) -> DatabasePlaces:
    fields = json.loads(document)
    locations = (fields.get("location"), fields.get("managed_location"))
    return DatabasePlaces(
        what=f"the database {_named(catalog, name)}",
        locations=tuple(each for each in locations if each),
        made=tuple(fields.get("made", ())),
    )


def _range(place: str) -> dict[str, str]:
    """Return the bounds of the texts of places in a place. The character after the slash is 0. For a place longer than
    its key the range holds all places with that key.
    """
    below = place + "/"
    if len(below) > KEY_LENGTH_MAX:
        key = place[:KEY_LENGTH_MAX]
        return {"first": key, "last": key + "\U0010ffff"}
    return {"first": below, "last": place + "0"}


def _named(*names: str) -> str:
    return ".".join(name for number, name in enumerate(names) if number or name != "hive")


class SqlMoves:
    """Repository of directory moves by id."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def announce(self, table_id: int, partition_name: str | None, old: str, new: str) -> int:
        """Store a move that is about to begin and return its id."""
        return self._connection.execute(
            insert(MoveRow)
            .values(table_id=table_id, partition_name=partition_name, old_location=old, new_location=new)
            .returning(MoveRow.id)
        ).scalar_one()

    def find(self, move_id: int) -> DirectoryMove | None:
        """Return the move, or None if it was removed."""
        row = self._connection.execute(
            select(MoveRow.table_id, MoveRow.partition_name, MoveRow.old_location, MoveRow.new_location).where(
                MoveRow.id == move_id
            )
        ).one_or_none()
        if row is None:
            return None
        return DirectoryMove(
            table_id=row.table_id, partition_name=row.partition_name, old=row.old_location, new=row.new_location
        )

    def finish(self, move_id: int) -> bool:
        """Remove a move; False if it was removed before."""
        return self._connection.execute(delete(MoveRow).where(MoveRow.id == move_id)).rowcount == 1

    def pending(self) -> list[int]:
        """Return the ids of all moves, oldest first."""
        return list(self._connection.scalars(select(MoveRow.id).order_by(MoveRow.id)))
