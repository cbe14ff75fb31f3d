"""Conversion between Thrift's structures for constraints, a row for each column, and the constraints of the rules."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from interbed.catalog.server.service.model import Constraint, ConstraintKind, QualifiedTableName
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.thrift_idl.hive_metastore import ttypes


def constraints_from_thrift(kind: ConstraintKind, rows: Sequence[Any] | None) -> list[Constraint]:
    """Return the constraints of one kind that the rows describe.

    Rows of a key belong together if they have the same name; without names a row whose `key_seq` is at most that of the
    row before begins another key.
    """
    if kind is ConstraintKind.FOREIGN_KEY:
        return [_foreign_key(group) for group in _keys(rows or (), lambda row: row.fk_name, _foreign_table)]
    if kind is ConstraintKind.PRIMARY_KEY:
        return [_key(kind, group, group[0].pk_name) for group in _keys(rows or (), lambda row: row.pk_name, _table)]
    if kind is ConstraintKind.UNIQUE:
        return [_key(kind, group, group[0].uk_name) for group in _keys(rows or (), lambda row: row.uk_name, _table)]
    if kind is ConstraintKind.NOT_NULL:
        return [_key(kind, [row], row.nn_name) for row in rows or ()]
    if kind is ConstraintKind.DEFAULT:
        return [_key(kind, [row], row.dc_name, row.default_value) for row in rows or ()]
    return [_key(kind, [row], row.dc_name, row.check_expression) for row in rows or ()]


def constraints_to_thrift(constraints: Iterable[Constraint]) -> list[Any]:
    """Return the rows of constraints, of one kind or of several, in their order."""
    return [row for constraint in constraints for row in _WRITERS[constraint.kind](constraint)]


def all_constraints_to_thrift(constraints: Sequence[Constraint]) -> Any:
    """Return a SQLAllTableConstraints structure."""
    rows = {kind: constraints_to_thrift(each for each in constraints if each.kind is kind) for kind in ConstraintKind}
    return ttypes.SQLAllTableConstraints(
        primaryKeys=rows[ConstraintKind.PRIMARY_KEY],
        foreignKeys=rows[ConstraintKind.FOREIGN_KEY],
        uniqueConstraints=rows[ConstraintKind.UNIQUE],
        notNullConstraints=rows[ConstraintKind.NOT_NULL],
        defaultConstraints=rows[ConstraintKind.DEFAULT],
        checkConstraints=rows[ConstraintKind.CHECK],
    )


def _keys(rows: Sequence[Any], name: Callable[[Any], str | None], table: Callable[[Any], Any]) -> list[list[Any]]:
    named: dict[Any, list[Any]] = {}
    groups: list[list[Any]] = []
    for row in rows:
        key = (normalized(name(row)), table(row))
        if name(row) and key in named:
            named[key].append(row)
            continue
        last = groups[-1][-1] if groups else None
        unnamed = last is not None and not name(row) and not name(last) and table(last) == table(row)
        if last is not None and unnamed and (row.key_seq or 0) > (last.key_seq or 0):
            groups[-1].append(row)
            continue
        groups.append([row])
        if name(row):
            named[key] = groups[-1]
    return [sorted(group, key=lambda row: row.key_seq or 0) for group in groups]


def _table(row: Any) -> tuple[str, str, str]:
    catalog, database = split_catalog(row.table_db, row.catName)
    return catalog, normalized(database), normalized(row.table_name)


def _foreign_table(row: Any) -> tuple[str, str, str]:
    catalog, database = split_catalog(row.fktable_db, row.catName)
    return catalog, normalized(database), normalized(row.fktable_name)


def _key(kind: ConstraintKind, rows: Sequence[Any], name: str | None, expression: str | None = None) -> Constraint:
    first = rows[0]
    catalog, database, table = _table(first)
    return Constraint(
        catalog=catalog,
        database=database,
        table=table,
        name=normalized(name),
        kind=kind,
        # A check of a whole table has no column.
        columns=tuple(normalized(row.column_name) for row in rows if row.column_name),
        enabled=bool(first.enable_cstr),
        validated=bool(first.validate_cstr),
        relied=bool(first.rely_cstr),
        expression=expression,
    )


def _foreign_key(rows: Sequence[Any]) -> Constraint:
    first = rows[0]
    catalog, database, table = _foreign_table(first)
    parent_catalog, parent_database = split_catalog(first.pktable_db, first.catName)
    return Constraint(
        catalog=catalog,
        database=database,
        table=table,
        name=normalized(first.fk_name),
        kind=ConstraintKind.FOREIGN_KEY,
        columns=tuple(normalized(row.fkcolumn_name) for row in rows),
        enabled=bool(first.enable_cstr),
        validated=bool(first.validate_cstr),
        relied=bool(first.rely_cstr),
        parent=QualifiedTableName(
            catalog=parent_catalog, database=normalized(parent_database), table=normalized(first.pktable_name)
        ),
        parent_columns=tuple(normalized(row.pkcolumn_name) for row in rows),
        parent_key=normalized(first.pk_name) or None,
        update_rule=first.update_rule or 0,
        delete_rule=first.delete_rule or 0,
    )


def _flags(constraint: Constraint) -> dict[str, Any]:
    return {
        "catName": constraint.catalog,
        "enable_cstr": constraint.enabled,
        "validate_cstr": constraint.validated,
        "rely_cstr": constraint.relied,
    }


def _common(constraint: Constraint) -> dict[str, Any]:
    return {**_flags(constraint), "table_db": constraint.database, "table_name": constraint.table}


def _primary_key_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLPrimaryKey(column_name=column, key_seq=number, pk_name=constraint.name, **_common(constraint))
        for number, column in enumerate(constraint.columns, start=1)
    ]


def _unique_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLUniqueConstraint(column_name=column, key_seq=number, uk_name=constraint.name, **_common(constraint))
        for number, column in enumerate(constraint.columns, start=1)
    ]


def _foreign_key_rows(constraint: Constraint) -> list[Any]:
    parent = constraint.parent
    return [
        ttypes.SQLForeignKey(
            pktable_db=None if parent is None else parent.database,
            pktable_name=None if parent is None else parent.table,
            pkcolumn_name=parent_column,
            fktable_db=constraint.database,
            fktable_name=constraint.table,
            fkcolumn_name=column,
            key_seq=number,
            update_rule=constraint.update_rule,
            delete_rule=constraint.delete_rule,
            fk_name=constraint.name,
            pk_name=constraint.parent_key,
            **_flags(constraint),
        )
        for number, (column, parent_column) in enumerate(
            zip(constraint.columns, constraint.parent_columns, strict=True), start=1
        )
    ]


def _not_null_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLNotNullConstraint(column_name=column, nn_name=constraint.name, **_common(constraint))
        for column in constraint.columns
    ]


def _default_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLDefaultConstraint(
            column_name=column,
            default_value=constraint.expression,
            dc_name=constraint.name,
            **_common(constraint),
        )
        for column in constraint.columns
    ]


def _check_rows(constraint: Constraint) -> list[Any]:
    return [
        ttypes.SQLCheckConstraint(
            column_name=column,
            check_expression=constraint.expression,
            dc_name=constraint.name,
            **_common(constraint),
        )
        for column in constraint.columns or (None,)
    ]


_WRITERS: dict[ConstraintKind, Callable[[Constraint], list[Any]]] = {
    ConstraintKind.PRIMARY_KEY: _primary_key_rows,
    ConstraintKind.FOREIGN_KEY: _foreign_key_rows,
    ConstraintKind.UNIQUE: _unique_rows,
    ConstraintKind.NOT_NULL: _not_null_rows,
    ConstraintKind.DEFAULT: _default_rows,
    ConstraintKind.CHECK: _check_rows,
}
