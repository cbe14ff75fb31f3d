"""Pages of a database's tables of all kinds, in the order of their names by code points: one statement each.

The index `ix_tables_kind` begins with database and kind, so the statement takes the first rows of each kind and merges
them: it reads no more rows than a page for each kind, whatever the number of tables. The rows of an older interbed that
have no kind yet are one more part; their documents decide.

A prefix is a range of names: from itself to the least text above all texts that begin with it.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, case, literal, select, union_all

from interbed.catalog.server.database.documents import table_from
from interbed.catalog.server.database.engine import Statement
from interbed.catalog.server.database.models import DatabaseRow, TableRow
from interbed.catalog.server.service.model import ListedTable, TableKind

_LAST, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)

_COLUMNS = ("name", "kind", "owner", "comment", "table_type", "document")


def above(prefix: str) -> str | None:
    """Return the least text that is above all texts with a prefix, None if no text is."""
    for length in range(len(prefix), 0, -1):
        code = ord(prefix[length - 1]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST:
            return prefix[: length - 1] + chr(code)
    return None


def _part(kind: TableKind | None, name: Any, *, begins: bool, ends: bool) -> Any:
    """Return the first rows of one kind, None for those without one."""
    database = (
        select(DatabaseRow.id)
        .where(DatabaseRow.catalog == bindparam("catalog"), DatabaseRow.name == bindparam("database"))
        .scalar_subquery()
    )
    document = case((TableRow.kind.is_(None), TableRow.document), else_=literal(""))
    chosen = select(
        TableRow.name, TableRow.kind, TableRow.owner, TableRow.comment, TableRow.table_type, document.label("document")
    ).where(
        TableRow.database_id == database,
        TableRow.kind.is_(None) if kind is None else TableRow.kind == int(kind),
        name >= bindparam("after") if begins else name > bindparam("after"),
    )
    if ends:
        chosen = chosen.where(name < bindparam("end"))
    rows = chosen.order_by(name).limit(bindparam("limit")).subquery()
    return select(*(rows.c[column] for column in _COLUMNS))


def _form(collation: str | None, *, begins: bool, ends: bool) -> Any:
    name = TableRow.name if collation is None else TableRow.name.collate(collation)
    kinds: list[TableKind | None] = [*TableKind, None]
    rows = union_all(*(_part(kind, name, begins=begins, ends=ends) for kind in kinds)).subquery()
    order = rows.c.name if collation is None else rows.c.name.collate(collation)
    return select(*(rows.c[column] for column in _COLUMNS)).order_by(order).limit(bindparam("limit"))


_PAGES: Mapping[tuple[bool, bool], Statement] = {
    (begins, ends): Statement(_form("C", begins=begins, ends=ends), for_sqlite=_form(None, begins=begins, ends=ends))
    for begins in (False, True)
    for ends in (False, True)
}
"""By whether the name `after` is on the page, too, and whether there is an upper bound."""


def table_page(
    connection: Connection, catalog: str, database: str, after: str, limit: int, prefix: str
) -> list[ListedTable]:
    """Return up to `limit` tables of a database whose names come after one and begin with a prefix, in order."""
    end = above(prefix) if prefix else None
    values = {"catalog": catalog, "database": database, "after": max(after, prefix), "limit": limit}
    rows = _PAGES[after < prefix, end is not None].rows(connection, values if end is None else {**values, "end": end})
    return [_entry(*row) for row in rows]


def _entry(
    name: str, kind: int | None, owner: str | None, comment: str | None, table_type: str, document: str
) -> ListedTable:
    found = table_from("", "", name, table_type, document).kind if kind is None else TableKind(kind)
    return ListedTable(name=name, kind=found, owner=owner, comment=comment)
