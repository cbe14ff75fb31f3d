"""Catalogs, databases and user-defined functions in SQL, and single values of the metastore, such as its identity."""

import json

from sqlalchemy import Connection, bindparam, delete, select, update
from sqlalchemy.exc import IntegrityError

from interbed.catalog.server.database.documents import (
    database_document,
    database_from,
    function_document,
    function_from,
)
from interbed.catalog.server.database.engine import Statement, insert_unless_taken
from interbed.catalog.server.database.grants import follow
from interbed.catalog.server.database.models import CatalogRow, DatabaseRow, FunctionRow, PropertyRow
from interbed.catalog.server.service.access.objects import SecuredKind, owner_key
from interbed.catalog.server.service.directories.locations import indexed_place
from interbed.catalog.server.service.model import Function, MetastoreCatalog, MetastoreDatabase
from interbed.catalog.server.service.repository import StoredRow

# Statements are built once: the driver's own work is so short that composing them would be half of a read.
_NAMED = select(DatabaseRow.id, DatabaseRow.document).where(
    DatabaseRow.catalog == bindparam("catalog"), DatabaseRow.name == bindparam("name")
)
_FIND = Statement(_NAMED)
_FIND_FOR_UPDATE = Statement(_NAMED.with_for_update())
_FIND_FOR_CHILD = Statement(_NAMED.with_for_update(read=True, key_share=True))


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
