"""User-defined functions in SQL."""

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.exc import IntegrityError

from interbed.catalog.server.database.documents import function_document, function_from
from interbed.catalog.server.database.insert import insert_unless_taken
from interbed.catalog.server.database.models import DatabaseRow, FunctionRow
from interbed.catalog.server.service.model import Function
from interbed.catalog.server.service.store import Stored


class SqlFunctions:
    """Functions by catalog, database and name."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, catalog: str, database: str, name: str, *, for_update: bool = False) -> Stored[Function] | None:
        """The function with its row id, or None."""
        statement = (
            select(FunctionRow.id, FunctionRow.document)
            .join(DatabaseRow, DatabaseRow.id == FunctionRow.database_id)
            .where(DatabaseRow.catalog == catalog, DatabaseRow.name == database, FunctionRow.name == name)
        )
        if for_update:
            statement = statement.with_for_update(of=FunctionRow)
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else Stored(id=row.id, value=function_from(catalog, database, name, row.document))

    def select(self, catalog: str, database: str | None = None) -> list[Function]:
        """The functions of a database (of all databases if None), ordered by database and name."""
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
            database_id=database_id, name=function.name, document=function_document(function)
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def replace(self, function_id: int, database_id: int, function: Function) -> bool:
        """Store the function anew, perhaps under another name; False if that is taken, which ends the
        transaction.
        """
        try:
            self._connection.execute(
                update(FunctionRow)
                .where(FunctionRow.id == function_id)
                .values(database_id=database_id, name=function.name, document=function_document(function))
            )
        except IntegrityError:
            return False
        return True

    def remove(self, function_id: int) -> None:
        """Remove the function."""
        self._connection.execute(delete(FunctionRow).where(FunctionRow.id == function_id))
