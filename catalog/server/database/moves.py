"""Directory moves that have begun, and single values, in SQL."""

from sqlalchemy import Connection, delete, insert, select

from interbed.catalog.server.database.models import MoveRow, PropertyRow
from interbed.catalog.server.database.statement import insert_unless_taken
from interbed.catalog.server.service.store import DirectoryMove


class SqlMoves:
    """Moves by id."""

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
        """The move, or None if it is over."""
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
        """Remove a move; False if it is over already."""
        return self._connection.execute(delete(MoveRow).where(MoveRow.id == move_id)).rowcount == 1

    def pending(self) -> list[int]:
        """The ids of all moves, oldest first."""
        return list(self._connection.scalars(select(MoveRow.id).order_by(MoveRow.id)))


class SqlProperties:
    """Single values by name."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """The value, or None."""
        return self._connection.execute(select(PropertyRow.value).where(PropertyRow.name == name)).scalar_one_or_none()

    def keep(self, name: str, value: str) -> str:
        """Store the value unless there is one, and return what is stored."""
        statement = insert_unless_taken(self._connection, PropertyRow, PropertyRow.value).values(name=name, value=value)
        stored: str | None = self._connection.execute(statement).scalar_one_or_none()
        if stored is None:
            # Another server was first; its value is committed, for the insert has waited for it.
            stored = self.get(name)
        return value if stored is None else stored
