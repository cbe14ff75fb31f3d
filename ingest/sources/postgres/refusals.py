"""Tables of a database that can't become tables of a lake, found before anything is read."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from interbed.ingest.flow.changes import SourceTable
from interbed.ingest.formats.postgres.types import TypeLookup, column_type
from interbed.ingest.sources.postgres.connection import Connections
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.schema.table_schema import Schema


def refused_tables(
    connections: Connections,
    connection: Any,
    publication: str,
    tables: Iterable[SourceTable],
    is_wanted: Callable[[SourceTable], bool],
    lookup: TypeLookup,
) -> Mapping[SourceTable, str]:
    """Why tables that are wanted can't be taken; of a publication's column list only its columns count."""
    refused: dict[SourceTable, str] = {}
    wanted: list[SourceTable] = []
    for table in tables:
        try:
            if is_wanted(table):
                wanted.append(table)
        except InvalidInputError as error:
            # A name that no table of a lake can have.
            refused[table] = str(error)
    if not wanted:
        return refused
    # Publications choose columns since version 15.
    chosen = "pt.attnames::text[]" if connection.info.server_version >= 150000 else "NULL::text[]"
    with connections.errors("The tables can't be looked at"):
        found = connection.execute(
            _COLUMNS.replace("CHOSEN", chosen).encode(),
            [publication, [t.database for t in wanted], [t.name for t in wanted]],
        ).fetchall()
    columns: dict[SourceTable, list[tuple[Any, ...]]] = {table: [] for table in wanted}
    for schema, name, *column in found:
        columns[SourceTable(schema, name)].append(tuple(column))
    for table, of_table in columns.items():
        if (why := _whats_wrong(of_table, lookup)) is not None:
            refused[table] = why
    return refused


def _whats_wrong(columns: "list[tuple[Any, ...]]", lookup: TypeLookup) -> str | None:
    fields = []
    keys = []
    lower: dict[str, str] = {}
    for name, oid, modifier, dimensions, shown, is_key in columns:
        if dimensions > 1:
            return f"its column {name!r} is a {shown}, an array of {dimensions} dimensions, which becomes no column"
        if (other := lower.setdefault(name.lower(), name)) != name:
            return (
                f"its columns {other!r} and {name!r} differ by case alone, which metastores and SQL don't distinguish"
            )
        fields.append(pa.field(name, column_type(oid, modifier, lookup).type, nullable=not is_key))
        keys += [name] if is_key else []
    try:
        Schema.from_pyarrow_schema(pa.schema(fields), primary_keys=keys).to_table_schema()
    except InvalidInputError as error:
        return str(error)
    return None


_COLUMNS = """
    SELECT n.nspname, c.relname, a.attname, a.atttypid::int8, a.atttypmod, GREATEST(a.attndims, t.typndims),
    format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attndims > 1 THEN repeat('[]', a.attndims - 1) ELSE '' END,
    EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey::int2[])
        AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
    )
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_publication_tables pt ON pt.pubname = %s AND pt.schemaname = n.nspname AND pt.tablename = c.relname
    WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    AND (CHOSEN IS NULL OR a.attname = ANY (CHOSEN))
    ORDER BY 1, 2, a.attnum
"""
