"""Tables of the optimizer's journal: the scheduler's lease, tables, processes, tasks, workers, groups, requests.

Documents are JSON, written by interbed.optimizer.journal.transaction. Times are milliseconds since the epoch.
`group_name` and `score` are for manual queries of the database: the optimizer reads the documents.
"""

from sqlalchemy import BigInteger, Double, Index, Integer, LargeBinary, SmallInteger, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from interbed.catalog.server.database.models.metastore import Base, RowId

# Names are ordered by code points, whatever the collation of the database. An index of PostgreSQL has room for 512
# characters of any kind.
_Name = String(512).with_variant(String(512, collation="C"), "postgresql")


class OptimizerLeaseRow(Base):
    """The scheduler's lease, in one row; its number is 0 until it is taken first."""

    __tablename__ = "optimizer_lease"

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    holder: Mapped[str] = mapped_column(_Name)
    number: Mapped[int] = mapped_column(BigInteger)
    until_millis: Mapped[int] = mapped_column(BigInteger)


class OptimizerTableRow(Base):
    """A table that the optimizer knows."""

    __tablename__ = "optimizer_tables"

    name: Mapped[str] = mapped_column(_Name, primary_key=True)
    group_name: Mapped[str] = mapped_column(Text)
    score: Mapped[int | None] = mapped_column(BigInteger)
    document: Mapped[str] = mapped_column(Text)


class OptimizerProcessRow(Base):
    """A process with its input and output."""

    __tablename__ = "optimizer_processes"
    __table_args__ = (
        Index("ix_optimizer_processes_table_name", "table_name", "created_millis"),
        Index("ix_optimizer_processes_created", "created_millis"),
        Index("ix_optimizer_processes_ended", "ended_millis"),
        Index("ix_optimizer_processes_state", "state"),
    )

    id: Mapped[str] = mapped_column(_Name, primary_key=True)
    table_name: Mapped[str] = mapped_column(_Name)
    kind: Mapped[str] = mapped_column(String(32))
    group_name: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(32))
    created_millis: Mapped[int] = mapped_column(BigInteger)
    ended_millis: Mapped[int | None] = mapped_column(BigInteger)
    tasks: Mapped[int] = mapped_column(Integer)
    seconds: Mapped[float] = mapped_column(Double)
    bytes_in: Mapped[int] = mapped_column(BigInteger)
    bytes_out: Mapped[int] = mapped_column(BigInteger)
    files_in: Mapped[int] = mapped_column(BigInteger)
    files_out: Mapped[int] = mapped_column(BigInteger)
    document: Mapped[str] = mapped_column(Text)


class OptimizerTaskRow(Base):
    """A task of a process that has not ended, with the bytes of its worker's input and result."""

    __tablename__ = "optimizer_tasks"

    process_id: Mapped[str] = mapped_column(_Name, primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(String(32))
    document: Mapped[str] = mapped_column(Text)
    payload: Mapped[bytes] = mapped_column(LargeBinary)
    result: Mapped[bytes | None] = mapped_column(LargeBinary)


class OptimizerWorkerRow(Base):
    """A worker. The scheduler stores all of them at once, in its order."""

    __tablename__ = "optimizer_workers"

    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    document: Mapped[str] = mapped_column(Text)


class OptimizerGroupRow(Base):
    """A group of workers. The scheduler stores all of them at once, in its order."""

    __tablename__ = "optimizer_groups"

    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    document: Mapped[str] = mapped_column(Text)


class OptimizerRequestRow(Base):
    """A request for one table. An id is given out once: storing an answer again takes no later one."""

    __tablename__ = "optimizer_requests"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    table_name: Mapped[str] = mapped_column(_Name)
    kind: Mapped[str] = mapped_column(String(32))
    work: Mapped[str | None] = mapped_column(String(32))
