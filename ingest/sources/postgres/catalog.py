"""What a database knows of types and keys, looked up when a message needs it."""

from collections.abc import Callable
from typing import Any

from interbed.ingest.sources.postgres.connection import Connections


class DatabaseCatalog:
    """Types below domains and arrays, and primary keys. Types do not change below their number; so they are kept."""

    def __init__(self, connections: Connections, connection: Callable[[], Any]) -> None:
        self._connections = connections
        self._connection = connection
        self._types: dict[int, tuple[str, int, int, int, str]] = {}

    def base_type(self, oid: int, modifier: int) -> tuple[int, int, str | None]:
        """The type below domains and arrays, with its modifier (-1 for none), and what is between the elements where it
        is an array of that.
        """
        between: str | None = None
        while True:
            kind, base, base_modifier, element, delimiter = self._of(oid)
            if kind == "d":
                oid, modifier = base, base_modifier
            elif element and between is None:
                oid, between = element, delimiter
            else:
                return oid, modifier, between

    def primary_key(self, relation: int) -> tuple[str, ...]:
        """The columns of the primary key of a table, in its order; empty where it has none, or is gone."""
        return tuple(name for (name,) in self._connections.rows(self._connection(), _PRIMARY_KEY, [relation]))

    def _of(self, oid: int) -> tuple[str, int, int, int, str]:
        if oid not in self._types:
            found = self._connections.rows(self._connection(), _TYPE, [oid])
            # One that was dropped since is a text, which every type is in a message.
            self._types[oid] = found[0] if found else ("b", 0, -1, 0, ",")
        return self._types[oid]


_TYPE = """
    SELECT t.typtype::text, t.typbasetype::int8, t.typtypmod,
    CASE WHEN e.typarray = t.oid THEN t.typelem::int8 ELSE 0 END, COALESCE(e.typdelim::text, ',')
    FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem
    WHERE t.oid = %s
"""
"""Vectors of the system and points have elements as well, and are no arrays: theirs has another type for those."""
_PRIMARY_KEY = """
    SELECT a.attname
    FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = %s AND i.indisprimary AND i.indimmediate
    ORDER BY k.place
"""
"""A DEFERRABLE key is none: see refusals.py."""
