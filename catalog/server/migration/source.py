"""Sources of metadata: a metastore of any version since 2.3, interbed's own database, or an export file.

Objects are the structures of Hive's interface; databases and tables are named by (catalog, database, table). A method
that a metastore lacks is skipped with a note: an older one has no catalogs, or no constraints of some kind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from interbed.catalog.server.migration.connection import ObjectGoneError, SourceConnection
from interbed.catalog.server.migration.record import CONSTRAINTS, MissingMethodError, RefusedError, constraints_by_name
from interbed.catalog.server.service.model import DEFAULT_CATALOG, MetastoreColumn
from interbed.catalog.server.service.names import partition_name
from interbed.thrift_idl.hive_metastore import ttypes

TABLES_AT_ONCE = 100
"""Tables that one call asks for."""

PARTITIONS_AT_ONCE = 1000
PARTITION_COLUMNS_AT_ONCE = 100_000
"""Partitions that one call asks for, and the total of their columns: each partition comes with all of its own."""

ENGINE = "hive"


class Source(Protocol):
    """A source of metadata. Objects that disappear while they are read are left out."""

    name: str
    notes: list[str]
    """Notes about unsupported calls, once each."""

    def catalogs(self) -> list[str]: ...
    def catalog(self, name: str) -> Any | None: ...
    def databases(self, catalog: str) -> list[str]: ...
    def database(self, catalog: str, name: str) -> Any | None: ...
    def functions(self, catalog: str, database: str) -> dict[str, Any]: ...
    def tables(self, catalog: str, database: str) -> list[str]: ...
    def table_objects(
        self, catalog: str, database: str, names: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, RefusedError]]:
        """Return the tables of these names, and those that the metastore refused to return."""
        ...

    def constraints(self, catalog: str, database: str, table: str) -> dict[str, list[Any]]:
        """Return the structures of each constraint by its kind and name, `primaryKeys pk1`."""
        ...

    def table_statistics(self, catalog: str, database: str, table: Any) -> dict[str, Any]:
        """Return the statistics of a table by column."""
        ...

    def partition_names(self, catalog: str, database: str, table: str) -> Iterator[str]:
        """Yield the names in any order; no other call is allowed before the last one is read."""
        ...

    def partitions(self, catalog: str, database: str, table: Any, names: Sequence[str]) -> dict[str, Any]:
        """Return the partitions of these names."""
        ...

    def partition_statistics(
        self, catalog: str, database: str, table: Any, names: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """Return the statistics by partition and column."""
        ...

    def role_names(self) -> list[str]:
        """Return the names of all roles. RefusedError if the source does not list them."""
        ...

    def role_members(self, role: str) -> list[Any]:
        """Return the members of a role, as RolePrincipalGrant."""
        ...

    def privileges(self) -> list[Any]:
        """Return all grants, as HiveObjectPrivilege."""
        ...

    def close(self) -> None: ...


class MetastoreSource:
    """A metastore behind a connection. Older methods are tried first: newer servers still know most of them."""

    def __init__(self, connection: SourceConnection) -> None:
        self.name = connection.name
        self.notes: list[str] = []
        self._connection = connection
        self._missing: set[str] = set()

    def close(self) -> None:
        """Close the connection to the metastore."""
        self._connection.close()

    def catalogs(self) -> list[str]:
        """Return the names of all catalogs; `hive` alone before Hive 3."""
        answer = self._first(("get_catalogs",))
        return [DEFAULT_CATALOG] if answer is None else sorted(answer.names)

    def catalog(self, name: str) -> Any | None:
        """Return a Catalog, or None where there are none."""
        try:
            answer = self._first(("get_catalog", ttypes.GetCatalogRequest(name=name)))
        except ObjectGoneError:
            return None
        return None if answer is None else answer.catalog

    def databases(self, catalog: str) -> list[str]:
        """Return the names of a catalog's databases."""
        if catalog == DEFAULT_CATALOG:
            return sorted(self._connection.call("get_all_databases"))
        return sorted(self._connection.call("get_databases", _qualified(catalog, "")))

    def database(self, catalog: str, name: str) -> Any | None:
        """Return a Database, or None."""
        request = ttypes.GetDatabaseRequest(name=name, catalogName=catalog)
        try:
            return self._first(("get_database", _qualified(catalog, name)), ("get_database_req", request))
        except ObjectGoneError:
            return None

    def functions(self, catalog: str, database: str) -> dict[str, Any]:
        """Return the functions of a database."""
        qualified = _qualified(catalog, database)
        names = self._first(("get_functions", qualified, "*"))
        found = {}
        for name in names or ():
            try:
                found[name.lower()] = self._connection.call("get_function", qualified, name)
            except ObjectGoneError:
                continue
        return found

    def tables(self, catalog: str, database: str) -> list[str]:
        """Return the names of all tables and views of a database."""
        try:
            return sorted(self._connection.call("get_all_tables", _qualified(catalog, database)))
        except ObjectGoneError:
            return []

    def table_objects(
        self, catalog: str, database: str, names: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, RefusedError]]:
        """Return the tables by name. If the metastore refuses them together, each is asked for alone."""
        request = ttypes.GetTablesRequest(
            dbName=database,
            tblNames=list(names),
            capabilities=_capabilities(),
            catName=None if catalog == DEFAULT_CATALOG else catalog,
        )
        try:
            answer = self._first(
                ("get_table_objects_by_name_req", request),
                ("get_table_objects_by_name", _qualified(catalog, database), list(names)),
            )
        except ObjectGoneError:
            return {}, {}
        except RefusedError:
            return self._tables_one_by_one(catalog, database, names)
        tables = getattr(answer, "tables", answer)
        return {table.tableName.lower(): table for table in tables or ()}, {}

    def constraints(self, catalog: str, database: str, table: str) -> dict[str, list[Any]]:
        """Return all constraints of a table, by one call where the metastore has it."""
        lists = self._all_constraints(catalog, database, table)
        found = {}
        for kind, structs in lists.items():
            found.update(constraints_by_name(kind, structs))
        return found

    def table_statistics(self, catalog: str, database: str, table: Any) -> dict[str, Any]:
        """Return the statistics of the table's own columns, without the time of their making: no method returns it for
        all.
        """
        columns = column_names(table)
        if not columns:
            return {}
        request = ttypes.TableStatsRequest(
            dbName=database, tblName=table.tableName, colNames=columns, catName=catalog, engine=ENGINE
        )
        try:
            answer = self._first(("get_table_statistics_req", request))
        except ObjectGoneError:
            return {}
        return {} if answer is None else {each.colName.lower(): each for each in answer.tableStats or ()}

    def partition_names(self, catalog: str, database: str, table: str) -> Iterator[str]:
        """Yield the names of all partitions."""
        try:
            yield from self._connection.partition_names(_qualified(catalog, database), table)
        except ObjectGoneError:
            return

    def partitions(self, catalog: str, database: str, table: Any, names: Sequence[str]) -> dict[str, Any]:
        """Return the partitions by name."""
        qualified = _qualified(catalog, database)
        request = ttypes.GetPartitionsByNamesRequest(
            db_name=qualified, tbl_name=table.tableName, names=list(names), get_col_stats=False
        )
        try:
            answer = self._first(
                ("get_partitions_by_names", qualified, table.tableName, list(names)),
                ("get_partitions_by_names_req", request),
            )
        except ObjectGoneError:
            return {}
        keys = key_columns(table)
        partitions = getattr(answer, "partitions", answer)
        return {partition_name(keys, each.values): each for each in partitions or ()}

    def partition_statistics(
        self, catalog: str, database: str, table: Any, names: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """Return the statistics of the partitions that have some."""
        columns = column_names(table)
        if not columns or not names:
            return {}
        request = ttypes.PartitionsStatsRequest(
            dbName=database,
            tblName=table.tableName,
            colNames=columns,
            partNames=list(names),
            catName=catalog,
            engine=ENGINE,
        )
        try:
            answer = self._first(("get_partitions_statistics_req", request))
        except ObjectGoneError:
            return {}
        if answer is None:
            return {}
        return {
            name: {each.colName.lower(): each for each in statistics}
            for name, statistics in answer.partStats.items()
            if statistics
        }

    def role_names(self) -> list[str]:
        """Return the names of all roles."""
        return list(self._connection.call("get_role_names"))

    def role_members(self, role: str) -> list[Any]:
        """Return the members of a role."""
        request = ttypes.GetPrincipalsInRoleRequest(roleName=role)
        return list(self._connection.call("get_principals_in_role", request).principalGrants or ())

    def privileges(self) -> list[Any]:
        """Return the grants on all objects to all principals."""
        return list(self._connection.call("list_privileges", None, None, ttypes.HiveObjectRef()) or ())

    def _tables_one_by_one(
        self, catalog: str, database: str, names: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, RefusedError]]:
        found: dict[str, Any] = {}
        refused: dict[str, RefusedError] = {}
        for name in names:
            request = ttypes.GetTableRequest(
                dbName=database, tblName=name, capabilities=_capabilities(), catName=catalog, engine=ENGINE
            )
            try:
                answer = self._first(("get_table_req", request), ("get_table", _qualified(catalog, database), name))
            except ObjectGoneError:
                continue
            except RefusedError as error:
                refused[name] = error
                continue
            found[name] = answer.table if isinstance(answer, ttypes.GetTableResult) else answer
        return found, refused

    def _all_constraints(self, catalog: str, database: str, table: str) -> dict[str, list[Any]]:
        whole = ttypes.AllTableConstraintsRequest(dbName=database, tblName=table, catName=catalog)
        try:
            answer = self._first(("get_all_table_constraints", whole), noted=False)
            if answer is not None:
                together = answer.allTableConstraints
                return {kind: getattr(together, kind) or [] for kind in CONSTRAINTS}
            return {kind: self._constraints_of(kind, catalog, database, table) for kind in CONSTRAINTS}
        except ObjectGoneError:
            return {}

    def _constraints_of(self, kind: str, catalog: str, database: str, table: str) -> list[Any]:
        method, request = _CONSTRAINT_REQUESTS[kind](catalog, database, table)
        answer = self._first((method, request))
        return [] if answer is None else getattr(answer, kind) or []

    def _first(self, *calls: tuple[Any, ...], noted: bool = True) -> Any:
        """Return the answer to the first of these calls that the metastore knows, None if it knows none."""
        for method, *arguments in calls:
            if method in self._missing:
                continue
            try:
                return self._connection.call(method, *arguments)
            except MissingMethodError:
                self._missing.add(method)
                if noted and method == calls[-1][0]:
                    self.notes.append(f"{self.name} does not know {method}; what it would return was left out")
        return None


def column_names(table: Any) -> list[str]:
    """Return the columns of a table that may have statistics: its own, not its partition keys."""
    return [column.name for column in (table.sd.cols if table.sd is not None else None) or ()]


def key_columns(table: Any) -> list[MetastoreColumn]:
    """Return the partition keys of a Table structure."""
    return [MetastoreColumn(name=key.name, type=key.type) for key in table.partitionKeys or ()]


def partitions_at_once(table: Any) -> int:
    """Return how many partitions of this table one call asks for."""
    return max(10, min(PARTITIONS_AT_ONCE, PARTITION_COLUMNS_AT_ONCE // max(1, len(column_names(table)))))


def _qualified(catalog: str, database: str) -> str:
    """Return a database's name with its catalog as Hive 3 and later write it; the default catalog is left out, because
    older versions do not know its name.
    """
    return database if catalog == DEFAULT_CATALOG else f"@{catalog}#{database}"


def _capabilities() -> Any:
    # Without it some metastores refuse insert-only transactional tables.
    return ttypes.ClientCapabilities(values=[ttypes.ClientCapability.INSERT_ONLY_TABLES])


def _primary_keys(catalog: str, database: str, table: str) -> tuple[str, Any]:
    return "get_primary_keys", ttypes.PrimaryKeysRequest(db_name=database, tbl_name=table, catName=catalog)


def _foreign_keys(catalog: str, database: str, table: str) -> tuple[str, Any]:
    request = ttypes.ForeignKeysRequest(foreign_db_name=database, foreign_tbl_name=table, catName=catalog)
    return "get_foreign_keys", request


def _plain(method: str, structure: Any) -> Callable[[str, str, str], tuple[str, Any]]:
    return lambda catalog, database, table: (method, structure(catName=catalog, db_name=database, tbl_name=table))


_CONSTRAINT_REQUESTS: Mapping[str, Callable[[str, str, str], tuple[str, Any]]] = {
    "primaryKeys": _primary_keys,
    "foreignKeys": _foreign_keys,
    "uniqueConstraints": _plain("get_unique_constraints", ttypes.UniqueConstraintsRequest),
    "notNullConstraints": _plain("get_not_null_constraints", ttypes.NotNullConstraintsRequest),
    "defaultConstraints": _plain("get_default_constraints", ttypes.DefaultConstraintsRequest),
    "checkConstraints": _plain("get_check_constraints", ttypes.CheckConstraintsRequest),
}
