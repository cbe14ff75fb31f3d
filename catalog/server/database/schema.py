"""The database's schema: migration when a server starts, and by hand to any revision; and what servers add to rows and
indexes of older releases.

The migrations are Alembic's and are installed with the package as interbed/migrations. Several servers may start at
once on one database: the first takes a lock and migrates, the others find nothing left to do.

The index `ix_tables_kind` has database, kind, name and type of each table: a page of names of one kind is a range of
it. On SQLite the migration makes it. On PostgreSQL each start of a server looks for it and builds it concurrently,
which does not lock writers out: without it, or while it is built, lists are slower and the same.

Rows without a kind are read by lists, and filled in the background by many short writes. A kill between them leaves
the others for the next server.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, inspect, select, text, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from interbed.catalog.server.database.documents import table_from
from interbed.catalog.server.database.engine import DatabaseError, Statement
from interbed.catalog.server.database.models import DatabaseRow, TableRow
from interbed.catalog.server.service.model import TableKind

logger = logging.getLogger(__name__)

_POSTGRES_LOCK = 0x1E7E_4BED
"""Number of the advisory lock under which servers migrate: arbitrary, but never changed."""

INDEX = "ix_tables_kind"

_ROWS_AT_ONCE = 500
_NAMES_AT_ONCE = 1000
_BUILD_LOCK = 0x1E7E_4B1D
"""Number of the advisory lock of the server that builds the index: arbitrary, but never changed."""


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the database to a revision. DatabaseError if it cannot be reached, or if a newer interbed has
    migrated it.
    """
    _migrate(engine, revision, up=True)
    if revision == "head":
        build_index(engine)


def downgrade(engine: Engine, revision: str) -> None:
    """Downgrade the database to an earlier revision, `base` for an empty one. The content of newer tables is lost."""
    _migrate(engine, revision, up=False)


def current_revision(engine: Engine) -> str | None:
    """Return the revision of the database; None if it has no tables of interbed."""
    with engine.connect() as connection:
        return revision_of(connection)


def revision_of(connection: Connection) -> str | None:
    """Return the revision of the database in a transaction; None if it has no tables of interbed."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def check_revision(revision: str | None) -> None:
    """Raise DatabaseError for the revision of a database that this version of interbed does not work on."""
    if revision != latest_revision():
        raise DatabaseError(
            "the database is no interbed metastore's, or of another version; start `interbed server` on it once"
        )


def check_current(engine: Engine) -> None:
    """Raise DatabaseError for a database of another revision than this version's, or one that cannot be reached."""
    try:
        check_revision(current_revision(engine))
    except SQLAlchemyError as error:
        raise _unusable(engine, error) from error


def is_current(engine: Engine) -> bool:
    """Return whether the database is at the revision of this version of interbed. DatabaseError if it cannot be
    reached.
    """
    try:
        return current_revision(engine) == latest_revision()
    except SQLAlchemyError as error:
        raise _unusable(engine, error) from error


def latest_revision() -> str:
    """Return the revision that this version of interbed requires: that of the last migration, the prefix of its file
    name.
    """
    return max(path.name for path in (migrations_directory() / "versions").glob("[0-9]*_*.py")).partition("_")[0]


def migrations_directory() -> Path:
    """Return the directory of the migrations: in the installed package, or behind its link in a checkout."""
    return Path(__file__).parents[3] / "migrations"


def _of_database(condition: Any, *columns: Any, begins: bool = False) -> Statement:
    """Return the statement of a page of a database's rows, in the order of their names by code points.

    With `begins` the name `after` itself is on it. There is one lower bound: SQLite would seek by the first of two.

    The database is found by a subquery: PostgreSQL does not know that a join has one row, and would sort all.
    """
    database = (
        select(DatabaseRow.id)
        .where(DatabaseRow.catalog == bindparam("catalog"), DatabaseRow.name == bindparam("database"))
        .scalar_subquery()
    )

    def form(name: Any) -> Any:
        return (
            select(*columns)
            .where(
                TableRow.database_id == database,
                name >= bindparam("after") if begins else name > bindparam("after"),
                condition,
            )
            .order_by(name)
            .limit(bindparam("limit"))
        )

    return Statement(form(TableRow.name.collate("C")), for_sqlite=form(TableRow.name))


# By whether the name `after` is on the page, too.
_NAMES = {
    begins: _of_database(TableRow.kind == bindparam("kind"), TableRow.name, begins=begins) for begins in (False, True)
}


_UNKNOWN = {
    begins: _of_database(TableRow.kind.is_(None), TableRow.name, TableRow.table_type, TableRow.document, begins=begins)
    for begins in (False, True)
}


_FILL = Statement(
    update(TableRow)
    .where(TableRow.id == bindparam("table_id"), TableRow.kind.is_(None))
    .values(kind=bindparam("new_kind"))
)


# Each database is a range of the index.
_UNFILLED = (
    select(TableRow.id, TableRow.table_type, TableRow.document)
    .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
    .where(TableRow.kind.is_(None))
    .limit(bindparam("limit"))
)


def names_of_kinds(
    connection: Connection,
    keys: Mapping[str, str],
    kinds: Collection[TableKind],
    after: str,
    limit: int,
    prefix: str = "",
) -> list[str]:
    """Return up to `limit` names of a database's tables of these kinds that come after one and begin with a prefix, in
    order.
    """
    found: list[str] = []
    for kind in sorted(int(each) for each in kinds):
        found += _names_of_kind(connection, {**keys, "kind": kind}, after, limit, prefix)
    found += _unknown_names(connection, keys, kinds, after, limit, prefix)
    # Sorted parts are merged in linear time.
    found.sort()
    return found[:limit]


def _names_of_kind(connection: Connection, keys: Mapping[str, Any], after: str, limit: int, prefix: str) -> list[str]:
    """Return the names of one kind. Those with a prefix are a range of the index, which ends at another name."""
    found: list[str] = []
    begins = after < prefix
    while len(found) < limit:
        wanted = min(limit - len(found), _NAMES_AT_ONCE) if prefix else limit
        rows = _NAMES[begins].rows(connection, {**keys, "after": max(after, prefix), "limit": wanted})
        part = [name for (name,) in rows if name.startswith(prefix)]
        found += part
        if len(part) < wanted:
            break
        after, begins = part[-1], False
    return found


def _unknown_names(
    connection: Connection,
    keys: Mapping[str, Any],
    kinds: Collection[TableKind],
    after: str,
    limit: int,
    prefix: str,
) -> list[str]:
    """Return the names among the rows without a kind."""
    found: list[str] = []
    begins = after < prefix
    while len(found) < limit:
        rows = _UNKNOWN[begins].rows(connection, {**keys, "after": max(after, prefix), "limit": _ROWS_AT_ONCE})
        found += [name for name, kind in _decided(rows) if kind in kinds and name.startswith(prefix)]
        if len(rows) < _ROWS_AT_ONCE or not rows[-1][0].startswith(prefix):
            break
        after, begins = rows[-1][0], False
    return found


def _decided(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, TableKind]]:
    """Return the first value and the kind of each row."""
    for key, table_type, document in rows:
        yield key, table_from("", "", "", table_type, document).kind


def fill_kinds(connection: Connection, limit: int) -> int:
    """Store the kinds of up to `limit` rows that have none; return their number."""
    is_sqlite = connection.dialect.name == "sqlite"
    # A row that another transaction changes gets its kind there.
    statement = _UNFILLED if is_sqlite else _UNFILLED.with_for_update(of=TableRow, skip_locked=True)
    rows = connection.execute(statement, {"limit": limit}).all()
    if rows:
        _FILL.change_many(connection, [{"table_id": key, "new_kind": int(kind)} for key, kind in _decided(rows)])
    return len(rows)


def build_index(engine: Engine) -> None:
    """Build the index on PostgreSQL unless it is there or another server builds it. A failure is logged."""
    if engine.dialect.name != "postgresql":
        return
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            _build(connection)
    except DBAPIError as error:
        logger.warning("could not build the index %s, which only makes lists slower: %s", INDEX, error.orig)


def _migrate(engine: Engine, revision: str, *, up: bool) -> None:
    if up and revision == "head" and is_current(engine):
        return
    try:
        with engine.execution_options(interbed_write=True).connect() as connection, connection.begin():
            _exclude_others(connection)
            _run(connection, revision, up=up)
    except SQLAlchemyError as error:
        raise _unusable(engine, error) from error


def create_within(connection: Connection, revision: str) -> None:
    """Create the tables of a revision in an empty database, in the transaction of the connection, which is that of a
    writer. DatabaseError for a revision that this version of interbed does not know.
    """
    _exclude_others(connection)
    _run(connection, revision, up=True)


def _run(connection: Connection, revision: str, *, up: bool) -> None:
    # A server without a pending migration, which is almost every one, starts without Alembic: that saves a tenth of the
    # time until it listens.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(migrations_directory()).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        (command.upgrade if up else command.downgrade)(config, revision)
    except CommandError as error:
        raise DatabaseError(f"the metastore's database does not fit this version of interbed: {error}") from error


def _unusable(engine: Engine, error: SQLAlchemyError) -> DatabaseError:
    cause = getattr(error, "orig", None) or error
    return DatabaseError(f"the metastore's database {engine.url!s} cannot be used: {cause}")


def _exclude_others(connection: Connection) -> None:
    # SQLite's writers exclude each other anyway. This lock is released with the transaction.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})")


def _build(connection: Connection) -> None:
    lock = {"lock": _BUILD_LOCK}
    if _is_built(connection) or not connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), lock).scalar():
        return
    try:
        if _is_built(connection):
            # By another server, before this one had the lock.
            return
        # What a kill has left of an earlier attempt.
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}")
        connection.exec_driver_sql(
            f'CREATE INDEX CONCURRENTLY {INDEX} ON tables (database_id, kind, name COLLATE "C", table_type)'
        )
    finally:
        connection.execute(text("SELECT pg_advisory_unlock(:lock)"), lock)


def _is_built(connection: Connection) -> bool:
    state = text(
        "SELECT i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid "
        "WHERE c.relname = :name AND pg_table_is_visible(i.indrelid)"
    )
    return bool(connection.execute(state, {"name": INDEX}).scalar())
