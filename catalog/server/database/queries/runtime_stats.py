"""Statistics of runs in SQL."""

from sqlalchemy import Connection, delete, insert, select

from interbed.catalog.server.database.models import RuntimeStatisticsRow
from interbed.catalog.server.service.schedule import RuntimeStatistics


class SqlRunStatistics:
    """Statistics of runs by their age."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, statistics: RuntimeStatistics) -> None:
        """Store statistics."""
        self._connection.execute(
            insert(RuntimeStatisticsRow).values(
                create_time=statistics.create_time, weight=statistics.weight, payload=statistics.payload
            )
        )

    def newest(self, created_before: int | None) -> list[RuntimeStatistics]:
        """Those created before a time (all if None), newest first."""
        statement = select(RuntimeStatisticsRow.__table__).order_by(
            RuntimeStatisticsRow.create_time.desc(), RuntimeStatisticsRow.id.desc()
        )
        if created_before is not None:
            statement = statement.where(RuntimeStatisticsRow.create_time < created_before)
        return [
            RuntimeStatistics(create_time=row.create_time, weight=row.weight, payload=row.payload)
            for row in self._connection.execute(statement)
        ]

    def expire(self, created_before: int) -> int:
        """Remove those created before a time; their number."""
        statement = delete(RuntimeStatisticsRow).where(RuntimeStatisticsRow.create_time < created_before)
        return int(self._connection.execute(statement).rowcount)
