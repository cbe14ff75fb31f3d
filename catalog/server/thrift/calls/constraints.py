"""The calls about informational constraints."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interbed.catalog.server.service.errors import InvalidObjectError, NoSuchObjectError
from interbed.catalog.server.service.model import Constraint, ConstraintKind
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.structs.constraints import (
    all_constraints_to_thrift,
    constraints_from_thrift,
    constraints_to_thrift,
)
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.catalog.server.thrift.structs.errors import UndeclaredError
from interbed.thrift_idl.hive_metastore import ttypes


class ConstraintHandler:
    """Constraints. A table that does not exist has none."""

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
    """Hive refuses names of these calls by an InvalidObjectException, which none of them declares."""
    try:
        yield
    except (NoSuchObjectError, InvalidObjectError) as error:
        raise UndeclaredError(str(error)) from error
