"""The calls about tables and views, in all three forms (plain, with an environment context, with a request), and those
about the informational constraints of tables.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from interbed.catalog.server.service.access.objects import table_object
from interbed.catalog.server.service.errors import (
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    UnknownDatabaseError,
)
from interbed.catalog.server.service.model import Constraint, ConstraintKind, DroppedKind, DroppedObject, MetastoreTable
from interbed.catalog.server.service.names import normalized, required, shortened
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.rules import CASCADE, EXPECTED_PARAMETER_KEY, EXPECTED_PARAMETER_VALUE
from interbed.catalog.server.threads import current_catalog
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import creation_metadata_from_thrift, split_catalog
from interbed.catalog.server.thrift.structs.requests import (
    UndeclaredError,
    check_only_the_owners,
    context_properties,
    is_purge,
    table_projection,
)
from interbed.catalog.server.thrift.structs.table_parts import (
    all_constraints_to_thrift,
    constraints_from_thrift,
    constraints_to_thrift,
)
from interbed.thrift_idl.hive_metastore import ttypes

UNDROPPED_NAME = "interbed.undrop"
"""The environment context's key of a create_table that puts a dropped table back: the table's name when it was dropped.
Of the new table, the names alone count. Clients find it by the configuration value of the same name.
"""

KEPT = "keep"
"""The value of the same key of a drop_table: the table is dropped only if it is kept with its directory."""

PURGED = "purge"
"""Another value of it: no table is dropped, but the dropped object of this name is deleted for good."""

UNDROPPED_ID, UNDROPPED_KIND = "interbed.undrop.id", "interbed.undrop.kind"
"""Keys beside it: the id of the drop, and `database` for a dropped database, whose call has no name of a table."""

DROPPED_TYPE = "INTERBED_DROPPED"
"""The type of tables by which get_table_meta lists the dropped objects of a database, or of all for the pattern `*`.
Each has its kind as its type, and its JSON as its comment. The configuration value `interbed.dropped` announces this.
"""

NOT_WHOLLY_PURGED = " is not deleted wholly: see the log of the server"
"""The end of the refusal of a purge that the reaper goes on with."""

# Bits of GetTablesExtRequest.requestedFields, from Hive's GetTablesExtRequestFields.
_ACCESS_TYPE = 1
_CAPABILITIES = 2


class TableHandler:
    """The calls about tables and views."""

    def __init__(self, metastore: Metastore) -> None:
        self._tables = metastore.tables
        self._dropped = metastore.dropped
        self._policies = metastore.policies

    def create_table(self, tbl: Any) -> None:
        self._create(tbl)

    def create_table_with_environment_context(self, tbl: Any, environment_context: Any) -> None:
        properties = context_properties(environment_context)
        if UNDROPPED_NAME in properties:
            self._undrop(tbl, properties)
        else:
            self._create(tbl)

    def create_table_with_constraints(
        self,
        tbl: Any,
        primaryKeys: Any,
        foreignKeys: Any,
        uniqueConstraints: Any,
        notNullConstraints: Any,
        defaultConstraints: Any,
        checkConstraints: Any,
    ) -> None:
        self._create(
            tbl,
            {
                ConstraintKind.PRIMARY_KEY: primaryKeys,
                ConstraintKind.FOREIGN_KEY: foreignKeys,
                ConstraintKind.UNIQUE: uniqueConstraints,
                ConstraintKind.NOT_NULL: notNullConstraints,
                ConstraintKind.DEFAULT: defaultConstraints,
                ConstraintKind.CHECK: checkConstraints,
            },
        )

    def create_table_req(self, request: Any) -> None:
        self._create(
            request.table,
            {
                ConstraintKind.PRIMARY_KEY: request.primaryKeys,
                ConstraintKind.FOREIGN_KEY: request.foreignKeys,
                ConstraintKind.UNIQUE: request.uniqueConstraints,
                ConstraintKind.NOT_NULL: request.notNullConstraints,
                ConstraintKind.DEFAULT: request.defaultConstraints,
                ConstraintKind.CHECK: request.checkConstraints,
            },
        )

    def translate_table_dryrun(self, request: Any) -> Any:
        return convert.table_to_thrift(self._tables.translated(convert.table_from_thrift(request.table)))

    def get_table(self, dbname: str, tbl_name: str) -> Any:
        catalog, database = split_catalog(dbname)
        return self._shown(self._tables.get(catalog, database or "", tbl_name))

    def get_table_req(self, req: Any) -> Any:
        catalog, database = split_catalog(req.dbName, req.catName)
        table = self._tables.get(catalog, database or "", req.tblName)
        return ttypes.GetTableResult(table=self._shown(table))

    def _shown(self, table: MetastoreTable) -> Any:
        """Return the structure of one table, with the policies that bind the caller: interbed's clients apply them."""
        made = convert.table_to_thrift(table)
        found = self._policies.binding(table_object(table.catalog, table.database, table.name))
        if found:
            texts = {
                "filters": [each.expression for each in found.filters],
                "masks": {column: each.expression for column, each in found.masks.items()},
            }
            made.parameters = {**(made.parameters or {}), convert.READER_POLICIES: json.dumps(texts)}
        return made

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Any]:
        catalog, database = split_catalog(dbname)
        return [convert.table_to_thrift(table) for table in self._selected(catalog, database, tbl_names)]

    def get_table_objects_by_name_req(self, req: Any) -> Any:
        catalog, database = split_catalog(req.dbName, req.catName)
        if req.tblNames is None and req.tablesPattern is not None:
            tables = self._tables.matching(catalog, _named_database(database), req.tablesPattern)
        else:
            tables = self._selected(catalog, database, req.tblNames)
        projection = table_projection(req.projectionSpec)
        return ttypes.GetTablesResult(tables=[projection.of(convert.table_to_thrift(table)) for table in tables])

    def get_table_names_by_filter(self, dbname: str, filter: str, max_tables: int) -> list[str]:
        catalog, database = split_catalog(dbname)
        if filter is None:
            raise InvalidOperationError("null cannot apply null filter")
        if dbname is not None and dbname.startswith("@#"):
            raise UnknownDatabaseError("the name of the catalog is empty")
        limit = None if max_tables is None or max_tables < 0 else max_tables
        return self._tables.names_by_filter(catalog, _named_database(database), filter, limit)

    def get_tables(self, db_name: str, pattern: str) -> list[str]:
        catalog, database = split_catalog(db_name)
        return self._tables.names(catalog, database or "", pattern)

    def get_tables_by_type(self, db_name: str, pattern: str, tableType: str) -> list[str]:
        catalog, database = split_catalog(db_name)
        return self._tables.names(catalog, database or "", pattern, tableType)

    def get_materialized_views_for_rewriting(self, db_name: str) -> list[str]:
        catalog, database = split_catalog(db_name)
        views = self._tables.rewriting_views(catalog, required(database, "name of a database"))
        return [view.name for view in views]

    def get_all_materialized_view_objects_for_rewriting(self) -> list[Any]:
        return [convert.table_to_thrift(view) for view in self._tables.rewriting_views(current_catalog.get())]

    def update_creation_metadata(self, catName: str, dbname: str, tbl_name: str, creation_metadata: Any) -> None:
        catalog, database = split_catalog(dbname, catName)
        made_of = creation_metadata_from_thrift(creation_metadata)
        self._tables.remake(catalog, required(database, "name of a database"), tbl_name, made_of)

    def get_all_tables(self, db_name: str) -> list[str]:
        catalog, database = split_catalog(db_name)
        return self._tables.names(catalog, required(database, "name of a database"))

    def get_tables_ext(self, req: Any) -> list[Any]:
        catalog, database = split_catalog(req.database, req.catalog)
        found = self._tables.matching(catalog, _named_database(database), req.tableNamePattern)
        limit = req.limit if req.limit is not None and req.limit > 0 else None
        return [_extended_info(table, req.requestedFields or 0) for table in found[:limit]]

    def get_table_meta(self, db_patterns: str, tbl_patterns: str, tbl_types: list[str]) -> list[Any]:
        catalog, databases = split_catalog(db_patterns)
        if tbl_types == [DROPPED_TYPE]:
            return self._dropped_metas(catalog, databases)
        metas = self._tables.metas(catalog, databases, tbl_patterns, tbl_types or ())
        return [convert.table_meta_to_thrift(meta, catalog) for meta in metas]

    def alter_table(self, dbname: str, tbl_name: str, new_tbl: Any) -> None:
        self._alter(dbname, tbl_name, new_tbl, {})

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        self._alter(dbname, tbl_name, new_tbl, context_properties(environment_context))

    def alter_table_with_cascade(self, dbname: str, tbl_name: str, new_tbl: Any, cascade: bool) -> None:
        self._alter(dbname, tbl_name, new_tbl, {CASCADE: "true"} if cascade else {})

    def alter_table_req(self, req: Any) -> Any:
        context = context_properties(req.environmentContext)
        if req.expectedParameterKey is not None:
            context[EXPECTED_PARAMETER_KEY] = req.expectedParameterKey
        if req.expectedParameterValue is not None:
            context[EXPECTED_PARAMETER_VALUE] = req.expectedParameterValue
        catalog, database = split_catalog(req.dbName, req.catName)
        changed = convert.table_from_thrift(req.table, catalog)
        self._tables.alter(catalog, database or "", req.tableName, changed, context)
        return ttypes.AlterTableResponse()

    def drop_table(self, dbname: str, name: str, deleteData: bool) -> None:
        self._drop(dbname, name, deleteData)

    def drop_table_with_environment_context(
        self, dbname: str, name: str, deleteData: bool, environment_context: Any
    ) -> None:
        properties = context_properties(environment_context)
        if properties.get(UNDROPPED_NAME) == KEPT:
            catalog, database = split_catalog(dbname)
            self._tables.drop_and_keep(catalog, database or "", name)
        elif properties.get(UNDROPPED_NAME) == PURGED:
            self._purge(self._dropped_entry(*split_catalog(dbname), name, properties))
        else:
            self._drop(dbname, name, deleteData, is_purge(environment_context))

    def drop_table_req(self, dropTableReq: Any) -> None:
        catalog, database = split_catalog(dropTableReq.dbName, dropTableReq.catalogName)
        delete_data = bool(dropTableReq.deleteData)
        purge = is_purge(dropTableReq.envContext)
        self._tables.drop(catalog, database or "", dropTableReq.tableName, delete_data=delete_data, purge=purge)

    def get_fields(self, db_name: str, table_name: str) -> list[Any]:
        return convert.columns_to_thrift(_columns(self._found(db_name, table_name)))

    def get_fields_with_environment_context(self, db_name: str, table_name: str, environment_context: Any) -> list[Any]:
        return self.get_fields(db_name, table_name)

    def get_fields_req(self, req: Any) -> Any:
        table = self._found(req.dbName, req.tblName, req.catName)
        return ttypes.GetFieldsResponse(fields=convert.columns_to_thrift(_columns(table)))

    def get_schema(self, db_name: str, table_name: str) -> list[Any]:
        table = self._found(db_name, table_name)
        return convert.columns_to_thrift([*_columns(table), *table.partition_keys])

    def get_schema_with_environment_context(self, db_name: str, table_name: str, environment_context: Any) -> list[Any]:
        return self.get_schema(db_name, table_name)

    def get_schema_req(self, req: Any) -> Any:
        table = self._found(req.dbName, req.tblName, req.catName)
        return ttypes.GetSchemaResponse(fields=convert.columns_to_thrift([*_columns(table), *table.partition_keys]))

    def _undrop(self, tbl: Any, properties: Mapping[str, str]) -> None:
        name = properties[UNDROPPED_NAME]
        entry = self._dropped_entry(*split_catalog(tbl.dbName, tbl.catName), name, properties)
        is_same = entry.name is None or normalized(tbl.tableName) == entry.name
        try:
            self._dropped.undrop(entry, new_name=None if is_same else tbl.tableName)
        except InvalidOperationError as error:
            # The call has no such error.
            raise MetastoreError(str(error)) from error

    def _purge(self, entry: DroppedObject) -> None:
        try:
            if not self._dropped.purge(entry):
                raise MetastoreError(f"{entry.qualified} ({entry.id}){NOT_WHOLLY_PURGED}")
        except InvalidOperationError as error:
            # The call has no such error.
            raise MetastoreError(str(error)) from error

    def _dropped_entry(
        self, catalog: str, database: str | None, name: str, properties: Mapping[str, str]
    ) -> DroppedObject:
        """Return the dropped object that a call names; NoSuchObjectError."""
        given = properties.get(UNDROPPED_ID)
        if given is not None and not given.isdecimal():
            raise MetastoreError(f"{UNDROPPED_ID} is the number of a drop, not {shortened(given)}")
        is_database = properties.get(UNDROPPED_KIND) == str(DroppedKind.DATABASE)
        return self._dropped.find(
            catalog, database or "", None if is_database else name, None if given is None else int(given)
        )

    def _dropped_metas(self, catalog: str, database: str | None) -> list[Any]:
        found = self._dropped.select(catalog, None if database in (None, "", "*") else database)
        return [
            ttypes.TableMeta(
                dbName=entry.database,
                tableName=entry.name or "",
                tableType=str(entry.kind),
                comments=json.dumps(entry.to_json()),
                catName=catalog,
            )
            for entry in found
        ]

    def _create(self, table: Any, rows: Mapping[ConstraintKind, Any] | None = None) -> None:
        check_only_the_owners(table)
        constraints = [
            constraint for kind, some in (rows or {}).items() for constraint in constraints_from_thrift(kind, some)
        ]
        self._tables.create(convert.table_from_thrift(table), constraints)

    def _alter(self, dbname: str, name: str, new_table: Any, context: dict[str, str]) -> None:
        catalog, database = split_catalog(dbname)
        self._tables.alter(catalog, database or "", name, convert.table_from_thrift(new_table, catalog), context)

    def _drop(self, dbname: str, name: str, delete_data: bool, purge: bool = False) -> None:
        catalog, database = split_catalog(dbname)
        self._tables.drop(catalog, database or "", name, delete_data=bool(delete_data), purge=purge)

    def _selected(self, catalog: str, database: str | None, names: list[str] | None) -> list[MetastoreTable]:
        if names is None:
            raise InvalidOperationError(f"{database} cannot find null tables")
        return self._tables.select(catalog, _named_database(database), names)

    def _found(self, dbname: str, name: str, catalog_field: str | None = None) -> MetastoreTable:
        catalog, database = split_catalog(dbname, catalog_field)
        return self._tables.get(catalog, database or "", name)


def _named_database(database: str | None) -> str:
    # A blank name is not empty for Hive: it names a database that does not exist.
    if not database:
        raise UnknownDatabaseError("DB name is null or empty")
    return database


def _extended_info(table: MetastoreTable, requested: int) -> Any:
    """Return an ExtendedTableInfo structure with the fields that the bits select."""
    return ttypes.ExtendedTableInfo(
        tblName=table.name,
        accessType=table.extra.get("accessType") if requested & _ACCESS_TYPE else None,
        requiredReadCapabilities=table.extra.get("requiredReadCapabilities") if requested & _CAPABILITIES else None,
        requiredWriteCapabilities=table.extra.get("requiredWriteCapabilities") if requested & _CAPABILITIES else None,
    )


def _columns(table: MetastoreTable) -> tuple[Any, ...]:
    return () if table.storage is None else table.storage.columns


class ConstraintHandler:
    """The calls about constraints. A table that does not exist has none."""

    def __init__(self, metastore: Metastore) -> None:
        self._constraints = metastore.constraints

    def add_primary_key(self, req: Any) -> None:
        self._add(ConstraintKind.PRIMARY_KEY, req.primaryKeyCols)

    def add_foreign_key(self, req: Any) -> None:
        self._add(ConstraintKind.FOREIGN_KEY, req.foreignKeyCols)

    def add_unique_constraint(self, req: Any) -> None:
        self._add(ConstraintKind.UNIQUE, req.uniqueConstraintCols)

    def add_not_null_constraint(self, req: Any) -> None:
        self._add(ConstraintKind.NOT_NULL, req.notNullConstraintCols)

    def add_default_constraint(self, req: Any) -> None:
        self._add(ConstraintKind.DEFAULT, req.defaultConstraintCols)

    def add_check_constraint(self, req: Any) -> None:
        self._add(ConstraintKind.CHECK, req.checkConstraintCols)

    def drop_constraint(self, req: Any) -> None:
        catalog, database = split_catalog(req.dbname, req.catName)
        with _as_internal_errors():
            self._constraints.drop(catalog, normalized(database), req.tablename, req.constraintname)

    def get_primary_keys(self, request: Any) -> Any:
        return ttypes.PrimaryKeysResponse(primaryKeys=self._rows(ConstraintKind.PRIMARY_KEY, request))

    def get_unique_constraints(self, request: Any) -> Any:
        return ttypes.UniqueConstraintsResponse(uniqueConstraints=self._rows(ConstraintKind.UNIQUE, request))

    def get_not_null_constraints(self, request: Any) -> Any:
        return ttypes.NotNullConstraintsResponse(notNullConstraints=self._rows(ConstraintKind.NOT_NULL, request))

    def get_default_constraints(self, request: Any) -> Any:
        return ttypes.DefaultConstraintsResponse(defaultConstraints=self._rows(ConstraintKind.DEFAULT, request))

    def get_check_constraints(self, request: Any) -> Any:
        return ttypes.CheckConstraintsResponse(checkConstraints=self._rows(ConstraintKind.CHECK, request))

    def get_foreign_keys(self, request: Any) -> Any:
        catalog, database = split_catalog(request.foreign_db_name, request.catName)
        _, parent_database = split_catalog(request.parent_db_name)
        found = self._constraints.select(
            ConstraintKind.FOREIGN_KEY,
            catalog,
            database,
            request.foreign_tbl_name,
            parent_database=parent_database,
            parent_table=request.parent_tbl_name,
        )
        return ttypes.ForeignKeysResponse(foreignKeys=constraints_to_thrift(found))

    def get_all_table_constraints(self, request: Any) -> Any:
        return ttypes.AllTableConstraintsResponse(
            allTableConstraints=all_constraints_to_thrift(
                self._of_table(None, request.catName, request.dbName, request.tblName)
            )
        )

    def _add(self, kind: ConstraintKind, rows: Any) -> None:
        constraints = constraints_from_thrift(kind, rows)
        with _as_internal_errors():
            self._constraints.add(constraints)

    def _rows(self, kind: ConstraintKind, request: Any) -> list[Any]:
        return constraints_to_thrift(self._of_table(kind, request.catName, request.db_name, request.tbl_name))

    def _of_table(
        self, kind: ConstraintKind | None, catalog: str | None, database: str, table: str
    ) -> list[Constraint]:
        found_catalog, name = split_catalog(database, catalog)
        return self._constraints.select(kind, found_catalog, name, table)


@contextmanager
def _as_internal_errors() -> Iterator[None]:
    """Raise internal errors for invalid names: Hive raises InvalidObjectException, which these calls do not declare."""
    try:
        yield
    except (NoSuchObjectError, InvalidObjectError) as error:
        raise UndeclaredError(str(error)) from error
