"""Scheduled queries with their executions, and statistics of runs. Times are seconds since the epoch."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.base import Base, RowId


class ScheduledQueryRow(Base):
    """A query with its schedule. `active_execution` is the run that has begun and not ended; it refers to a row of
    executions, which refers to this one.
    """

    __tablename__ = "scheduled_queries"
    __table_args__ = (
        UniqueConstraint("namespace", "name"),
        Index("ix_scheduled_queries_due", "namespace", "next_execution"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    namespace: Mapped[str] = mapped_column(String(256))
    name: Mapped[str] = mapped_column(String(256))
    enabled: Mapped[bool] = mapped_column(Boolean)
    schedule: Mapped[str | None] = mapped_column(Text)
    user_name: Mapped[str | None] = mapped_column(Text)
    query: Mapped[str | None] = mapped_column(Text)
    next_execution: Mapped[int | None] = mapped_column(BigInteger)
    active_execution: Mapped[int | None] = mapped_column(BigInteger)


class ScheduledExecutionRow(Base):
    """A run of a scheduled query; it goes with it."""

    __tablename__ = "scheduled_executions"
    __table_args__ = (
        Index("ix_scheduled_executions_query_id", "query_id"),
        Index("ix_scheduled_executions_updated", "updated"),
        Index("ix_scheduled_executions_started", "started"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    query_id: Mapped[int] = mapped_column(ForeignKey("scheduled_queries.id", ondelete="CASCADE"))
    state: Mapped[int] = mapped_column(SmallInteger)
    started: Mapped[int] = mapped_column(BigInteger)
    updated: Mapped[int | None] = mapped_column(BigInteger)
    ended: Mapped[int | None] = mapped_column(BigInteger)
    executor_query_id: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)


class RuntimeStatisticsRow(Base):
    """What Hive learned from a run."""

    __tablename__ = "runtime_statistics"
    __table_args__ = (Index("ix_runtime_statistics_create_time", "create_time"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    create_time: Mapped[int] = mapped_column(BigInteger)
    weight: Mapped[int] = mapped_column(Integer)
    payload: Mapped[bytes] = mapped_column(LargeBinary)
