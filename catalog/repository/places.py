"""Places of objects in SQL: what is registered in a directory, whatever the number of tables.

Databases, tables and sets of partitions have a column with their place, which is indexed: what lies in a directory is
a range of it. Of partitions only those outside of their set's directory have one.
"""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, text

from interbed.catalog.metastore.directories.locations import KEY_LENGTH_MAX, place_key
from interbed.catalog.metastore.store import DatabasePlaces
from interbed.catalog.repository.insert import insert_or_replace
from interbed.catalog.repository.models import CatalogRow, DatabaseRow, LinkedPlaceRow

_IN = "(p.place = :at OR (p.place >= :first AND p.place < :last))"
# A number that no table has: no table is left out.
_NO_TABLE = -1

_DATABASE = f"SELECT p.catalog, p.name FROM databases p WHERE {_IN} LIMIT 1"
_TABLE = (
    "SELECT d.catalog, d.name, p.name AS table_name FROM tables p JOIN databases d ON d.id = p.database_id "
    "WHERE p.id <> :table_id AND {condition} LIMIT 1"
)
_LINKED = (
    "SELECT d.catalog, d.name, t.name AS table_name FROM linked_places p JOIN tables t ON t.id = p.table_id "
    "JOIN databases d ON d.id = t.database_id WHERE t.id <> :table_id AND {condition} LIMIT 1"
)
# Of one table each, so that every database takes the index, whatever it knows of the numbers of rows.
_OTHERS = "(SELECT s.id FROM partition_sets s WHERE s.table_id IS NULL OR s.table_id = :table_id)"
_SET = f"SELECT p.id AS set_id FROM partition_sets p WHERE {{condition}} AND p.id NOT IN {_OTHERS} LIMIT 1"
_PARTITION = (
    "SELECT p.set_id FROM partitions p WHERE p.place IS NOT NULL AND {condition} "
    f"AND p.set_id NOT IN {_OTHERS} LIMIT 1"
)
_TABLE_OF_SET = (
    "SELECT d.catalog, d.name, t.name AS table_name FROM partition_sets s JOIN tables t ON t.id = s.table_id "
    "JOIN databases d ON d.id = t.database_id WHERE s.id = :set_id"
)


class SqlPlaces:
    """Places of databases, tables and partitions."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def conflict(self, texts: Collection[str], above: Collection[str], *, table_id: int | None = None) -> str | None:
        """What is registered at or below one of the places, or holds one of them: a description, or None."""
        own = _NO_TABLE if table_id is None else table_id
        for place in texts:
            found = self._in(place, own)
            if found is not None:
                return found
        return self._around(above, own)

    def databases(self, outside: Collection[str] = ()) -> list[DatabasePlaces]:
        """All catalogs, and the databases that do not lie below one of these places or have a second location."""
        catalogs = [
            DatabasePlaces(what=f"the catalog {row.name}", locations=(row.location,))
            for row in self._connection.execute(select(CatalogRow.name, CatalogRow.location))
            if row.location
        ]
        return [*catalogs, *(self._described(row) for row in self._outside(outside))]

    def link(self, table_id: int, partition_name: str, text: str | None) -> None:
        """Store where the location of a table (no name) or a partition leads by links; None if there are none."""
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
        at = {"at": place_key(place), **_range(place)}
        row = self._connection.execute(text(_DATABASE), at).first()
        if row is not None:
            return f"it holds the database {_named(row.catalog, row.name)}"
        for statement in (_TABLE, _LINKED):
            row = self._connection.execute(text(statement.format(condition=_IN)), {**at, "table_id": own}).first()
            if row is not None:
                return f"it holds the table {_named(row.catalog, row.name, row.table_name)}"
        for statement in (_SET, _PARTITION):
            row = self._connection.execute(text(statement.format(condition=_IN)), {**at, "table_id": own}).first()
            if row is not None:
                return f"it holds partitions of the table {self._table_of(row.set_id)}"
        return None

    def _around(self, above: Collection[str], own: int) -> str | None:
        keys = sorted({place_key(each) or "" for each in above})
        for statement in (_TABLE, _LINKED):
            row = self._first(statement, keys, own)
            if row is not None:
                return f"it lies in the table {_named(row.catalog, row.name, row.table_name)}"
        row = self._first(_PARTITION, keys, own)
        if row is not None:
            return f"it lies in a partition of the table {self._table_of(row.set_id)}"
        return None

    def _table_of(self, set_id: int) -> str:
        row = self._connection.execute(text(_TABLE_OF_SET), {"set_id": set_id}).one()
        return _named(row.catalog, row.name, row.table_name)

    def _first(self, statement: str, keys: list[str], own: int) -> Any:
        if not keys:
            # PostgreSQL takes an empty list for one of numbers.
            return None
        prepared = text(statement.format(condition="p.place IN :keys")).bindparams(bindparam("keys", expanding=True))
        return self._connection.execute(prepared, {"keys": keys, "table_id": own}).first()

    def _outside(self, places: Collection[str]) -> list[Any]:
        columns = select(DatabaseRow.catalog, DatabaseRow.name, DatabaseRow.document)
        statement = columns
        for place in places:
            bounds = _range(place)
            statement = statement.where(
                DatabaseRow.place.is_(None)
                | ~((DatabaseRow.place >= bounds["first"]) & (DatabaseRow.place < bounds["last"]))
                | DatabaseRow.document.like('%"managed_location":%')
            )
        return list(self._connection.execute(statement))

    def _described(self, row: Any) -> DatabasePlaces:
        fields = json.loads(row.document)
        locations = (fields.get("location"), fields.get("managed_location"))
        return DatabasePlaces(
            what=f"the database {_named(row.catalog, row.name)}",
            locations=tuple(each for each in locations if each),
            made=tuple(fields.get("made", ())),
        )


def _range(place: str) -> dict[str, str]:
    """The bounds of what lies in a place. The character after the slash is 0. Of one that is longer than its key all
    that begins so is taken for it.
    """
    below = place + "/"
    if len(below) > KEY_LENGTH_MAX:
        key = place[:KEY_LENGTH_MAX]
        return {"first": key, "last": key + "\U0010ffff"}
    return {"first": below, "last": place + "0"}


def _named(*names: str) -> str:
    return ".".join(name for number, name in enumerate(names) if number or name != "hive")
