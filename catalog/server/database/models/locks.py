"""Counters, and locks with what they cover."""

from sqlalchemy import BigInteger, Index, Integer, SmallInteger, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.base import Base


class SequenceRow(Base):
    """Counters that must never skip back: the last value given out."""

    __tablename__ = "sequences"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[int] = mapped_column(BigInteger)


class LockRow(Base):
    """A lock held or waited for; times are milliseconds since the epoch.

    `components` is a document of all that the lock covers. `database_name` is set where that is in one database,
    `table_name` where it is one table of it: a lock is found by them, and one that has none may touch anything. The
    names need not exist, so that nothing here refers to databases or tables. `processes` are the marks, one behind the
    other and all of one length, of the server's processes with an open connection that asked for the lock or renewed
    it; `orphaned_at_ms` is when the last of these connections broke.
    """

    __tablename__ = "locks"
    __table_args__ = (Index("ix_locks_database_name", "database_name", "table_name"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    state: Mapped[int] = mapped_column(SmallInteger)
    user_name: Mapped[str] = mapped_column(Text)
    host: Mapped[str] = mapped_column(Text)
    agent: Mapped[str] = mapped_column(Text)
    requested_at_ms: Mapped[int] = mapped_column(BigInteger)
    acquired_at_ms: Mapped[int | None] = mapped_column(BigInteger)
    heartbeat_at_ms: Mapped[int] = mapped_column(BigInteger)
    heartbeat_count: Mapped[int] = mapped_column(Integer, default=0)
    database_name: Mapped[str | None] = mapped_column(Text)
    table_name: Mapped[str | None] = mapped_column(Text)
    components: Mapped[str] = mapped_column(Text, server_default="[]")
    processes: Mapped[str] = mapped_column(Text, server_default="")
    orphaned_at_ms: Mapped[int | None] = mapped_column(BigInteger)
