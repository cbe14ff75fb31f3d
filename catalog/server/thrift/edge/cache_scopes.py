"""Scopes of cached answers: the metadata that an answer depends on, by the arguments of its call."""

from collections.abc import Callable, Iterator
from typing import Any

from interbed.catalog.server.service.events import EventType
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.thrift.structs.convert import split_catalog

Scope = tuple[str, ...]
"""The objects that an answer depends on: (catalog, database, table), or fewer of them for everything below. In place of
a database or a table, NAMES is the list of their names, _TYPES the list of tables with their types, and _ITSELF the
database without its tables.
"""

# No name has these characters.
NAMES = "*names"
_TYPES = "*types"
_ITSELF = "*itself"

_LEAVES_NAMES = frozenset(
    {
        EventType.ADD_PARTITION,
        EventType.ALTER_PARTITION,
        EventType.DROP_PARTITION,
        EventType.INSERT,
        EventType.ADD_PRIMARYKEY,
        EventType.ADD_FOREIGNKEY,
        EventType.ADD_UNIQUECONSTRAINT,
        EventType.ADD_NOTNULLCONSTRAINT,
        EventType.ADD_DEFAULTCONSTRAINT,
        EventType.ADD_CHECKCONSTRAINT,
        EventType.DROP_CONSTRAINT,
        EventType.UPDATE_TABLE_COLUMN_STAT,
        EventType.UPDATE_PARTITION_COLUMN_STAT,
        EventType.DELETE_TABLE_COLUMN_STAT,
        EventType.DELETE_PARTITION_COLUMN_STAT,
    }
)
"""Events of a table that do not change the lists of tables."""


def with_owners(scope: Scope) -> Scope:
    """Return the scope of an answer that also depends on owners: a caller sees a database in which it owns a table."""
    return scope[:-1] if scope and scope[-1] in (NAMES, _TYPES, _ITSELF) else scope


def scopes_of_table(kind: str, catalog: str, database: str, table: str, *, renamed: bool) -> Iterator[Scope]:
    yield ()
    yield (catalog,)
    yield (catalog, database)
    yield (catalog, database, table)
    if kind not in _LEAVES_NAMES:
        yield (catalog, database, _TYPES)
        if renamed or kind != EventType.ALTER_TABLE:
            yield (catalog, database, NAMES)


def tables_scope(catalog: str, database: str) -> Scope:
    """Return the scope of the lists of a database's tables by their kinds; names in lower case."""
    return (catalog, database, _TYPES)


def database_scope(catalog: str, database: str) -> Scope:
    """Return the scope of a database without its tables; names in lower case."""
    return (catalog, database, _ITSELF)


def _table(database: str | None, table: str | None, catalog: str | None = None) -> Scope:
    split, name = split_catalog(database, catalog)
    return (split, normalized(name), normalized(table))


def _database(database: str | None, catalog: str | None = None) -> Scope:
    split, name = split_catalog(database, catalog)
    return (split, normalized(name))


def _databases(pattern: str | None, catalog: str | None = None) -> Scope:
    return (split_catalog(pattern, catalog)[0], NAMES)


def _plain(call: Any) -> Scope:
    return _table(call.db_name, call.tbl_name)


SCOPES: dict[str, Callable[[Any], Scope]] = {
    "get_database": lambda call: (*_database(call.name), _ITSELF),
    "get_database_req": lambda call: (*_database(call.request.name, call.request.catalogName), _ITSELF),
    "get_databases": lambda call: _databases(call.pattern),
    "get_all_databases": lambda call: (DEFAULT_CATALOG, NAMES),
    "get_table": lambda call: _table(call.dbname, call.tbl_name),
    "get_table_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_fields": lambda call: _table(call.db_name, call.table_name),
    "get_fields_with_environment_context": lambda call: _table(call.db_name, call.table_name),
    "get_fields_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_schema": lambda call: _table(call.db_name, call.table_name),
    "get_schema_with_environment_context": lambda call: _table(call.db_name, call.table_name),
    "get_schema_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_all_tables": lambda call: (*_database(call.db_name), NAMES),
    "get_tables": lambda call: (*_database(call.db_name), NAMES),
    "get_tables_by_type": lambda call: (*_database(call.db_name), _TYPES),
    "get_table_objects_by_name": lambda call: _database(call.dbname),
    "get_table_objects_by_name_req": lambda call: _database(call.req.dbName, call.req.catName),
    "get_partition": _plain,
    "get_partition_with_auth": _plain,
    "get_partition_by_name": _plain,
    "get_partitions": _plain,
    "get_partitions_with_auth": _plain,
    "get_partitions_by_names": _plain,
    "get_partitions_by_filter": _plain,
    "get_partitions_ps": _plain,
    "get_partitions_ps_with_auth": _plain,
    "get_num_partitions_by_filter": _plain,
    "get_partition_names": _plain,
    "get_partition_names_ps": _plain,
    "get_partitions_by_filter_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_partitions_ps_with_auth_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_partition_names_ps_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_table_column_statistics": _plain,
    "get_table_statistics_req": lambda call: _table(call.request.dbName, call.request.tblName, call.request.catName),
    "get_functions": lambda call: _database(call.dbName),
    "get_function": lambda call: _database(call.dbName),
    "get_all_functions": lambda call: (),
}
